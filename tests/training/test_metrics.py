import itertools
import json

import pytest
import torch
from seqeval.metrics.sequence_labeling import get_entities

from elmo_bench.text import tags_to_spans
from elmo_bench.training.metrics import Mean, SpanF1


def test_golden(fixtures):
    golden = json.loads((fixtures / "derived" / "span_f1.json").read_text())
    types = {
        label
        for case in golden["cases"]
        for side in ("gold_spans", "pred_spans")
        for label, _, _ in case[side]
    }
    metric = SpanF1(types)
    for case in golden["cases"]:
        metric.update([case["pred"]], [case["gold"]])
    figures = metric.compute()
    assert {name: figures[name].item() for name in golden["micro"]} == pytest.approx(
        golden["micro"], abs=1e-12
    )
    assert metric.counts.sum(0).tolist() == [
        sum(case[key] for case in golden["cases"]) for key in ("tp", "n_pred", "n_gold")
    ]


def test_by_type():
    metric = SpanF1(["O", "B-PER", "B-LOC"])
    metric.update([["B-PER", "I-PER", "B-LOC"]], [["B-PER", "I-PER", "O"]])
    figures = {name: value.item() for name, value in metric.compute().items()}
    assert figures["PER/f1"] == 1
    assert figures["LOC/precision"] == 0
    assert (figures["precision"], figures["recall"]) == (0.5, 1)
    assert figures["f1"] == pytest.approx(2 / 3)


def test_types_that_are_neither_in_gold_nor_predicted_are_not_listed():
    """Conlleval lists those that are in either. Without any, the figures are 0."""
    metric = SpanF1(["PER", "LOC", "ORG", "MISC"])
    metric.update([["O"]], [["O"]])
    assert {name: value.item() for name, value in metric.compute().items() if "/" in name} == {}
    assert metric.compute()["f1"] == 0
    metric.update([["B-PER", "B-LOC"]], [["B-PER", "B-ORG"]])
    listed = {name.partition("/")[0] for name in metric.compute() if "/" in name}
    assert listed == {"PER", "LOC", "ORG"}


def test_own_chunks_agree_with_seqeval():
    """Our conlleval rules, which readers use, against seqeval's, on every sequence of four tags."""
    for tags in itertools.product(["O", "B-A", "I-A", "B-B", "I-B"], repeat=4):
        assert [tuple(span) for span in tags_to_spans(tags)] == get_entities(list(tags))


def test_a_mean_is_over_items_and_not_over_batches():
    mean = Mean(2)
    for sums, count in (([1.0, 2.0], 1), ([5.0, 0.0], 2)):
        mean.update(torch.tensor(sums), count)
    assert mean.compute().tolist() == [2.0, pytest.approx(2 / 3)]
    mean.reset()
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert mean.compute().tolist() == [0, 0]
