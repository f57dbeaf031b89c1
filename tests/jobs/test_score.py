"""The official metric on two files: the figures of the run that wrote them, and nothing but JSON on
standard output.
"""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from elmo_bench.config import build
from elmo_bench.jobs.score import score
from elmo_bench.jobs.train import train
from tests.conftest import composed

ROOT = Path(__file__).parents[2]


def scored(gold, predicted):
    return score(composed("job=score", "task=ner", f"gold={gold}", f"predicted={predicted}"))


def test_the_figures_of_the_run(tiny):
    cfg = tiny()
    metrics = train(cfg)
    gold = build.instantiate(cfg.data.files)["test"]
    figures = scored(gold, Path(cfg.run_dir, "predictions", "test.conll"))
    assert {f"test/{name}": value for name, value in figures.items()} == pytest.approx(
        {name: value for name, value in metrics.items() if name.startswith("test/")}, abs=1e-6
    )


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
    assert (figures["NEW/precision"], figures["NEW/recall"], figures["NEW/f1"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ("a O\n\nb O\n", "predicted.txt: 2 sentences, but the gold file has 1"),
        ("x O\nb O\n", "predicted.txt:1: the sentence 'x b', but .*gold.txt:1 has 'a b'"),
        ("a O\nb B\n", "predicted.txt:2: tag 'B', but a tag must be"),
    ],
)
def test_predictions_that_do_not_fit(tmp_path, predicted, message):
    with pytest.raises(ValueError, match=message):
        scored(*files(tmp_path, "a B-PER\nb O\n", predicted))


def test_standard_output_is_json_alone(tmp_path):
    gold, predicted = files(tmp_path, "a B-PER\nb O\n", "a B-PER B-PER\nb O O\n")
    command = [
        sys.executable,
        str(ROOT / "run.py"),
        "job=score",
        "task=ner",
        f"gold={gold}",
        f"predicted={predicted}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert json.loads(done.stdout)["f1"] == 1, done.stderr


GOLD = {
    "ner": "Ann I-PER\nslept O\n\nRain O\n",
    "srl": "".join(
        f"#begin document (nw/{name}); part 000\n{rows}\n#end document\n"
        for name, rows in (
            (
                "a",
                "nw/a 0 0 Ann NN * - - - - * (ARG0*) -\nnw/a 0 1 runs VB * run 01 - - * (V*) -\n",
            ),
            ("b", "nw/b 0 0 Rain NN * - - - - * -\n"),
        )
    ),
    "coref": "#begin document (nw/a); part 000\nnw/a 0 0 Ann (0)\nnw/a 0 1 and -\nnw/a 0 2 she "
    "(0)\n\n#end document\n",
    "squad": '{"data": [{"paragraphs": [{"context": "Ann ran", "qas": [{"id": "q", "question": '
    '"Who",'
    ' "answers": [{"text": "Ann", "answer_start": 0}]}]}]}]}',
    "snli": "".join(
        json.dumps({"gold_label": label, "sentence1": "Rain", "sentence2": "Snow"}) + "\n"
        for label in ("-", "neutral")
    ),
    "sst5": "(3 Bravo)\n",
}
PREDICTED = {  # as job=predict writes them
    "ner": [
        {"line": 1, "tokens": ["Ann", "slept"], "tags": ["B-PER", "O"]},
        {"line": 3, "tokens": ["Rain"], "tags": ["O"]},
    ],
    "srl": [{"line": 1, "tokens": ["Ann", "runs"], "predicate": [1], "tags": ["B-ARG0", "B-V"]}],
    "coref": [
        {
            "line": 1,
            "sentences": [["Ann", "and", "she"]],
            "clusters": [[[0, 0], [2, 2]]],
            "mentions": [["Ann", "she"]],
        }
    ],
    "squad": [{"line": 1, "id": "q", "answer": "Ann", "start": 0, "end": 3}],
    "snli": [
        {
            "line": k,
            "pairID": f"in.jsonl:{k}",
            "sentence1": ["Rain"],
            "sentence2": ["Snow"],
            "label": "neutral",
        }
        for k in (1, 2)
    ],
    "sst5": [{"line": 1, "tokens": ["Bravo"], "label": "3"}],
}


def write_records(tmp_path, task, records):
    (tmp_path / "gold").write_text(GOLD[task])
    (tmp_path / "predicted").write_text("".join(f"{json.dumps(record)}\n\n" for record in records))


@pytest.mark.parametrize("task", GOLD)
def test_what_predict_wrote(tmp_path, task):
    write_records(tmp_path, task, PREDICTED[task])
    files = [f"gold={tmp_path}/gold", f"predicted={tmp_path}/predicted"]
    figures = score(composed("job=score", f"task={task}", *files))
    assert {figures[name] for name in ("f1", "accuracy") if name in figures} == {1.0}


EMPTY = {
    "ner": "-DOCSTART- O\n",
    "srl": "#begin document (nw/a); part 000\n#end document\n",
    "coref": "\n",
    "squad": '{"data": []}',
    "snli": "\n",
    "sst5": "\n",
}


@pytest.mark.parametrize("task", EMPTY)
def test_a_gold_file_without_examples(tmp_path, task):
    write_records(tmp_path, task, PREDICTED[task])
    (tmp_path / "gold").write_text(EMPTY[task])
    files = [f"gold={tmp_path}/gold", f"predicted={tmp_path}/predicted"]
    cfg = composed("job=score", f"task={task}", *files)
    with pytest.raises(ValueError, match=f"^gold={tmp_path}/gold: the file has no examples"):
        score(cfg)


@pytest.mark.parametrize("task", GOLD)
@pytest.mark.parametrize("change", ["other words", "no answer", "fewer"])
def test_what_predict_wrote_of_something_else(tmp_path, task, change):
    records = [dict(record) for record in PREDICTED[task]]
    if change == "fewer":
        records = [*records, *records[:1]] if task != "snli" else records[:1]
    else:
        keys = (
            {"tokens", "sentences", "sentence1", "id"}
            if change == "other words"
            else {"tags", "clusters", "label", "answer"}
        )
        records[-1] |= dict.fromkeys(keys & records[-1].keys(), 7)
    write_records(tmp_path, task, records)
    files = import_module(f"tasks.{task}.data")
    with pytest.raises(ValueError, match=rf"^{tmp_path}/predicted"):
        files.read_predictions(tmp_path / "predicted", list(files.read(tmp_path / "gold")))
