"""`job=probe`: what each layer of an encoder knows of syntax and of meaning (paper, section 5.3,
tables 5 and 6).
"""

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
    """Print a table and write `probe.json`: for each layer the accuracy on test (fractions of 1) of
    two probes.

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
    for split, found in sentences.items():
        if not found:
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
    known, asked = predicates(train), predicates(test)
    if known.senses and asked.senses:
        figures["sense/baseline"] = most_frequent(
            known.lemmas, known.senses, asked.lemmas, asked.senses
        )
        figures |= {
            f"sense/{layer}": nearest(known, asked, layer) for layer in range(encoder.num_layers)
        }
    counts = {split: sum(len(s.words) for s in found) for split, found in sentences.items()}
    about: dict[str, Any] = {
        "encoder": cfg.encoder.name,
        "data": {split: str(path) for split, path in paths.items()},
        "tokens": counts,
    }
    with atomic(Path(cfg.run_dir, "probe.json")) as part:
        part.write_text(
            json.dumps(about | {"accuracy": figures}, indent=2) + "\n", encoding="utf-8"
        )
    print_figures(
        figures,
        encoder.num_layers,
        f"{cfg.encoder.name} on {cfg.data.name if files else paths['test']}: accuracy, in percent",
    )
    return figures


def read(path: str | Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file, or of a CoNLL-2012 file."""
    if ".conllu" in Path(path).suffixes:
        for rows in read_conllu(path):
            yield Sentence(
                [row.columns[1] for row in rows],
                [row.columns[3] for row in rows],
                [None] * len(rows),
            )
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
    found: dict[int, Tensor] = {}
    for place, layers in track(
        encode_each(encoder, [s.words for s in sentences]),
        f"{split}: the encoder reads",
        len(sentences),
    ):
        found[place] = layers.cpu()
    words = [word for sentence in sentences for word in sentence.words]
    tags = [tag for sentence in sentences for tag in sentence.tags]
    senses = [sense for sentence in sentences for sense in sentence.senses]
    return Words(
        words, tags, senses, torch.cat([found[place] for place in range(len(sentences))], 1)
    )


def predicates(words: Words) -> Predicates:
    """The words that have a sense."""
    found = [(place, sense) for place, sense in enumerate(words.senses) if sense]
    places = torch.tensor([place for place, _ in found], dtype=torch.long)
    return Predicates(
        [lemma for _, (lemma, _) in found],
        [sense for _, (_, sense) in found],
        words.layers[:, places],
    )


def most_frequent(
    keys: Sequence[Hashable], labels: Sequence[str], asked: Sequence[Hashable], right: Sequence[str]
) -> float:
    """How often a key's most frequent label is right; a new key has the most frequent label of
    all.
    """
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
    """The accuracy of multinomial logistic regression on standardised vectors; a label that
    training lacks is always wrong.
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
    return float(
        (guesses == torch.tensor([kinds.get(label, -1) for label in right])).float().mean()
    )


def nearest(known: Predicates, asked: Predicates, layer: int) -> float:
    """The accuracy of the sense whose mean vector has the highest cosine with the predicate's,
    among those of its lemma.
    """
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, (lemma, sense) in enumerate(zip(known.lemmas, known.senses, strict=True)):
        places[lemma][sense].append(place)
    default = Counter(known.senses).most_common(1)[0][0]
    vectors = known.layers[layer]
    means = {
        lemma: torch.stack([vectors[found].mean(0) for found in own.values()])
        for lemma, own in places.items()
    }
    hits = 0
    for vector, lemma, sense in zip(asked.layers[layer], asked.lemmas, asked.senses, strict=True):
        own = list(places[lemma]) if lemma in means else [default]
        guess = (
            own[int(F.cosine_similarity(means[lemma], vector[None]).argmax())]
            if len(own) > 1
            else own[0]
        )
        hits += guess == sense
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
    console.print(f"\n{title}")
    console.print(table)
