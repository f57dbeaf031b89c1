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
    return max(heads) <= len(heads) and not _ends(heads).any() and [*heads].count(0) == 1


def _ends(heads: Sequence[int]) -> Int[np.ndarray, " N"]:
    """Return where the heads lead from each word: to 0, or round a cycle."""
    ends = np.array([0, *heads])
    for _ in range(len(heads).bit_length()):
        ends = ends[ends]  # twice as many steps
    return ends


def best_tree(scores: Float[np.ndarray, "T N"]) -> list[int]:
    """Return the heads of the tree with one root and the highest sum of scores.

    It is that of each word's best head, if these are a tree. Else a library finds it, among the
    arcs that it can have: one alone may not lose more than all of some tree.
    """
    heads = scores.argmax(1).tolist()
    if is_tree(heads):
        return heads
    import networkx as nx  # takes 0.1 s, which few commands need

    losses = scores.max(1, keepdims=True).astype(np.float64) - scores
    most = losses[range(len(scores)), _some_tree(losses)].sum()
    words, heads = (losses <= most).nonzero()
    # A second arc from the root costs more than all others together (Zmigrod et al. 2020).
    costs = losses[words, heads] + (heads == 0) * (len(scores) * most + 1)
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(zip(heads, words + 1, costs, strict=True))
    arcs = nx.minimum_spanning_arborescence(graph).edges
    return [int(head) for head, _ in sorted(arcs, key=lambda arc: arc[1])]


def _some_tree(losses: Float[np.ndarray, "T N"]) -> Int[np.ndarray, " T"]:
    """Return the heads of a good tree: the root loses least, and so does each change that leads
    more words to it.
    """
    top, losses = losses[:, 0].argmin(), losses.copy()
    losses[:, 0] = losses[top] = np.inf
    losses[top, 0] = 0
    heads = losses.argmin(1)
    while (ends := _ends(heads.tolist())).any():
        loose, settled = ends.nonzero()[0], (ends == 0).nonzero()[0]
        choices = losses[np.ix_(loose - 1, settled)]
        word, head = np.unravel_index(choices.argmin(), choices.shape)
        heads[loose[word] - 1] = settled[head]
    return heads
