"""Examples of a task, the shares of them that a run reads, and the batches that a model reads."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from elmo_bench.elmo import Layers
from elmo_bench.encoders import LayerMemory, LayerStore
from elmo_bench.nn import Backbone, Tokens
from elmo_bench.terminal import listed
from elmo_bench.text import BREAK, SUMMARY, Vocab, types

from .batches import LengthBatches, Loader, Numbered

E = TypeVar("E", bound="Example")


@runtime_checkable
class Example(Protocol):
    """The attributes of every task's example.

    `group` names what the example is part of, from the largest unit down: its tree, its premise,
    its article and paragraph. Examples of a group share text, so `fraction` samples whole groups.
    Three attributes an example may lack: `units` says what these are, such as `("article",
    "paragraph")`, for reports; `texts` are its sentences where they may be read in one sequence;
    `sought` is what one of the things is called that the task finds in texts, such as "entity".
    """

    sentences: Sequence[Sequence[str]]
    labels: Sequence[str]
    source: str
    gold: Any  # the value that the metric compares with the prediction
    group: tuple[str, ...]


class TaskData(pl.LightningDataModule):
    """The training, development and test examples of one task, or of some of these splits.

    `read` and `collate` belong to the task (`tasks/*/data.py`); `fraction` keeps that share of the
    groups of training examples, sampled with `seed`. With `overfit`, that number of training
    examples is both the training and the development set, and there is no test set. Without a dev
    file, dev is the share `held_out` of the training file's groups, for every seed the same, read
    as dev. Everything is read, and so checked, before training starts. Examples may have the labels
    of the training examples, or those of `vocab` if a model has already been trained. `bounds` are
    those of `LengthBatches`. `feed` says what the `Tokens` of a batch contain.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        read: Mapping[str, Callable[[Path], Iterator[Example]]],
        collate: Callable[[Sequence[Example], Vocab], Any],
        fraction: float = 1.0,
        overfit: int | None = None,
        held_out: float | None = None,
        seed: int = 0,
        num_workers: int = 0,
        vocab: Vocab | None = None,
        **bounds: Any,
    ) -> None:
        super().__init__()
        self.collate = collate
        self.bounds = bounds
        self.seed = seed
        self.num_workers = num_workers
        self.start = (0, 0)  # epoch, and batches of it done, when training starts; set to resume
        self.examples = {split: list(read[split](path)) for split, path in files.items()}
        for split, path in files.items():
            if not self.examples[split]:
                raise ValueError(f"{path}: the {split} file has no examples; give another")
        if overfit is not None:
            few = draw(self.examples["train"], 1.0, seed)[:overfit]
            self.examples = {"train": few, "dev": few}
        self.vocab: Any = vocab  # None until that of these examples is built
        self.add_inputs: Callable[[Tokens], Tokens] | None = None  # set by `feed`
        self.labels = known_labels(self.examples, vocab)
        if held_out and "dev" not in self.examples:
            # SST has phrases only to train on. Partial functions that are alike are not ==.
            is_same = repr(read["dev"]) == repr(read["train"])
            whole = self.examples["train"] if is_same else list(read["dev"](files["train"]))
            self.examples |= divide(self.examples["train"], whole, held_out)
        self.all_sentences = list(itertools.chain.from_iterable(map(self.sentences, self.examples)))
        if "train" in files:
            self.examples["train"] = draw(self.examples["train"], fraction, seed)

    def sentences(self, split: str) -> Iterator[Sequence[str]]:
        """Return all sentences of a split's examples."""
        return itertools.chain.from_iterable(example.sentences for example in self.examples[split])

    @cached_property
    def words(self) -> Counter[str]:
        """How often each word occurs in all splits; marks of joined texts are no words."""
        sentences = itertools.chain.from_iterable(map(self.sentences, self.examples))
        counts = Counter(itertools.chain.from_iterable(sentences))
        for mark in (SUMMARY, BREAK):
            counts.pop(mark, None)
        return counts

    def setup(self, stage: str) -> None:
        """Raise ValueError for a split to evaluate of which some process would get nothing."""
        world = self.trainer.world_size if self.trainer else 1
        for split, examples in self.examples.items():
            if split != "train" and len(examples) < world:
                raise ValueError(
                    f"{len(examples)} {split} examples are too few for {world} processes: lower "
                    "trainer.devices"
                )

    def feed(self, backbone: Backbone, store: LayerStore | LayerMemory | None = None) -> None:
        """Have batches contain what a model reads: characters if its `embed` does, and for ELMo the
        store's layers, or without a store the encoder's input.
        """
        elmo: Any = backbone.elmo
        read = partial(_stored, store) if isinstance(store, LayerStore) else elmo.prepare
        reads_chars = getattr(backbone.embed, "reads_chars", True)
        self.add_inputs = partial(_add_inputs, reads_chars=reads_chars, elmo=read)

    def batch(self, split: str, numbers: list[int]) -> Numbered:
        """Return a batch of the examples with these numbers."""
        return _collate(self.collate, self.examples[split], self.vocab, self.add_inputs, numbers)

    def _loader(self, split: str, **order: Any) -> Loader:
        examples = self.examples[split]
        lengths = [sum(map(len, example.sentences)) for example in examples]
        device = None if self.trainer is None else self.trainer.strategy.root_device.type
        return Loader(
            range(len(examples)),  # type: ignore[arg-type]
            batch_sampler=LengthBatches(lengths, **self.bounds, **order),
            collate_fn=partial(_collate, self.collate, examples, self.vocab, self.add_inputs),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            # Workers are made once a process, and their seed is drawn then: not from the model's
            # random numbers, or a run that goes on would have others.
            generator=torch.Generator() if self.num_workers else None,
            pin_memory=device == "cuda",
        )

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", shuffle_seed=self.seed, start=self.start)

    def val_dataloader(self) -> DataLoader:
        return self._loader("dev")

    def test_dataloader(self) -> DataLoader:
        return self._loader("test")

    predict_dataloader = test_dataloader


def _collate(
    collate: Callable[..., Any],
    examples: Sequence[Example],
    vocab: Vocab | None,
    add_inputs: Callable[[Tokens], Tokens] | None,
    numbers: list[int],
) -> Numbered:
    """Return the task's batch of these examples, with what the model reads of their `Tokens`."""
    batch = collate([examples[number] for number in numbers], vocab)
    if add_inputs is not None:
        replaced = {}
        for name, part in batch._asdict().items():
            if isinstance(part, Tokens):
                replaced[name] = add_inputs(part)
        batch = batch._replace(**replaced)
    return Numbered(numbers, batch)


def _add_inputs(
    tokens: Tokens, *, reads_chars: bool, elmo: Callable[[Sequence[Sequence[str]]], Any]
) -> Tokens:
    """Replace the sentences by what the model reads of them: characters, and what `elmo` gives."""
    if reads_chars:
        tokens = tokens.with_chars()
    return tokens._replace(sentences=None, elmo=elmo(tokens.sentences or ()))


def _stored(store: LayerStore, sentences: Sequence[Sequence[str]]) -> Layers:
    return Layers(store(sentences))


def draw(examples: Sequence[E], fraction: float, seed: int) -> list[E]:
    """Return the examples of a random share of the groups; the seed also sets their order."""
    groups = list(dict.fromkeys(example.group for example in examples))
    kept = set(random.Random(seed).sample(groups, max(1, round(fraction * len(groups)))))
    shuffled = random.Random(seed).sample(examples, len(examples))
    return [example for example in shuffled if example.group in kept]


def divide(examples: Sequence[E], whole: Sequence[E], share: float) -> dict[str, list[E]]:
    """Return "train", and as "dev" a random share of the groups of `whole`, always the same ones.

    Raises ValueError if nothing is left to train on.
    """
    groups = {example.group for example in draw(whole, share, 0)}
    rest = [example for example in examples if example.group not in groups]
    if not rest:
        raise ValueError(
            f"data.held_out={share}: no training example is left, since examples that share text "
            "stay together; give data.files.dev"
        )
    dev = [example for example in whole if example.group in groups]
    return {"train": rest, "dev": dev}


def known_labels(examples: Mapping[str, Sequence[E]], vocab: Vocab | None) -> list[str]:
    """Return the labels of the training examples, or those of `vocab` if a model has been trained.

    Raises ValueError if another split has others.
    """
    if vocab is None:
        labels = _labels_of(examples["train"])
        owner = "the training file"
        hint = ""
    else:
        labels = set(vocab.labels)
        owner = "the model"
        hint = "; rename or remove them in the file"
    for split, part in examples.items():
        strange = [example for example in part if not labels.issuperset(example.labels)]
        if strange:
            unknown = _labels_of(strange) - labels
            # Name the types, unless only a tag is new.
            named = types if set(types(unknown)) - set(types(labels)) else sorted
            raise ValueError(
                f"{strange[0].source}: labels {listed(named(unknown))} of the {split} file do not "
                f"occur in {owner}, which has {listed(named(labels))}{hint}"
            )
    return sorted(labels)


def _labels_of(examples: Iterable[Example]) -> set[str]:
    """Return the labels that occur in some examples."""
    labels: set[str] = set()
    for example in examples:
        labels.update(example.labels)
    return labels
