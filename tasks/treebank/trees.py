"""The best dependency tree: a maximum spanning arborescence (McDonald et al. 2005).

Axes: T words, N heads: 0 for the root, then the words.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int


def is_tree(heads: Sequence[int]) -> bool:
    """Whether heads, from 1 and 0 for the root, are a tree with one word below the root.

    >>> is_tree([2, 0, 2]), is_tree([0, 0]), is_tree([2, 1, 0]), is_tree([0, 3])
    (True, False, False, False)
    """
    is_one = max(heads) <= len(heads) and [*heads].count(0) == 1
    return is_one and not _ends(np.array([0, *heads])).any()


def _ends(heads: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Return where the heads lead from each: to 0, the root, or round a cycle."""
    for _ in range(len(heads).bit_length()):
        heads = heads[heads]  # twice as many steps
    return heads


def best_tree(scores: Float[np.ndarray, "T N"]) -> list[int]:
    """Return the heads of the tree with one word below the root and the highest sum of scores; a
    word's score as its own head does not count.
    """
    square = np.pad(scores.astype(np.float64), ((1, 0), (0, 0)))
    np.fill_diagonal(square, square.max())
    # A second arc from the root costs more than all others together (Zmigrod et al. 2020).
    square[:, 0] -= np.ptp(square) * len(square) + 1
    np.fill_diagonal(square, -np.inf)
    return _heads(square).tolist()[1:]


def _heads(scores: Float[np.ndarray, "N N"]) -> Int[np.ndarray, " N"]:
    """Return the head of each, and 0 of the root itself: the best ones, if they have no cycle. Else
    a cycle becomes one node, and these are found first (Chu and Liu 1965; Edmonds 1967).
    """
    heads = scores.argmax(1)
    heads[0] = 0
    ends = _ends(heads)
    if not ends.any():
        return heads
    cycle, word = [], ends[ends > 0][0]
    while word not in cycle:
        cycle.append(word)
        word = heads[word]
    others = np.setdiff1d(np.arange(len(heads)), cycle)
    # An arc to a word of the cycle replaces the one that it has.
    into = scores[np.ix_(cycle, others)] - scores[cycle, heads[cycle]][:, None]
    out, rest = scores[np.ix_(others, cycle)], scores[np.ix_(others, others)]
    found = _heads(np.block([[rest, out.max(1)[:, None]], [into.max(0), -np.inf]]))
    is_below = found[:-1] == len(others)  # a word of the cycle
    heads[others] = np.append(others, 0)[found[:-1]]
    heads[others[is_below]] = np.array(cycle)[out[is_below].argmax(1)]
    entered = into[:, found[-1]].argmax()
    heads[cycle[entered]] = others[found[-1]]
    return heads
