"""Whether layers are kept or computed for every batch: by the times of one batch, and with the same
layers either way.
"""

import time

import pytest
import torch

from elmo_bench.config import build
from elmo_bench.encoders import build_store, choice, is_kept
from elmo_bench.encoders.choice import LEAST, Seconds
from elmo_bench.encoders.static import WordVectors

WORDS = [f"w{number}" for number in range(50)]
SENTENCES = [[f"{number}", *WORDS[: number % 7]] for number in range(LEAST)]


class Slow(WordVectors):
    """Word vectors that take their time."""

    calls = 0

    def forward(self, inputs, layers=None):
        self.calls += 1
        time.sleep(0.05)
        return super().forward(inputs, layers)


def vectors(kind=WordVectors):
    numbers = {word: number for number, word in enumerate(WORDS, 1)}
    return kind(numbers, torch.randn(len(WORDS) + 1, 8))


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [(Seconds(5.1, 1.0), True), (Seconds(4.9, 1.0), False), (Seconds(1.0, 3.0), False)],
)
def test_reading_has_to_be_clearly_faster(monkeypatch, tmp_path, caplog, seconds, kept):
    """And whatever later times are, the choice stays."""
    caplog.set_level("INFO")
    monkeypatch.setattr(choice, "measure", lambda *_: seconds)
    chosen = [vectors(), SENTENCES, [0], tmp_path, "float32"]
    assert is_kept(*chosen) is kept
    what = "storing the layers" if kept else "running the encoder on every batch"
    assert f"elmo.cache=auto: {what} (per token, " in caplog.text
    monkeypatch.setattr(choice, "measure", lambda *_: Seconds(1.0, 9.0 if kept else 0.0))
    assert is_kept(*chosen) is kept
    assert f"elmo.cache=auto: {what} (as an earlier run chose" in caplog.text
    for damaged in ("{", "{}", '{"kept": 3}'):
        (tmp_path / "choice.json").write_text(damaged)
        assert is_kept(*chosen) is not kept
    assert [path.name for path in tmp_path.iterdir()] == ["choice.json"]


def test_what_is_measured(tmp_path, caplog):
    """It takes few batches and leaves nothing but the choice, and a line."""
    caplog.set_level("INFO")
    slow = vectors(Slow)
    assert is_kept(slow, SENTENCES, [0], tmp_path, "float32")
    assert slow.calls == 5  # one to warm up, one to be written, three to be timed
    assert [path.name for path in tmp_path.iterdir()] == ["choice.json"]
    assert len(caplog.messages) == 1


def test_without_a_measurement(tmp_path):
    """Of few sentences, and where a narrower type would change the numbers."""
    slow = vectors(Slow)
    assert is_kept(slow, SENTENCES[:-1], [0], tmp_path, "float32")
    assert is_kept(slow, SENTENCES, [0], tmp_path, "float16")
    assert slow.calls == 0


def test_a_store_that_is_there_is_used(tmp_path):
    """Nothing is asked for it, nor where nothing is kept anything left."""
    encoder, asked = vectors(), []

    def is_worth(*about):
        asked.append(about)
        return len(asked) > 1

    few = SENTENCES[:20]
    assert build_store(encoder, few, [0], tmp_path, is_worth=is_worth) is None
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    for _ in range(2):
        assert build_store(encoder, few, [0], tmp_path, is_worth=is_worth) is not None
    assert len(asked) == 2
    sentences, layers, folder, dtype = asked[0]
    assert sorted(sentences) == sorted(few)
    assert (layers, folder.parent, dtype) == ([0], tmp_path, "float32")


@pytest.mark.parametrize("cache", ["auto", "device"])
@pytest.mark.parametrize("seconds", [Seconds(1.0, 0.0), Seconds(0.0, 1.0)])
def test_a_run(tiny, monkeypatch, tmp_path, cache, seconds):
    """What is measured decides, unless a store is asked for, and for a later run too; layers are
    the same either way.
    """
    monkeypatch.setattr(choice, "LEAST", 0)
    cfg = tiny(f"cache_dir={tmp_path}/cache", f"elmo.cache={cache}")
    elmo, data = build.elmo(cfg), build.data(cfg)
    for times in (seconds, Seconds(*reversed(seconds))):
        monkeypatch.setattr(choice, "measure", lambda *_, times=times: times)
        store = build.store(cfg, elmo, data)
        assert (store is not None) is (cache == "device" or seconds.compute > 0)
        if store is not None:
            sentences = data.all_sentences[:5]
            lengths = torch.tensor([[len(sentence)] for sentence in sentences])
            layers = store(sentences, torch.arange(int(lengths.max())) < lengths)
            computed = elmo.encoder(elmo.encoder.prepare(sentences)).detach()
            torch.testing.assert_close(layers, computed, rtol=0, atol=1e-5)
            store.close()
