import itertools
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch.distributed as dist

from elmo_bench.elmo import Elmo
from elmo_bench.nn import Backbone, Embed, Identity
from elmo_bench.text import Vocab
from elmo_bench.training.batches import LengthBatches
from elmo_bench.training.data import Examples, TaskData


@dataclass(frozen=True)
class Sentence:
    words: tuple
    labels: tuple = ("O",)
    source: str = "file:1"
    gold: tuple = ("O",)
    document: str = ""

    @property
    def sentences(self):
        return [self.words]

    @property
    def group(self):
        return (self.document or self.words[0],)


class Batch(NamedTuple):
    examples: list


class Nothing(Embed):
    """No x_k."""

    dim = 0


def collate(examples, vocab):
    return Batch(list(examples))


def read(splits, **settings):
    files = {split: Path(split) for split in splits}
    reads = dict.fromkeys(("train", "dev", "test"), lambda path: iter(splits[path.name]))
    return Examples(files, read=reads, **settings)


def data(splits, **settings):
    backbone = Backbone(Nothing(), Elmo(None), Identity)
    vocab = Vocab([], [])
    return TaskData(splits, vocab, backbone, collate=collate, batch_size=2, **settings)


def splits(train=8):
    return {
        "train": [Sentence((str(k),)) for k in range(train)],
        "dev": [Sentence(("a",))],
        "test": [Sentence(("b",))],
    }


def test_few_examples_to_learn_by_heart():
    found = read(splits(), overfit=3)
    assert found.by_split.keys() == {"train", "dev"}
    assert len({*found.by_split["train"]}) == 3
    assert {*found.by_split["dev"]} == {*found.by_split["train"]}
    assert len(found.all_sentences) == 6


def test_every_example_once_and_like_lengths_together():
    lengths = [5, 50, 6, 51, 5, 49, 6, 5]
    batches = list(LengthBatches(lengths, 2, shuffle_seed=1))
    assert sorted(itertools.chain(*batches)) == list(range(8))
    scored = list(LengthBatches(lengths, 2))
    inside = [[lengths[k] for k in batch] for batch in scored]
    assert sorted(inside) == [[5, 5], [5, 6], [6, 49], [50, 51]]
    assert inside != sorted(inside)  # the first ones, of a limit, are not the shortest


def test_order_follows_from_the_seed_and_changes_by_epoch():
    one, same, other = (LengthBatches(list(range(40)), 4, shuffle_seed=seed) for seed in (1, 1, 2))
    first = list(one)
    assert first == list(same)
    assert first != list(one)  # its second epoch
    assert list(same) != list(other)


@pytest.mark.parametrize("seed", [None, 1])
def test_long_examples_are_few_in_a_batch(seed):
    """One sentence of 5,000 words beside 63 of ten is not 64 times 5,000."""
    lengths = [5000, 100, 90, 40, *[10] * 63]
    sampler = LengthBatches(lengths, 64, batch_tokens=700, batch_scores=20_000, shuffle_seed=seed)
    for _ in range(5):
        batches = list(sampler)
        assert sorted(itertools.chain(*batches)) == list(range(67))
        assert len(batches) == len(sampler)  # the same in each epoch
        assert [0] in batches  # more than a batch may hold: by itself
        for batch in batches:
            longest = max(lengths[k] for k in batch)
            assert len(batch) == 1 or (
                len(batch) * longest <= 700 and len(batch) * longest**2 <= 20_000
            )
        assert max(map(len, batches)) > 50


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_loader_with_workers_reads_the_same_batches(num_workers):
    train = [Sentence(("a",) * k) for k in range(1, 9)]
    loaded = data(splits() | {"train": train}, num_workers=num_workers)
    lengths = [len(example.words) for example in loaded.examples["train"]]
    sampler, loader = LengthBatches(lengths, 2, shuffle_seed=0), loaded.train_dataloader()
    for _ in range(2):
        assert [numbered.numbers for numbered in loader] == list(sampler)


def test_going_on_within_an_epoch():
    straight, resumed = (
        LengthBatches(range(1, 41), 4, shuffle_seed=1),
        LengthBatches(range(1, 41), 4, shuffle_seed=1, start=(1, 7)),
    )
    _, second, third = (list(straight) for _ in range(3))
    assert list(resumed) == second[7:]
    assert len(resumed) == len(second)
    assert list(resumed) == third


@pytest.mark.parametrize("count", [1, 7, 8, 13])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_processes_share_the_batches(count, world):
    def ranks(seed):
        for rank in range(world):
            sampler = LengthBatches(list(range(count)), 2, shuffle_seed=seed)
            sampler.rank, sampler.world = rank, world
            assert len(sampler) == len(list(sampler))
            sampler.epoch = 0
            yield list(sampler)

    steps = {len(batches) for batches in ranks(3)}
    assert len(steps) == 1  # training: the same number everywhere
    assert set(itertools.chain(*itertools.chain(*ranks(3)))) == set(range(count))
    evaluated = Counter(itertools.chain(*itertools.chain(*ranks(None))))
    assert evaluated == Counter(range(count))  # evaluation: each once


def test_every_process_has_something_to_measure(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    shares = []
    for rank in range(2):
        monkeypatch.setattr(dist, "get_rank", lambda rank=rank: rank)
        shares.append([number for batch in LengthBatches([3, 1, 2], 512) for number in batch])
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == [0, 1, 2]
    few = data(splits())
    few.trainer = SimpleNamespace(world_size=2)
    with pytest.raises(ValueError, match=r"1 dev examples are too few for 2 processes: lower "):
        few.setup("fit")


def test_fraction():
    half, again, other = (
        read(splits(), fraction=0.5, seed=seed).by_split["train"] for seed in (1, 1, 2)
    )
    assert len(half) == 4
    assert half == again
    assert half != other
    assert len(read(splits(), fraction=0.001).by_split["train"]) == 1


def test_a_part_of_training_may_be_dev():
    """Whole groups, the same ones for every seed; not where there is a dev file."""
    given = splits() | {"train": [Sentence((str(k),), document=str(k // 2)) for k in range(20)]}
    files = {split: given[split] for split in ("train", "test")}
    one, two = (read(files, held_out=0.3, seed=seed) for seed in (1, 2))
    held, kept = ({*one.by_split[split]} for split in ("dev", "train"))
    assert (len(held), held | kept) == (6, {*given["train"]})
    assert not {example.group for example in held} & {example.group for example in kept}
    assert held == {*two.by_split["dev"]}
    assert len(read(files, held_out=0.3, fraction=0.5).by_split["dev"]) == 6
    assert read(given, held_out=0.3).by_split["dev"] == given["dev"]
    few = read(files, held_out=0.3, overfit=2).by_split
    assert {*few["dev"]} == {*few["train"]}
    one_group = {"train": [Sentence((str(k),), document="0") for k in range(3)]}
    with pytest.raises(ValueError, match=r"^data.held_out=0.3: no training example is left"):
        read(one_group, held_out=0.3)


def test_fraction_draws_whole_groups():
    """A tenth of the trees is all their phrases, and not a tenth of the phrases of most trees."""
    phrases = [Sentence((str(k),), document=str(k // 10)) for k in range(200)]
    train = read(splits() | {"train": phrases}, fraction=0.1).by_split["train"]
    assert len(train) == 20
    assert len({example.document for example in train}) == 2


def test_all_examples_come_in_the_order_of_the_seed():
    """As they did before there were groups: no figure of fraction=1 moved."""
    train = splits()["train"]
    assert read(splits(), seed=5).by_split["train"] == random.Random(5).sample(train, len(train))


def test_labels_that_training_lacks():
    wrong = splits() | {"dev": [Sentence(("a",), ("O", "B-NEW"), "dev.txt:17")]}
    said = r"dev.txt:17: labels NEW of the dev file do not occur in the training file"
    with pytest.raises(ValueError, match=said):
        read(wrong)
    several = [Sentence(("a",), ("O", f"B-{label}"), f"dev.txt:{label}") for label in "ZAT"]
    with pytest.raises(ValueError, match=r"^dev.txt:Z: labels A, T and Z of the dev file"):
        read(splits() | {"dev": several})
    only_a_tag = splits() | {"dev": [Sentence(("a",), ("O", "U-O"), "dev.txt:17")]}
    with pytest.raises(ValueError, match=r"labels U-O of the dev file"):
        read(only_a_tag)


def test_a_split_without_examples():
    for split in ("train", "test"):
        with pytest.raises(ValueError, match=f"^{split}: the {split} file has no examples"):
            read(splits() | {split: []}, overfit=2)
