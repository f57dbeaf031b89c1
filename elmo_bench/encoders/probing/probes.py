"""What a layer knows of words: a linear probe of tags, a bilinear one of heads in a dependency
tree, and a nearest-centroid one of senses.

A probe has a `baseline`, a guess without vectors, and `figures` of a layer, both on the test set,
as fractions of 1 by name: `accuracy`, and where they apply `control`, the accuracy on a control
task, and `f1`, of whole chunks.

Axes: L layers, N words of training, M of test, D encoder, B words or sentences of a batch, T words
of the longest, H = T + 1 possible heads of a word: the root, which is number 0, and the words.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo_bench.text import Span, tags_to_spans

from ..contract import Encoder
from ..encode import batches, encode_each
from .corpora import Sentence

BATCH = 1024  # words per training step of a probe
NO_HEAD = -1  # words without a scored head
CONTROL = ("itself", "first", "last")


class Text(NamedTuple):
    """Sentences and the vectors of all their words, in text order (4 L N D bytes)."""

    sentences: list[Sentence]
    layers: Float[Tensor, "L N D"]


class Labelled(NamedTuple):
    """The labelled words of a text: row numbers, words, labels, their positions in their sentences
    (from 1), the lengths of these, and the number of labelled words of each sentence.
    """

    rows: list[int]
    words: list[str]
    labels: list[Any]
    positions: list[int]
    lengths: list[int]
    counts: list[int]


class Training(NamedTuple):
    """Training settings of a probe: Adam steps, initial rate (decays linearly to 0), device."""

    steps: int
    lr: float
    device: str


def encoded(encoder: Encoder, sentences: Sequence[Sentence], advance: Callable[[], object]) -> Text:
    """Encode sentences; `advance` is called after each."""
    starts = np.cumsum([0, *(len(sentence.words) for sentence in sentences)]).tolist()
    layers = torch.empty(encoder.num_layers, starts[-1], encoder.dim)
    for number, vectors in encode_each(encoder, [sentence.words for sentence in sentences]):
        layers[:, starts[number] : starts[number + 1]] = vectors
        advance()
    return Text(list(sentences), layers)


def properties(train: Sequence[Sentence], test: Sequence[Sentence]) -> list[str]:
    """Return the names of the properties with at least two labels in training and one in test."""
    names = dict.fromkeys(name for sentence in train for name in sentence.labels)
    return [
        name
        for name in names
        if len(set(labelled(train, name).labels)) > 1 and labelled(test, name).labels
    ]


def labelled(sentences: Sequence[Sentence], name: str) -> Labelled:
    """Return the words that have a label of this property."""
    words, counts, start = [], [], 0
    for sentence in sentences:
        length = len(sentence.words)
        labels = sentence.labels.get(name, [None] * length)
        kept = [position for position, label in enumerate(labels) if label is not None]
        words += [(start + k, sentence.words[k], labels[k], k + 1, length) for k in kept]
        counts.append(len(kept))
        start += length
    columns = map(list, zip(*words, strict=True)) if words else ([] for _ in range(5))
    return Labelled._make([*columns, counts])


class Tags:
    """A linear classifier of the frozen vectors (Peters et al. 2018, table 6).

    Reports the accuracy of the tags, and that of a control task, in which each word type has a
    random tag of the training set (Hewitt and Liang 2019): how much the probe can memorise of the
    words. For chunks and entities it also reports the F1 of whole chunks, which tells probes apart
    where most words are in no chunk.
    """

    is_random = True  # its figures depend on the seed

    def __init__(self, name: str, train: Text, test: Text, training: Training) -> None:
        self.layers, self.training = (train.layers, test.layers), training
        self.train, self.test = (labelled(text.sentences, name) for text in (train, test))
        self.of_chunks = name in ("chunk", "entity")

    def baseline(self) -> dict[str, float]:
        """Return the figures of guessing the most frequent tag of each word in training."""
        return self._score(most_frequent(self.train.words, self.train.labels, self.test.words))

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figures of a layer, on the test set."""
        parts = zip(self.layers, (self.train.rows, self.test.rows), strict=True)
        device = self.training.device
        x, new = standardised(*(layers[layer, rows].to(device) for layers, rows in parts))
        tags = drawn([*self.train.words, *self.test.words], self.train.labels, seed)
        control, correct = ([tags[w] for w in part.words] for part in (self.train, self.test))
        guesses = linear(x, control, new, self.training, seed)
        figures = self._score(linear(x, self.train.labels, new, self.training, seed))
        return figures | {"control": accuracy(guesses, correct)}

    def _score(self, guesses: Sequence[str]) -> dict[str, float]:
        figures = {"accuracy": accuracy(guesses, self.test.labels)}
        if self.of_chunks:
            figures["f1"] = f1(*(chunks(t, self.test.counts) for t in (guesses, self.test.labels)))
        return figures


class Heads:
    """A bilinear classifier of the heads of words; reports unlabelled attachment scores.

    Punctuation is not scored. In the control task, the head of a word type is the word itself, or
    the first or last word of its sentence, at random (Hewitt and Liang 2019).
    """

    is_random = True

    def __init__(self, name: str, train: Text, test: Text, training: Training) -> None:
        texts = train, test
        self.layers, self.training = (train.layers, test.layers), training
        self.train, self.test = (labelled(text.sentences, name) for text in texts)
        self.lengths = [[len(sentence.words) for sentence in text.sentences] for text in texts]

    def baseline(self) -> dict[str, float]:
        """Return the accuracy of the most frequent distance from each word to its head in training.

        Being the root counts as a distance, 0.
        """
        pairs = zip(self.train.labels, self.train.positions, strict=True)
        distances = [head and head - position for head, position in pairs]
        guesses = most_frequent(self.train.words, distances, self.test.words)
        pairs = zip(guesses, self.test.positions, strict=True)
        heads = [distance and position + distance for distance, position in pairs]
        return {"accuracy": accuracy(heads, self.test.labels)}

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figures of a layer, on the test set."""
        x, new = standardised(*(layers[layer].to(self.training.device) for layers in self.layers))
        behaviours = drawn([*self.train.words, *self.test.words], CONTROL, seed)
        control, correct = (control_heads(part, behaviours) for part in (self.train, self.test))
        tasks = {"accuracy": (self.train.labels, self.test.labels), "control": (control, correct)}
        lengths, new_lengths = self.lengths
        figures = {}
        for name, (heads, right) in tasks.items():
            all_heads = torch.full((len(x),), NO_HEAD)
            all_heads[self.train.rows] = torch.tensor(heads)
            guesses = bilinear(x, lengths, all_heads, new, new_lengths, self.training, seed)
            figures[name] = accuracy([guesses[row] for row in self.test.rows], right)
        return figures


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
        self.lemmas = [lemma for lemma, _ in self.test.labels]

    def baseline(self) -> dict[str, float]:
        """Return the accuracy of the most frequent sense of each lemma in training.

        New lemmas get the sense number that is most frequent overall.
        """
        lemmas, numbers = zip(*self.train.labels, strict=True)
        return self._score(most_frequent(lemmas, numbers, self.lemmas))

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figure of a layer, on the test set."""
        x, new = self.layers[0][layer, self.train.rows], self.layers[1][layer, self.test.rows]
        return self._score(nearest(x, self.train.labels, new, self.lemmas))

    def _score(self, guesses: Sequence[str]) -> dict[str, float]:
        return {"accuracy": accuracy(guesses, [number for _, number in self.test.labels])}


Probe = Tags | Heads | Senses


def measure(
    probe: Probe, num_layers: int, seeds: Sequence[int], advance: Callable[[], object]
) -> dict[str, Any]:
    """Return the figures of the baseline and of each layer and seed, in the format of `probe.json`.

    `advance` is called after each layer and seed.
    """
    layers = []
    for layer in range(num_layers):
        by_seed = []
        for seed in seeds:
            by_seed.append(probe.figures(layer, seed))
            advance()
        layers.append({name: [figures[name] for figures in by_seed] for name in by_seed[0]})
    return {"baseline": probe.baseline(), "layers": layers}


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
    model = nn.Linear(x.shape[1], len(kinds), device=x.device)
    fit(model, len(x), BATCH, lambda b: F.cross_entropy(model(x[b]), y[b]), training, seed)
    with torch.no_grad():
        return [kinds[number] for number in model(new).argmax(1).tolist()]


class Bilinear(nn.Module):
    """Scores word j as the head of word i by (h_i A h_j + sqrt(D) b h_j) / D, and the root by
    c h_i + d.

    D is the size of the vectors h. Cross-entropy of these scores is convex in the parameters.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head, self.root = nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        # Unscaled, one Adam step would change a score (D^2 products) D times as much as in a linear
        # probe.
        scaled = x / x.shape[-1] ** 0.5
        words = (self.head(scaled) @ scaled.mT).masked_fill(~mask[:, None], -torch.inf)
        return torch.cat([self.root(x), words], 2)


def bilinear(
    x: Float[Tensor, "N D"],
    lengths: Sequence[int],
    heads: Int[Tensor, " N"],
    new: Float[Tensor, "M D"],
    new_lengths: Sequence[int],
    training: Training,
    seed: int,
) -> list[int]:
    """Train the probe and predict the heads of all new words.

    `lengths` and `new_lengths` are the lengths of the sentences. A training step is a batch of
    sentences of similar length. Words with a head of -1 are left out of the loss.
    """
    model = Bilinear(x.shape[1]).to(x.device)
    padded = [(rows, mask) for rows, mask in _padded(lengths) if (heads[rows[mask]] >= 0).any()]

    def loss(number: Tensor) -> Tensor:
        rows, mask = padded[number]
        gold = heads[rows].masked_fill(~mask, NO_HEAD).to(x.device)
        scores = model(x[rows.to(x.device)], mask.to(x.device))
        return F.cross_entropy(scores.flatten(0, 1), gold.flatten(), ignore_index=NO_HEAD)

    fit(model, len(padded), 1, loss, training, seed)
    guesses = torch.zeros(len(new), dtype=torch.long)
    with torch.no_grad():
        for rows, mask in _padded(new_lengths):
            scores = model(new[rows.to(x.device)], mask.to(x.device))
            guesses[rows[mask]] = scores.argmax(2).cpu()[mask]
    return guesses.tolist()


def _padded(lengths: Sequence[int]) -> list[tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]]:
    """Return batches of sentences of these lengths: the rows of their words, and a mask, true at
    words.
    """
    sizes = torch.tensor(lengths)
    starts = sizes.cumsum(0) - sizes
    result = []
    for numbers in batches(lengths, BATCH):
        position = torch.arange(int(sizes[numbers].max()))
        mask = position < sizes[numbers, None]
        result.append(((starts[numbers, None] + position).where(mask, 0), mask))
    return result


def nearest(
    x: Float[Tensor, "N D"],
    senses: Sequence[tuple[str, str]],
    new: Float[Tensor, "M D"],
    lemmas: Sequence[str],
) -> list[str]:
    """Return the number of the lemma's sense in training whose mean has the highest cosine.

    A sense is a lemma and a number. A lemma that training lacks gets the number that is most
    frequent overall.
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


def fit(
    model: nn.Module,
    count: int,
    size: int,
    loss: Callable[[Int[Tensor, " B"]], Float[Tensor, ""]],
    training: Training,
    seed: int,
) -> None:
    """Minimise a convex loss over random batches of `size` indices below `count`.

    The parameters start at 0, so that the seed determines the order of the batches only.
    """
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=training.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, training.steps)
    for batch in islice(_shuffled(count, size, seed), training.steps):
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()
        schedule.step()


def _shuffled(count: int, size: int, seed: int) -> Iterator[Int[Tensor, " B"]]:
    """Yield batches forever, shuffling the indices anew in each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).split(size)


def standardised(
    x: Float[Tensor, "N D"], other: Float[Tensor, "M D"]
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "M D"]]:
    """Standardise `x` in each dimension, and apply the same shift and scale to `other`."""
    mean, deviation = x.mean(0), x.std(0, unbiased=False).clamp(min=1e-6)
    return (x - mean) / deviation, (other - mean) / deviation


def most_frequent(
    keys: Sequence[Hashable], labels: Sequence[Any], new_keys: Sequence[Hashable]
) -> list[Any]:
    """Return the most frequent label of each new key; of all labels if the key is unknown."""
    counts: Mapping[Hashable, Counter] = defaultdict(Counter)
    for key, label in zip(keys, labels, strict=True):
        counts[key][label] += 1
    default = Counter(labels).most_common(1)[0][0]
    best = {key: counter.most_common(1)[0][0] for key, counter in counts.items()}
    return [best.get(key, default) for key in new_keys]


def drawn(words: Sequence[str], labels: Sequence[Any], seed: int) -> dict[str, Any]:
    """Return a control task (Hewitt and Liang 2019): assign a random label to each word type.

    A label that is listed twice is drawn twice as often.
    """
    types = sorted(set(words))
    numbers = np.random.default_rng(seed).integers(len(labels), size=len(types))
    return {word: labels[number] for word, number in zip(types, numbers, strict=True)}


def control_heads(part: Labelled, behaviours: Mapping[str, str]) -> list[int]:
    """Return the head of each labelled word in the control task."""
    return [
        {"itself": position, "first": 1, "last": length}[behaviours[word]]
        for word, position, length in zip(part.words, part.positions, part.lengths, strict=True)
    ]


def chunks(tags: Sequence[str], counts: Sequence[int]) -> set[Span]:
    """Return the chunks in the tags of all sentences, one after the other, of so many tags each.

    Positions count one more O after each sentence, so that no chunk crosses its end.
    """
    rest = iter(tags)
    return {*tags_to_spans([tag for n in counts for tag in (*islice(rest, n), "O")])}


def accuracy(guesses: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the share of correct guesses."""
    return float(np.mean([a == b for a, b in zip(guesses, labels, strict=True)]))


def f1(ours: set[Span], gold: set[Span]) -> float:
    """Return F1 of whole chunks, as in conlleval; 0 if there are none."""
    return 2 * len(ours & gold) / max(1, len(ours) + len(gold))
