"""Two runs beside each other: made-up ones of every task, wrong at known examples."""

import json
from functools import cache
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from elmo_bench.config import build
from elmo_bench.files import begins
from elmo_bench.jobs.diff import OWN, diff
from elmo_bench.report import difference
from elmo_bench.runs import (
    Result,
    as_baseline,
    begin,
    is_baseline,
    number_of,
    read_run,
    write_result,
)
from elmo_bench.sample import files as sample
from tasks.squad.data import Answer
from tests import conftest

TASKS = ("ner", "coref", "squad", "sst5")  # tags, clusters, texts, classes


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("sample")


@cache
def _composed(*overrides):
    return conftest.composed(*overrides)


def composed(*overrides, **settings):
    cfg = _composed(*overrides).copy()
    for key, value in settings.items():
        cfg[key] = value
    return cfg


def wrong(answer):
    """Another answer of the same kind."""
    if isinstance(answer, Answer):
        return Answer("nonsense")
    if isinstance(answer, str):
        return {"neutral": "entailment", "1": "2"}.get(
            answer, "1" if answer.isdigit() else "neutral"
        )
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
        examples = list(build.reader(cfg, "test")(file))
        if names := cfg.data.labels:  # as job=evaluate reads them
            relabel = build.task_files(cfg).relabel
            examples = [relabel(example, {name: name for name in names}) for example in examples]
        answers = [Answer(e.gold[0]) if task == "squad" else e.gold for e in examples]
        for number in errors:
            answers[number] = wrong(answers[number])
        begin(cfg, {"data.test": file})
        folder = Path(cfg.run_dir)
        (folder / "predictions").mkdir()
        build.task_files(cfg).write(
            examples, answers, folder / f"predictions/test{cfg.task.suffix}"
        )
        labels = [*{label for example in examples for label in example.labels}, "B-NEW"]
        gold = [example.gold for example in examples]
        metric = build.instantiate(cfg.task.metric)(labels)
        arrays = {key: value.numpy() for key, value in metric.by_example(answers, gold).items()}
        arrays["groups"] = np.arange(len(examples))
        arrays["sentences"] = np.array([number_of(e.sentences) for e in examples], dtype=np.uint64)
        (folder / "counts").mkdir()
        np.savez(folder / "counts" / "test.npz", **arrays)
        metric.update(answers, gold)
        metrics = {f"test/{key}": float(value) for key, value in metric.compute().items()}
        sizes, seconds = {"trainable": 1, "frozen": 1}, {"training": 1.0, "total": 1.0}
        result = Result(task, cfg.seed, metrics, {}, sizes, seconds, 1, 1.0, "cpu")
        write_result(result, cfg, {"data": "sample"})
        return folder

    return made


def compared(a, b, root, *overrides, **settings):
    """What job=diff writes as JSON."""
    output = a.parent / "diff.json"
    where = {"a": str(a), "b": str(b), "cache_dir": str(root), "output": str(output)}
    diff(composed("job=diff", *overrides, **where | settings))
    return json.loads(output.read_text())


@pytest.mark.parametrize("task", TASKS)
def test_the_examples_that_one_has_right(made, root, task):
    """Each is wrong at one, and the words, gold and both answers stand beside."""
    found = compared(made("a", [0], task=task), made("b", [1], task=task), root)
    assert (found["a_better"], found["b_better"]) == (1, 1)
    assert found["both_right"] == found["examples"] - 2
    by_number = {one["example"]: one for one in found["differing"]}
    assert {*by_number} == {1, 2}
    assert by_number[1]["a_score"] == 0 == by_number[2]["b_score"]
    assert by_number[1]["b_score"] == 1 == by_number[2]["a_score"]
    for one, (right, other) in zip((by_number[1], by_number[2]), ("ba", "ab"), strict=True):
        assert set(one[right]) <= set(one["gold"])  # SQuAD has several that are right
        assert one[right] != one[other]
        assert all(one["sentences"])
    assert found["notes"] == []


def test_settings_and_figures(made, root, capsys):
    """First what changes figures, and what does nothing in a run is not shown as its setting."""
    a = made("a", [0], "encoder=none", "elmo.l2=0.5")
    b = made("b", [0, 1], "seed=2", "elmo.l2=0.7", "num_workers=1")
    found = compared(a, b, root, limit=1)
    settings = {one["key"]: one for one in found["settings"]}
    assert settings["encoder.name"] | settings["seed"] | settings["num_workers"]
    assert (settings["encoder.name"]["a"], settings["encoder.name"]["b"]) == ("none", "mini")
    assert (settings["elmo.l2"]["a"], settings["elmo.l2"]["b"]) == ("-", "0.7")
    acts = [one["changes_figures"] for one in found["settings"]]
    assert acts == sorted(acts, key=["yes", "maybe", "no"].index)
    assert [settings[key]["changes_figures"] for key in ("seed", "num_workers")] == ["yes", "no"]
    ours, theirs = (found["metrics"][side]["test/f1"] for side in "ab")
    shown = " ".join(capsys.readouterr().out.split())
    assert "A: no encoder, seed 1" in shown
    assert f"test/f1 {100 * ours:.2f} {100 * theirs:.2f} −{100 * (ours - theirs):.2f}" in shown
    assert "A alone right: 1, B alone right: 0, both: 38, neither: 1; of 40 test" in shown
    assert "1 example on which A and B differ" in shown


def test_what_is_printed_and_what_is_written(made, root, tmp_path, capsys):
    """The first examples on the terminal, all of them in every file."""
    a, b = made("a", range(5)), made("b", [])
    for suffix in ("html", "md", "json"):
        output = tmp_path / f"found.{suffix}"
        where = {"a": str(a), "b": str(b), "cache_dir": str(root), "output": str(output)}
        diff(composed("job=diff", limit=2, **where))
        assert begins(OWN[output.suffix])(output)  # it may be written again
        assert str(tmp_path) not in output.read_text()
        assert output.read_text().count("NEW: ") >= 5
    shown = capsys.readouterr().out
    assert "The first 2 of 5 examples" in shown


def test_a_corpus_that_is_not_there_or_another(made, root, tmp_path):
    """Numbers without words, and why."""
    a, b = made("a", [0]), made("b", [])
    found = compared(a, b, root, "data=files", "data.files.test=nowhere.txt", "data.name=x")
    assert found["notes"][0].startswith(
        "Words and predictions are omitted, since data.files.test: no file"
    )
    assert [one["example"] for one in found["differing"]] == [1]
    (tmp_path / "other.txt").write_text("Rain O\n")
    other = [f"data.files.test={tmp_path}/other.txt", "data.name=x", "data=files"]
    found = compared(a, b, root, *other)
    assert "other.txt is not the file that a=" in found["notes"][0]
    for folder in (a, b):  # an earlier version had no hashes
        path = folder / "result.json"
        content = json.loads(path.read_text())
        del content["inputs"]
        path.write_text(json.dumps(content))
    found = compared(a, b, root, *other)
    assert "other.txt does not contain the" in found["notes"][0]


def test_labels_that_were_left_out(made, root):
    """Of an evaluation with data.labels gold is what it was measured against."""
    names = "data.labels={LOC: LOC}"
    found = compared(made("a", [], names), made("b", range(40), names), root)
    gold = [label for one in found["differing"] for label in one["gold"]]
    assert gold
    assert all(label.startswith("LOC: ") for label in gold)


def test_predictions_that_are_not_there(made, root):
    a, b = made("a", [0]), made("b", [])
    (b / "predictions" / "test.conll").unlink()
    found = compared(a, b, root)
    assert found["notes"][0].startswith(
        "The predictions of B are not shown: test.conll does not exist: run job"
    )
    assert found["differing"][0]["b"] is None
    assert found["differing"][0]["a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda run: run["config"]["task"].update(name="pos"),
            "runs of different tasks, ner and pos",
        ),
        (
            lambda run: run["config"]["data"].update(name="wnut17"),
            "of different corpora, sample and w",
        ),
        (
            lambda run: run["inputs"].update({"data.test": "f" * 64}),
            r"different test files, \w+ and fff",
        ),
        (
            lambda run: run["config"]["task"].update(read={"test": {"classes": 3}}),
            r"runs of different labels \(task.read, data.read\)",
        ),
        (
            lambda run: run["config"]["data"].update(labels={"PER": "x"}),
            "different data.labels, None",
        ),
    ],
)
def test_runs_that_cannot_be_compared(made, root, change, message):
    a, b = made("a", []), made("b", [])
    content = json.loads((b / "result.json").read_text())
    change(content)
    (b / "result.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"^a={a} and b={b} are .*{message}"):
        compared(a, b, root)


def test_what_is_no_run(made, root, tmp_path):
    a, b = made("sweep/0", []), made("sweep/1", [])
    with pytest.raises(
        ValueError, match=r"b=.*/sweep is not a run, but contains 2: give .* b=.*/sweep/0$"
    ):
        compared(a, tmp_path / "sweep", root)
    with pytest.raises(FileNotFoundError, match=r"b=.*/none: no such folder"):
        compared(a, tmp_path / "none", root)
    with pytest.raises(ValueError, match="are the same run"):
        compared(a, a, root)
    with pytest.raises(
        ValueError, match=r"metric=accuracy: .* has no counts of it, only of f1, precision, recall;"
    ):
        compared(a, b, root, metric="accuracy")
    (b / "counts" / "test.npz").rename(b / "counts" / "dev.npz")
    with pytest.raises(
        FileNotFoundError, match=r"no counts/test.npz.*: it has those for dev \(spl"
    ):
        compared(a, b, root)
    (b / "counts" / "dev.npz").unlink()
    with pytest.raises(FileNotFoundError, match="it has none; run job=evaluate checkpoint="):
        compared(a, b, root)
    with pytest.raises(ValueError, match=r"output=x.pdf: the formats are FILE.*FILE.json"):
        compared(a, b, root, output="x.pdf")


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run["config"]["task"].update(data="os"),
        lambda run: run["config"]["task"].update(suffix="/../../result.json"),
        lambda run: run["config"]["data"].update(name="${oc.env:HOME}"),
        lambda run: run["config"]["data"].update(size="x"),
        lambda run: run["choices"].update(data="files"),
    ],
)
def test_a_result_from_elsewhere(made, root, change):
    """It is shown without words: it names no code, and reads no variable."""
    folders = [made("a", [0]), made("b", [])]
    for folder in folders:
        content = json.loads((folder / "result.json").read_text())
        change(content)
        (folder / "result.json").write_text(json.dumps(content))
    found = compared(*folders, root)
    assert found["notes"][0].startswith("Words and predictions are omitted, since a=")
    assert found["a_better"] == 0
    assert found["b_better"] == 1


def test_one_result_from_elsewhere(made, root, tmp_path):
    """What it names outside of its folder is not read, whichever side it is on."""
    ours, theirs = made("a", [0]), made("b/c", [])
    content = json.loads((theirs / "result.json").read_text())
    content["config"]["task"]["suffix"] = "/../../../secret"
    (theirs / "result.json").write_text(json.dumps(content))
    (theirs / "predictions" / "test").mkdir()
    (theirs / "predictions" / "test.conll").rename(tmp_path / "b" / "secret")
    for a, b, its in ((ours, theirs, "b"), (theirs, ours, "a")):
        found = compared(a, b, root)
        assert f"are not shown: {its}=" in found["notes"][0]
        assert all(one[its] is None for one in found["differing"])


def test_words_with_markup(made, root):
    """They are shown in every format, and do nothing."""
    a, b = (made(name, []) for name in "ab")
    runs = tuple(map(read_run, (a / "result.json", b / "result.json")))
    evil = difference.ExampleText("f:1", ["<script> \x1b[0m | =1"], ["=HYPERLINK(1)"], ["*x*"], [])
    found = difference.Difference(runs, "test", "f1", (np.ones(1), np.zeros(1)), [evil], [])
    assert "\\<script> \\x1b[0m \\| =1" in difference.as_markdown(found).replace("\\\\", "\\")
    shown = ElementTree.fromstring(difference.as_page(found)).find("body")
    assert r"<script> \x1b[0m | =1" in "".join(shown.itertext())
    captions = [each.text for each in shown.iterfind(".//figcaption/b")]
    assert captions == [
        "Settings that differ",
        "Figures, percent",
        "1 example on which A and B differ",
    ]
    console = Console(width=100, file=StringIO(), color_system=None)
    difference.show(console, found)
    assert "\x1b" not in console.file.getvalue()
