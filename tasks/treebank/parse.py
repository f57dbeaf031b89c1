"""Dependency trees: the task `parse`, and its model, the deep biaffine parser of Dozat and Manning
(2017).

Axes: B batch, T tokens, N heads (the root, then the tokens), H features, K relations.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.bounds import Dropout, Size
from elmo_bench.nn import Backbone, TaskModel, Tokens, tokens, variational_dropout
from elmo_bench.text import Vocab

from . import sentences
from .sentences import ARC, Cells, Example
from .trees import best_tree, is_tree

parse = partial(sentences.parse, columns=ARC)
write = sentences.write
read_predictions = sentences.read_predictions
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
        are_numbers = all(map(str.isdecimal, heads))
        if not are_numbers or not is_tree(list(map(int, heads))):
            raise ValueError(
                f"{example.source}: the heads of this sentence (column 7), {' '.join(heads)}, are "
                "no tree: one word must have head 0, and from each word the heads must lead to it"
            )
        yield example


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences."""
    words = [example.words for example in examples]
    heads = []
    relations = []
    for example in examples:
        heads.append(torch.tensor([int(head) for head, _ in example.gold]))
        relations.append(torch.tensor([vocab.label_id(name) for _, name in example.gold]))
    return Batch(
        tokens(words, vocab), pad_sequence(heads, True, -1), pad_sequence(relations, True, -1)
    )


def render(example: Example, prediction: Sequence[Cells]) -> dict[str, Any]:
    """Return the JSON record of a prediction, `{"tokens": ..., "heads": ..., "relations": ...}`."""
    heads, relations = zip(*prediction, strict=True)
    return {
        "tokens": list(example.words),
        "heads": list(map(int, heads)),
        "relations": relations,
    }


ArcScores = tuple[Float[Tensor, "B T N"], Float[Tensor, "B T N K"]]  # of heads, of relations


class Biaffine(nn.Module):
    """K scores of each pair of a word x and a head y, [x; 1] U_k [y; 1], computed in float32."""

    def __init__(self, input_size: int, size: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.word = nn.Linear(input_size, size)
        self.head = nn.Linear(input_size, size)
        self.weight = nn.Parameter(torch.empty(outputs, size + 1, size + 1))
        nn.init.xavier_uniform_(self.weight)
        self.dropout = dropout

    def forward(
        self, words: Float[Tensor, "B T H"], heads: Float[Tensor, "B N H"]
    ) -> Float[Tensor, "B T N K"]:
        x = self._vectors(self.word, words)
        y = self._vectors(self.head, heads)
        with torch.autocast(x.device.type, enabled=False):
            x = F.pad(x.to(self.weight.dtype), (0, 1), value=1.0)
            y = F.pad(y.to(self.weight.dtype), (0, 1), value=1.0)
            return torch.einsum("bti,kij,bnj->btnk", x, self.weight, y)

    def _vectors(self, layer: nn.Linear, h: Float[Tensor, "B _ H"]) -> Float[Tensor, "B _ _"]:
        return variational_dropout(F.leaky_relu(layer(h), 0.1), self.dropout, self.training)


class BiaffineParser(TaskModel):
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
        self.backbone = backbone()
        self.labels = list(labels)
        self.dropout = dropout
        self.is_mean_of_words = loss == "words"
        dim = self.backbone.dim
        self.root = nn.Parameter(torch.randn(dim) / dim**0.5)
        self.heads = Biaffine(dim, head_size, 1, dropout)
        self.relations = Biaffine(dim, relation_size, len(self.labels), dropout)

    def forward(self, batch: Batch) -> ArcScores:
        words = self.backbone(batch.tokens)
        root = self.root.to(words.dtype).expand(len(words), 1, -1)
        heads = torch.cat([root, words], 1)
        words = variational_dropout(words, self.dropout, self.training)
        heads = variational_dropout(heads, self.dropout, self.training)
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
        total = _total_loss(scores[0], batch.heads) + _total_loss(relations, batch.relations)
        count = batch.tokens.lengths.sum() if self.is_mean_of_words else len(batch.heads)
        return total / int(count)

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
            tree: list[Cells] = []
            for word, head in enumerate(best_tree(row[:length, : length + 1])):
                relation = self.labels[best[word][head]] if head else ROOT
                tree.append((str(head), relation))
            trees.append(tree)
        return trees


def _total_loss(scores: Float[Tensor, "B T _"], gold: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
    """Return the cross-entropy, summed over the words of a batch."""
    return F.cross_entropy(scores.flatten(0, 1), gold.flatten(), ignore_index=-1, reduction="sum")
