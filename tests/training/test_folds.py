"""Folds are dealt by group, the same for all seeds, and each example is tested once."""

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from elmo_bench.training.data import Examples
from elmo_bench.training.folds import Folds, deal
from tests.training.test_data import Sentence

SPLITS = ("train", "dev", "test")


def corpus(sizes, documents=True):
    """Files of so many sentences, in documents of three."""
    files = {}
    for split, size in sizes.items():
        sentences = []
        for number in range(size):
            document = f"{split} {number // 3}" if documents else ""
            sentences.append(Sentence((f"{split}{number}",), document=document))
        files[split] = sentences
    return files


def read(files, number, folds=5, paths=None, **settings):
    """The examples if a fold is test."""
    paths = paths or {split: Path(split) for split in files}
    readers = dict.fromkeys(SPLITS, lambda path: iter(files[path.name]))
    read_as = {(split, file): readers[file] for split in SPLITS for file in SPLITS}
    chosen = Folds(number, folds, read_as)
    return Examples(paths, read=readers, folds=chosen, **settings)


@pytest.mark.parametrize("sizes", [{"train": 60, "dev": 9, "test": 21}, {"train": 47}])
@pytest.mark.parametrize("documents", [True, False])
def test_every_example_is_tested_once(sizes, documents):
    files = corpus(sizes, documents)
    everything = Counter()
    for part in files.values():
        everything.update(part)
    tested = Counter()
    for number in range(1, 6):
        by_split = read(files, number, seed=number).by_split
        tested.update(by_split["test"])
        groups = [{example.group for example in by_split[split]} for split in SPLITS]
        assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
        assert sum(map(len, by_split.values())) == everything.total()
        following = read(files, number % 5 + 1).by_split
        assert by_split["dev"] == following["test"]  # the next fold is dev
    assert tested == everything


def test_the_deal_is_balanced_and_no_seeds():
    rng = random.Random(1)
    sizes = {str(number): rng.randint(1, 12) for number in range(80)}
    fold_of = deal(sizes, 10)
    filled = Counter()
    for group, fold in fold_of.items():
        filled[fold] += sizes[group]
    assert {*filled} == {*range(1, 11)}
    assert max(filled.values()) - min(filled.values()) <= 1
    random.seed(7)
    assert deal(sizes, 10) == fold_of
    files = corpus({"train": 60, "test": 21})
    one, two = (read(files, 2, seed=seed).by_split for seed in (1, 9))
    assert (one["dev"], one["test"]) == (two["dev"], two["test"])
    assert {*one["train"]} == {*two["train"]}
    assert one["train"] != two["train"]  # which the seed orders


def test_one_store_serves_all_folds():
    files = corpus({"train": 30, "test": 9})
    one, two = (read(files, number, fraction=0.5).all_sentences for number in (1, 2))
    assert sorted(one) == sorted(two)
    assert len(one) == 39


def test_a_file_that_is_dev_and_test_counts_once():
    """SQuAD's test set is hidden."""
    files = corpus({"train": 30, "dev": 9})
    paths = {"train": Path("train"), "dev": Path("dev"), "test": Path("dev")}
    assert sum(map(len, read(files, 1, paths=paths).by_split.values())) == 39


def phrases(path, *, min_tokens=0):
    """Two phrases of each tree, or with `min_tokens` more; no phrase of the last tree is long."""
    for number in range(20):
        for phrase in range(5 if min_tokens and number < 19 else int(not min_tokens)):
            yield Sentence((f"{number}/{phrase}",), document=str(number))


def test_what_is_tested_is_read_as_test():
    """Trees of training have phrases; a tree that is tested is one sentence."""
    readers = {"train": partial(phrases, min_tokens=4), "dev": phrases, "test": phrases}
    read_as = {(split, file): readers[split] for split in SPLITS for file in SPLITS}
    tested = 0
    for number in range(1, 6):
        folds = Folds(number, 5, read_as)
        by_split = Examples({"train": Path("x")}, read=readers, folds=folds).by_split
        held = {example.group for split in ("dev", "test") for example in by_split[split]}
        assert not held & {example.group for example in by_split["train"]}
        assert Counter(map(len, (by_split["dev"], by_split["test"]))) == {4: 2}
        assert len(by_split["train"]) in (55, 60)
        tested += len(by_split["test"])
    assert tested == 20


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"train": 9, "dev": 3}, "data.folds=5, but the corpus has only 4 clusters, which stay whole: set data.folds=4 or lower"),
        ({"train": 6}, "only 2 clusters, which stay whole: leave data.folds out"),
    ],
)  # fmt: skip
def test_too_few_documents(sizes, said):
    with pytest.raises(ValueError, match=said):
        read(corpus(sizes), 1)


def test_labels_are_those_of_the_training_file():
    """So models of all folds have the same, and a wrong file is found whichever fold is test."""
    files = corpus({"train": 30, "test": 9})
    files["train"][0] = Sentence(("train0",), ("O", "B-RARE"), document="train 0")
    labels = [read(files, number).labels for number in range(1, 6)]
    assert labels == [["B-RARE", "O"]] * 5
    files["test"][0] = Sentence(("test0",), ("B-WRONG",), "test.txt:1", document="test 0")
    for number in range(1, 6):
        with pytest.raises(ValueError, match=r"^test.txt:1: labels WRONG of the test file"):
            read(files, number)
