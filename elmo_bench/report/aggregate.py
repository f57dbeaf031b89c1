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
from .table import Cell, Report
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
Head = tuple[str, int]  # of a column of mixes, and its layer, if it is of one
SHARE = "layer {}"
NORM = "layer {} × its norm"
GAMMA = ("γ", 0)


def cost(report: Report) -> Grid | None:
    """Return a table of costs, a row a cell: means over training runs; None without any."""
    rows = []
    for cell in report.cells:
        trained = [run for run in cell.runs if run.epochs]
        if trained:
            rows.append((cell, _costs(trained)))
    if not rows:
        return None
    return by_cell(report, rows, COSTS + SIZES, headed(report, "what a run took"), ABOUT_COSTS)


def _costs(runs: Sequence[Run]) -> list[str]:
    """Return the figures of a cell's runs for the columns of COSTS and SIZES."""
    columns = []
    for part in ("training", "total", "encoder"):
        columns.append([run.seconds[part] for run in runs if part in run.seconds])
    columns.append([float(run.epochs) for run in runs])
    columns.append([run.examples_per_second for run in runs])
    texts = []
    for numbers in columns:
        texts.append(two_digits(fmean(numbers)) if numbers else "")
    for kind in ("trainable", "frozen"):
        mean = fmean(run.parameters[kind] for run in runs)
        texts.append(f"{mean:,.0f}")
    devices = {run.device for run in runs}
    texts.append("; ".join(sorted(devices)))
    return texts


def after_epochs(run: Run, metric: str | None) -> dict[int, float]:
    """Return the dev figure after each epoch, by the epoch's number from 1; empty without a file.

    Raises ValueError, with file and line, for rows that are not metrics of an epoch.
    """
    path = Path(run.folder, "metrics.csv")
    if not path.is_file():
        return {}
    name = f"dev/{metric_of(run, metric)}"
    values: dict[int, float] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in reader:
                if not row.get("epoch") or not row.get(name):
                    continue
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
    mixes = _mixes(report)
    if not mixes:
        return None
    layers: set[int] = set()
    for _, _, means in mixes:
        layers.update(layer for head, layer in means if head == SHARE)
    shares = [(SHARE, layer) for layer in sorted(layers)]
    norms = [(NORM, layer) for layer in sorted(layers)]
    heads = [*shares, GAMMA, *norms]
    names = [head.format(layer) for head, layer in heads]
    has_several_places = len({place for _, place, _ in mixes}) > 1
    if has_several_places:
        names.insert(0, "place")
    rows = []
    for cell, place, means in mixes:
        texts = [place] if has_several_places else []
        for head in heads:
            texts.append(f"{means[head]:.3f}" if head in means else "")
        rows.append((cell, texts))
    title = headed(report, "the share of each layer in the mix")
    grid = by_cell(report, rows, names, title, ABOUT_MIXES)
    if has_several_places:
        grid = grid._replace(left=grid.left + 1)
    return grid


def _mixes(report: Report) -> list[tuple[Cell, str, dict[Head, float]]]:
    """Return the means of each mix of a cell, with the cell and the place of the mix."""
    mixes = []
    for cell in report.cells:
        by_place: dict[str, list[Mix]] = defaultdict(list)
        for run in cell.runs:
            for place, mix in run.mix.items():
                by_place[place].append(mix)
        for place, of_runs in by_place.items():
            mixes.append((cell, place, _means(of_runs)))
    return mixes


def _means(mixes: Sequence[Mix]) -> dict[Head, float]:
    """Return means over runs: of shares, of γ, and of shares times norms."""
    values: dict[Head, list[float]] = defaultdict(list)
    for mix in mixes:
        values[GAMMA].append(mix["gamma"])
        for layer, share in zip(mix["layers"], mix["shares"], strict=True):
            values[SHARE, layer].append(share)
        for layer, share, norm in zip(mix["layers"], mix["shares"], mix["norms"], strict=False):
            values[NORM, layer].append(share * norm)
    return {head: fmean(numbers) for head, numbers in values.items()}
