"""The official metric on two files, and nothing but JSON on standard output.
`tests/tasks/test_classify.py` has the figures of the run that wrote them.
"""

import json

import pytest

from elmo_bench.jobs.score import score
from tests.commands import run
from tests.conftest import composed


def scored(gold, predicted):
    return score(composed("job=score", "task=ner", f"gold={gold}", f"predicted={predicted}"))


def files(tmp_path, gold, predicted):
    (tmp_path / "gold.txt").write_text(gold)
    (tmp_path / "predicted.txt").write_text(predicted)
    return tmp_path / "gold.txt", tmp_path / "predicted.txt"


def test_a_task_that_reads_no_predictions_is_told_so(tmp_path, monkeypatch):
    """`read_predictions` is one of the functions that a task of one's own may lack."""
    monkeypatch.delattr("tasks.ner.data.read_predictions")
    said = "tasks.ner.data has no function read_predictions, which job=score requires"
    with pytest.raises(ValueError, match=said):
        scored(*files(tmp_path, "a B-PER\n", "a B-PER B-PER\n"))


def test_a_type_that_gold_does_not_know(tmp_path):
    figures = scored(*files(tmp_path, "a B-PER\nb O\n", "a B-PER B-PER\nb O B-NEW\n"))
    assert (figures["precision"], figures["recall"]) == (0.5, 1)
    assert "NEW/f1" not in figures


def test_standard_output_is_json_alone(tmp_path):
    gold, predicted = files(tmp_path, "a B-PER\nb O\n", "a B-PER B-PER\nb O O\n")
    done = run("job=score", "task=ner", f"gold={gold}", f"predicted={predicted}")
    assert json.loads(done.stdout)["f1"] == 1, done.stderr


def test_nothing_found_is_said_beside_the_zeros(tmp_path, caplog):
    figures = scored(*files(tmp_path, "a B-PER\nb O\n", "a B-PER O\nb O O\n"))
    assert figures["f1"] == 0
    assert "no entity is predicted on gold, which has 1" in caplog.text


EMPTY = {
    "ner": "-DOCSTART- O\n",
    "srl": "#begin document (nw/a); part 000\n#end document\n",
    "coref": "\n",
    "squad": '{"data": []}',
    "snli": "\n",
    "sst5": "\n",
    "parse": "# newdoc\n",
}


@pytest.mark.parametrize("task", EMPTY)
def test_a_gold_file_without_examples(tmp_path, task):
    (tmp_path / "gold").write_text(EMPTY[task])
    files = [f"gold={tmp_path}/gold", f"predicted={tmp_path}/predicted"]
    cfg = composed("job=score", f"task={task}", *files)
    with pytest.raises(ValueError, match=f"^gold={tmp_path}/gold: the file has no examples"):
        score(cfg)
