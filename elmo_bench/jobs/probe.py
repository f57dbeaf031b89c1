"""`job=probe`: what each layer of an encoder knows of syntax and meaning (section 5.3)."""

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from elmo_bench import build, inputs
from elmo_bench.encoders import Encoder, encode_each
from elmo_bench.files import atomic
from elmo_bench.report import plain
from elmo_bench.text import read_conllu, read_documents

log = logging.getLogger(__name__)
WORD, POS, LEMMA, FRAME = 3, 4, 6, 7  # columns of CoNLL-2012
BATCH = 1024  # tokens in a step of the linear probe


Sense = tuple[str, str]  # a lemma, and which of its senses


class Sentence(NamedTuple):
    """Words, their parts of speech, and the senses of predicates; CoNLL-U has none."""

    words: list[str]
    tags: list[str]
    senses: list[Sense | None]


class Words(NamedTuple):
    """All words of a file, in its order, and their vectors, layer by layer."""

    words: list[str]
    tags: list[str]
    senses: list[Sense | None]
    layers: Float[Tensor, "L N D"]


class Predicates(NamedTuple):
    """Those words that have a sense."""

    lemmas: list[str]
    senses: list[str]
    layers: Float[Tensor, "L N D"]


def probe(cfg: DictConfig) -> dict[str, float]:
    """Print and write to `probe.json` each layer's accuracy on test (fractions of 1) in two probes.

    `pos`: a linear classifier of the frozen vectors (table 6). `sense`: of the senses that a lemma
    has in training, that whose mean vector is nearest; a lemma that is new has the most frequent
    sense of all (table 5). `baseline` is what needs no vectors: the most frequent tag of a word,
    the most frequent sense of a lemma.
    """
    torch.manual_seed(cfg.seed)  # of an encoder with random weights, too
    encoder = build.encoder(cfg)
    given = {split: cfg.probe[split] for split in ("train", "test")}
    files = {
        split: path
        for name in given
        if not given[name]
        for split, path in inputs.corpus(cfg, [name]).items()
    }
    paths = {split: given[split] or files[split] for split in given}
    sentences = {
        split: list(islice(read(path), cfg.probe.max_sentences)) for split, path in paths.items()
    }
    for split in paths:
        if not sentences[split]:
            raise ValueError(f"probe.{split}: {paths[split]} has no sentences")
    encoder.to(build.device(cfg))
    train, test = (vectors(encoder, sentences[split], split) for split in ("train", "test"))
    torch.manual_seed(cfg.seed)
    figures = {"pos/baseline": most_frequent(train.words, train.tags, test.words, test.tags)}
    for layer in range(encoder.num_layers):
        pair = train.layers[layer], test.layers[layer]
        figures[f"pos/{layer}"] = linear(
            pair[0], train.tags, pair[1], test.tags, epochs=cfg.probe.epochs, lr=cfg.probe.lr
        )
    learned, asked = predicates(train), predicates(test)
    if learned.senses and asked.senses:
        figures["sense/baseline"] = most_frequent(
            learned.lemmas, learned.senses, asked.lemmas, asked.senses
        )
        for layer in range(encoder.num_layers):
            figures[f"sense/{layer}"] = nearest(learned, asked, layer)
    counts = {"train": len(train.words), "test": len(test.words)}
    about: dict[str, Any] = {
        "encoder": cfg.encoder.name,
        "data": {split: str(path) for split, path in paths.items()},
        "tokens": counts,
    }
    text = json.dumps(about | {"accuracy": figures}, indent=2)
    with atomic(Path(cfg.run_dir, "probe.json")) as part:
        part.write_text(text + "\n", encoding="utf-8")
    corpus = cfg.data.name if files else paths["test"]
    title = f"{cfg.encoder.name} on {corpus}: accuracy, in percent"
    print_figures(figures, encoder.num_layers, title)
    return figures


def read(path: str | Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, or of a CoNLL-2012 file."""
    if ".conllu" in Path(path).suffixes:
        for rows in read_conllu(path):
            words, tags = ([row.columns[k] for row in rows] for k in (1, 3))
            yield Sentence(words, tags, [None] * len(rows))
        return
    for document in read_documents(path):
        for rows in document.sentences:
            columns = [row.columns for row in rows]
            senses = [
                (c[LEMMA], c[FRAME]) if "-" not in (c[LEMMA], c[FRAME]) else None for c in columns
            ]
            yield Sentence([c[WORD] for c in columns], [c[POS] for c in columns], senses)


def vectors(encoder: Encoder, sentences: Sequence[Sentence], split: str) -> Words:
    """Each word's vector of every layer."""
    encoded = encode_each(encoder, [sentence.words for sentence in sentences])
    by_number: dict[int, Tensor] = {}
    for number, layers in track(encoded, f"{split}: the encoder reads", len(sentences)):
        by_number[number] = layers.cpu()
    words = [word for sentence in sentences for word in sentence.words]
    tags = [tag for sentence in sentences for tag in sentence.tags]
    senses = [sense for sentence in sentences for sense in sentence.senses]
    in_order = [by_number[number] for number in range(len(sentences))]
    return Words(words, tags, senses, torch.cat(in_order, 1))


def predicates(words: Words) -> Predicates:
    """The words that have a sense."""
    positions = [position for position, sense in enumerate(words.senses) if sense]
    pairs = [sense for sense in words.senses if sense]
    vectors = words.layers[:, torch.tensor(positions, dtype=torch.long)]
    return Predicates([lemma for lemma, _ in pairs], [sense for _, sense in pairs], vectors)


def most_frequent(
    keys: Sequence[Hashable], labels: Sequence[str], asked: Sequence[Hashable], right: Sequence[str]
) -> float:
    """How often a key's most frequent label is right; a new key's is that of all keys."""
    counts: Mapping[Hashable, Counter] = defaultdict(Counter)
    for key, label in zip(keys, labels, strict=True):
        counts[key][label] += 1
    default = Counter(labels).most_common(1)[0][0]
    guesses = (counts[key].most_common(1)[0][0] if key in counts else default for key in asked)
    return float(np.mean([guess == label for guess, label in zip(guesses, right, strict=True)]))


def linear(
    x: Float[Tensor, "N D"],
    labels: Sequence[str],
    asked: Float[Tensor, "M D"],
    right: Sequence[str],
    *,
    epochs: int,
    lr: float,
) -> float:
    """The accuracy of multinomial logistic regression on standardised vectors.

    A label that training lacks is always wrong.
    """
    kinds = {label: number for number, label in enumerate(sorted(set(labels)))}
    y = torch.tensor([kinds[label] for label in labels])
    mean, deviation = x.mean(0), x.std(0).clamp(min=1e-6)
    x, asked = (x - mean) / deviation, (asked - mean) / deviation
    model = torch.nn.Linear(x.shape[1], len(kinds))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        guesses = model(asked).argmax(1)
    gold = torch.tensor([kinds.get(label, -1) for label in right])
    return float((guesses == gold).float().mean())


def nearest(learned: Predicates, asked: Predicates, layer: int) -> float:
    """The accuracy of the lemma's sense whose mean vector has the highest cosine."""
    rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, (lemma, sense) in enumerate(zip(learned.lemmas, learned.senses, strict=True)):
        rows[lemma][sense].append(row)
    default = Counter(learned.senses).most_common(1)[0][0]
    vectors = learned.layers[layer]
    means = {
        lemma: torch.stack([vectors[of_sense].mean(0) for of_sense in senses.values()])
        for lemma, senses in rows.items()
    }
    hits = 0
    for vector, lemma, sense in zip(asked.layers[layer], asked.lemmas, asked.senses, strict=True):
        senses = list(rows[lemma]) if lemma in means else [default]
        best = 0
        if len(senses) > 1:
            best = int(F.cosine_similarity(means[lemma], vector[None]).argmax())
        hits += senses[best] == sense
    return hits / len(asked.senses)


def print_figures(figures: Mapping[str, float], num_layers: int, title: str) -> None:
    """A row for each layer."""
    probes = [name for name in ("pos", "sense") if f"{name}/baseline" in figures]
    table = Table("", *probes)
    for row in ("baseline", *map(str, range(num_layers))):
        table.add_row(
            row if row == "baseline" else f"layer {row}",
            *(f"{100 * figures[f'{name}/{row}']:.2f}" for name in probes),
        )
    console = Console(markup=False, emoji=False)
    console.print(f"\n{plain(title)}")
    console.print(table)
