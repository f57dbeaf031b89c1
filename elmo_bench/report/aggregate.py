"""Tables of means over the runs of each cell: what training cost, the learned mix."""

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from elmo_bench.files import two_digits
from elmo_bench.runs import Run

from .comparison import metric_of
from .grid import Grid
from .grids import by_cell
from .labels import titled
from .table import Cell, Report

COSTS = ["training, s", "in all, s", "encoder, s", "epochs", "examples/s"]
SIZES = ["trained parameters", "frozen parameters", "device"]
ABOUT_COSTS = (
    "Means over the runs of a row. In all: with reading the data, measuring and writing. Encoder: "
    "what a frozen one takes to read the corpus; the first run that needs its layers pays for "
    "that, and the others read what it kept."
)
ABOUT_MIXES = (
    "Means over runs; the shares of a row are 1 together. Layer 0 is the lowest; γ is what the mix "
    "is multiplied by. A share times its layer's norm: how long that layer's part of the mix is."
)
SHARE, NORM = "layer {}", "layer {} × its norm"  # heads of columns


def cost(report: Report) -> Grid | None:
    """Return a table of costs with a row for each cell: means over its training runs.

    Runs of job=evaluate are ignored. Returns None if no training run is left.
    """
    trained = [(cell, [run for run in cell.runs if run.epochs]) for cell in report.cells]
    rows = [(cell, _costs(runs)) for cell, runs in trained if runs]
    title = titled(report.title, "what a run took")
    return by_cell(report, rows, [*COSTS, *SIZES], title, ABOUT_COSTS) if rows else None


def _costs(runs: Sequence[Run]) -> list[str]:
    """Return the figures of a cell's runs for the columns of COSTS and SIZES."""
    columns = [
        [run.seconds[part] for run in runs if part in run.seconds]
        for part in ("training", "total", "encoder")
    ]
    columns += [[float(run.epochs) for run in runs], [run.examples_per_second for run in runs]]
    sizes = [f"{runs[0].parameters[kind]:,}" for kind in ("trainable", "frozen")]
    means = [two_digits(statistics.fmean(values)) if values else "" for values in columns]
    return [*means, *sizes, "; ".join(sorted({run.device for run in runs}))]


def after_epochs(run: Run, metric: str | None) -> dict[int, float]:
    """Return the dev figure after each epoch, by the epoch's number from 1; empty without a file.

    Raises ValueError, with file and line, for rows that are not metrics of an epoch.
    """
    path = Path(run.folder, "metrics.csv")
    if not path.is_file():
        return {}
    name = f"dev/{metric_of(run, metric)}"
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in reader:
                if row.get("epoch") and row.get(name):
                    rows.append((int(row["epoch"]), float(row[name])))
                    if rows[-1][0] < 0 or not math.isfinite(rows[-1][1]):
                        raise ValueError(f"epoch {row['epoch']}, {name} {row[name]}")
        except (ValueError, csv.Error) as error:
            line = f"{path}:{reader.line_num}"
            raise ValueError(f"{line}: not the metrics of an epoch: {error}") from error
    # Rows after the last epoch repeat the best one, which is measured again.
    return {epoch + 1: value for epoch, value in rows if epoch < run.epochs}


def weights(report: Report) -> tuple[Grid, int] | None:
    """Return a table with a row for each mix, and the number of its columns of weights.

    The columns are the softmax-normalised weights s_j and γ (equation 1 of Peters et al. 2018),
    means over seeds, and, if the runs have it, each weight times its layer's mean norm on dev, the
    layer's contribution to the norm of the mix. Returns None if no run has a mix.
    """
    mixes = [(cell, place, _means(cell, place)) for cell in report.cells for place in _places(cell)]
    if not mixes:
        return None
    layers = sorted({layer for *_, means in mixes for head, layer in means if head == SHARE})
    heads = [*((SHARE, layer) for layer in layers), ("γ", 0), *((NORM, layer) for layer in layers)]
    several = len({place for _, place, _ in mixes}) > 1
    texts = [[f"{m[head]:.3f}" if head in m else "" for head in heads] for *_, m in mixes]
    rows = [
        (cell, [*[place] * several, *row])
        for (cell, place, _), row in zip(mixes, texts, strict=True)
    ]
    title = titled(report.title, "the share of each layer in the mix")
    names = [head.format(layer) for head, layer in heads]
    grid = by_cell(report, rows, [*["place"] * several, *names], title, ABOUT_MIXES)
    return grid._replace(left=grid.left + several), len(layers)


def _places(cell: Cell) -> list[str]:
    return [*dict.fromkeys(place for run in cell.runs for place in run.mix)]


def _means(cell: Cell, place: str) -> dict[tuple[str, int], float]:
    """Return a cell's means over runs: of shares, of γ, and of shares times norms."""
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for mix in (run.mix[place] for run in cell.runs if place in run.mix):
        values["γ", 0].append(mix["gamma"])
        for layer, share in zip(mix["layers"], mix["shares"], strict=True):
            values[SHARE, layer].append(share)
        for layer, share, norm in zip(mix["layers"], mix["shares"], mix["norms"], strict=False):
            values[NORM, layer].append(share * norm)
    return {head: statistics.fmean(each) for head, each in values.items()}
