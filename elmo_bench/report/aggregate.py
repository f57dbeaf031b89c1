"""Tables of means over the runs of each cell: what training cost, the learned mix."""

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from elmo_bench.runs import Run

from .comparison import metric_of
from .grid import Grid
from .grids import by_cell
from .labels import titled
from .table import Cell, Report

COSTS = ["training, s", "in all, s", "encoder, s", "epochs", "examples/s"]
SIZES = ["trained parameters", "frozen parameters", "device"]
ABOUT_COSTS = "Means over the runs of a row. In all: with reading the data, measuring and writing."
STORED = (
    " Encoder: what a frozen one takes to read the corpus; the first run that needs its layers "
    "pays for that, and the others read what it kept."
)
ABOUT_MIXES = (
    "Means over runs; the shares of a row are 1 together. Layer 0 is the lowest; γ is what the mix "
    "is multiplied by."
)
NORMS = " A share times its layer's norm: how long that layer's part of the mix is."


def cost(report: Report) -> Grid | None:
    """Return a table of costs with a row for each cell: means over its training runs.

    Runs of job=evaluate are ignored. Returns None if no training run is left.
    """
    trained = [(cell, [run for run in cell.runs if run.epochs]) for cell in report.cells]
    trained = [(cell, runs) for cell, runs in trained if runs]
    if not trained:
        return None
    all_runs = [run for _, runs in trained for run in runs]
    devices = {run.device for run in all_runs}
    rows = []
    for cell, runs in trained:
        sizes = [f"{runs[0].parameters[kind]:,}" for kind in ("trainable", "frozen")]
        device = "; ".join(sorted({run.device for run in runs})) if len(devices) > 1 else ""
        rows.append((cell, [*map(_mean, _costs(runs)), *sizes, device]))
    where = f" on {min(devices)}" if len(devices) == 1 else ""
    stored = STORED if any("encoder" in run.seconds for run in all_runs) else ""
    title = titled(report.title, f"what a run took{where}")
    return by_cell(report, rows, [*COSTS, *SIZES], title, ABOUT_COSTS + stored)


def _costs(runs: Iterable[Run]) -> list[list[float]]:
    """Return the runs' figures for the columns of COSTS."""
    seconds = [
        [run.seconds[part] for run in runs if part in run.seconds]
        for part in ("training", "total", "encoder")
    ]
    speed = [run.examples_per_second for run in runs]
    return [*seconds, [float(run.epochs) for run in runs], speed]


def _mean(values: Collection[float]) -> str:
    """Format a mean with three significant digits; whole numbers and those >= 100 as integers.

    >>> _mean([1234.5]), _mean([20.0]), _mean([15.25]), _mean([8.2]), _mean([0.0123]), _mean([])
    ('1,234', '20', '15.2', '8.20', '0.0123', '')
    """
    if not values:
        return ""
    mean = statistics.fmean(values)
    if mean >= 100 or mean == round(mean):
        return f"{mean:,.0f}"
    return f"{mean:.1f}" if mean >= 10 else f"{mean:#.3g}"


def best_epoch(run: Run, among: Collection[int]) -> int:
    """Return the epoch whose model a run keeps: the first that is best by the run's `task.monitor`,
    whatever metric a report shows.
    """
    figures = after_epochs(run, None)
    return max(among, key=lambda epoch: (figures.get(epoch, -math.inf), -epoch))


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
    mixes = [
        (cell, place, means) for cell in report.cells for place, means in _by_place(cell).items()
    ]
    if not mixes:
        return None
    heads = {head for _, _, means in mixes for head in means}
    layers = sorted(layer for name, layer in heads if name == "layer")
    columns = [*(("layer", layer) for layer in layers), ("γ", 0)]
    columns += [("norm", layer) for layer in layers if ("norm", layer) in heads]
    has_places = len({place for _, place, _ in mixes}) > 1
    rows = [
        (cell, [*([place] * has_places), *(f"{m[c]:.3f}" if c in m else "" for c in columns)])
        for cell, place, m in mixes
    ]
    grid = by_cell(
        report,
        rows,
        [*(["place"] * has_places), *(_head(name, layer) for name, layer in columns)],
        titled(report.title, "the share of each layer in the mix"),
        ABOUT_MIXES + (NORMS if any(name == "norm" for name, _ in columns) else ""),
    )
    return grid._replace(left=grid.left + has_places), len(layers)


def _head(name: str, layer: int) -> str:
    return {"γ": "γ", "layer": f"layer {layer}", "norm": f"layer {layer} × its norm"}[name]


def _by_place(cell: Cell) -> dict[str, dict[tuple[str, int], float]]:
    """Return, by place, a cell's means over runs: of shares, of γ, and of shares times norms."""
    by_place: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in cell.runs:
        for place, mix in run.mix.items():
            means = by_place[place]
            means["γ", 0].append(mix["gamma"])
            for layer, share in zip(mix["layers"], mix["shares"], strict=True):
                means["layer", layer].append(share)
            for layer, share, norm in zip(mix["layers"], mix["shares"], mix["norms"], strict=False):
                means["norm", layer].append(share * norm)
    return {
        place: {head: statistics.fmean(values) for head, values in means.items()}
        for place, means in by_place.items()
    }
