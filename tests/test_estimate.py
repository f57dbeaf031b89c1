"""How long a run takes, from a few of its batches."""

import pytest

from elmo_bench import Elmo
from elmo_bench.config import build
from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.estimate import _encoding, estimate


def test_the_store_is_timed_on_sentences_of_all_lengths(monkeypatch):
    read = []
    monkeypatch.setattr("elmo_bench.estimate.encode", lambda _, some, layers: read.append(some))
    elmo = Elmo(BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4),))))
    sentences = [("word",) * length for length in range(1, 101)]
    _encoding(elmo, sentences)
    warm, timed = (sum(map(len, some)) / len(some) for some in read)
    assert [len(some) for some in read] == [32, 32]
    assert warm == pytest.approx(50, abs=2)
    assert timed == pytest.approx(50, abs=2)
    read.clear()
    _encoding(elmo, sentences[:3])
    assert [[len(sentence) for sentence in some] for some in read] == [[1, 3], [2]]


def test_the_time_of_what_is_missing_and_no_file(tiny, tmp_path):
    settings = [f"cache_dir={tmp_path}/cache", "fit.batch_size=1"]
    cfg, off = tiny(*settings), tiny(*settings, "elmo.cache=off")
    data = build.data(cfg)
    sentences = {tuple(sentence) for sentence in data.all_sentences}
    before = sorted(tmp_path.rglob("*"))
    (first, each_batch) = (
        estimate(one, build.elmo(one), data.examples["train"], sentences) for one in (cfg, off)
    )
    assert sorted(tmp_path.rglob("*")) == before
    assert min(first.store, first.epoch, each_batch.epoch) > 0 == each_batch.store
    assert 1 <= first.timed < first.batches == len(data.examples["train"])
    build.store(cfg, build.elmo(cfg), data).close()
    again = estimate(cfg, build.elmo(cfg), data.examples["train"], sentences)
    assert again.store == 0 < again.epoch
