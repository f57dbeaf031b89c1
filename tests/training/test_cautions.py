"""Sentences on data and predictions whose scores do not mean what they seem to."""

import logging
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from torchmetrics import SumMetric

from elmo_bench.encoders import Encoder, Misread
from elmo_bench.metrics import Accuracy, Classification, Correlations, SpanF1
from elmo_bench.training.cautions import (
    Caution,
    of_clusters,
    of_encoder,
    of_examples,
    of_predictions,
    of_vectors,
    tell,
)
from tasks.coref.metric import CorefScores
from tasks.srl.metric import ArgumentF1
from tasks.treebank.sentences import WordScores

METRICS = {
    "labels": Classification(["no", "yes"]),
    "words": WordScores([], names=["accuracy"]),
    "numbers": Correlations(),
    "spans": SpanF1(["B-PER"]),
    "arguments": ArgumentF1(["B-A0"]),
    "clusters": CorefScores(),
    "a user's": SumMetric(),
}


def examples(gold, **more):
    """Examples of as many documents."""
    usual = {"sentences": [], "labels": [], "source": "", "units": ("document",)} | more
    pairs = enumerate(gold)
    return [SimpleNamespace(gold=one, group=(str(number),), **usual) for number, one in pairs]


def texts(cautions):
    return [caution.text for caution in cautions]


@pytest.mark.parametrize(
    ("kind", "one", "training", "test"),
    [
        ("labels", "yes", "training has only the label yes", "test has only the label yes: whoever always says yes is always right; test has no example of label no: scores"),
        ("words", [("NOUN",), ("NOUN",)], "training has only the label NOUN", "whoever always says NOUN"),
        ("numbers", 3.5, "the right number is 3.5 in all examples of training", "of test: no correlation is defined, and 0.00 stands"),
        ("spans", ["O", "O"], "training has no chunk", "test has no chunk: its F1 is 0.00"),
        ("arguments", ["B-V", "O"], "training has no argument", "test has no argument"),
        ("clusters", [], "training has no cluster", "test has no cluster"),
    ],
)  # fmt: skip
def test_gold_of_one_kind(kind, one, training, test):
    splits = {split: examples([one] * 10) for split in ("train", "test")}
    said = texts(of_examples(METRICS[kind], splits))
    assert len(said) == 2
    assert said[0].startswith(training)
    assert said[0].endswith("is the right column read?")
    assert test in said[1]


GOOD = {
    "labels": ["yes", "no"],
    "words": [[("NOUN",), ("VERB",)]],
    "numbers": [3.5, 3.0],
    "spans": [["B-PER", "O"], ["O"]],
    "arguments": [["B-V", "B-A0"]],
    "clusters": [[[(0, 0), (1, 1)]], []],
    "a user's": ["x"],
}


@pytest.mark.parametrize("kind", GOOD)
def test_nothing_is_said_of_what_has_meaning(kind):
    gold = examples(GOOD[kind] * 10)
    splits = dict.fromkeys(("train", "dev", "test"), gold)
    assert texts(of_examples(METRICS[kind], splits)) == []
    right = [each.gold for each in gold]
    assert texts(of_predictions(METRICS[kind], "test", gold, right)) == []


def test_a_type_that_a_task_finds_alone_is_no_single_label():
    only = examples([["B-PER"]] * 10)
    assert texts(of_examples(METRICS["spans"], {"train": only, "test": only})) == []


def test_labels_that_a_split_lacks():
    """Macro F1 leaves out a label without an example, so it may be 100 beside an F1 of 0."""
    labels = "abcdef"
    dev = examples([*"ab"] * 5)
    for metric in (Classification(labels), Accuracy(labels)):
        (said,) = texts(of_examples(metric, {"train": examples([*labels]), "dev": dev}))
        assert said.startswith("dev has no example of label c, d, e and 1 more: scores of such")


def test_few_clusters_are_told_but_are_no_warning():
    few = examples(["yes", "no"])
    cautions = [*of_clusters({"train": few, "dev": few, "test": few})]
    said = "test has 2 documents only: intervals and p rest on so few"
    assert cautions == [Caution("test", said, logging.INFO)]
    assert tell(cautions) == {}
    assert [*of_clusters({"train": few, "dev": examples(["yes"] * 10)})] == []


@pytest.mark.parametrize(
    ("kind", "gold", "predicted", "said"),
    [
        ("labels", ["no"] * 13 + ["yes"] * 12, "yes", "always yes is predicted on dev; the most frequent label there, no, has 52.0 %"),
        ("labels", ["no"] * 13 + ["yes"] * 12, "no", "always no is predicted on dev; the most frequent label there has 52.0 %"),
        ("words", GOOD["words"], [("VERB",), ("VERB",)], "always VERB is predicted on dev; the most frequent label there, NOUN, has 50.0 %"),
        ("numbers", GOOD["numbers"], 0.25, "0.25 is predicted for all examples of dev: no correlation is defined, and 0.00 stands for it"),
        ("spans", [["B-PER", "O"], ["O", "B-PER"]], ["O", "O"], "no entity is predicted on dev, which has 2"),
        ("arguments", GOOD["arguments"], ["B-V", "O"], "no entity is predicted on dev, which has 1"),
        ("clusters", GOOD["clusters"], [], "no entity is predicted on dev, which has 1"),
    ],
)  # fmt: skip
def test_one_prediction_for_all(kind, gold, predicted, said):
    """Metrics say what is sought, unless the examples do."""
    found = [*of_predictions(METRICS[kind], "dev", examples(gold, sought="entity"), [predicted] * len(gold))]  # fmt: skip
    assert found == [Caution("dev/predicted", said)]


def test_who_always_says_the_only_label_is_right():
    gold = examples(["yes"] * 3)
    assert texts(of_predictions(METRICS["labels"], "dev", gold, ["yes"] * 3)) == []


WORDS = Counter({"aa": 5, "b": 3, "C": 1, "d": 1})


@pytest.mark.parametrize(
    ("lacking", "most", "level", "share"),
    [(["b"], 0.5, "INFO", "25.0 %), such as 'b'"), (["d", "aa"], 0.5, "WARNING", "50.0 %), such as 'aa', 'd'"), (["d"], 0.05, "WARNING", "25.0 %), such as 'd'")],
)  # fmt: skip
def test_words_that_an_encoder_cannot_read(caplog, lacking, most, level, share):
    caplog.set_level("INFO")
    encoder = SimpleNamespace(misread=lambda words: Misread("no vector for", lacking, most))
    kept = tell(of_encoder("static", encoder, WORDS))
    said = f"encoder=static: no vector for {len(lacking)} of 4 word types of the corpus ({share}"
    kept_text = said.partition(", such as")[0]
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [(level, said)]
    # A result and its archive have no texts of the corpus.
    assert kept == ({"encoder": kept_text} if level == "WARNING" else {})


def test_an_encoder_that_reads_all():
    encoder = SimpleNamespace(misread=lambda words: Misread("no vector for", []))
    assert [*of_encoder("static", encoder, WORDS)] == []
    of_a_user = SimpleNamespace(misread=partial(Encoder.misread, None))  # what it inherits
    assert [*of_encoder("mine", of_a_user, WORDS)] == []


@pytest.mark.parametrize(("lowercase", "lacking"), [(True, "2"), ("fallback", "2"), (False, "3")])
def test_vectors_are_looked_up_as_the_model_does(lowercase, lacking):
    caution = of_vectors({"aa": 0, "c": 0}, lowercase, WORDS)
    assert caution.text.startswith(f"vocab.vectors: no vector for {lacking} of 4 word types")
    assert caution.level == logging.WARNING
    every = of_vectors(dict.fromkeys(WORDS), False, WORDS)
    assert every.text == "vocab.vectors: no vector for 0 of 4 word types of the corpus (0.0 %)"
    assert every.level == logging.INFO
