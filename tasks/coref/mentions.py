"""Clusters of mentions, and the cells that write them in CoNLL-2012's last column.

A mention is (first, last) word of the document, counted from 0, both inclusive.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from reprlib import repr as shown

from elmo_bench.text import Row

Mention = tuple[int, int]
Clusters = Sequence[Sequence[Mention]]

# A cell has one reading only (++), so that a long malformed one does not take forever.
_BRACKET = re.compile(r"\(\d++\)?|\d++\)")
_CELL = re.compile(rf"(?:{_BRACKET.pattern})(?:\|?(?:{_BRACKET.pattern}))*")


def add_mentions(
    clusters: dict[str, set[Mention]], rows: Sequence[Row], start: int, path: Path
) -> None:
    """Add the mentions of a sentence, which begins at word `start` of its document, to `clusters`.

    A cell is `-`, or any of `(12`, `12)` and `(12)`, joined with or without `|`. As in the official
    scorer, the mentions of one word come first, then the opening brackets, then the closing ones,
    and a closing bracket matches the latest opening one of its cluster.
    """
    opened: dict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        cell, where = row.columns[-1], f"{path}:{row.line}"
        if not (cell in ("-", "_") or _CELL.fullmatch(cell)):
            form = "-, or (12 and 12) and (12) joined by |"
            raise ValueError(f"{where}: coreference {shown(cell)}, but it must be {form}")
        parts: list[str] = _BRACKET.findall(cell)
        for part in sorted(parts, key=lambda part: (part[0] != "(", part[-1] != ")")):
            cluster = part.strip("()")
            mentions = clusters.setdefault(cluster, set())
            if part[0] == "(":
                opened[cluster].append(position)
            if part[-1] == ")":
                if not opened[cluster]:
                    raise ValueError(
                        f"{where}: {cluster}) ends a mention that does not begin in this sentence"
                    )
                mentions.add((start + opened[cluster].pop(), start + position))
    for cluster, positions in opened.items():
        for position in positions:
            raise ValueError(
                f"{path}:{rows[position].line}: ({cluster} begins a mention that does not end in "
                "its sentence"
            )


def merge(clusters: Clusters) -> list[list[Mention]]:
    """Merge clusters that share a mention, and sort clusters and mentions in text order.

    >>> merge([[(4, 5), (0, 0)], [(7, 7), (8, 8)], [(8, 8), (0, 0)]])
    [[(0, 0), (4, 5), (7, 7), (8, 8)]]
    """
    merged: list[set[Mention]] = []
    for cluster in map(set, clusters):
        sharing = [other for other in merged if not other.isdisjoint(cluster)]
        merged = [other for other in merged if other.isdisjoint(cluster)]
        merged.append(cluster.union(*sharing))
    return sorted(sorted(cluster) for cluster in merged if cluster)


def cells_of(clusters: Clusters, count: int) -> list[str]:
    """Return the cells of the `count` words of a document. Mentions of one cluster must not cross
    (the model's do not), since brackets cannot represent that.
    """
    cells: list[list[str]] = [[] for _ in range(count)]
    for number, cluster in enumerate(clusters):
        for start, end in cluster:
            cells[start].append(f"({number})" if start == end else f"({number}")
            if start < end:
                cells[end].append(f"{number})")
    return ["|".join(cell) or "-" for cell in cells]


def without_repeats(clusters: Clusters, gold: Clusters) -> list[list[Mention]]:
    """Return the clusters, sorted, without gold mentions that an earlier cluster has."""
    counted, seen, kept = set(chain.from_iterable(gold)), set[Mention](), []
    for cluster in map(set, clusters):
        kept.append(sorted(cluster - seen))
        seen |= cluster & counted
    return sorted(cluster for cluster in kept if cluster)
