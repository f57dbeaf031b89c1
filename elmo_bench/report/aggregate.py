"""Tables of means over the runs of each cell: what training cost, the learned mix."""

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from elmo_bench.runs import Mix, Run
from elmo_bench.terminal import two_digits

from .comparison import metric_of
from .grids import by_cell, headed
from .table import Report
from .writers import Grid

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
    """Return a table of costs, a row a cell: means over training runs; None without any."""
    trained = [(cell, [run for run in cell.runs if run.epochs]) for cell in report.cells]
    rows = [(cell, _costs(runs)) for cell, runs in trained if runs]
    title = headed(report, "what a run took")
    return by_cell(report, rows, [*COSTS, *SIZES], title, ABOUT_COSTS) if rows else None


def _costs(runs: Sequence[Run]) -> list[str]:
    """Return the figures of a cell's runs for the columns of COSTS and SIZES."""
    parts = ("training", "total", "encoder")
    columns = [[run.seconds[part] for run in runs if part in run.seconds] for part in parts]
    columns += [[float(run.epochs) for run in runs], [run.examples_per_second for run in runs]]
    means = [two_digits(fmean(values)) if values else "" for values in columns]
    sizes = [f"{fmean(r.parameters[kind] for r in runs):,.0f}" for kind in ("trainable", "frozen")]
    return [*means, *sizes, "; ".join(sorted({run.device for run in runs}))]


def after_epochs(run: Run, metric: str | None) -> dict[int, float]:
    """Return the dev figure after each epoch, by the epoch's number from 1; empty without a file.

    Raises ValueError, with file and line, for rows that are not metrics of an epoch.
    """
    path = Path(run.folder, "metrics.csv")
    if not path.is_file():
        return {}
    name, values = f"dev/{metric_of(run, metric)}", {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in (row for row in reader if row.get("epoch") and row.get(name)):
                epoch = int(row["epoch"])
                values[epoch] = float(row[name])
                if epoch < 0 or not math.isfinite(values[epoch]):
                    raise ValueError(f"epoch {epoch}, {name} {row[name]}")
        except (ValueError, csv.Error) as error:
            line = f"{path}:{reader.line_num}"
            raise ValueError(f"{line}: not the metrics of an epoch: {error}") from error
    # Rows after the last epoch repeat the best one, which is measured again.
    return {epoch + 1: value for epoch, value in values.items() if epoch < run.epochs}


def weights(report: Report) -> Grid | None:
    """Return a table with a row for each mix; None if no run has a mix.

    The columns are the softmax-normalised weights s_j and γ (equation 1 of Peters et al. 2018),
    means over seeds, and, if the runs have it, each weight times its layer's mean norm on dev, the
    layer's contribution to the norm of the mix.
    """
    mixes = [
        (cell, place, _means([run.mix[place] for run in cell.runs if place in run.mix]))
        for cell in report.cells
        for place in dict.fromkeys(place for run in cell.runs for place in run.mix)
    ]
    if not mixes:
        return None
    layers = sorted({layer for *_, means in mixes for head, layer in means if head == SHARE})
    heads = [*((SHARE, layer) for layer in layers), ("γ", 0), *((NORM, layer) for layer in layers)]
    several = len({place for _, place, _ in mixes}) > 1
    rows = [
        (cell, [place] * several + [f"{means[h]:.3f}" if h in means else "" for h in heads])
        for cell, place, means in mixes
    ]
    title = headed(report, "the share of each layer in the mix")
    names = ["place"] * several + [head.format(layer) for head, layer in heads]
    grid = by_cell(report, rows, names, title, ABOUT_MIXES)
    return grid._replace(left=grid.left + several)


def _means(mixes: Sequence[Mix]) -> dict[tuple[str, int], float]:
    """Return means over runs: of shares, of γ, and of shares times norms."""
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for mix in mixes:
        values["γ", 0].append(mix["gamma"])
        for layer, share in zip(mix["layers"], mix["shares"], strict=True):
            values[SHARE, layer].append(share)
        for layer, share, norm in zip(mix["layers"], mix["shares"], mix["norms"], strict=False):
            values[NORM, layer].append(share * norm)
    return {head: fmean(each) for head, each in values.items()}
