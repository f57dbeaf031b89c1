"""Datasets in the hub's layout, as a folder on this machine: converted once, read by the tasks' own
readers.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hydra import compose, initialize_config_dir
from pyarrow import parquet

from elmo_bench.config.build import instantiate
from elmo_bench.hub import pairs, questions
from tasks.snli.data import read as read_pairs
from tasks.squad.data import read as read_questions

CONF = Path(__file__).parents[1] / "conf"

PAIRS = [
    {"premise": "A dog runs.", "hypothesis": "An animal moves.", "label": 0},
    {"premise": "A dog runs.", "hypothesis": "It is a “big” one.", "label": 1},
    {"premise": "A dog runs.", "hypothesis": "It is late.", "label": -1},
    {"premise": "A dog runs.", "hypothesis": "A dog sleeps.", "label": 2},
]
QUESTIONS = [
    ("a", "Lamps", "A lamp stands here.", "What stands here?", ["lamp", "A lamp"], [2, 0]),
    ("b", "Lamps", "A lamp stands here.", "Where is it?", ["here"], [14]),
    ("c", "Lamps", "It shines.", "What does it do?", ["shines"], [3]),
    ("d", "Dogs", "It shines.", "What is this?", ["It"], [0]),
]


def questions_table():
    names = ("id", "title", "context", "question")
    rows = [
        dict(zip(names, row, strict=False)) | {"answers": {"text": row[4], "answer_start": row[5]}}
        for row in QUESTIONS
    ]
    answers = pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int32())})
    return pa.Table.from_pylist(
        rows, pa.schema({name: pa.string() for name in names} | {"answers": answers})
    )


def pairs_table(rows=PAIRS):
    return pa.Table.from_pylist(rows)


def write(folder, table, *splits):
    (folder / "plain_text").mkdir(parents=True)
    for split in splits:
        parquet.write_table(table, folder / "plain_text" / f"{split}-00000-of-00001.parquet")


def files(data, tmp_path, *overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose(
            "config",
            [
                f"data={data}",
                f"cache_dir={tmp_path}/cache",
                f"data.source={tmp_path}/hub",
                *overrides,
            ],
        )
    return instantiate(cfg.data.files)


def test_pairs(tmp_path, caplog):
    write(tmp_path / "hub", pairs_table(), "train", "validation", "test")
    caplog.set_level("INFO")
    found = files("snli_hub", tmp_path)
    examples = list(read_pairs(found["dev"]))
    assert [(each.identity, each.label) for each in examples] == [
        ("dev-0", "entailment"),
        ("dev-1", "neutral"),
        ("dev-3", "contradiction"),
    ]
    assert examples[1].premise == ("A", "dog", "runs", ".")
    assert "“big”" in json.loads(found["dev"].read_text().splitlines()[1])["sentence2"]
    written = len(caplog.records)
    assert files("snli_hub", tmp_path) == found
    assert len(caplog.records) == written  # they are there already
    assert sorted((tmp_path / "cache" / "hub").iterdir()) == sorted(
        found.values()
    )  # and nothing beside them


def test_questions(tmp_path):
    write(tmp_path / "hub", questions_table(), "train", "validation")
    found = files("squad1_hub", tmp_path)
    assert found["test"].read_bytes() == found["dev"].read_bytes()
    articles = json.loads(found["dev"].read_text())["data"]
    assert [(each["title"], [len(p["qas"]) for p in each["paragraphs"]]) for each in articles] == [
        ("Lamps", [2, 1]),
        ("Dogs", [1]),
    ]
    examples = list(read_questions(found["dev"]))
    assert [(each.identity, each.answers, each.spans) for each in examples] == [
        ("a", ("lamp", "A lamp"), ((1, 1), (0, 1))),
        ("b", ("here",), ((3, 3),)),
        ("c", ("shines",), ((1, 1),)),
        ("d", ("It",), ((0, 0),)),
    ]


def test_a_changed_file_is_converted_anew(tmp_path):
    write(tmp_path / "hub", pairs_table(), "train", "validation", "test")
    before = files("snli_hub", tmp_path)
    parquet.write_table(
        pairs_table(PAIRS[:1]), tmp_path / "hub" / "plain_text" / "test-00000-of-00001.parquet"
    )
    after = files("snli_hub", tmp_path)
    assert after["train"] == before["train"]
    assert [len(found["test"].read_text().splitlines()) for found in (before, after)] == [4, 1]


def test_one_file_may_be_another(tmp_path):
    write(tmp_path / "hub", pairs_table(), "validation", "test")
    found = files("snli_hub", tmp_path, "data.files.train=plain_text/test-00000-of-00001.parquet")
    assert len(found["train"].read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("convert", "table", "message"),
    [
        (
            pairs,
            pairs_table([{"premise": "a", "label": 0}]),
            r"it has the columns premise \(string\), label \(int64\), but must have premise .* hypothesis",
        ),
        (
            pairs,
            pairs_table([{**PAIRS[0], "label": "neutral"}]),
            r"label \(string\), but must have .* label \(int64\)",
        ),
        (
            pairs,
            pairs_table([{**PAIRS[0], "label": 3}]),
            r"row 0 \(from 0\): label 3, but it must be one of \[-1, 0, 1, 2\]",
        ),
        (
            pairs,
            pairs_table([PAIRS[0], {**PAIRS[0], "premise": None}]),
            r"'premise' is empty in 1 rows",
        ),
        (
            questions,
            questions_table().drop_columns("answers"),
            r"question \(string\), but must have .* answers \(struct<text",
        ),
        (
            questions,
            questions_table()
            .drop_columns("answers")
            .append_column("answers", pa.array([{"text": ["a"]}] * 4)),
            r"answers \(struct<text: list<\w+: string>>\), but .*answer_start: list|question a: "
            r"answers must have as many texts",
        ),
        (
            questions,
            questions_table()
            .drop_columns("answers")
            .append_column("answers", pa.array([{"text": ["a"], "answer_start": [0, 1]}] * 4)),
            r"question a: answers must have as many texts as answer_starts, but they are",
        ),
    ],
)
def test_other_columns(tmp_path, convert, table, message):
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=rf"x.parquet: .*({message})"):
        list(convert(tmp_path / "x.parquet", "train"))


def test_nothing_half_written_is_left(tmp_path):
    write(
        tmp_path / "hub",
        pairs_table([*PAIRS, {**PAIRS[0], "label": 3}]),
        "train",
        "validation",
        "test",
    )
    with pytest.raises(ValueError, match=r"row 4 \(from 0\): label 3"):
        files("snli_hub", tmp_path)
    assert not list((tmp_path / "cache" / "hub").iterdir())


def test_not_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"x.parquet: not a parquet file"):
        list(pairs(tmp_path / "x.parquet", "train"))


def test_a_file_that_is_not_in_the_folder(tmp_path):
    write(tmp_path / "hub", pairs_table(), "train")
    with pytest.raises(
        FileNotFoundError,
        match=r"no file .*validation-00000-of-00001.parquet \(data.source=.*hub\)",
    ):
        files("snli_hub", tmp_path)


def test_from_the_hub(tmp_path, monkeypatch):
    write(tmp_path / "there", pairs_table(), "train", "validation", "test")
    asked = []

    def download(name, file, *, repo_type, revision):
        asked.append((name, repo_type, revision))
        return str(tmp_path / "there" / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert (
        len(
            list(
                read_pairs(
                    files("snli_hub", tmp_path, "data.source=stanfordnlp/snli", "data.revision=v1")[
                        "train"
                    ]
                )
            )
        )
        == 3
    )
    assert set(asked) == {("stanfordnlp/snli", "dataset", "v1")}


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        FileNotFoundError,
        match=r"no folder some/thing, and cannot download plain_text/train.* from the hub .*data.source=FOLDER",
    ):
        files("snli_hub", tmp_path, "data.source=some/thing")


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'elmo-bench\[hub\]'"):
        files("snli_hub", tmp_path)
