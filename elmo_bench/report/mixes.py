"""A table of the learned mixes of layers."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from elmo_bench.runs import Mix

from .grids import by_cell
from .labels import headed
from .table import Cell, Report
from .writers import Grid

ABOUT_MIXES = (
    "Means over runs; the shares of a row are 1 together. Layer 0 is the lowest; γ is what the mix "
    "is multiplied by. A share times its layer's norm: how long that layer's part of the mix is."
)
Head = tuple[str, int]  # of a column of mixes, and its layer, if it is of one
SHARE = "layer {}"
NORM = "layer {} × its norm"
GAMMA = ("γ", 0)


def weights(report: Report) -> Grid | None:
    """Return a table with a row for each mix; None if no run has a mix.

    The columns are the softmax-normalised weights s_j and γ (equation 1 of Peters et al. 2018),
    means over seeds, and, if the runs have it, each weight times its layer's mean norm on dev, the
    layer's contribution to the norm of the mix.
    """
    mixes = _mixes(report)
    if not mixes:
        return None
    shares: set[Head] = set()
    norms: set[Head] = set()
    places: set[str] = set()
    for _, place, means in mixes:
        places.add(place)
        for kind, layer in means:
            if kind == SHARE:
                shares.add((SHARE, layer))
                norms.add((NORM, layer))
    heads = [*sorted(shares), GAMMA, *sorted(norms)]
    names = [head.format(layer) for head, layer in heads]
    has_several_places = len(places) > 1
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
