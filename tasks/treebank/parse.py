"""Dependency trees: the task `parse`, and its model, the deep biaffine parser of Dozat and Manning
(2017), whose tree is a maximum spanning arborescence (McDonald et al. 2005).

Axes: B batch, T tokens, N heads (the root, then the tokens), H features, K relations.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.bounds import Dropout, Size
from elmo_bench.nn import Backbone, Tokens, tokens, variational_dropout
from elmo_bench.text import Vocab

from . import sentences
from .sentences import ARC, Cells, Example

parse = partial(sentences.parse, columns=ARC)
read_predictions, write = sentences.read_predictions, sentences.write
ROOT = "root"  # relation of the word whose head is 0


class Batch(NamedTuple):
    """A batch: tokens, heads and label numbers of the relations (-1 at padding)."""

    tokens: Tokens
    heads: Int[Tensor, "B T"]
    relations: Int[Tensor, "B T"]


def read(path: Path) -> Iterator[Example]:
    """Yield the sentences of a file; raises ValueError, with file and line, for a sentence that is
    not a tree with one root, and the errors of `sentences.read`.
    """
    for example in sentences.read(path, ARC):
        heads = [head for head, _ in example.gold]
        if not (all(map(str.isdecimal, heads)) and is_tree([*map(int, heads)])):
            raise ValueError(
                f"{example.source}: the heads of this sentence (column 7), {' '.join(heads)}, are "
                "no tree: one word must have head 0, and from each word the heads must lead to it"
            )
        yield example


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences."""
    heads = [torch.tensor([int(head) for head, _ in each.gold]) for each in examples]
    names = [torch.tensor([vocab.label_id(name) for _, name in each.gold]) for each in examples]
    padded = (pad_sequence(numbers, True, -1) for numbers in (heads, names))
    return Batch(tokens([each.words for each in examples], vocab), *padded)


def render(example: Example, prediction: Sequence[Cells]) -> dict[str, Any]:
    """Return the JSON record of a prediction, `{"tokens": ..., "heads": ..., "relations": ...}`."""
    heads, names = zip(*prediction, strict=True)
    return {"tokens": list(example.words), "heads": [*map(int, heads)], "relations": names}


ArcScores = tuple[Float[Tensor, "B T N"], Float[Tensor, "B T N K"]]  # of heads, of relations


class Biaffine(nn.Module):
    """K scores of each pair of a word x and a head y, [x; 1] U_k [y; 1], computed in float32."""

    def __init__(self, input_size: int, size: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.word, self.head = nn.Linear(input_size, size), nn.Linear(input_size, size)
        self.weight = nn.Parameter(torch.empty(outputs, size + 1, size + 1))
        nn.init.xavier_uniform_(self.weight)
        self.dropout = dropout

    def forward(
        self, words: Float[Tensor, "B T H"], heads: Float[Tensor, "B N H"]
    ) -> Float[Tensor, "B T N K"]:
        x, y = (
            variational_dropout(F.leaky_relu(layer(h), 0.1), self.dropout, self.training)
            for layer, h in ((self.word, words), (self.head, heads))
        )
        with torch.autocast(x.device.type, enabled=False):
            x, y = (F.pad(h.to(self.weight.dtype), (0, 1), value=1.0) for h in (x, y))
            return torch.einsum("bti,kij,bnj->btnk", x, self.weight, y)


class BiaffineParser(nn.Module):
    """Backbone -> dropout -> biaffine scores of heads and of relations.

    The root is a trained vector beside the backbone's output, not a word of the sentence as in the
    original, so that an encoder reads the sentence as it is. `loss` says of what the loss is a
    mean: of the words of a batch, or of its sentences, each the sum over its words.
    """

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        head_size: Size,
        relation_size: Size,
        dropout: Dropout,
        loss: Literal["words", "sentences"] = "words",
    ) -> None:
        super().__init__()
        self.backbone, self.labels, self.dropout = backbone(), list(labels), dropout
        self.is_mean_of_words = loss == "words"
        dim = self.backbone.dim
        self.root = nn.Parameter(torch.randn(dim) / dim**0.5)
        self.heads = Biaffine(dim, head_size, 1, dropout)
        self.relations = Biaffine(dim, relation_size, len(self.labels), dropout)

    def forward(self, batch: Batch) -> ArcScores:
        words = self.backbone(batch.tokens)
        heads = torch.cat([self.root.to(words.dtype).expand(len(words), 1, -1), words], 1)
        words, heads = (variational_dropout(h, self.dropout, self.training) for h in (words, heads))
        scores = self.heads(words, heads)[..., 0]
        # No word past the sentence's end is a head, and no word is its own.
        possible = F.pad(batch.tokens.mask, (1, 0), value=True)[:, None]
        itself = torch.ones_like(scores[0], dtype=torch.bool).triu(1).tril(1)
        scores = scores.masked_fill(~possible | itself, torch.finfo(scores.dtype).min)
        return scores, self.relations(words, heads)

    def loss(self, scores: ArcScores, batch: Batch) -> Float[Tensor, ""]:
        """Return the mean negative log-likelihood of words, or of sentences, summed over heads and
        relations.
        """
        heads = batch.heads.clamp(min=0)[..., None, None].expand(-1, -1, 1, len(self.labels))
        relations = scores[1].gather(2, heads)[:, :, 0]
        losses = [
            F.cross_entropy(x.flatten(0, 1), gold.flatten(), ignore_index=-1, reduction="sum")
            for x, gold in ((scores[0], batch.heads), (relations, batch.relations))
        ]
        count = batch.tokens.lengths.sum() if self.is_mean_of_words else len(batch.heads)
        return torch.stack(losses).sum() / int(count)

    def decode(self, scores: ArcScores, batch: Batch) -> list[list[Cells]]:
        """Return the best tree of each sentence, with the best relation of each of its arcs; the
        root's is `root`, and no other.
        """
        relations = scores[1].clone()
        relations[..., self.labels.index(ROOT)] = -torch.inf
        names = relations.argmax(-1).tolist()
        logits = scores[0].detach().log_softmax(-1).cpu().double().numpy()
        trees: list[list[Cells]] = []
        for row, best, length in zip(logits, names, batch.tokens.lengths, strict=True):
            arcs = enumerate(best_tree(row[:length, : length + 1]))
            trees.append([(str(h), self.labels[best[k][h]] if h else ROOT) for k, h in arcs])
        return trees


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
    while (ends := _ends(heads := scores.argmax(1))).any():
        cycle = _cycle(heads, int(ends.max()))
        inside = heads[cycle]
        # An arc to a word of the cycle replaces the one that it has there.
        into = scores[cycle] - scores[cycle, inside][:, None]
        out = scores[:, cycle]
        merged.append((cycle, inside, into.argmax(0), out.argmax(1)))
        scores[cycle], scores[:, cycle] = -np.inf, -np.inf
        ours, others = cycle[0], np.setdiff1d(np.arange(len(scores)), cycle)
        scores[ours, others], scores[others, ours] = into.max(0)[others], out.max(1)[others]
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
