import pytest

from elmo_bench.report.names import axis, metric_title, name, task_titles, value
from tests.runs.made_runs import a_run

ELMO = ["encoder.name", "elmo.mix"]


@pytest.mark.parametrize(
    ("keys", "values", "phrase"),
    [
        (ELMO, ["books", (0,)], "books, layer 0"),
        (["elmo.mix", "fraction"], ["none", 0.07], "no encoder, 7 % of training"),
        (["data.name", *ELMO], ["sst", "books", "none"], "sst, no encoder"),
        (["elmo.at", "elmo.l2"], [("input", "output"), "-"], "ELMo at input and output"),
        (["encoder.name", "encoder.pretrained"], ["mini", False], "mini, random weights"),
        (["encoder.name", "encoder.pretrained"], ["mini", True], "mini"),
        (["encoder.pretrained"], [True], "pretrained"),
        (["elmo.mix_lr"], [None], "the task's"),
        (["task.model.hidden_size"], [100], "task.model.hidden_size = 100"),
        (["vocab.vectors"], ["/data/glove.txt"], "glove.txt"),
        (["vocab.vectors"], [("/data/glove.txt", "/own/gene.bin")], "glove.txt and gene.bin"),
        (["elmo.norm"], ["-"], "–"),
        (["inputs.data.train"], ["012345678901"], "inputs.data.train = 012345678901"),
        ([], [], ""),
    ],
)
def test_a_setting_reads_as_people_say_it(keys, values, phrase):
    assert name(keys, values) == phrase


def test_what_a_user_wrote_stays_as_it_is():
    """Braces and marks in a value are no part of ours."""
    assert name(["vocab.vectors", "x"], ["{0}", "{}"]) == "{0}, x = {}"
    assert (axis("a.{}"), value("a.b", "{}")) == ("a.{}", "{}")


def test_titles_of_tasks():
    tasks = [("one", "One"), ("two", None), ("sst", "A"), ("sst", "B")]
    runs = [a_run({"name": name, "title": title}) for name, title in tasks]
    titles = task_titles(runs)
    assert titles == {"one": "One", "two": "two", "sst": "sst"}
    assert name(["task.name", "elmo.mix"], ["one", "top"], titles) == "One, top layer"


def test_titles_of_figures():
    run, asked = a_run({"monitor_title": "entity F1"}), (None, "f1", "PER/f1", "exact_match")
    titles = [metric_title(run, metric) for metric in asked]
    assert titles == ["entity F1", "entity F1", "PER F1", "exact match"]
