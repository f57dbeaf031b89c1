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

from elmo_bench.elmo import Elmo, Layers
from elmo_bench.encoders import LayerMemory, LayerStore
from elmo_bench.nn import Backbone, Tokens
from elmo_bench.terminal import listed
from elmo_bench.text import BREAK, SUMMARY, Vocab, types

from .batches import LengthBatches, Loader, Numbered
from .folds import Folds, split_of_fold

E = TypeVar("E", bound="Example")


@runtime_checkable
class Example(Protocol):
    """The attributes of every task's example.

    `group` names what the example is part of, from the largest unit down: its tree, its premise,
    its article and paragraph. Examples of a group share text, so `fraction` samples whole groups.
    A unit of one file has another name than those of other files: `data.folds` deals all of them.
    Three attributes an example may lack: `units` says what these are, such as `("article",
    "paragraph")`, for reports; `texts` are its sentences where they may be read in one sequence;
    `sought` is what one of the things is called that the task finds in texts, such as "entity".
    """

    sentences: Sequence[Sequence[str]]
    labels: Sequence[str]
    source: str
    gold: Any  # the value that the metric compares with the prediction
    group: tuple[str, ...]


class Examples:
    """The training, development and test examples of one task, or of some of these splits.

    `read` belongs to the task (`tasks/*/data.py`); `fraction` keeps that share of the groups of
    training examples, sampled with `seed`. With `overfit`, that number of training examples is both
    the training and the development set, and there is no test set. Without a dev file, dev is the
    share `held_out` of the training file's groups, for every seed the same, read as dev. With
    `folds`, the examples of all files are split anew. Everything is read, and so checked, before
    training starts. Examples may have the labels of the training file, or those of `vocab` if a
    model has already been trained.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        read: Mapping[str, Callable[[Path], Iterator[Example]]],
        fraction: float = 1.0,
        overfit: int | None = None,
        held_out: float | None = None,
        folds: Folds | None = None,
        seed: int = 0,
        vocab: Vocab | None = None,
    ) -> None:
        self.by_split = {split: list(read[split](path)) for split, path in files.items()}
        for split, path in files.items():
            if not self.by_split[split]:
                raise ValueError(f"{path}: the {split} file has no examples; give another")
        if overfit is not None:
            few = draw(self.by_split["train"], 1.0, seed)[:overfit]
            self.by_split = {"train": few, "dev": few}
        self.labels = known_labels(self.by_split, vocab)
        of_corpus = None
        if folds is not None:
            of_train = self.by_split["train"]
            self.by_split, of_corpus = split_of_fold(files, folds, self.by_split)
            known_labels(self.by_split | {"train": of_train}, vocab)
        elif held_out and "dev" not in self.by_split:
            # SST has phrases only to train on. Partial functions that are alike are not ==.
            is_same = repr(read["dev"]) == repr(read["train"])
            whole = self.by_split["train"] if is_same else list(read["dev"](files["train"]))
            self.by_split |= divide(self.by_split["train"], whole, held_out)
        # The store of a corpus is for all its folds.
        parts = self.by_split.values() if of_corpus is None else [of_corpus]
        self.all_sentences = []
        for example in itertools.chain.from_iterable(parts):
            self.all_sentences.extend(example.sentences)
        if "train" in files:
            self.by_split["train"] = draw(self.by_split["train"], fraction, seed)

    def sentences(self, split: str) -> Iterator[Sequence[str]]:
        """Return all sentences of a split's examples."""
        return itertools.chain.from_iterable(example.sentences for example in self.by_split[split])

    @cached_property
    def words(self) -> Counter[str]:
        """How often each word occurs in all splits; marks of joined texts are no words."""
        sentences = itertools.chain.from_iterable(map(self.sentences, self.by_split))
        counts = Counter(itertools.chain.from_iterable(sentences))
        for mark in (SUMMARY, BREAK):
            counts.pop(mark, None)
        return counts


class TaskData(pl.LightningDataModule):
    """The batches of the examples of each split, with what a model reads.

    `collate` belongs to the task (`tasks/*/data.py`). The `Tokens` of a batch contain what
    `backbone` reads: characters if its `embed` does, and for ELMo the layers of `store`, or without
    one the encoder's input. Training begins at `start`: an epoch, and the number of its batches
    that are done. `bounds` are those of `LengthBatches`.
    """

    def __init__(
        self,
        examples: Mapping[str, Sequence[Example]],
        vocab: Vocab,
        backbone: Backbone,
        store: LayerStore | LayerMemory | None = None,
        *,
        collate: Callable[[Sequence[Example], Vocab], Any],
        start: tuple[int, int] = (0, 0),
        seed: int = 0,
        num_workers: int = 0,
        **bounds: Any,
    ) -> None:
        super().__init__()
        self.examples = examples
        self.memory = store if isinstance(store, LayerMemory) else None
        self.start = start
        self.seed = seed
        self.num_workers = num_workers
        self.bounds = bounds
        add_inputs = partial(
            _add_inputs,
            reads_chars=backbone.embed.reads_chars,
            elmo=_reader(backbone.elmo, store),
        )
        self.collate = partial(_collate, collate, vocab, add_inputs)

    def setup(self, stage: str) -> None:
        """Raise ValueError for a split to evaluate of which some process would get nothing."""
        world = self.trainer.world_size if self.trainer else 1
        for split, examples in self.examples.items():
            if split != "train" and len(examples) < world:
                raise ValueError(
                    f"{len(examples)} {split} examples are too few for {world} processes: lower "
                    "trainer.devices"
                )

    def batch(self, split: str, numbers: list[int]) -> Numbered:
        """Return a batch of the examples with these numbers."""
        return self.collate(self.examples[split], numbers)

    def on_after_batch_transfer(self, batch: Numbered, dataloader_idx: int) -> Numbered:
        """Read the layers that are in the memory of the model's device."""
        if self.memory is None:
            return batch
        read = partial(_from_memory, self.memory)
        return Numbered(batch.numbers, _with_tokens(batch.batch, read))

    def _loader(self, split: str, **order: Any) -> Loader:
        examples = self.examples[split]
        lengths = [sum(map(len, example.sentences)) for example in examples]
        device = None if self.trainer is None else self.trainer.strategy.root_device.type
        return Loader(
            range(len(examples)),  # type: ignore[arg-type]
            batch_sampler=LengthBatches(lengths, **self.bounds, **order),
            collate_fn=partial(self.collate, examples),
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
    collate: Callable[[Sequence[Example], Vocab], Any],
    vocab: Vocab,
    add_inputs: Callable[[Tokens], Tokens],
    examples: Sequence[Example],
    numbers: list[int],
) -> Numbered:
    """Return the task's batch of these examples, with what the model reads of their `Tokens`."""
    batch = collate([examples[number] for number in numbers], vocab)
    return Numbered(numbers, _with_tokens(batch, add_inputs))


def _with_tokens(batch: Any, change: Callable[[Tokens], Tokens]) -> Any:
    """Return a task's batch in which all `Tokens` are changed."""
    changed = {}
    for name, part in batch._asdict().items():
        if isinstance(part, Tokens):
            changed[name] = change(part)
    return batch._replace(**changed)


def _add_inputs(
    tokens: Tokens, *, reads_chars: bool, elmo: Callable[[Sequence[Sequence[str]]], Any]
) -> Tokens:
    """Replace the sentences by what the model reads of them: characters, and what `elmo` gives."""
    if reads_chars:
        tokens = tokens.with_chars()
    return tokens._replace(sentences=None, elmo=elmo(tokens.sentences or ()))


def _reader(
    elmo: Elmo, store: LayerStore | LayerMemory | None
) -> Callable[[Sequence[Sequence[str]]], Any]:
    """Return what makes ELMo's part of a batch from its sentences, in a worker of the loader."""
    if isinstance(store, LayerStore):
        return partial(_stored, store)
    if isinstance(store, LayerMemory):
        return store.prepare
    return elmo.prepare


def _stored(store: LayerStore, sentences: Sequence[Sequence[str]]) -> Layers:
    return Layers(store(sentences))


def _from_memory(memory: LayerMemory, tokens: Tokens) -> Tokens:
    return tokens._replace(elmo=Layers(memory(tokens.elmo)))


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
