"""The labels of one corpus beside those of another."""

from functools import partial

import pytest
from omegaconf import OmegaConf

from elmo_bench.jobs.evaluate import renamed
from elmo_bench.text import Span, Vocab, label_map
from tasks.ner import data as ner
from tasks.snli import data as snli
from tasks.srl import data as srl
from tasks.sst5 import data as sst5


def test_a_class_that_is_not_named_stays_and_is_wrong():
    names = label_map({"0": "bad", "1": "bad", "4": "good"})
    assert [names.rename(label) for label in ("0", "1", "2", "4")] == ["0", "0", "2", "4"]


def test_a_label_has_one_image():
    with pytest.raises(
        ValueError,
        match=r"data.labels: ORG is mapped to \['firm', 'person'\], one of which is already",
    ):
        label_map({"PER": "person", "ORG": ["firm", "person"]})


def test_examples_by_a_models_labels():
    names = {"person": "PER", "A0": "ARG0", "yes": "entailment"}
    entity = ner.Example(("Ann", "in", "Rome"), (Span("person", 0, 0), Span("place", 2, 2)), "here")
    assert ner.relabel(entity, names).gold == ["B-PER", "O", "O"]
    argument = srl.Example(
        ("Ann", "ran", "home"),
        (1,),
        "run",
        (Span("A0", 0, 0), Span("V", 1, 1), Span("A4", 2, 2)),
        "here",
    )
    complete = label_map(srl.complete_labels({"ARG0": "A0"}))
    assert srl.relabel(argument, complete.gold).gold == ["B-ARG0", "B-V", "O"]
    continued = ["B-ARG0", "B-V", "B-C-ARG0", "B-C-V", "B-ARG4", "B-R-ARG0"]
    assert complete.rename(continued) == ["B-ARG0", "B-V", "B-C-ARG0", "B-C-V", "O", "B-R-ARG0"]
    pairs = [snli.Example(("a",), ("b",), label, "1", "here") for label in ("yes", "no")]
    assert [same and same.gold for same in (snli.relabel(pair, names) for pair in pairs)] == [
        "entailment",
        None,
    ]


@pytest.mark.parametrize(
    ("labels", "classes", "gold"),
    [
        ({0: "negative", 1: "negative", 2: "neutral", 3: ["positive"], 4: "positive"}, 3, "023"),
        ({0: 0, 2: [2], 4: 4}, 5, "024"),
    ],
)
def test_labels_that_the_command_line_reads_as_numbers(tmp_path, labels, classes, gold):
    (tmp_path / "trees.txt").write_text("(0 Bad)\n(2 So)\n(4 Good)\n")
    task = {"name": "sst5", "data": "tasks.sst5.data"}
    cfg = OmegaConf.create({"task": task, "data": {"labels": labels}})
    read = partial(sst5.read, classes=classes)
    read, rename = renamed(cfg, Vocab([], list("01234")), read)
    assert [example.gold for example in read(tmp_path / "trees.txt")] == list(gold)
    assert [rename(label) for label in "024"] == list(gold)
