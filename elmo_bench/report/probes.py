"""One table of what probes found in the layers of encoders, from the content of `probe.json`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import Any

from elmo_bench.runs import frozen

from .names import NONE, name, points
from .writers import Grid

Column = tuple[str, str, str]  # corpus, property, figure
TITLES = {"chunk": "chunks", "entity": "entities", "pos": "POS", "sense": "senses"}
FIGURES = {"accuracy": "accuracy", "selectivity": "selectivity", "f1": "span F1"}
FIGURES |= {"code": "description length"}
NAMED = ("name", "pretrained", "directions")  # settings that form an encoder's name
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
    keys = [key for key in NAMED if key in probe["encoder"]]
    settings = [frozen(probe["encoder"][key]) for key in keys]
    return name([f"encoder.{key}" for key in keys], settings) if keys else NONE


def probes_grid(probes: Sequence[Mapping[str, Any]]) -> Grid:
    """Return a table: a row for each encoder and layer, columns for each corpus and property."""
    baselines: dict[Column, float | None] = {}
    cells: dict[tuple[str, int], dict[Column, str]] = defaultdict(dict)
    for probe in probes:
        for kind, probed in probe["properties"].items():
            for figure, layer in product(FIGURES, range(len(probed["layers"]))):
                if values := _values(probed["layers"][layer], figure):
                    column = (probe["corpus"], kind, figure)
                    baselines.setdefault(column, probed["baseline"].get(figure))
                    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
                    cells[encoder_title(probe), layer][column] = points(fmean(values)) + spread
    rows = [[NONE, "baseline", *map(points, baselines.values())]]
    for (title, layer), texts in cells.items():
        rows.append([title, str(layer), *(texts.get(column, "") for column in baselines)])
    seeds = sorted({len(probe["seeds"]) for probe in probes})
    columns = (f"{c} {TITLES.get(n, n)}: {FIGURES[f]}" for c, n, f in baselines)
    caption = CAPTION.format(" or ".join(map(str, seeds)))
    caption += ABOUT_CODE * any(figure == "code" for _, _, figure in baselines)
    return Grid("What each layer knows", ["encoder", "layer", *columns], rows, 2, caption)


def _values(figures: Mapping[str, list[float]], figure: str) -> list[float]:
    """Return the figures of a layer, one for each seed; none if it has none of this name."""
    if figure == "selectivity" and "control" in figures:
        pairs = zip(figures["accuracy"], figures["control"], strict=True)
        return [ours - theirs for ours, theirs in pairs]
    return figures.get(figure, [])
