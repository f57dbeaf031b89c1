"""Mix weights of a report's runs: each layer's share and the norm of its vectors."""

import statistics
from collections import defaultdict

from .grid import Grid
from .grids import Words, by_cell
from .table import Cell, Report

TITLE = "The share of each layer in the mix"
ABOUT = (
    "Means over runs; the shares of a row are 1 together. Layer 0 is the lowest; γ is what the mix "
    "is multiplied by."
)
NORMS = " A share times its layer's norm: how long that layer's part of the mix is."


def weights(report: Report) -> tuple[Grid, int] | None:
    """Return a table with a row for each mix, and the number of its columns of weights.

    The columns are the softmax-normalised weights s_j and γ (equation 1 of Peters et al. 2018),
    means over seeds, and, if the runs have it, each weight times its layer's mean norm on dev, the
    layer's contribution to the norm of the mix. Returns None if no run has a mix.
    """
    mixes = [
        (cell, place, weights)
        for cell in report.cells
        for place, weights in _by_place(cell).items()
    ]
    if not mixes:
        return None
    weight_names = {name for _, _, weights in mixes for name in weights}
    layers = sorted(int(name[1:]) for name in weight_names if name.startswith("s"))
    scaled = [layer for layer in layers if f"norm{layer}" in weight_names]
    columns = {f"s{layer}": f"layer {layer}" for layer in layers} | {"gamma": "γ"}
    columns |= {f"norm{layer}": f"layer {layer} × its norm" for layer in scaled}
    place_heads = ["place"] if len({place for _, place, _ in mixes}) > 1 else []
    grid = by_cell(
        report,
        Words.of(report),
        [cell for cell, _, _ in mixes],
        [*place_heads, *columns.values()],
        f"{report.title}: {TITLE.lower()}" if report.title else TITLE,
        ABOUT + (NORMS if scaled else ""),
    )
    for row, (_, place, weights) in zip(grid.rows, mixes, strict=True):
        row += [place] if place_heads else []
        row += [f"{weights[name]:.3f}" if name in weights else "" for name in columns]
    return grid._replace(left=grid.left + len(place_heads)), len(layers)


def _by_place(cell: Cell) -> dict[str, dict[str, float]]:
    """Return, by place, a cell's means over runs of s0, s1 ..., gamma and norm0 ... (times s_j)."""
    by_place: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in cell.runs:
        for place, mix in run.mix.items():
            by_place[place]["gamma"].append(mix["gamma"])
            for layer, share in zip(mix["layers"], mix["shares"], strict=True):
                by_place[place][f"s{layer}"].append(share)
            for layer, share, norm in zip(mix["layers"], mix["shares"], mix["norms"], strict=False):
                by_place[place][f"norm{layer}"].append(share * norm)
    return {
        place: {name: statistics.fmean(values) for name, values in lists.items()}
        for place, lists in by_place.items()
    }
