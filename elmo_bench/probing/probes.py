"""What a layer knows of words: a linear probe of tags, and a nearest-centroid one of senses.

Both give the figures of a `baseline`, a guess without vectors, and of each layer and seed, on the
test set, as fractions of 1 by name: `accuracy`, and where they apply `control`, the accuracy on a
control task, `f1`, of whole chunks, and `code`, the description length of training's tags.

Axes: L layers, N words of training, M of test, D encoder, K tags.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise, product
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.encoders.contract import Encoder
from elmo_bench.encoders.encode import encode_each
from elmo_bench.terminal import watched
from elmo_bench.text.spans import tags_to_spans

from .corpora import Sentence

BATCH = 1024  # words per training step of a probe
FEWEST_STEPS = 10  # of a part of the words
# Trains a probe on vectors and the numbers of their tags, and returns the log-probabilities of the
# tags of new vectors; the numbers are those of tags and the seed, the last the share of its steps.
Fit = Callable[
    [Float[Tensor, "N D"], Int[Tensor, " N"], Float[Tensor, "M D"], int, int, float],
    Float[Tensor, "M K"],
]
# The ends of the blocks of an online code (Voita and Titov 2020, section 2.2.2).
PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


class Text(NamedTuple):
    """Sentences and the vectors of all their words, in text order (4 L N D bytes)."""

    sentences: list[Sentence]
    layers: Float[Tensor, "L N D"]


class Labelled(NamedTuple):
    """The words of a text that have a label of some property."""

    rows: list[int]  # their numbers among all words of the text
    words: list[str]
    labels: list[Any]
    counts: list[int]  # how many there are in each sentence


def encoded(encoder: Encoder, sentences: Sequence[Sentence]) -> Text:
    """Encode sentences."""
    words = [sentence.words for sentence in sentences]
    starts = list(accumulate(map(len, words), initial=0))
    layers = torch.empty(encoder.num_layers, starts[-1], encoder.dim)
    by_sentence = encode_each(encoder, words)
    for number, vectors in watched(by_sentence, "the encoder reads", len(sentences)):
        layers[:, starts[number] : starts[number + 1]] = vectors
    return Text(list(sentences), layers)


def properties(train: Sequence[Sentence], test: Sequence[Sentence]) -> list[str]:
    """Return the names of the properties with at least two labels in training and one in test."""
    names: dict[str, None] = {}  # in the order of the file
    for sentence in train:
        names.update(dict.fromkeys(sentence.labels))
    shared = []
    for name in names:
        num_labels = len(set(labelled(train, name).labels))
        if num_labels > 1 and labelled(test, name).labels:
            shared.append(name)
    return shared


def labelled(sentences: Sequence[Sentence], name: str) -> Labelled:
    """Return the words that have a label of this property."""
    chosen = Labelled(rows=[], words=[], labels=[], counts=[])
    first_row = 0
    for sentence in sentences:
        labels = sentence.labels.get(name, [None] * len(sentence.words))
        chosen.counts.append(len(labels) - labels.count(None))
        for row, (word, label) in enumerate(zip(sentence.words, labels, strict=True), first_row):
            if label is not None:
                chosen.rows.append(row)
                chosen.words.append(word)
                chosen.labels.append(label)
        first_row += len(sentence.words)
    return chosen


def measure_tags(name: str, train: Text, test: Text, fit: Fit, seeds: list[int]) -> dict[str, Any]:
    """Measure a linear classifier of standardised frozen vectors (Peters et al. 2018, table 6).

    Reports the accuracy of the tags, and that of a control task, in which each word type has a
    random tag of the training set (Hewitt and Liang 2019): how much the probe can memorise of the
    words. For chunks and entities it also reports the F1 of whole chunks, which tells probes apart
    where most words are in no chunk. The description length says how easily the tags are read, not
    only how well. The baseline is the most frequent tag of a word in training.
    """
    of_train = labelled(train.sentences, name)
    of_test = labelled(test.sentences, name)
    tags = sorted(set(of_train.labels))
    number_of = {tag: number for number, tag in enumerate(tags)}

    def as_numbers(labels: Sequence[str]) -> Int[Tensor, " _"]:
        return torch.tensor([number_of[label] for label in labels])

    def scored(guesses: Sequence[str]) -> dict[str, float]:
        figures = {"accuracy": accuracy(guesses, of_test.labels)}
        if name in ("chunk", "entity"):
            figures["f1"] = f1(guesses, of_test.labels, of_test.counts)
        return figures

    def figures(layer: int, seed: int) -> dict[str, float]:
        x, y = _standardised(train.layers[layer, of_train.rows], test.layers[layer, of_test.rows])

        def guesses(labels: Sequence[str]) -> list[str]:
            best = fit(x, as_numbers(labels), y, len(tags), seed, 1.0).argmax(1)
            return [tags[number] for number in best.tolist()]

        tag_of = drawn(of_train.words + of_test.words, of_train.labels, seed)
        train_control = [tag_of[word] for word in of_train.words]
        test_control = [tag_of[word] for word in of_test.words]
        control = accuracy(guesses(train_control), test_control)
        measured = scored(guesses(of_train.labels))
        measured["control"] = control
        gold = as_numbers(of_train.labels)
        measured["code"] = description_length(x, gold, len(tags), fit, seed)
        return measured

    baseline = scored(most_frequent(of_train.words, of_train.labels, of_test.words))
    return _by_layer(baseline, figures, len(train.layers), seeds)


def _standardised(
    x: Float[Tensor, "N D"], y: Float[Tensor, "M D"]
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "M D"]]:
    """Return the vectors of training and test, by mean and standard deviation of training's."""
    mean = x.mean(0)
    deviation = x.std(0, unbiased=False).clamp(min=1e-6)
    return (x - mean) / deviation, (y - mean) / deviation


def description_length(
    x: Float[Tensor, "N D"], tags: Int[Tensor, " N"], num_tags: int, fit: Fit, seed: int
) -> float:
    """Return the length of the online code of the tags given the vectors, as a share of that of the
    uniform code (Voita and Titov 2020, section 2.2.2; the inverse of their compression).

    The words are shuffled and cut into blocks. The tags of a block are coded with the probabilities
    of a probe of all blocks before it, those of the first uniformly.
    """
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    shuffled = x[order]
    gold = tags[order]
    ends = sorted({math.ceil(portion * len(x)) for portion in PORTIONS})
    nats = ends[0] * math.log(num_tags)
    for end, next_end in pairwise(ends):
        block = slice(end, next_end)
        log_p = fit(shuffled[:end], gold[:end], shuffled[block], num_tags, seed, end / len(x))
        nats -= log_p.gather(1, gold[block, None].to(log_p.device)).sum().item()
    return nats / (len(x) * math.log(num_tags))


def measure_senses(train: Text, test: Text) -> dict[str, Any]:
    """Measure how often the sense with the nearest mean is right (Peters et al. 2018, table 5).

    Nothing is trained, so there are no seeds. There is no control task: with a random sense for
    each word form, any vectors would be right for lemmas with a single form. The baseline is the
    most frequent sense of a lemma in training: how far only the lemma gets. New lemmas get the
    sense number that is most frequent overall.
    """
    of_train = labelled(train.sentences, "sense")
    of_test = labelled(test.sentences, "sense")
    lemmas, correct = zip(*of_test.labels, strict=True)

    def figures(layer: int, _: int) -> dict[str, float]:
        x = train.layers[layer, of_train.rows]
        y = test.layers[layer, of_test.rows]
        return {"accuracy": accuracy(nearest(x, of_train.labels, y, lemmas), correct)}

    train_lemmas, train_numbers = zip(*of_train.labels, strict=True)
    guesses = most_frequent(train_lemmas, train_numbers, lemmas)
    return _by_layer({"accuracy": accuracy(guesses, correct)}, figures, len(train.layers), [0])


def _by_layer(
    baseline: Mapping[str, float],
    figures: Callable[[int, int], Mapping[str, float]],
    num_layers: int,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Return the scores of the baseline and of each layer and seed, as in `probe.json`."""
    layers: list[dict[str, list[float]]] = [defaultdict(list) for _ in range(num_layers)]
    layers_and_seeds = list(product(range(num_layers), seeds))
    for layer, seed in watched(layers_and_seeds, "the probes"):
        for name, figure in figures(layer, seed).items():
            layers[layer][name].append(figure)
    return {"baseline": baseline, "layers": layers}


def linear(
    x: Float[Tensor, "N D"],
    tags: Int[Tensor, " N"],
    new: Float[Tensor, "M D"],
    num_tags: int,
    seed: int,
    share: float,
    *,
    steps: int,
    lr: float,
    device: str = "cpu",
) -> Float[Tensor, "M K"]:
    """Return the log-probabilities of new vectors' tags by multinomial logistic regression: a share
    of so many steps of Adam, whose rate decays linearly from `lr` to 0.

    The parameters start at 0, so that the seed determines the order of the batches only.
    """
    inputs = x.to(device)
    gold = tags.to(device)
    model = nn.Linear(x.shape[1], num_tags, device=device)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    num_steps = steps if share == 1 else max(round(share * steps), FEWEST_STEPS)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, num_steps)
    for batch in islice(_shuffled(len(x), seed), num_steps):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[batch]), gold[batch]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return model(new.to(device)).log_softmax(1)


def _shuffled(count: int, seed: int) -> Iterator[Int[Tensor, " B"]]:
    """Yield batches forever, shuffling the indices anew in each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).split(BATCH)


def nearest(
    x: Float[Tensor, "N D"],
    senses: Sequence[tuple[str, str]],
    new: Float[Tensor, "M D"],
    lemmas: Sequence[str],
) -> list[str]:
    """Return the number of the lemma's sense in training whose mean has the highest cosine; of a
    new lemma, the number that is most frequent overall. A sense is a lemma and a number.
    """
    rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, (lemma, number) in enumerate(senses):
        rows[lemma][number].append(row)
    means = {}
    for lemma, rows_of in rows.items():
        means_of_senses = [x[of_sense].mean(0) for of_sense in rows_of.values()]
        means[lemma] = torch.stack(means_of_senses)
    sense_numbers = [number for _, number in senses]
    default = _most_common(sense_numbers)
    guesses = []
    for lemma, vector in zip(lemmas, new, strict=True):
        if lemma in means:
            best = int(F.cosine_similarity(means[lemma], vector[None]).argmax())
            guesses.append(list(rows[lemma])[best])
        else:
            guesses.append(default)
    return guesses


def most_frequent(
    keys: Sequence[Hashable], labels: Sequence[Any], new_keys: Sequence[Hashable]
) -> list[Any]:
    """Return the most frequent label of each new key; of all labels if the key is unknown."""
    labels_of: dict[Hashable, list[Any]] = defaultdict(list)
    for key, label in zip(keys, labels, strict=True):
        labels_of[key].append(label)
    default = _most_common(labels)
    best = {key: _most_common(of_key) for key, of_key in labels_of.items()}
    return [best.get(key, default) for key in new_keys]


def _most_common(labels: Sequence[Any]) -> Any:
    """Return the most frequent label; of several, the one that comes first."""
    return Counter(labels).most_common(1)[0][0]


def drawn(words: Sequence[str], labels: Sequence[Any], seed: int) -> dict[str, Any]:
    """Return a control task (Hewitt and Liang 2019): a random one of the labels per word type."""
    types = sorted(set(words))
    numbers = np.random.default_rng(seed).integers(len(labels), size=len(types))
    return {word: labels[number] for word, number in zip(types, numbers, strict=True)}


def accuracy(guesses: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the share of correct guesses."""
    is_right = [guess == label for guess, label in zip(guesses, labels, strict=True)]
    return float(np.mean(is_right))


def f1(guesses: Sequence[str], labels: Sequence[str], counts: Sequence[int]) -> float:
    """Return F1 of whole chunks, as in conlleval, of sentences with so many tags; 0 if none."""
    ours = _chunks(guesses, counts)
    gold = _chunks(labels, counts)
    return 2 * len(ours & gold) / max(1, len(ours) + len(gold))


def _chunks(tags: Sequence[str], counts: Sequence[int]) -> set[Any]:
    """Return the chunks of sentences with so many tags each."""
    separated: list[str] = []
    start = 0
    for count in counts:
        separated += tags[start : start + count]
        separated.append("O")  # so that no chunk crosses the end of a sentence
        start += count
    return set(tags_to_spans(separated))
