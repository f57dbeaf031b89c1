"""Plot layer profiles: figures by single layer, and the layers' shares in learned mixes."""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from elmo_bench.runs import MIX, NOTHING, Key, Mix, is_baseline

from .. import names
from ..labels import titled
from ..table import Cell, Report, order
from .style import (
    FADED,
    LINE,
    PAPER,
    PLAIN,
    RUN,
    Look,
    Plot,
    grid_axes,
    legend,
    legend_height,
    look,
    metric,
    percents,
    runs_each,
    short,
    value_axis,
)

Layers = dict[int, list[float]]  # each run's figure or share, by layer

# Dashes of the mixes' lines; the line through single layers is solid.
DASHES = {"all": "--", "uniform": "-."}
MIXES = {"all": "learned mix of all layers", "uniform": "plain mean of all layers"}
ABOVE = 1.05  # times the largest share: the end of its axis, so that no dot is cut
APART = 0.1  # layers between the profiles of a panel, so that their dots do not overlap
ACROSS = 4  # panels side by side
HEIGHT = 1.7  # inches; of a panel


class Profile(NamedTuple):
    """The runs of an encoder on a task: their figures, and the shares of layers in their mixes.

    All are percentages, in one list for each layer or mix, with an entry for each run.
    """

    top: int | None  # the number of the top layer, if the runs show it
    layers: Layers
    mixes: dict[str, list[float]]  # each run's figure, by the names of MIXES
    shares: dict[str, Layers]  # by place, such as input: the mix's weights after softmax


class Panel(NamedTuple):
    """A task's profiles, and its figures without an encoder, in percent."""

    title: str
    unit: str
    profiles: dict[str, Profile]
    baseline: list[float]


def layers(report: Report) -> Plot | None:
    """Plot figures by single layer and the shares of a learned mix, a pair of panels for each task.

    Returns None unless a task has runs of at least two single layers.
    """
    panels = _panels(report)
    if not panels:
        return None
    mixed = any(profile.shares for panel in panels for profile in panel.profiles.values())
    shown = f"{metric(report).removesuffix(', %')} by the layer that is read"
    shown += ", and each layer's share in a learned mix." if mixed else "."
    left = (
        "runs that read a single layer (dots; 0 is the lowest) and their means (line); across: "
        "means of the runs that read a mix of all layers or none, which are dots at its right end"
    )
    right = "each layer's share in the learned mix"
    return Plot(
        titled(report.title, shown),
        f"Left: {left}. Right: {right}." if mixed else f"{left[:1].upper()}{left[1:]}.",
        _height(panels),
        lambda part: _draw(part, panels),
    )


def _panels(report: Report) -> list[Panel]:
    """Return the panels with at least two single layers."""
    if MIX not in (keys := report.keys):
        return []
    across = [key for key in keys if key.startswith("encoder.")]
    down = [key for key in keys if key not in across and key != MIX]
    cells: dict[Key, dict[Key, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    without: list[tuple[Key, Cell]] = []
    for cell in report.cells:
        if not {"elmo", "encoder"} <= cell.runs[0].config.keys():  # not of elmo-bench
            continue
        values = dict(zip(keys, cell.key, strict=True))
        row, encoder = (tuple(values[key] for key in part) for part in (down, across))
        if is_baseline(cell.runs[0].config):
            without.append((row, cell))
        else:
            cells[row][encoder].append(cell)
    titles, panels = names.task_titles(report.runs), []
    for row in sorted(cells, key=order):
        profiles = {
            names.name(across, encoder, titles) if across else "": _profile(cells[row][encoder])
            for encoder in sorted(cells[row], key=order)
        }
        profiles = {name: each for name, each in profiles.items() if len(each.layers) > 1}
        if profiles:
            own = [cell for part in cells[row].values() for cell in part]
            baseline = [
                figure
                for other, cell in without
                for figure in percents(cell)
                if all(theirs in (ours, NOTHING) for theirs, ours in zip(other, row, strict=True))
            ]
            title = names.name(down, row, titles) if down else ""
            panels.append(Panel(title, metric(report, cells=own), profiles, baseline))
    return panels


def _profile(cells: Sequence[Cell]) -> Profile:
    profile = Profile(_top(cells), {}, {}, {})
    for cell in cells:
        mix = cell.runs[0].settings[MIX]
        if isinstance(mix, str) and mix in MIXES:
            profile.mixes.setdefault(mix, []).extend(percents(cell))
        elif (layer := _layer(cell, mix)) is not None:
            profile.layers.setdefault(layer, []).extend(percents(cell))
        if mix == "all":
            for run in cell.runs:
                _add_shares(profile, run.mix)
    return profile._replace(layers=dict(sorted(profile.layers.items())))


def _top(cells: Sequence[Cell]) -> int | None:
    """Return the number of the top layer, from the mixes of runs that read it, or None."""
    mixes = {cell.runs[0].settings[MIX]: cell for cell in cells}
    read = [_read(mixes[mix]) for mix in ("top", *MIXES) if mix in mixes]
    return max((layer for layers in read for layer in layers), default=None)


def _layer(cell: Cell, mix: Hashable) -> int | None:
    """Return the layer that a cell's runs read; None if they read several."""
    numbers = {mix} if isinstance(mix, int) else _read(cell)
    return min(numbers) if len(numbers) == 1 else None


def _read(cell: Cell) -> set[int]:
    """Return the layers that a cell's runs read."""
    return {layer for run in cell.runs for mix in run.mix.values() for layer in mix["layers"]}


def _add_shares(profile: Profile, mixes: Mapping[str, Mix]) -> None:
    """Add a run's shares."""
    for place, mix in mixes.items():
        by_layer = profile.shares.setdefault(place, {})
        for layer, share in zip(mix["layers"], mix["shares"], strict=True):
            by_layer.setdefault(layer, []).append(100 * share)


def _height(panels: Sequence[Panel]) -> float:
    width, across = _width(panels), _across(panels)
    encoders = {name for panel in panels for name in panel.profiles}
    rows = -(-width * len(panels) // across)
    return (HEIGHT + 2 * LINE) * rows + legend_height(len(encoders) + 5)


def _width(panels: Sequence[Panel]) -> int:
    """Return the room of a task: its figures and its places, side by side."""
    return 1 + max(len(_places(panel)) for panel in panels)


def _across(panels: Sequence[Panel]) -> int:
    """Return the number of axes side by side; those of a task are not divided."""
    width = _width(panels)
    return width * min(len(panels), max(1, ACROSS // width))


def _draw(part: SubFigure, panels: Sequence[Panel]) -> None:
    encoders = dict.fromkeys(name for panel in panels for name in panel.profiles)
    looks = {name: look(number) for number, name in enumerate(encoders)}
    width = _width(panels)
    axes = grid_axes(part, width * len(panels), _across(panels))
    for number, panel in enumerate(panels):
        figures, *others = axes[number * width : (number + 1) * width]
        _figures(figures, panel, looks)
        for other, place in itertools.zip_longest(others, _places(panel)):
            if place is None:
                other.set_axis_off()
            else:
                _shares(other, panel, place, looks)
    profiles = [profile for panel in panels for profile in panel.profiles.values()]
    legend(part, _legend(profiles, looks, any(panel.baseline for panel in panels)))


def _places(panel: Panel) -> list[str]:
    """Return the places where the task reads a learned mix: input, output."""
    return list(dict.fromkeys(place for each in panel.profiles.values() for place in each.shares))


def _figures(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    axes.set_title(short(panel.title, 40))
    axes.set_ylabel(panel.unit)
    top = max(max(profile.layers) for profile in panel.profiles.values())
    end = top + 1.0  # the place of mixes and of the baseline
    if panel.baseline:
        axes.axhline(statistics.fmean(panel.baseline), **PLAIN.line(linewidth=1.1))
        _dots(axes, end, panel.baseline, PLAIN)
    for number, (name, profile) in enumerate(panel.profiles.items()):
        style, shift = looks[name], _shift(number, len(panel.profiles))
        for mix, values in profile.mixes.items():
            hollow = mix == "uniform"
            if not (hollow and len(looks) > 1):  # otherwise there would be too many lines
                height = statistics.fmean(values)
                axes.axhline(height, color=style.color, linestyle=DASHES[mix], linewidth=1.0)
            _dots(axes, end + shift + 0.2 * hollow, values, style, hollow=hollow)
        _profile_line(axes, profile.layers, shift, style)
    _layer_axis(axes, top, panel.profiles.values())
    axes.set_xlim(-0.5, end + 0.5)


def _shift(number: int, count: int) -> float:
    """Return a profile's shift along the axis, in layers; it stays near its layer."""
    return (number - (count - 1) / 2) * min(APART, 0.6 / count)


def _profile_line(axes: Axes, layers: Layers, shift: float, style: Look) -> None:
    """Draw the values of each layer, and a line through their means."""
    means = [statistics.fmean(values) for values in layers.values()]
    axes.plot([layer + shift for layer in layers], means, color=style.color)
    for layer, values in layers.items():
        _dots(axes, layer + shift, values, style)


def _dots(
    axes: Axes, x: float, values: Sequence[float], style: Look, *, hollow: bool = False
) -> None:
    face = {"markerfacecolor": PAPER} if hollow else {"alpha": FADED}
    axes.plot([x] * len(values), values, **style.marks(**face))


def _shares(axes: Axes, panel: Panel, place: str, looks: Mapping[str, Look]) -> None:
    """Draw the shares of the encoders with a learned mix at this place."""
    which = f"at the {place}" if len(_places(panel)) > 1 else "of each layer"
    axes.set_ylabel(f"share {which}, %")
    drawn = [(name, each) for name, each in panel.profiles.items() if place in each.shares]
    for number, (name, profile) in enumerate(drawn):
        _profile_line(axes, profile.shares[place], _shift(number, len(drawn)), looks[name])
    top = max(max(profile.shares[place]) for _, profile in drawn)
    highest = max(max(values) for _, each in drawn for values in each.shares[place].values())
    axes.set_ylim(0, ABOVE * highest)
    _layer_axis(axes, top, [profile for _, profile in drawn])


def _layer_axis(axes: Axes, highest: int, profiles: Collection[Profile]) -> None:
    """Label the layers by number; the top one is marked if all profiles have the same."""
    step = 1 + highest // 8
    marks = {layer: str(layer) for layer in range(0, highest + 1, step)}
    if {profile.top for profile in profiles} == {highest}:
        marks[highest] = f"{highest} (top)"
    axes.set_xticks([*marks], [*marks.values()])
    axes.set_xlabel("layer")
    value_axis(axes.yaxis, 5)


def _legend(
    profiles: Sequence[Profile], looks: Mapping[str, Look], baseline: bool
) -> list[tuple[Mapping[str, Any], str]]:
    """Return the legend: styles of several encoders, then types of lines and marks."""
    style = RUN if len(looks) > 1 else next(iter(looks.values()))
    line = {"color": style.color, "marker": style.marker}
    hollow = {"markerfacecolor": PAPER}
    entries: list[tuple[Mapping[str, Any], str]] = [
        ({"color": each.color, "marker": each.marker}, name) for name, each in looks.items()
    ]
    counts = {len(runs) for profile in profiles for runs in profile.layers.values()}
    single = f"runs that read one layer ({runs_each(counts)}), and their mean"
    if len(looks) == 1:  # its name and these runs have the same style
        (_, encoder), *entries = entries
        single = f"{encoder}: {single}" if encoder else single
    entries.append((line, single))
    for mix, text in MIXES.items():
        if any(mix in profile.mixes for profile in profiles):
            dashes = DASHES[mix] if mix == "all" or len(looks) == 1 else "none"
            entries.append(
                (line | {"linestyle": dashes} | (hollow if mix == "uniform" else {}), text)
            )
    if baseline:
        entries.append((PLAIN.line(marker=PLAIN.marker), names.BASELINE))
    return entries
