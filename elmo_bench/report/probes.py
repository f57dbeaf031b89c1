"""A table of what each layer of encoders knows of words, from the contents of `probe.json`."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import Any

from elmo_bench.runs import frozen

from .names import NONE, name, points
from .writers import Grid

Column = tuple[str, str, str]  # corpus, property, figure
TITLES = {"chunk": "chunks", "entity": "entities", "pos": "POS", "sense": "senses"}
FIGURES = {
    "accuracy": "accuracy",
    "selectivity": "selectivity",
    "f1": "span F1",
    "code": "description length",
}
NAMING = ("name", "pretrained", "directions")  # settings that form an encoder's name
CAPTION = (
    "Percent, mean ± standard deviation over seeds ({}); one score where no chance is involved. "
    "Layer 0 is the lowest. Baseline: the most frequent label of a word in training (sense of its "
    "lemma). Selectivity: accuracy less that of the same probe on a control task, in which each "
    "word type has a label at random (Hewitt and Liang 2019)."
)
ABOUT_CODE = (
    " Description length: bits of the training labels given the vectors, in an online code, as a "
    "share of those if all are equally likely (Voita and Titov 2020); lower is easier to read."
)


def encoder_title(probe: Mapping[str, Any]) -> str:
    """Return the display name of a probed encoder."""
    settings: dict[str, Hashable] = {}
    for key in NAMING:
        if key in probe["encoder"]:
            settings[f"encoder.{key}"] = frozen(probe["encoder"][key])
    return name(list(settings), list(settings.values())) if settings else NONE


def probes_grid(probes: Sequence[Mapping[str, Any]]) -> Grid:
    """Return a table: a row for each encoder and layer, columns for each corpus and property."""
    baselines: dict[Column, float | None] = {}
    cells: dict[tuple[str, int], dict[Column, str]] = defaultdict(dict)
    for probe in probes:
        title = encoder_title(probe)
        for kind, probed in probe["properties"].items():
            for figure, layer in product(FIGURES, range(len(probed["layers"]))):
                values = _values(probed["layers"][layer], figure)
                if values:
                    column = (probe["corpus"], kind, figure)
                    baselines.setdefault(column, probed["baseline"].get(figure))
                    cells[title, layer][column] = _mean_and_deviation(values)
    num_seeds = {len(probe["seeds"]) for probe in probes}
    caption = CAPTION.format(" or ".join(map(str, sorted(num_seeds))))
    if any(figure == "code" for _, _, figure in baselines):
        caption += ABOUT_CODE
    heads = ["encoder", "layer"]
    baseline_row = [NONE, "baseline"]
    for (corpus, kind, figure), baseline in baselines.items():
        heads.append(f"{corpus} {TITLES.get(kind, kind)}: {FIGURES[figure]}")
        baseline_row.append(points(baseline))
    rows = [baseline_row]
    for (title, layer), texts in cells.items():
        row = [title, str(layer)]
        row += [texts.get(column, "") for column in baselines]
        rows.append(row)
    return Grid("What each layer knows", heads, rows, 2, caption)


def _mean_and_deviation(values: Sequence[float]) -> str:
    """Return the mean over seeds and, with several, the standard deviation, in percent."""
    mean = points(fmean(values))
    return f"{mean} ± {100 * stdev(values):.2f}" if len(values) > 1 else mean


def _values(figures: Mapping[str, list[float]], figure: str) -> list[float]:
    """Return the figures of a layer, one for each seed; none if it has none of this name."""
    if figure == "selectivity" and "control" in figures:
        pairs = zip(figures["accuracy"], figures["control"], strict=True)
        return [ours - theirs for ours, theirs in pairs]
    return figures.get(figure, [])
