"""What every task's metric owes, on random annotation: fractions, whatever the order, and counts of
each example that add up to them.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics import Metric

from elmo_bench.metrics import Accuracy, SpanF1
from elmo_bench.runs import figure
from tasks.coref.metric import CorefScores
from tasks.squad.data import Answer
from tasks.squad.metric import AnswerScores, normalise
from tasks.srl.metric import ArgumentF1
from tasks.treebank.sentences import WordScores
from tests.tasks.clusterings import clusterings

one_of = st.sampled_from


# Gold annotation of one example, and a prediction that may be anything.


@st.composite
def chunks(draw, labels):
    """Chunks of a sentence and its length; two may touch, but the last word is in none."""
    spans, end = [], 0
    for label in draw(st.lists(one_of(labels), min_size=1, max_size=5)):
        start = end + draw(st.integers(0, 2))
        end = start + draw(st.integers(1, 3))
        spans.append((label, start, end))
    return spans, end + 1


def iob2(spans, length):
    """The tags of chunks, their ends exclusive (ours is checked by beartype, which draws random
    numbers: strategies may not).
    """
    tags = ["O"] * length
    for label, start, end in spans:
        tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return tags


@st.composite
def entities(draw):
    return iob2(*draw(chunks(["PER", "LOC"])))


@st.composite
def propositions(draw):
    """Arguments in the order of the text, V somewhere among them."""
    spans, length = draw(chunks(["A0", "A1", "C-A1", "R-A0"]))
    place = draw(st.integers(0, len(spans)))
    verb = spans[place][1] if place < len(spans) else length - 1
    moved = [(label, start + 1, end + 1) for label, start, end in spans[place:]]
    return iob2([*spans[:place], ("V", verb, verb + 1), *moved], length + 1)


@st.composite
def any_tags(draw, gold):
    labels = [*{tag[2:] for tag in gold} - {""}, "NEW"]
    tags = ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]
    return draw(st.lists(one_of(tags), min_size=len(gold), max_size=len(gold)))


words = st.lists(one_of(["the", "old", "mill", "1893", "U.S."]), min_size=1, max_size=4).map(
    " ".join
)
answers = st.lists(words.filter(normalise), min_size=1, max_size=3)


class Task(NamedTuple):
    metric: Callable[[list], Metric]
    headline: str
    gold: st.SearchStrategy
    anything: Callable[..., st.SearchStrategy]


def tag_metric(metric):
    return lambda golds: metric(sorted({tag for tags in golds for tag in tags}))


def classes(labels):
    """Accuracy over labels: SNLI, SST-5."""
    metric = lambda golds: Accuracy(labels)  # noqa: E731
    return Task(metric, "accuracy", one_of(labels), lambda gold: one_of(labels))


def cells(names, *columns):
    """The scores of words with a cell in each column."""
    word = st.tuples(*map(one_of, columns))
    metric = lambda golds: WordScores([], names=names)  # noqa: E731
    anything = lambda gold: st.lists(word, min_size=len(gold), max_size=len(gold))  # noqa: E731
    return Task(metric, names[-1], st.lists(word, min_size=1, max_size=5), anything)


TASKS = {
    "ner": Task(tag_metric(SpanF1), "f1", entities(), any_tags),
    "srl": Task(tag_metric(ArgumentF1), "f1", propositions(), any_tags),
    "coref": Task(lambda golds: CorefScores(), "f1", clusterings(), lambda gold: clusterings(0)),
    "squad": Task(
        lambda golds: AnswerScores(), "f1", answers, lambda gold: (words | st.just("")).map(Answer)
    ),
    "sst5": classes(list("01234")),
    "pos": cells(["accuracy"], ["NOUN", "VERB", "X"]),
    "parse": cells(["uas", "las"], "0123", ["root", "nsubj"]),
}


def figures(task, golds, predicted):
    metric = task.metric(golds)
    metric.update(predicted, golds)
    return {name: float(value) for name, value in metric.compute().items()}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_fractions_whatever_the_order_to_which_counts_of_examples_add_up(task, data):
    """Counts are equal for all examples at once or in parts, and sum to each figure."""
    golds = data.draw(st.lists(task.gold, max_size=4))
    predicted = [data.draw(task.anything(gold)) for gold in golds]
    found = figures(task, golds, predicted)
    assert all(0 <= value <= 1 for value in found.values())
    order = data.draw(st.permutations(range(len(golds))))
    again = figures(task, [golds[k] for k in order], [predicted[k] for k in order])
    assert again == pytest.approx(found, abs=1e-12)
    metric = task.metric(golds)
    counts = metric.by_example(predicted, golds)
    half = len(golds) // 2
    parts = slice(half), slice(half, None)
    shares = [metric.by_example(predicted[part], golds[part]) for part in parts]
    for name, rows in counts.items():
        assert torch.equal(torch.cat([share[name] for share in shares]), rows)
    sums = {name: float(figure(rows.sum(0).numpy())) for name, rows in counts.items()}
    assert task.headline in sums
    assert sums == pytest.approx({name: found[name] for name in sums}, abs=1e-12)
