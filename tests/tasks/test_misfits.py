"""`job=score` of a file of predictions that is not about the gold file: an error that names the
file and what is wrong.
"""

import json

import pytest

from elmo_bench.config import build
from elmo_bench.jobs.score import score
from elmo_bench.sample import files as sample
from tasks.squad.data import Answer
from tests.conftest import composed

TASKS = ("ner", "srl", "coref", "squad", "snli", "sst5")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("sample")


@pytest.fixture
def scored(tmp_path, root):
    """A function that scores a task's gold as predictions, after a change of the file's text."""

    def scored(task, change=str):
        gold, predicted = (
            sample(task=task, root=root, size=2)["dev"],
            tmp_path / "predicted",
        )
        cfg = composed("job=score", f"task={task}", f"gold={gold}", f"predicted={predicted}")
        examples = list(build.reader(cfg, "test")(gold))
        answers = [
            Answer(example.gold[0]) if task == "squad" else example.gold for example in examples
        ]
        build.task_files(cfg).write(examples, answers, predicted)
        before = predicted.read_text()
        predicted.write_text(change(before))
        assert (predicted.read_text() == before) == (change is str)
        return score(cfg)

    return scored


@pytest.mark.parametrize("task", TASKS)
def test_files_that_fit(scored, task):
    assert set(scored(task).values()) == {1.0}


def blocks(change):
    """Apply a change to the list of blocks between empty lines."""
    return lambda text: "".join(f"{block}\n\n" for block in change(text.strip("\n").split("\n\n")))


def lines(change):
    return lambda text: "".join(f"{line}\n" for line in change(text.splitlines()))


def answers(change):
    return lambda text: json.dumps(change(json.loads(text)))


def all_but_last(parts):
    return parts[:-1]


def last_twice(parts):
    return [*parts, parts[-1]]


def all_but_second(parts):
    return [parts[0], *parts[2:]]


def fewer_documents(text):
    return text[: text.rindex("#begin document")]


def another_document(text):
    document = text[text.rindex("#begin document") :]
    name = document.partition("(")[2].partition(")")[0]
    return text + document.replace(name, f"{name}x")


def without_last_word(text):
    return text.rpartition(" ")[0] + "\n"


def without_first_id(found):
    return dict(list(found.items())[1:])


def half(text):
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("ner", blocks(all_but_last), r": \d+ sentences, but the gold file has \d+"),
        ("ner", blocks(last_twice), r": \d+ sentences, but the gold file has \d+"),
        ("ner", lines(all_but_second), r":1: the sentence '.*', but .*:\d+ has '.*'"),
        ("srl", blocks(all_but_last), r": the file ends before the sentence of .*:\d+"),
        (
            "srl",
            blocks(last_twice),
            r":\d+: more sentences than the gold file, which ends at .*:\d+",
        ),
        ("srl", lines(all_but_second), r":1: a sentence of \d+ words, but .*:\d+ has \d+"),
        ("coref", fewer_documents, r": .* part \d+ of .*:\d+ is missing"),
        ("coref", another_document, r":\d+: .* part \d+ is not one of the gold documents"),
        (
            "coref",
            lines(all_but_second),
            r":2: word number '1', but it must be 0",
        ),
        ("coref", half, r":\d+: (\d+ columns, but |.* has no #end document)"),
        ("squad", answers(without_first_id), r": 1 of \d+ questions have no answer, such as '.*'"),
        (
            "squad",
            answers(lambda found: found | {"new": "x"}),
            r": 1 answers to question.* such as 'new'",
        ),
        ("squad", half, r"(:\d+)?: not JSON"),
        ("snli", lines(all_but_last), r": no prediction for pairID '.*' of .*:\d+"),
        ("snli", lines(last_twice), r":\d+: pairID '.*' already has a prediction"),
        (
            "snli",
            lambda text: text.replace('"pairID": "', '"pairID": "new', 1),
            r":1: pairID 'new.*' is not in the gold file",
        ),
        ("snli", half, r":\d+: not JSON"),
        ("sst5", lines(all_but_last), r": \d+ predictions, but there are \d+ sentences"),
        ("sst5", lines(last_twice), r": \d+ predictions, but there are \d+ sentences"),
        ("sst5", without_last_word, r":\d+: '.*', but .*:\d+ is '.*'"),
        *((task, lambda text: "", r": the file is empty") for task in TASKS),
    ],
)
def test_files_that_do_not_fit(scored, tmp_path, task, change, message):
    with pytest.raises(ValueError, match=f"^{tmp_path}/predicted{message}"):
        scored(task, change)
