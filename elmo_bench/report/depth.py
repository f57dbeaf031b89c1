"""Which layers may be the best of each row, and which rows have deeper ones than others."""

from functools import lru_cache
from typing import Any, NamedTuple

from elmo_bench.runs import MIX, Key

from .comparison import compared
from .significance import FEWEST, LEVEL
from .table import Cell, Report


class Depth(NamedTuple):
    """The layers of a row, by their numbers."""

    encoder: Any  # its settings
    highest: int  # the layer with the highest mean
    candidates: list[int]  # rising: those that may be the best

    def is_below(self, other: "Depth") -> bool:
        """Whether all candidates are below those of another row with the same encoder."""
        return self.encoder == other.encoder and self.candidates[-1] < other.candidates[0]


@lru_cache(maxsize=32)
def depths(report: Report) -> dict[Key, Depth]:
    """Return the depth of each row that has several single layers with FEWEST runs or more.

    The layer with the highest mean is not significantly better than the candidates: one-sided, at
    5 % divided by the number of rows and of other layers (Bonferroni). So with 95 % the best layers
    of all rows are among their candidates (comparisons with the best, Hsu 1981).
    """
    if report.columns != [MIX]:
        return {}
    by_row: dict[Key, dict[int, Cell]] = {}
    for cell in report.cells:
        layers = layers_of(cell)
        if len(layers) == 1 and len(cell.runs) >= FEWEST:
            layer = layers.pop()
            cell_of = by_row.setdefault(cell.row, {})
            cell_of[layer] = larger(cell, cell_of.get(layer))
    several = {row: cells for row, cells in by_row.items() if len(cells) > 1}
    return {row: _depth(report, cells, len(several)) for row, cells in several.items()}


def layers_of(cell: Cell) -> set[int]:
    """Return the numbers of the layers that the runs of a cell read."""
    layers = set[int]()
    for run in cell.runs:
        for mix in run.mix.values():
            layers.update(mix["layers"])
    return layers


def larger(cell: Cell, other: Cell | None) -> Cell:
    """Return the cell with more runs, of two that read one layer: `top` and its number."""
    return other if other and len(other.runs) >= len(cell.runs) else cell


def _depth(report: Report, cells: dict[int, Cell], num_rows: int) -> Depth:
    highest = max(cells, key=lambda layer: cells[layer].mean)
    best = cells[highest].runs
    level = LEVEL / num_rows / (len(cells) - 1)
    candidates: list[int] = []
    for layer in sorted(cells):
        if layer == highest:
            candidates.append(layer)
        else:
            test = compared(cells[layer].runs, best, report.metric, report.split).test
            if test is None or test.p is None or test.p / 2 >= level:
                candidates.append(layer)
    return Depth(best[0].config["encoder"], highest, candidates)
