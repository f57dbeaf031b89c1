"""Plot layer profiles: figures by single layer, and the layers' shares in learned mixes."""

import statistics
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from elmo_bench.runs import Key, Mix, is_baseline

from .. import names
from ..table import Cell, Report, order
from .drawing import (
    FADED,
    INK,
    PAPER,
    PLAIN,
    Look,
    Plot,
    Sheet,
    beside,
    category_axis,
    key,
    look,
    per_inch,
    percent_axis,
)
from .looks import all_runs, metric, percents, runs_each, sentence

Layers = dict[int, list[float]]  # each run's figure or share, by layer

# Dashes of the mixes' lines; the line through single layers is solid.
DASHES: dict[str, tuple[float, ...]] = {"all": (6, 2), "uniform": (6, 2, 1.5, 2)}
HOLLOW = (1.5, 1.5)  # dashes of shares times norms
MIXES = {"all": "learned mix of all layers", "uniform": "plain mean of all layers"}
DOT = 3.4  # points across
MOST = 4  # maximum number of layers in an alternative text
APART = 0.05  # inches between the profiles of a panel, so that their dots do not overlap


class Profile(NamedTuple):
    """The runs of an encoder on a task: their figures, and the shares of layers in their mixes.

    All are percentages, in one list for each layer or mix, with an entry for each run.
    """

    top: int | None  # the number of the top layer, if the runs show it
    layers: Layers
    mixes: dict[str, list[float]]  # each run's figure, by the names of MIXES
    shares: dict[str, Layers]  # by place, such as input: the mix's weights after softmax
    lengths: dict[str, Layers]  # by place: shares times the layers' norms; they sum to 100


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
    right = (
        "each layer's share in the learned mix (filled) and its share of the length of the mixed "
        "vectors, which is share times norm (hollow)"
    )
    return Plot(
        sentence(report.title, shown),
        " ".join(map(_in_words, panels)),
        f"Left: {left}. Right: {right}." if mixed else f"{left[:1].upper()}{left[1:]}.",
        lambda sheet: _draw(sheet, panels),
    )


def _panels(report: Report) -> list[Panel]:
    """Return the panels with at least two single layers."""
    keys = [*report.rows, *report.columns]
    if "elmo.mix" not in keys:
        return []
    across = [key for key in keys if key.startswith("encoder.")]
    down = [key for key in keys if key not in across and key != "elmo.mix"]
    cells: dict[Key, dict[Key, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    without: list[tuple[Key, Cell]] = []
    for cell in report.cells:
        if not {"elmo", "encoder"} <= cell.runs[0].config.keys():  # not of elmo-bench
            continue
        values = dict(zip(keys, [*cell.row, *cell.column], strict=True))
        row, encoder = (tuple(values[key] for key in part) for part in (down, across))
        if is_baseline(cell.runs[0].config):
            without.append((row, cell))
        else:
            cells[row][encoder].append(cell)
    titles, panels = names.task_titles(all_runs(report)), []
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
                if all(theirs in (ours, "-") for theirs, ours in zip(other, row, strict=True))
            ]
            title = names.name(down, row, titles) if down else ""
            panels.append(Panel(title, metric(report, cells=own), profiles, baseline))
    return panels


def _profile(cells: Sequence[Cell]) -> Profile:
    profile = Profile(_top(cells), {}, {}, {}, {})
    for cell in cells:
        mix = cell.runs[0].settings["elmo.mix"]
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
    mixes = {cell.runs[0].settings["elmo.mix"]: cell for cell in cells}
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
    """Add a run's shares, and the lengths of its layers' parts in the mix."""
    for place, mix in mixes.items():
        for layer, share in zip(mix["layers"], mix["shares"], strict=True):
            _append(profile.shares, place, layer, 100 * share)
        lengths = [s * norm for s, norm in zip(mix["shares"], mix["norms"], strict=False)]
        for layer, length in zip(mix["layers"], lengths, strict=False):
            if total := sum(lengths):
                _append(profile.lengths, place, layer, 100 * length / total)


def _append(shares: dict[str, Layers], place: str, layer: int, share: float) -> None:
    shares.setdefault(place, {}).setdefault(layer, []).append(share)


def _in_words(panel: Panel) -> str:
    parts = []
    for name, profile in panel.profiles.items():
        figures = [
            f"{_layer_name(profile, layer)} {mean:.2f}" for layer, mean in _telling(profile.layers)
        ]
        figures += [
            f"{MIXES[mix]} {statistics.fmean(values):.2f}" for mix, values in profile.mixes.items()
        ]
        for place, shares in profile.shares.items():
            means = ", ".join(
                f"{_layer_name(profile, layer)} {mean:.0f} %" for layer, mean in _telling(shares)
            )
            figures.append(f"shares at the {place}: {means}")
        parts.append(f"{name + ': ' if name else ''}{', '.join(figures)}")
    if panel.baseline:
        parts.append(f"{names.BASELINE} {statistics.fmean(panel.baseline):.2f}")
    return f"{panel.title + ': ' if panel.title else ''}{'; '.join(parts)}."


def _layer_name(profile: Profile, layer: int) -> str:
    """Return a layer's name in the tables, with its number."""
    return f"top layer ({layer})" if layer == profile.top else f"layer {layer}"


def _telling(layers: Layers) -> list[tuple[int, float]]:
    """Return layers and their means: all or, if they are many, the lowest, best and top one."""
    means = {layer: statistics.fmean(values) for layer, values in layers.items()}
    telling = {min(means), max(means, key=lambda layer: means[layer]), max(means)}
    return [(layer, means[layer]) for layer in means if len(means) <= MOST or layer in telling]


def _draw(sheet: Sheet, panels: Sequence[Panel]) -> None:
    encoders = dict.fromkeys(name for panel in panels for name in panel.profiles)
    looks = {name: look(number) for number, name in enumerate(encoders)}
    profiles = [profile for panel in panels for profile in panel.profiles.values()]
    room, each = max(1, round(sheet.width / 1.8)), 1 + max(len(_places(panel)) for panel in panels)
    together = min(len(panels), max(1, room // each))
    for first in range(0, len(panels), together):
        row = panels[first : first + together]
        _row(sheet, row, looks, across=min(room, each * together))
    sheet.legend(_legend(profiles, looks, any(panel.baseline for panel in panels)))


def _places(panel: Panel) -> list[str]:
    """Return the places where the task reads a learned mix: input, output."""
    return list(dict.fromkeys(place for each in panel.profiles.values() for place in each.shares))


def _row(sheet: Sheet, panels: Sequence[Panel], looks: Mapping[str, Look], across: int) -> None:
    titles = []
    for panel in panels:
        places = _places(panel)
        titles.append((panel.title, panel.unit))
        for place in places:
            at = f" at the {place}" if len(places) > 1 else ""
            titles.append(("", f"share of each layer{at}, %"))
    axes = iter(sheet.panels(titles, across=across, height=1.45))
    for panel in panels:
        _figures(next(axes), panel, looks)
        for place in _places(panel):
            _shares(next(axes), panel, place, looks)


def _figures(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    top = max(max(profile.layers) for profile in panel.profiles.values())
    beyond = 0.1 * (top + 1.5)
    end = top + 0.5 + 2 * beyond
    axes.set_xlim(-0.5, end)
    if panel.baseline:
        axes.axhline(statistics.fmean(panel.baseline), **PLAIN.line(linewidth=1.1))
        _dots(axes, end - beyond, panel.baseline, PLAIN)
    for number, (name, profile) in enumerate(panel.profiles.items()):
        style = looks[name]
        shift = _shift(number, len(panel.profiles), axes)
        xs = [layer + shift for layer in profile.layers]
        means = [statistics.fmean(values) for values in profile.layers.values()]
        for mix, values in profile.mixes.items():
            height = statistics.fmean(values)
            hollow = mix == "uniform"
            if not (hollow and len(looks) > 1):  # otherwise there would be too many lines
                axes.axhline(height, color=style.color, dashes=DASHES[mix], linewidth=1.0)
            x = end - beyond * (0.6 if hollow else 1.4) + shift
            _dots(axes, x, values, style, hollow=hollow)
        axes.plot(xs, means, color=style.color)
        for x, values in zip(xs, profile.layers.values(), strict=True):
            _dots(axes, x, values, style)
    percent_axis(axes.yaxis, 5)
    _layer_axis(axes, top, panel.profiles.values())


def _shift(number: int, count: int, axes: Axes) -> float:
    """Return a profile's shift along the axis, in layers; it stays near its layer."""
    return (number - (count - 1) / 2) * min(APART * per_inch(axes), 0.6 / count)


def _dots(
    axes: Axes, x: float, values: Sequence[float], style: Look, *, hollow: bool = False
) -> None:
    face = {"markerfacecolor": PAPER} if hollow else {"alpha": FADED}
    xs = [x + shift for shift in beside(values, DOT / 72 * per_inch(axes))]
    axes.plot(xs, values, **style.marks(DOT, clip_on=False, **face))


def _shares(axes: Axes, panel: Panel, place: str, looks: Mapping[str, Look]) -> None:
    """Draw the shares of the encoders with a learned mix at this place."""
    drawn = [(name, each) for name, each in panel.profiles.items() if place in each.shares]
    top = max(max(profile.shares[place]) for _, profile in drawn)
    axes.set_xlim(-0.5, top + 0.5)
    for number, (name, profile) in enumerate(drawn):
        style = looks[name]
        for hollow, shares in enumerate((profile.shares[place], profile.lengths.get(place, {}))):
            shift = _shift(2 * number + hollow, 2 * len(drawn), axes)
            xs = [layer + shift for layer in shares]
            means = [statistics.fmean(values) for values in shares.values()]
            dashes = HOLLOW if hollow else (None, None)
            axes.plot(xs, means, color=style.color, dashes=dashes, linewidth=1.2)
            for x, values in zip(xs, shares.values(), strict=True):
                _dots(axes, x, values, style, hollow=bool(hollow))
    axes.set_ylim(0, None)
    percent_axis(axes.yaxis, 5)
    _layer_axis(axes, top, [profile for _, profile in drawn])


def _layer_axis(axes: Axes, highest: int, profiles: Collection[Profile]) -> None:
    """Label the layers by number; the top one is marked if all profiles have the same."""
    marks = {float(layer): str(layer) for layer in range(highest + 1)}
    if {profile.top for profile in profiles} == {highest}:
        marks[float(highest)] += " (top)"
    category_axis(axes, marks, "layer")


def _legend(
    profiles: Sequence[Profile], looks: Mapping[str, Look], baseline: bool
) -> list[tuple[list[Line2D], str]]:
    """Return the legend: styles of several encoders, then types of lines and marks."""
    first = next(iter(looks.values()))
    style = Look(INK, "o", ()) if len(looks) > 1 else first
    line, hollow = {"color": style.color}, style.marks(DOT, markerfacecolor=PAPER)
    entries = [
        (key({"color": each.color}, each.marks(DOT)), name) for name, each in looks.items() if name
    ]
    counts = {len(runs) for profile in profiles for runs in profile.layers.values()}
    single = f"runs that read one layer ({runs_each(counts)}), and their mean"
    entries.append((key(line, style.marks(DOT)), single))
    for mix, text in MIXES.items():
        if any(mix in profile.mixes for profile in profiles):
            marks = [hollow if mix == "uniform" else style.marks(DOT)]
            if mix == "all" or len(looks) == 1:
                marks.insert(0, line | {"dashes": DASHES[mix], "linewidth": 1.0})
            entries.append((key(*marks), text))
    if baseline:
        entries.append((key(PLAIN.line(linewidth=1.1), PLAIN.marks(DOT)), names.BASELINE))
    if any(profile.lengths for profile in profiles):
        entries.append((key(line | {"dashes": HOLLOW}, hollow), "share × norm, of their sum"))
    return entries
