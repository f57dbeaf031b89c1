"""Clusters of mentions, and the cells that write them in CoNLL-2012's last column.

A mention is (first, last) word of the document, counted from 0, both inclusive.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from pathlib import Path
from reprlib import repr as shown

from elmo_bench.text import Row

Mention = tuple[int, int]
Clusters = Sequence[Sequence[Mention]]

# A cell has one reading only (++), so that a long malformed one does not take forever.
_BRACKET = re.compile(r"\(\d++\)?|\d++\)")
_CELL = re.compile(rf"(?:{_BRACKET.pattern})(?:\|?(?:{_BRACKET.pattern}))*")


def size(clusters: Clusters) -> int:
    """Return the number of mentions."""
    return sum(map(len, clusters))


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
            wrong = (
                f"coreference {shown(cell)}, but it must be -, or (12 and 12) and (12) joined by |"
            )
            raise ValueError(f"{where}: {wrong}")
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


def merge(clusters: Iterable[Iterable[Mention]]) -> tuple[tuple[Mention, ...], ...]:
    """Merge clusters that share a mention, and sort clusters and mentions in text order.

    >>> merge([[(4, 5), (0, 0)], [(7, 7), (8, 8)], [(8, 8), (0, 0)]])
    (((0, 0), (4, 5), (7, 7), (8, 8)),)
    """
    homes: dict[Mention, set[Mention]] = {}  # mention -> its merged cluster
    for cluster in map(set, clusters):
        sharing = {id(homes[mention]): homes[mention] for mention in cluster & homes.keys()}
        *smaller, largest = sorted([cluster, *sharing.values()], key=len)
        for other in [cluster, *smaller]:
            largest |= other
            homes.update(dict.fromkeys(other, largest))
    merged = {id(cluster): cluster for cluster in homes.values()}
    return tuple(sorted(tuple(sorted(cluster)) for cluster in merged.values()))


def cells_of(clusters: Clusters, count: int, source: str) -> list[str]:
    """Return the cells of the `count` words of a document; raises ValueError, with `source`, for
    mentions of one cluster that cross.
    """
    cells: list[list[str]] = [[] for _ in range(count)]
    for number, cluster in enumerate(clusters):
        for (start, end), (other_start, other_end) in combinations(sorted(cluster), 2):
            if start < other_start <= end < other_end:
                both = f"{(start, end)} and {(other_start, other_end)}"
                raise ValueError(
                    f"{source}: mentions {both} of one cluster cross, which brackets "
                    "cannot represent"
                )
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
