"""Several splits of one corpus: its groups of examples, dealt into folds (`data.folds`)."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

G = TypeVar("G", bound=Hashable)
Read = Callable[[Path], Iterator[Any]]
SPLITS = ("train", "dev", "test")


class Folds(NamedTuple):
    """The fold of so many that is test; the next one is dev, and all others are training.

    `read` has, by split and by the split that a file is of, what reads the file as that split.
    """

    number: int
    folds: int
    read: Mapping[tuple[str, str], Read]

    @property
    def dev(self) -> int:
        """The number of the fold that is dev."""
        return self.number % self.folds + 1


class Pool(NamedTuple):
    """The examples of all files of a corpus, each file read as each split."""

    by_split: dict[str, list[Any]]
    tested: list[Sequence[Any]]  # of each file, read as test
    everything: list[Any]  # of each file and each reading that differs


def deal(sizes: Mapping[G, int], folds: int) -> dict[G, int]:
    """Return the fold of each group, from 1, by the groups' numbers of examples and their order: on
    all machines the same, and for all seeds. A fold has nearly as many examples as another.

    Groups of equal size come in an order that is random, but always the same; the largest group is
    dealt first, each to the fold that has fewest examples.

    >>> deal({"a": 5, "b": 3, "c": 3, "d": 1}, 3) == {"a": 1, "b": 2, "c": 3, "d": 2}
    True
    """
    shuffled = random.Random(0).sample(list(sizes), len(sizes))
    filled = [0] * folds
    fold_of: dict[G, int] = {}
    for group in sorted(shuffled, key=lambda group: -sizes[group]):
        lightest = filled.index(min(filled))
        filled[lightest] += sizes[group]
        fold_of[group] = lightest + 1
    return fold_of


def split_of_fold(
    files: Mapping[str, Path], chosen: Folds, own: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the examples of each split, and those of the whole corpus in every reading, which are
    the same whichever fold is test. `own` are those of each file, read as its own split.

    What is tested is read as test, and what trains as training, from whichever file it comes. An
    example stays with the others of its document, article, premise or text.

    Raises ValueError if there are fewer groups than folds, or if nothing is left to train on.
    """
    pool = _pool(files, chosen, own)
    level = _level(pool.tested)
    sizes = Counter(group_at(example, level) for example in pool.by_split["test"])
    if len(sizes) < chosen.folds:
        example = pool.by_split["test"][0]
        unit = getattr(example, "units", ("cluster",) * (level + 1))[level]
        raise ValueError(_too_few(chosen.folds, len(sizes), unit))
    fold_of = deal(sizes, chosen.folds)
    held_out = {"test": chosen.number, "dev": chosen.dev}
    by_split: dict[str, list[Any]] = {"train": []}
    for example in pool.by_split["train"]:
        if fold_of.get(group_at(example, level)) not in held_out.values():
            by_split["train"].append(example)
    for name in ("dev", "test"):
        of_fold = []
        for example in pool.by_split[name]:
            if fold_of.get(group_at(example, level)) == held_out[name]:
                of_fold.append(example)
        by_split[name] = of_fold
    for name, examples in by_split.items():
        if not examples:
            raise ValueError(
                f"data.folds={chosen.folds}: {name} has no examples if fold {chosen.number} is "
                "test; lower data.folds"
            )
    return by_split, pool.everything


def _too_few(folds: int, number: int, unit: str) -> str:
    """Return that there are fewer groups than folds, and what to do."""
    units = unit if number == 1 else f"{unit}s"
    advice = f"set data.folds={number} or lower" if number >= 3 else "leave data.folds out"
    return (
        f"data.folds={folds}, but the corpus has only {number} {units}, which stay whole: {advice}"
    )


def group_at(example: Any, level: int) -> tuple[str, ...]:
    """Return the largest unit that an example is part of, down to a level of its `group`."""
    return tuple(example.group[: level + 1])


def _pool(files: Mapping[str, Path], chosen: Folds, own: Mapping[str, Sequence[Any]]) -> Pool:
    """Read each file as each split, once for readers that are alike; a file that stands for two
    splits, such as SQuAD's dev, counts once.
    """
    distinct: dict[Path, str] = {}
    for name in SPLITS:
        if name in files:
            distinct.setdefault(files[name].resolve(), name)
    pool = Pool({name: [] for name in SPLITS}, [], [])
    for name in distinct.values():
        # By what a reader is: partial functions that are alike are not ==.
        readings: dict[str, Sequence[Any]] = {repr(chosen.read[name, name]): own[name]}
        for as_split in SPLITS:
            read = chosen.read[as_split, name]
            kind = repr(read)
            if kind not in readings:
                readings[kind] = list(read(files[name]))
            pool.by_split[as_split].extend(readings[kind])
        pool.tested.append(readings[repr(chosen.read["test", name])])
        for examples in readings.values():
            pool.everything.extend(examples)
    return pool


def _level(files: Sequence[Sequence[Any]]) -> int:
    """Return the level of `group` with the largest unit of which some file has several: a file
    whose only document is the whole file names no documents.
    """
    depth = 0
    for examples in files:
        for example in examples:
            depth = max(depth, len(example.group))
    for level in range(depth - 1):
        for examples in files:
            if len({group_at(example, level) for example in examples}) > 1:
                return level
    return max(depth - 1, 0)
