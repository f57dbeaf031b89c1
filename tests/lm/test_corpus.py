"""The encoded text: on disk what it is in memory, every token once, from any place."""

import numpy as np
import pytest

from elmo_bench.encoders.bilm import DIRECTIONS
from elmo_bench.lm import Corpus

TEXT = [["a", "b", "c"], ["b", "a"], [], ["c", "c", "a", "b"], ["é"]]
SHAPE = {"batch_size": 3, "unroll": 4}


def windows(corpus, direction="forward", seed=0, start=0, **shape):
    return list(
        corpus.windows(direction, **(shape or SHAPE), rng=np.random.default_rng(seed), start=start)
    )


def test_on_disk_as_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo_bench.lm.corpus._CHUNK", 3)
    here, there = Corpus(TEXT), Corpus.encode(iter(TEXT), tmp_path / "corpus")
    assert isinstance(there.tokens, np.memmap)
    for corpus in (there, Corpus.open(tmp_path / "corpus")):
        assert (corpus.words, corpus.counts.tolist()) == (here.words, here.counts.tolist())
        assert (corpus.num_tokens, corpus.num_sentences, corpus.digest()) == (10, 4, here.digest())
        for ours, theirs in zip(windows(here), windows(corpus), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_nothing_is_left_of_an_encoding_that_fails(tmp_path):
    def text():
        yield ["a"]
        raise ValueError("line 2 is not text")

    with pytest.raises(ValueError, match="line 2"):
        Corpus.encode(text(), tmp_path / "corpus")
    with pytest.raises(ValueError, match="no sentences"):
        Corpus.encode([[], []], tmp_path / "corpus")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_every_token_once_an_epoch(direction, batch_size):
    """Whatever the shapes: all words and one end a sentence are targets, in an order that is
    another one in each epoch.
    """
    corpus = Corpus(TEXT * 3)
    shape = {"batch_size": batch_size, "unroll": 4}
    epochs = []
    for seed in range(2):
        targets = [t for _, t in windows(corpus, direction, seed, **shape)]
        assert len(targets) == corpus.num_windows(**shape)
        stream = np.concatenate(targets, 1)
        found = stream[stream >= 0].tolist()
        expected = [*corpus.tokens.tolist(), *[int(direction == "forward")] * corpus.num_sentences]
        assert sorted(found) == sorted(expected)
        epochs.append(found)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_from_any_place(direction):
    corpus = Corpus(TEXT * 9)
    whole = windows(corpus, direction)
    for start in (1, 3):
        for ours, theirs in zip(
            whole[start:], windows(corpus, direction, start=start), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_vocabulary_by_size_and_count():
    corpus = Corpus([*TEXT, ["<UNK>", "</S>"]])
    assert corpus.vocabulary() == ["<S>", "</S>", "<UNK>", "a", "b", "c", "é"]
    assert corpus.vocabulary(5) == ["<S>", "</S>", "<UNK>", "a", "b"]
    assert corpus.vocabulary(min_count=2) == ["<S>", "</S>", "<UNK>", "a", "b", "c"]


def test_a_vocabulary_has_what_a_line_can_hold():
    assert Corpus([["a", "b\nc", "\ud800", "é\u2028"]]).vocabulary() == [
        "<S>",
        "</S>",
        "<UNK>",
        "a",
        "é\u2028",
    ]


@pytest.mark.parametrize("name", ["tokens.int32", "lengths.int32", "counts.int64"])
def test_a_damaged_encoded_text_is_named(tmp_path, name):
    """Emptied, cut, doubled, or any byte changed: counts tell."""
    folder = tmp_path / "corpus"
    Corpus.encode([["a", "b"], ["b", "c", "b"]], folder)
    content = (folder / name).read_bytes()
    changed = [content[:k] + bytes([content[k] ^ 3]) + content[k + 1 :] for k in range(8)]
    for damaged in (b"", content[:-1], content[:-4], content + content, *changed):
        (folder / name).write_bytes(damaged)
        with pytest.raises(ValueError, match="corpus"):
            Corpus.open(folder)
