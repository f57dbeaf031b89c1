"""The figures of seqeval beside conlleval's, which our metric computes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_bench.jobs.score import score
from elmo_bench.jobs.train import train
from elmo_bench.metrics import SpanF1
from elmo_bench.text import spans_to_bioul, tags_to_spans
from tasks.ner.seqeval import seqeval_scores
from tests.conftest import composed, result_of

TAGS = ["O", "B-A", "I-A", "B-C-D", "I-C-D"]  # a type may have a hyphen
SENTENCES = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def conlleval(predicted, gold):
    metric = SpanF1(["A", "C-D"])
    metric.update(predicted, gold)
    return {name: value.item() for name, value in metric.compute().items()}


def is_valid(tags):
    """Whether each I- goes on with its type."""
    pairs = itertools.pairwise(["O", *tags])
    return all(tag[0] != "I" or before[1:] == tag[1:] for before, tag in pairs)


@settings(deadline=None)  # scikit-learn is imported within
@given(SENTENCES)
def test_the_default_mode_is_conlleval_and_strict_differs_on_invalid_tags_alone(pairs):
    predicted, gold = ([[pair[side] for pair in each] for each in pairs] for side in (0, 1))
    scores, expected = seqeval_scores(predicted, gold), conlleval(predicted, gold)
    figures = {f"seqeval/{name}": value for name, value in expected.items()}
    assert {key: scores[key] for key in figures} == pytest.approx(figures, abs=1e-6)
    if all(map(is_valid, [*predicted, *gold])):
        strict = {f"seqeval_strict/{name}": value for name, value in expected.items()}
        assert {key: scores[key] for key in strict} == pytest.approx(strict, abs=1e-6)


def test_an_entity_without_its_beginning_is_none_in_strict_mode():
    scores = seqeval_scores([["O", "I-A", "O", "B-A"]], [["O", "B-A", "O", "B-A"]])
    assert (scores["seqeval/f1"], scores["seqeval_strict/recall"]) == (1, 0.5)
    assert (scores["seqeval/A/f1"], scores["seqeval_strict/A/recall"]) == (1, 0.5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predicted", [["O", "O"], ["B-A", "O"], ["I-A", "O"]])
@pytest.mark.parametrize("gold", [["O", "O"], ["O", "B-A"]])
def test_without_entities_it_is_silent(predicted, gold):
    scores = seqeval_scores([predicted], [gold])
    assert (scores["seqeval/f1"], scores["seqeval_strict/f1"]) == (0, 0)


def test_files(tmp_path):
    """`job=score` takes the predicted tags as they are; those of BIOES and the like as IOB2."""
    gold = [["B-A", "I-A", "O", "B-C"], ["B-C", "O"]]
    wrong = [["I-A", "I-A", "O", "B-C"], ["B-C", "O"]]
    bioul = [spans_to_bioul(tags_to_spans(tags), len(tags)) for tags in gold]
    scores = []
    for name, tags in (("gold", gold), ("wrong", wrong), ("bioul", bioul)):
        blocks = ["".join(f"w {tag}\n" for tag in sentence) for sentence in tags]
        (tmp_path / name).write_text("\n".join(blocks))
        files = [f"gold={tmp_path}/gold", f"predicted={tmp_path}/{name}"]
        figures = score(composed("job=score", "task=ner", *files))
        scores.append([figures[key] for key in ("f1", "seqeval/f1", "seqeval_strict/f1")])
    assert scores[0] == scores[2] == [1, 1, 1]
    assert scores[1] == [1, 1, pytest.approx(0.8)]


def test_a_run_has_them_and_prints_those_of_all_types(tiny_ner, capsys):
    metrics = train(cfg := tiny_ner())
    assert result_of(cfg.run_dir)["metrics"] == metrics
    for split in ("dev", "test"):
        ours = {name.removeprefix(f"{split}/"): value for name, value in metrics.items()}
        for name in ("precision", "recall", "f1", "PER/f1"):
            for mode in ("seqeval", "seqeval_strict"):
                assert ours.get(f"{mode}/{name}", 0) == pytest.approx(ours.get(name, 0), abs=1e-6)
    printed = capsys.readouterr().out
    assert "seqeval_strict" in printed
    assert "seqeval/" not in printed
