"""What is made from a config."""

import errno

import pytest

from elmo_bench.config import build
from elmo_bench.files import progress
from elmo_bench.runs import machine
from elmo_bench.text import Vocab
from elmo_bench.text import vectors as files
from tests.conftest import composed


def test_word_vectors_are_read_once(tmp_path, monkeypatch):
    """By all runs that want the same words of the same file; of a changed file again."""
    path, reads, read = tmp_path / "v.txt", [], files.read_vectors
    path.write_text("the 1 2\n. 3 4\n\u00e9t\u00e9 5 6\n")
    monkeypatch.setattr(files, "read_vectors", lambda *args: reads.append(1) or read(*args))
    cfg = composed(f"vocab.vectors={path}", f"cache_dir={tmp_path}", "vocab.lowercase=true")
    for _ in range(2):
        vectors = build.vectors(cfg, ["The", "\u00c9t\u00e9", "half \ud83d"])
        assert {word: vector.tolist() for word, vector in vectors.items()} == {
            "the": [1, 2],
            "\u00e9t\u00e9": [5, 6],
        }
        assert {vector.dtype.name for vector in vectors.values()} == {"float32"}
    assert len(reads) == 1
    build.vectors(cfg, ["The", "."])
    path.write_text("the 7 8\n")
    assert build.vectors(cfg, ["The", "."])["the"].tolist() == [7, 8]
    assert len(reads) == 3


def test_the_reading_of_word_vectors_says_how_far_it_is(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(progress, "PAUSE", 0.0)  # seconds between two lines
    caplog.set_level("INFO")
    (tmp_path / "v.txt").write_text("the 1 2\n. 3 4\na 5 6\n")
    cfg = composed(f"vocab.vectors={tmp_path}/v.txt", f"cache_dir={tmp_path}")
    assert build.vectors(cfg, ["the"])["the"].tolist() == [1, 2]
    assert caplog.messages[-1] == "vocab.vectors, lines: 3 so far"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tasks.absent.data", "task.data=tasks.absent.data, but there is no module tasks.absent"),
        ("abc", "abc has no function read, which task.data=abc requires"),
    ],
)
def test_a_module_that_cannot_read(name, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        build.task_files(composed(f"task.data={name}"))


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "shape"])
def test_kept_vectors_that_are_damaged_are_read_again(tmp_path, caplog, damage):
    (tmp_path / "v.txt").write_text("the 1 2\n. 3 4\n")
    cfg = composed(f"vocab.vectors={tmp_path}/v.txt", f"cache_dir={tmp_path}")
    expected = build.vectors(cfg, ["the", "."])
    (kept,) = (tmp_path / "vectors").glob("*.npz")
    whole = kept.read_bytes()
    vector = whole.index(expected["the"].tobytes())
    content = {
        "cut": whole[:-30],
        "emptied": b"",
        "flipped": whole[:vector] + b"\x01" + whole[vector + 1 :],
        "shape": whole.replace(b"(2, 2)", b"(1, 2)"),
    }[damage]
    assert content != whole
    for _ in range(2):
        kept.write_bytes(content)
        again = build.vectors(cfg, ["the", "."])
        assert {word: vector.tolist() for word, vector in again.items()} == {
            word: vector.tolist() for word, vector in expected.items()
        }
        assert f"{kept} is damaged" in caplog.text
        assert kept.read_bytes() == whole


def test_vectors_that_cannot_be_kept(tmp_path, monkeypatch, caplog):
    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    (tmp_path / "v.txt").write_text("the 1 2\n")
    cfg = composed(f"vocab.vectors={tmp_path}/v.txt", f"cache_dir={tmp_path}/cache")
    monkeypatch.setattr("os.mkdir", refused)
    assert build.vectors(cfg, ["the"])["the"].tolist() == [1, 2]
    assert "v.txt: [Errno 30] Read-only file system" in caplog.text


def test_no_file_of_word_vectors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"vocab.vectors=nowhere.txt: no such file"):
        build.vectors(composed("vocab.vectors=nowhere.txt", f"cache_dir={tmp_path}"), ["the"])


@pytest.mark.parametrize(("words", "said"), [(["The", "dog"], True), (["the", "dog"], False)])
def test_vectors_without_capitals_for_a_task_that_looks_words_up_as_they_stand(
    tmp_path, caplog, words, said
):
    (tmp_path / "v.txt").write_text("the 3 4\ndog 0 2\n")
    settings = [f"vocab.vectors={tmp_path}/v.txt", f"cache_dir={tmp_path}"]
    build.vectors(composed("task=sst5", *settings), words)
    assert ("v.txt is lower-cased" in caplog.text) == said


def test_more_processes_than_cores(tiny, monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)
    many = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=5"]
    with pytest.raises(ValueError, match=r"trainer.devices=5, but only 4 cores.*oversubscribe"):
        build.trainer(tiny(*many), [])
    assert build.trainer(tiny(*many, "oversubscribe=true"), []).num_devices == 5
    assert build.trainer(tiny(*many, "trainer.devices=4"), []).num_devices == 4


@pytest.mark.parametrize(
    ("task", "chosen"), [("squad", "embed=words"), ("sst5", "rnn=bigru"), ("coref", "rnn=identity")]
)
def test_a_task_has_another_embed_or_rnn_than_its_own(task, chosen):
    """What the task says of its own one does nothing."""
    cfg = composed(f"task={task}", chosen, "encoder=none")
    vocab = Vocab(["a"], ["x", "y"])
    assert build.model(cfg, vocab, {}, build.elmo(cfg)).backbone.dim > 0
