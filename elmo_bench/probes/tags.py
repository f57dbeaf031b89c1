"""A tag for each word: a linear probe.

Axes: N words of training, M of test, D encoder.
"""

from collections.abc import Sequence
from itertools import islice

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from elmo_bench.text import Span, tags_to_spans

from .words import (
    BATCH,
    Text,
    Training,
    accuracy,
    drawn,
    fit,
    labelled,
    most_frequent,
    standardised,
)


class Tags:
    """A linear classifier of the frozen vectors (Peters et al. 2018, table 6).

    Reports the accuracy of the tags, and that of a control task, in which each word type has a
    random tag of the training set (Hewitt and Liang 2019): how much the probe can memorise of the
    words. For chunks and entities it also reports the F1 of whole chunks, which tells probes apart
    where most words are in no chunk.
    """

    is_random = True

    def __init__(self, name: str, train: Text, test: Text, training: Training) -> None:
        self.layers = train.layers, test.layers
        self.train, self.test = (labelled(text.sentences, name) for text in (train, test))
        self.training = training
        self.of_chunks = name in ("chunk", "entity")

    def baseline(self) -> dict[str, float]:
        """Return the figures of guessing the most frequent tag of each word in training."""
        return self._score(most_frequent(self.train.words, self.train.labels, self.test.words))

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figures of a layer, on the test set."""
        rows, device = (self.train.rows, self.test.rows), self.training.device
        x, new = standardised(
            *(
                layers[layer, numbers].to(device)
                for layers, numbers in zip(self.layers, rows, strict=True)
            )
        )
        tags = drawn([*self.train.words, *self.test.words], self.train.labels, seed)
        control = [tags[word] for word in self.train.words]
        guesses = linear(x, control, new, self.training, seed)
        return self._score(linear(x, self.train.labels, new, self.training, seed)) | {
            "control": accuracy(guesses, [tags[word] for word in self.test.words])
        }

    def _score(self, guesses: Sequence[str]) -> dict[str, float]:
        figures = {"accuracy": accuracy(guesses, self.test.labels)}
        if self.of_chunks:
            figures["f1"] = f1(*(chunks(t, self.test.lengths) for t in (guesses, self.test.labels)))
        return figures


def linear(
    x: Float[Tensor, "N D"],
    tags: Sequence[str],
    new: Float[Tensor, "M D"],
    training: Training,
    seed: int,
) -> list[str]:
    """Return the tags of new vectors, predicted by multinomial logistic regression."""
    kinds = sorted(set(tags))
    numbers = {tag: number for number, tag in enumerate(kinds)}
    y = torch.tensor([numbers[tag] for tag in tags], device=x.device)
    model = torch.nn.Linear(x.shape[1], len(kinds), device=x.device)
    fit(model, len(x), BATCH, lambda b: F.cross_entropy(model(x[b]), y[b]), training, seed)
    with torch.no_grad():
        return [kinds[number] for number in model(new).argmax(1).tolist()]


def chunks(tags: Sequence[str], lengths: Sequence[int]) -> set[Span]:
    """Return the chunks in the tags of all sentences, one after the other, of these lengths.

    Positions count one more O after each sentence, so that no chunk crosses its end.
    """
    rest = iter(tags)
    return {*tags_to_spans([tag for n in lengths for tag in (*islice(rest, n), "O")])}


def f1(ours: set[Span], gold: set[Span]) -> float:
    """Return F1 of whole chunks, as in conlleval; 0 if there are none."""
    return 2 * len(ours & gold) / max(1, len(ours) + len(gold))
