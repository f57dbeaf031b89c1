"""A contrast between tasks: whether a step from one layer to another is worth more on one task than
on another.

It is (a − b) on one corpus less (a − b) on another, where a and b are two settings, such as two
layers. Its four cells have runs of their own. Their examples may be the same texts, as those of two
tasks of one treebank are; then these are one choice of examples.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from elmo_bench.runs import Counts, Key

from .significance import (
    FEWEST,
    LEVEL,
    Scale,
    by_cluster,
    holm,
    noncentrality,
    reach,
    weighted_scales,
)

WEIGHTS = (1.0, -1.0, -1.0, 1.0)  # of a and b on the first corpus, of a and b on the second


class Contrast(NamedTuple):
    """A contrast and its test; differences are fractions of 1."""

    columns: tuple[Key, Key]  # a and b, columns of a report
    rows: tuple[Key, Key]
    steps: tuple[float, float]  # a − b on each row
    step_ps: tuple[float, float]  # two-sided, of each step by itself
    difference: float
    scales: tuple[Scale, ...]
    p: float
    runs: int  # of the cell with fewest
    p_holm: float | None = None  # corrected for all contrasts of a call; None if preliminary
    detectable: float | None = None  # smallest true difference found in 80 % of cases

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, not corrected."""
        half = reach(self.scales, LEVEL)
        return self.difference - half, self.difference + half

    @property
    def is_significant(self) -> bool:
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def is_reversal(self) -> bool:
        """Whether the rows prefer different columns: the steps have opposite signs, each
        significant by itself, and so is the contrast.
        """
        first, second = self.steps
        are_sure = max(self.step_ps) < LEVEL
        return self.is_significant and are_sure and first * second < 0


def scales_of(cells: Sequence[Sequence[Counts]]) -> tuple[Scale, Scale, Scale]:
    """Return the scales of a contrast: those of the counts of the runs of its four cells."""
    first, second = joint_clusters(cells[0][0], cells[2][0])
    number = 1 + int(max(first.max(), second.max()))
    systems = []
    for runs, clusters in zip(cells, [first, first, second, second], strict=True):
        rows = np.stack([counts.rows for counts in runs])
        sums = by_cluster(rows, clusters)
        system = np.zeros((len(sums), number, *sums.shape[2:]))
        system[:, np.unique(clusters)] = sums  # clusters without examples here keep 0
        systems.append(system)
    return weighted_scales(systems, WEIGHTS)


def joint_clusters(
    ours: Counts, theirs: Counts
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " M"]]:
    """Return the cluster of each example of two corpora. Two clusters are one if they are the same
    text: theirs has most common sentences with ours, and no other of theirs has more.
    """
    of_sentence: dict[int, set[int]] = defaultdict(set)
    for sentence, group in zip(ours.sentences.tolist(), ours.groups.tolist(), strict=True):
        of_sentence[sentence].add(group)
    common: dict[int, Counter[int]] = defaultdict(Counter)  # theirs -> ours -> common sentences
    pairs = set(zip(theirs.groups.tolist(), theirs.sentences.tolist(), strict=True))
    for group, sentence in sorted(pairs):
        common[group].update(sorted(of_sentence.get(sentence, ())))
    best: dict[int, tuple[int, int]] = {}  # ours -> common sentences, theirs
    for group, shares in common.items():
        for match, count in shares.most_common(1):
            if match not in best or count > best[match][0]:
                best[match] = count, group
    same = {group: match for match, (_, group) in best.items()}
    after_ours = int(ours.groups.max()) + 1
    renumbered = [same.get(group, after_ours + group) for group in theirs.groups.tolist()]
    _, numbers = np.unique(np.concatenate([ours.groups, renumbered]), return_inverse=True)
    return numbers[: len(ours.groups)], numbers[len(ours.groups) :]


def corrected(several: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with p corrected (Holm) for all of them that have FEWEST runs a cell,
    and with their power.
    """
    family = [contrast for contrast in several if contrast.runs >= FEWEST]
    ps = iter(holm([contrast.p for contrast in family]))
    with_p = []
    for contrast in several:
        if contrast.runs < FEWEST:
            with_p.append(contrast)
            continue
        smallest = []
        for scale in contrast.scales:
            smallest.append(scale.error * noncentrality(scale.freedom, len(family)))
        with_p.append(contrast._replace(p_holm=next(ps), detectable=max(smallest)))
    return with_p
