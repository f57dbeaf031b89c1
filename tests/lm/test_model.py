"""Pretraining: what a stream of text is, what is predicted, and that a biLM learns."""

import numpy as np
import pytest
import torch

from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.lm import Corpus, LanguageModel

TEXT = [["a", "b", "c"], ["b", "a"], ["c", "c", "a", "b"]]
OPTIONS = Options(cell_size=12, projection_size=6, filters=((1, 4), (2, 4)))


@pytest.mark.parametrize(
    ("direction", "first", "last"), [("forward", "<S>", "</S>"), ("backward", "</S>", "<S>")]
)
def test_one_stream(direction, first, last):
    """Cut into windows and put together again, the inputs are the sentences, and the targets are
    one word ahead.
    """
    corpus = Corpus(TEXT)
    windows = list(corpus.windows(direction, batch_size=1, unroll=1, rng=np.random.default_rng(0)))
    inputs, targets = ([corpus.words[window[k].item()] for window in windows] for k in range(2))
    sentences, current = [], []
    for word, target in zip(inputs, targets, strict=True):
        if word == first:
            current = []
        else:
            current.append(word)
        if target == last:
            sentences.append(current[:: 1 if direction == "forward" else -1])
    assert sorted(sentences) == sorted(TEXT)
    assert all(t == i for t, i in zip(targets, inputs[1:], strict=False) if t != last)


@torch.no_grad()
def test_a_softmax_that_knows_frequencies():
    """Its perplexity is that of the unigrams (with one more of each word, as it counts them)."""
    text = [["a", "a", "a", "b", "c"]] * 100
    corpus = Corpus(text)
    model = LanguageModel(BiLm(OPTIONS), corpus.vocabulary(5))  # c is unknown
    model.start_from(corpus)
    counts = np.array([300, 100, 100, 100])  # a, b, unknown, and the end of a sentence
    ideal = np.exp(-(counts / 600 * np.log((counts + 1) / (counts.sum() + 100 + 5))).sum())
    assert model.perplexity(text) == pytest.approx({"forward": ideal, "backward": ideal}, rel=0.02)


def test_held_out_text_in_pieces(monkeypatch):
    """How many scores are held at once changes no figure; one sentence may be very long."""
    sentences = [["a"] * length for length in (1, 2, 3, 700)]
    model = LanguageModel(BiLm(OPTIONS), Corpus(TEXT).vocabulary(6))
    whole = model.perplexity(sentences)
    monkeypatch.setattr("elmo_bench.lm.model.SCORES", 30)
    assert model.perplexity(sentences) == pytest.approx(whole, rel=1e-5)


def test_a_model_that_diverged():
    model = LanguageModel(BiLm(OPTIONS), Corpus(TEXT).vocabulary())
    model.softmax.bias.data[model.number("c")] = 1e4
    with pytest.raises(FloatingPointError, match=r"perplexity: .* \(pretrain.lr or adapt.lr\)$"):
        model.perplexity([["a", "b"]])
    model.source = "x.safetensors"
    with pytest.raises(FloatingPointError, match=r"Or x.safetensors is damaged: get or make it"):
        model.perplexity([["a", "b"]])
