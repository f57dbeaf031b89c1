"""Two runs beside each other: made-up ones of every task, wrong at known examples."""

import re
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from rich.console import Console

from elmo_bench import build
from elmo_bench.build.task_format import reader, task_format
from elmo_bench.jobs.diff import diff, prepare
from elmo_bench.metrics import Classification
from elmo_bench.report import difference
from elmo_bench.runs import as_baseline, begin, is_baseline, number_of, read_run, write_result
from elmo_bench.sample import files as sample
from tasks.squad.data import Answer
from tests import conftest
from tests.runs.made_runs import change

TASKS = ("ner", "coref", "squad", "sst5", "parse")  # tags, clusters, texts, classes, cells


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("sample")


compose = cache(conftest.composed)


def composed(*overrides, **settings):
    return OmegaConf.merge(compose(*overrides), settings)


def wrong(answer):
    """Another answer of the same kind."""
    if isinstance(answer, Answer):
        return Answer("nonsense")
    if isinstance(answer, str):
        return "2" if answer == "1" else "1"
    if answer and isinstance(answer[0][0], str) and isinstance(answer[0], tuple):
        return [("9", "new")] * len(answer)
    if answer and isinstance(answer[0], str):
        return ["B-NEW" if tag == "O" else "O" for tag in answer]
    return []


@pytest.fixture
def made(tmp_path, root):
    """A run as job=train leaves it, wrong at some examples: its folder."""

    def made(name, errors, *overrides, task="ner"):
        where = {"cache_dir": str(root), "run_dir": str(tmp_path / name)}
        cfg = composed(f"task={task}", "data.size=8", *overrides, **where)
        if is_baseline(cfg):
            as_baseline(cfg)
        file = sample(task=task, root=root, size=8)["test"]
        examples = list(reader(cfg, "test")(file))
        answers = [Answer(e.gold[0]) if task == "squad" else e.gold for e in examples]
        for number in errors:
            answers[number] = wrong(answers[number])
        begin(cfg, {"data.test": file})
        folder = Path(cfg.run_dir)
        (folder / "predictions").mkdir()
        task_format(cfg).write(examples, answers, folder / f"predictions/test{cfg.task.suffix}")
        labels = [*{label for example in examples for label in example.labels}, "B-NEW"]
        gold = [example.gold for example in examples]
        metric = build.metric(cfg, labels)
        arrays = {key: value.numpy() for key, value in metric.by_example(answers, gold).items()}
        arrays["groups"] = np.arange(len(examples))
        arrays["sentences"] = np.array([number_of(e.sentences) for e in examples], dtype=np.uint64)
        (folder / "counts").mkdir()
        np.savez(folder / "counts" / "test.npz", **arrays)
        metric.update(answers, gold)
        metrics = {f"test/{key}": float(value) for key, value in metric.compute().items()}
        write_result(cfg, conftest.COSTS | {"metrics": metrics}, {"data": "sample"})
        return folder

    return made


def compared(a, b, root, *overrides, **settings):
    """What job=diff shows."""
    where = {"a": str(a), "b": str(b), "cache_dir": str(root)}
    return prepare(composed("job=diff", *overrides, **where | settings))


@pytest.mark.parametrize("task", TASKS)
def test_the_examples_that_one_has_right(made, root, task):
    """Each is wrong at one, and the words, gold and both answers stand beside."""
    found = compared(made("a", [0], task=task), made("b", [1], task=task), root)
    a, b = found.scores
    assert [a[:3].tolist(), b[:3].tolist()] == [[0, 1, 1], [1, 0, 1]]
    size = len(a)
    assert f"A better: 1, B better: 1, equal: {size - 2} (both" in difference.lines(found)[2]
    (first, second) = sorted(difference.examples(found).rows, key=lambda row: row[5])
    assert [first[5:], second[5:]] == [["0.00", "100.00"], ["100.00", "0.00"]]
    for text, (right, other) in zip(found.texts[:2], ((4, 3), (3, 4)), strict=True):
        _, words, gold = text[:3]
        assert {*text[right].split("; ")} <= {*gold.split("; ")}  # SQuAD has several that are right
        assert text[right] != text[other]
        assert words
    assert found.note == ""


def test_a_label_that_gold_lacks():
    """By Matthews' correlation, who predicts it is wrong, and no more."""
    rows = Classification(["a", "b"]).by_example(["a", "b"], ["a", "a"])["matthews"]
    assert difference.scores(rows.numpy()).tolist() == [1, 0]


def test_settings_and_figures(made, root, capsys):
    """What does nothing in a run is not shown as its setting."""
    a = made("a", [0], "encoder=none", "elmo.l2=0.5")
    b = made("b", [0, 1], "seed=2", "elmo.l2=0.7", "num_workers=1")
    found = compared(a, b, root)
    settings = {key: texts for key, *texts in difference.settings(found.runs).rows}
    assert settings["encoder.name"] == ["none", "mini"]
    assert settings["elmo.l2"] == ["-", "0.7"]
    assert settings["seed"] == ["1", "2"]
    assert "num_workers" not in settings
    ours, theirs = (run.metrics["test/f1"] for run in found.runs)
    difference.show(Console(), found, limit=1)
    shown = " ".join(capsys.readouterr().out.split())
    assert "A: no encoder, seed 1" in shown
    assert "1 example on which A and B differ" in shown
    row = [f"{100 * ours:.2f}", f"{100 * theirs:.2f}", f"−{100 * (ours - theirs):.2f}"]
    assert ["test/f1", *row] in difference.figures(found).rows


def test_what_is_printed(made, root, capsys):
    """The first examples, or all."""
    where = {"a": str(made("a", range(5))), "b": str(made("b", [])), "cache_dir": str(root)}
    diff(composed("job=diff", limit=2, **where))
    assert "5 examples on which A and B differ: the first 2" in capsys.readouterr().out
    diff(composed("job=diff", limit=None, **where))
    assert capsys.readouterr().out.count("NEW: ") >= 5


def test_a_corpus_that_is_not_there_or_another(made, root):
    """Numbers without words, and why."""
    folders = made("a", [0]), made("b", [])
    change(folders[1], lambda run: run["config"]["task"].update(read={"train": {"min_tokens": 3}}))
    change(folders[1], lambda run: run["config"]["data"].update(read={"ner": {"train": {"a": 1}}}))
    found = compared(*folders, root, "data.files.test=nowhere.txt")
    assert re.match("Words and predictions are omitted, since .*nowhere.txt", found.note)
    assert [row[0] for row in difference.examples(found).rows] == ["1"]
    (folders[1] / "predictions" / "test.conll").rename(folders[1] / "test.conll")
    found = compared(*folders, root)
    assert re.search("since .*test.conll does not exist: run job=evaluate", found.note)
    assert not found.texts
    for folder in folders:
        change(folder, lambda run: run["inputs"].update({"data.test": "f" * 64}))
    assert "is not the file that a=" in compared(*folders, root).note
    for folder in folders:
        change(folder, lambda run: run.pop("inputs"))
        path = folder / "counts" / "test.npz"
        arrays = dict(np.load(path))
        np.savez(path, **arrays | {"sentences": arrays["sentences"] + np.uint64(1)})
    assert "the corpus does not contain the 40 examples" in compared(*folders, root).note


@pytest.mark.parametrize(
    ("how", "keys"),
    [
        (lambda run: run["config"]["task"].update(name="pos"), "task.name"),
        (lambda run: run["config"]["data"].update(name="wnut17"), "data.name"),
        (lambda run: run["inputs"].update({"data.test": "f" * 64}), "inputs.data.test"),
        (lambda run: run["config"]["task"].update(read={"test": {"classes": 3}}), "task.read.test.classes"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_compared(made, root, how, keys):
    a, b = made("a", []), made("b", [])
    change(b, how)
    with pytest.raises(ValueError, match=f"^a={a} and b={b} differ in {keys}.*, so their examples"):
        compared(a, b, root)


def test_what_is_no_run(made, root, tmp_path):
    a, b = made("sweep/0", []), made("sweep/1", [])
    with pytest.raises(FileNotFoundError, match=r"b=.*/sweep: no finished run; give the folder"):
        compared(a, tmp_path / "sweep", root)
    with pytest.raises(FileNotFoundError, match=r"b=.*/none: no such folder"):
        compared(a, tmp_path / "none", root)
    with pytest.raises(ValueError, match="are the same run"):
        compared(a, a, root)
    said = r"test.npz has no .* metric=accuracy: only of f1, precision and recall;"
    with pytest.raises(ValueError, match=said):
        compared(a, b, root, metric="accuracy")
    (b / "counts" / "test.npz").unlink()
    with pytest.raises(ValueError, match=r"metric=f1: there is no such file; job=evaluate chec"):
        compared(a, b, root)


@pytest.mark.parametrize(
    "how",
    [
        lambda run: run["config"]["task"].update(data="os"),
        lambda run: run["config"]["task"].update(suffix="/../../result.json"),
        lambda run: run["config"]["data"].update(name="${oc.env:HOME}"),
        lambda run: run["config"]["data"].update(size="x"),
        lambda run: run["choices"].update(data="files"),
    ],
)
def test_a_result_from_elsewhere(made, root, how):
    """It is shown without words: it names no code, and reads no variable."""
    folders = [made("a", [0]), made("b", [])]
    for folder in folders:
        change(folder, how)
    found = compared(*folders, root)
    assert found.note.startswith("Words and predictions are omitted, since a=")
    assert [int(scores.sum()) for scores in found.scores] == [39, 40]


def test_one_result_from_elsewhere(made, root, tmp_path):
    """What it names outside of its folder is not read, whichever side it is on."""
    ours, theirs = made("a", [0]), made("b/c", [])
    change(theirs, lambda run: run["config"]["task"].update(suffix="/../../../secret"))
    (theirs / "predictions" / "test").mkdir()
    (theirs / "predictions" / "test.conll").rename(tmp_path / "b" / "secret")
    for a, b, its in ((ours, theirs, "b"), (theirs, ours, "a")):
        found = compared(a, b, root)
        assert f"are omitted, since {its}=" in found.note
        assert not found.texts


def test_words_with_markup(made, root):
    """They are shown as they are, and do nothing."""
    runs = tuple(read_run(made(name, []) / "result.json") for name in "ab")
    evil = ["f:1", "<script> \x1b[0m | =1", "=HYPERLINK(1)", "*x*", ""]
    found = difference.Difference(runs, "test", "f1", (np.ones(1), np.zeros(1)), [evil])
    console = Console(width=100, file=StringIO(), color_system=None)
    difference.show(console, found)
    assert r"<script> \x1b[0m | =1" in console.file.getvalue()
    assert "\x1b" not in console.file.getvalue()
