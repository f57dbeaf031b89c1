"""Dependency trees as heads, and the best one of all: a maximum spanning arborescence (McDonald et
al. 2005).

Axes: T tokens, N heads (the root, then the tokens), C words of a cycle.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int


def is_tree(heads: Sequence[int]) -> bool:
    """Whether heads, from 1 and 0 for the root, are a tree with one word below the root.

    >>> is_tree([2, 0, 2]), is_tree([0, 0]), is_tree([2, 1, 0]), is_tree([0, 3])
    (True, False, False, False)
    """
    if max(heads) > len(heads) or heads.count(0) != 1:
        return False
    return not _ends(np.concatenate([[0], heads])).any()


def _ends(heads: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Return where the heads lead from each: to 0, the root, or round a cycle."""
    for _ in range(len(heads).bit_length()):
        heads = heads[heads]  # twice as many steps
    return heads


def best_tree(scores: Float[np.ndarray, "T N"]) -> list[int]:
    """Return the heads of the best tree with one word below the root; own heads do not count."""
    square = np.pad(scores.astype(np.float64), ((1, 0), (0, 0)))
    np.fill_diagonal(square, square.max())
    # A second arc from the root costs more than all others together (Zmigrod et al. 2020).
    square[:, 0] -= np.ptp(square) * len(square) + 1
    np.fill_diagonal(square, -np.inf)
    square[0] = -np.inf  # so that the root's own head is 0
    return _best_heads(square).tolist()[1:]


def _best_heads(scores: Float[np.ndarray, "N N"]) -> Int[np.ndarray, " N"]:
    """Return the head of each; changes the scores. One without any arc, as the root, has head 0.

    While the best heads have a cycle, its first word stands for all of them, with their best arcs
    in and out (Chu and Liu 1965; Edmonds 1967); the others keep no arc.
    """
    merged = []
    heads = scores.argmax(1)
    ends = _ends(heads)
    while ends.any():
        cycle = _cycle(heads, int(ends.max()))
        inside = heads[cycle]
        # An arc to a word of the cycle replaces the one that it has there.
        into = scores[cycle] - scores[cycle, inside][:, None]
        out = scores[:, cycle]
        merged.append((cycle, inside, into.argmax(0), out.argmax(1)))
        scores[cycle] = -np.inf
        scores[:, cycle] = -np.inf
        first = cycle[0]
        others = np.setdiff1d(np.arange(len(scores)), cycle)
        scores[first, others] = into.max(0)[others]
        scores[others, first] = out.max(1)[others]
        heads = scores.argmax(1)
        ends = _ends(heads)
    for cycle, inside, entered, left in reversed(merged):
        below = np.flatnonzero(heads == cycle[0])
        heads[below] = cycle[left[below]]
        head = heads[cycle[0]]
        heads[cycle] = inside
        heads[cycle[entered[head]]] = head
    return heads


def _cycle(heads: Int[np.ndarray, " N"], word: int) -> Int[np.ndarray, " C"]:
    """Return the words of the cycle on which a word stands."""
    cycle = [word]
    while heads[cycle[-1]] != word:
        cycle.append(heads[cycle[-1]])
    return np.array(cycle)
