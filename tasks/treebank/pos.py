"""Parts of speech (UPOS): the task `pos`, and its model, a linear tagger on the backbone.

Axes: B batch, T tokens, K labels.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.nn import Backbone, Scores, TaskModel, Tokens, tokens
from elmo_bench.text import Vocab

from . import sentences
from .sentences import TAG, Cells, Example

read = partial(sentences.read, columns=TAG)
parse = partial(sentences.parse, columns=TAG)
write = sentences.write
read_predictions = sentences.read_predictions


class Batch(NamedTuple):
    """A batch: tokens, and label numbers of the tags (-1 at padding)."""

    tokens: Tokens
    tags: Int[Tensor, "B T"]


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences."""
    words = [example.words for example in examples]
    tags = []
    for example in examples:
        tags.append(torch.tensor([vocab.label_id(tag) for (tag,) in example.gold]))
    return Batch(tokens(words, vocab), pad_sequence(tags, True, -1))


def render(example: Example, prediction: Sequence[Cells]) -> dict[str, Any]:
    """Return the JSON record of a prediction, `{"tokens": ..., "tags": ...}`."""
    return {"tokens": list(example.words), "tags": [tag for (tag,) in prediction]}


class Tagger(TaskModel):
    """Backbone -> linear."""

    sums_losses = True  # over the words of a batch

    def __init__(self, backbone: Callable[..., Backbone], labels: Sequence[str]) -> None:
        super().__init__()
        self.backbone = backbone()
        self.labels = list(labels)
        self.output = Scores(self.backbone.dim, len(self.labels))

    def forward(self, batch: Batch) -> Float[Tensor, "B T K"]:
        return self.output(self.backbone(batch.tokens))

    def loss(self, scores: Float[Tensor, "B T K"], batch: Batch) -> Float[Tensor, ""]:
        tags = batch.tags.flatten()
        return F.cross_entropy(scores.flatten(0, 1), tags, ignore_index=-1, reduction="sum")

    def decode(self, scores: Float[Tensor, "B T K"], batch: Batch) -> list[list[Cells]]:
        predictions: list[list[Cells]] = []
        best = scores.argmax(-1).tolist()
        for row, length in zip(best, batch.tokens.lengths, strict=True):
            predictions.append([(self.labels[label],) for label in row[:length]])
        return predictions
