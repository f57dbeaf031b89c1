"""Whether layers are kept or computed for every batch: by the times of one batch, and with the same
layers either way.
"""

import time

import pytest
import torch

from elmo_bench import build
from elmo_bench.encoders import build_store, choice, is_kept
from elmo_bench.encoders.choice import LEAST, Seconds
from elmo_bench.encoders.static import WordVectors

WORDS = [f"w{number}" for number in range(50)]
SENTENCES = [[f"{number}", *WORDS[: number % 7]] for number in range(LEAST)]
TOKENS = sum(map(len, SENTENCES))


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
    ("seconds", "epochs", "kept"),
    [
        (Seconds(compute=10.0, build=12.0, read=1.0), 1, False),
        (Seconds(compute=10.0, build=12.0, read=1.0), 2, True),
        (Seconds(compute=1.0, build=4.0, read=0.5), 7, False),
        (Seconds(compute=1.0, build=4.0, read=0.5), 9, True),
        (Seconds(compute=1.0, build=4.0, read=2.0), 1000, False),
    ],
)
def test_the_smaller_time(monkeypatch, tmp_path, caplog, seconds, epochs, kept):
    caplog.set_level("INFO")
    monkeypatch.setattr(choice, "measure", lambda *_: seconds)
    chosen = [epochs * TOKENS, SENTENCES, [0], tmp_path, "float32"]
    assert is_kept(vectors(), *chosen) is kept
    choice_made = "the encoder's layers are kept" if kept else "the encoder runs on every batch"
    assert f"elmo.cache=auto: {choice_made}: once " in caplog.text


def test_what_is_measured(tmp_path, caplog):
    """Cheap vectors are not worth a file for one epoch, slow ones are for three; measuring takes
    few batches and leaves nothing.
    """
    caplog.set_level("INFO")
    slow = vectors(Slow)
    assert is_kept(slow, 3 * TOKENS, SENTENCES, [0], tmp_path, "float32")
    assert slow.calls == 3  # one to warm up, one to be timed, one to be written
    assert not is_kept(vectors(), TOKENS, SENTENCES, [0], tmp_path, "float32")
    assert not [*tmp_path.iterdir()]
    assert len(caplog.messages) == 2  # what was chosen, and nothing of what was measured


def test_without_a_measurement(tmp_path):
    """Of few sentences, and where a narrower type would change the numbers."""
    slow = vectors(Slow)
    assert is_kept(slow, TOKENS, SENTENCES[:-1], [0], tmp_path, "float32")
    assert is_kept(slow, TOKENS, SENTENCES, [0], tmp_path, "float16")
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
    assert (layers, folder, dtype) == ([0], tmp_path, "float32")


@pytest.mark.parametrize("cache", ["auto", "device"])
@pytest.mark.parametrize("seconds", [Seconds(1.0, 1.0, 0.0), Seconds(0.0, 1.0, 1.0)])
def test_a_run(tiny, monkeypatch, tmp_path, cache, seconds):
    """What is measured decides, unless a store is asked for; layers are the same either way."""
    monkeypatch.setattr(choice, "LEAST", 0)
    monkeypatch.setattr(choice, "measure", lambda *_: seconds)
    cfg = tiny(f"cache_dir={tmp_path}/cache", f"elmo.cache={cache}")
    elmo, data = build.elmo(cfg), build.data(cfg)
    store = build.store(cfg, elmo, data)
    assert (store is not None) is (cache == "device" or seconds.compute > 0)
    if store is not None:
        sentences = data.all_sentences[:5]
        mask = torch.arange(max(map(len, sentences))) < torch.tensor([[len(s)] for s in sentences])
        computed = elmo.encoder(elmo.encoder.prepare(sentences)).detach()
        torch.testing.assert_close(store(sentences, mask), computed, rtol=0, atol=1e-5)
        store.close()
