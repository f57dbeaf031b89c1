"""The senses of predicates: a nearest-centroid probe.

Axes: N predicates of training, M of test, D encoder.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from .words import Text, accuracy, labelled, most_frequent

Sense = tuple[str, str]  # a lemma and the number of its sense


class Senses:
    """Predicts the sense whose mean vector is nearest (Peters et al. 2018, table 5).

    Nothing is trained, so the figures do not depend on a seed. There is no control task: with a
    random sense for each word form, any vectors would be right for lemmas with a single form. The
    baseline measures how far the lemma alone gets.
    """

    is_random = False

    def __init__(self, name: str, train: Text, test: Text) -> None:
        self.layers = train.layers, test.layers
        self.train, self.test = (labelled(text.sentences, name) for text in (train, test))

    def baseline(self) -> dict[str, float]:
        """Return the accuracy of the most frequent sense of each lemma in training.

        New lemmas get the sense number that is most frequent overall.
        """
        lemmas = [lemma for lemma, _ in self.train.labels]
        numbers = [number for _, number in self.train.labels]
        new = [lemma for lemma, _ in self.test.labels]
        return self._score(most_frequent(lemmas, numbers, new))

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figure of a layer, on the test set."""
        x, new = self.layers[0][layer, self.train.rows], self.layers[1][layer, self.test.rows]
        return self._score(
            nearest(x, self.train.labels, new, [lemma for lemma, _ in self.test.labels])
        )

    def _score(self, guesses: Sequence[str]) -> dict[str, float]:
        return {"accuracy": accuracy(guesses, [number for _, number in self.test.labels])}


def nearest(
    x: Float[Tensor, "N D"],
    senses: Sequence[Sense],
    new: Float[Tensor, "M D"],
    lemmas: Sequence[str],
) -> list[str]:
    """Return the number of the lemma's sense in training whose mean has the highest cosine.

    A lemma that training lacks gets the sense number that is most frequent overall.
    """
    rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, (lemma, number) in enumerate(senses):
        rows[lemma][number].append(row)
    default = Counter(number for _, number in senses).most_common(1)[0][0]
    means = {
        lemma: torch.stack([x[of_sense].mean(0) for of_sense in numbers.values()])
        for lemma, numbers in rows.items()
        if len(numbers) > 1
    }
    guesses = []
    for lemma, vector in zip(lemmas, new, strict=True):
        numbers, best = [*rows.get(lemma, [default])], 0
        if lemma in means:
            best = int(F.cosine_similarity(means[lemma], vector[None]).argmax())
        guesses.append(numbers[best])
    return guesses
