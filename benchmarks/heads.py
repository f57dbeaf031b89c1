"""CRF and highway LSTM, compared with Python loops over sentences and time steps.

Axes: B batch, T tokens, K labels, H features.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from elmo_bench.nn import AlternatingHighwayLstm, Crf
from elmo_bench.text import tag_moves

from .timing import Comparison, Setting

LABELS = ["O", *(f"{part}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for part in "BILU")]


def compare(setting: Setting) -> Iterator[Comparison]:
    """CRF loss and decoding, and the highway LSTM forward and backward; checks the results first.

    Sentences of the batch have similar lengths, as in training.
    """
    torch.manual_seed(0)
    middle = len(setting.sentences) // 2
    sentences = sorted(setting.sentences, key=len)[middle : middle + setting.batch_size]
    lengths, tokens = [len(sentence) for sentence in sentences], sum(map(len, sentences))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    crf = Crf(*tag_moves(LABELS, bioul=True))
    scores = torch.randn(*mask.shape, len(LABELS), requires_grad=True)
    gold = torch.randint(len(LABELS), mask.shape)

    def likelihood() -> Tensor:
        return crf.log_likelihood(scores, gold, mask).sum()

    def likelihood_loop() -> Tensor:
        rows = zip(scores, gold, lengths, strict=True)
        return torch.stack(
            [_likelihood(crf, row[:length], labels[:length]) for row, labels, length in rows]
        ).sum()

    def decode_loop() -> list[list[int]]:
        return [_decode(crf, row[:length]) for row, length in zip(scores, lengths, strict=True)]

    torch.testing.assert_close(likelihood(), likelihood_loop())
    if crf.decode(scores, mask) != decode_loop():
        raise AssertionError("the CRF and the loop decode different labels")
    losses = {"ours": lambda: likelihood().backward(), "loop": lambda: likelihood_loop().backward()}
    yield Comparison("CRF, loss and gradient", losses, tokens, "tokens")
    yield Comparison(
        "CRF, decoding",
        {"ours": lambda: crf.decode(scores, mask), "loop": decode_loop},
        tokens,
        "tokens",
    )

    stack = AlternatingHighwayLstm(
        input_size=100,
        hidden_size=40 if setting.quick else 300,
        num_layers=2 if setting.quick else 8,
    )
    x = torch.randn(*mask.shape, 100)

    def highway_loop() -> Tensor:
        rows = zip(x, lengths, strict=True)
        return torch.nn.utils.rnn.pad_sequence(
            [_highway(stack, row[:length]) for row, length in rows], batch_first=True
        )

    torch.testing.assert_close(stack(x, mask), highway_loop(), atol=1e-4, rtol=1e-4)
    steps = {
        "ours": lambda: stack(x, mask).sum().backward(),
        "loop": lambda: highway_loop().sum().backward(),
    }
    yield Comparison("highway LSTM, forward and backward", steps, tokens, "tokens")


def _likelihood(crf: Crf, scores: Tensor, labels: Tensor) -> Tensor:
    """The log-likelihood of one sentence, step by step."""
    alpha, path = scores[0], scores[0, labels[0]]
    for t in range(1, len(scores)):
        alpha = (alpha[:, None] + crf.transitions).logsumexp(0) + scores[t]
        path = path + crf.transitions[labels[t - 1], labels[t]] + scores[t, labels[t]]
    return path - alpha.logsumexp(0)


@torch.no_grad()
def _decode(crf: Crf, scores: Tensor) -> list[int]:
    """The best valid labels of one sentence, by Viterbi with back pointers."""
    allowed = (torch.tensor(each) for each in crf.rules)
    moves, starts, ends = (torch.where(each, 0.0, -torch.inf) for each in allowed)
    best, origins = starts + scores[0], []
    for t in range(1, len(scores)):
        sums, origin = (best[:, None] + crf.transitions + moves).max(0)
        best = sums + scores[t]
        origins.append(origin)
    labels = [int((best + ends).argmax())]
    for origin in reversed(origins):
        labels.append(int(origin[labels[-1]]))
    return labels[::-1]


def _highway(stack: AlternatingHighwayLstm, x: Tensor) -> Tensor:
    """All layers for one sentence, step by step (He et al. 2017, equations 3 to 10), no dropout."""
    layers: Any = stack.layers
    for layer in layers:
        h = c = x.new_zeros(stack.dim)
        outputs = {}
        for t in reversed(range(len(x))) if layer.backward else range(len(x)):
            gates, skip = layer.input(x[t]).split([5 * stack.dim, stack.dim])
            i, f, o, r, g = (gates + layer.state(h)).chunk(5)
            c = i.sigmoid() * g.tanh() + f.sigmoid() * c
            h = outputs[t] = r.sigmoid() * (o.sigmoid() * c.tanh()) + (1 - r.sigmoid()) * skip
        x = torch.stack([outputs[t] for t in range(len(x))])
    return x
