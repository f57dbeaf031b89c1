import itertools
import json

import numpy as np
import pytest
import torch
from scipy import stats
from seqeval.metrics.sequence_labeling import get_entities
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from elmo_bench.metrics import BySplit, Classification, Correlations, Mean, SpanF1, labels
from elmo_bench.runs import figure
from elmo_bench.text import tags_to_spans


def test_golden(shared_fixtures):
    golden = json.loads((shared_fixtures / "derived" / "span_f1.json").read_text())
    sides = [case[side] for case in golden["cases"] for side in ("gold_spans", "pred_spans")]
    metric = SpanF1({label for spans in sides for label, _, _ in spans})
    for case in golden["cases"]:
        metric.update([case["pred"]], [case["gold"]])
    figures = metric.compute()
    micro = {name: figures[name].item() for name in golden["micro"]}
    assert micro == pytest.approx(golden["micro"], abs=1e-12)
    expected = [sum(case[key] for case in golden["cases"]) for key in ("tp", "n_pred", "n_gold")]
    assert metric.counts.sum(0).tolist() == expected


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


def measured(metric, predicted, gold):
    """The scores, in two updates; those of the counts of examples are the same."""
    for part in (slice(3), slice(3, None)):
        metric.update(predicted[part], gold[part])
    scores = {name: float(value) for name, value in metric.compute().items()}
    rows = metric.by_example(predicted, gold)
    sums = {name: float(figure(each.sum(0).numpy())) for name, each in rows.items()}
    assert sums == pytest.approx({name: scores[name] for name in rows}, abs=1e-12)
    return scores


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("count", [2, 3, 9])
def test_labels_agree_with_scikit_learn(count):
    """Some labels are rare, so that gold or predictions lack them, or all predictions are equal."""
    rng, names = np.random.default_rng(count), [f"l{k}" for k in range(count)]
    for size in rng.integers(4, 60, 40):
        gold = rng.choice(names, size, p=rng.dirichlet(np.full(count, 0.5))).tolist()
        draws = zip(rng.choice(names, size), gold, rng.random(size), strict=True)
        predicted = [other if share < 0.4 else true for other, true, share in draws]
        predicted = [names[1]] * size if size % 7 == 0 else predicted
        scores = measured(Classification(names, positive=names[1]), predicted, gold)
        options = {"average": None, "zero_division": 0}
        by_label = f1_score(gold, predicted, labels=names, **options)
        expected = {f"{name}/f1": f1 for name, f1 in zip(names, by_label, strict=True)} | {
            "accuracy": accuracy_score(gold, predicted),
            "macro_f1": f1_score(gold, predicted, labels=sorted({*gold}), average="macro"),
            "matthews": matthews_corrcoef(gold, predicted),
            "f1": by_label[1],
            "accuracy_f1": (accuracy_score(gold, predicted) + by_label[1]) / 2,
        }
        assert expected == pytest.approx({name: scores[name] for name in expected}, abs=1e-12)


def test_predicted_labels_that_gold_lacks():
    """`job=score` takes its labels from the files; a model's are those of training."""
    metric = Classification(["a", "b"])
    metric.update(["a", "c", "b"], ["a", "a", "b"])
    expected = matthews_corrcoef([0, 0, 1], [0, 2, 1])
    assert float(metric.compute()["matthews"]) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"task.metric.positive=yes, but the labels are a, b"):
        Classification(["a", "b"], positive="yes")


def test_many_labels_have_no_counts_of_each(monkeypatch):
    monkeypatch.setattr(labels, "CELLS", 7)
    assert [*Classification(["a", "b"]).by_example(["a"] * 3, ["a", "b", "b"])] == ["accuracy"]


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_numbers_agree_with_scipy(far):
    rng = np.random.default_rng(1)
    for size in rng.integers(4, 60, 40):
        gold = far + rng.integers(0, 6, size)  # with equal ones
        predicted = (gold + rng.normal(0, 2, size)).round(int(size) % 2)
        scores = measured(Correlations(), predicted.tolist(), gold.tolist())
        pearson, spearman = (f(gold, predicted)[0] for f in (stats.pearsonr, stats.spearmanr))
        both = {"pearson": pearson, "spearman": spearman}
        both["pearson_spearman"] = (pearson + spearman) / 2
        assert scores == pytest.approx(both, abs=1e-9)
        constant = measured(Correlations(), [0.1 + far / 3] * size, gold.tolist())
        assert {*constant.values()} == {0}


def test_a_module_in_16_bits_adds_up_as_exactly():
    """Whatever it was given before or after Lightning converts it."""
    module = torch.nn.Module()
    module.mean, module.metrics = Mean(), BySplit({"test": Correlations()})
    module.metrics["test"].update([0.1, 0.2], [0.3, 0.7])
    module.to(dtype=torch.bfloat16)
    assert module.metrics["test"].pairs[0].tolist() == [[0.1, 0.3], [0.2, 0.7]]
    for _ in range(1000):
        module.mean.update(torch.tensor(0.5), 1)
    assert module.mean.compute() == 0.5
