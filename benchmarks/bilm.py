"""The biLM's forward pass, training step and char CNN.

Compared with torch's LSTM, the bare matrix products, AllenNLP and simple_elmo.

Axes: B batch, T tokens, C characters, P one direction.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from elmo_bench.build import process
from elmo_bench.encoders.bilm import BiLm, char_cnn
from elmo_bench.encoders.bilm.scan import PackedLinear
from elmo_bench.text.chars import char_ids

from . import allennlp, simple_elmo_peer
from .timing import SIZES, Comparison, Setting

TOLERANCE = 1e-5
STREAMS, UNROLL = 128, 20  # of a pretraining window


def compare(setting: Setting) -> Iterator[Comparison]:
    """For each size: forward, char CNN or building a store, training."""
    on_gpu = setting.device == "cuda"
    if on_gpu:
        process.prepare(tf32=False, deterministic=False)
        batch: Sequence[Sequence[str]] = _even(setting.sentences, 64, 25)
        windows = _even(setting.sentences, 128, 20)
    else:
        batch = setting.sentences[: setting.batch_size]
        windows = _even([[sentence[0]] for sentence in batch], len(batch), max(map(len, batch)))
    chars, tokens = char_ids(batch).to(setting.device), sum(map(len, batch))
    for size in setting.sizes:
        yield Comparison(f"biLM {size}, forward", _forward(setting, size, chars), tokens, "tokens")
        if on_gpu:
            many = _even(setting.sentences, 1024, 25)
            yield Comparison(
                f"biLM {size}, building a store",
                _building(setting, size, char_ids(many).to(setting.device)),
                sum(map(len, many)),
                "tokens",
            )
        else:
            yield Comparison(
                f"biLM {size}, char CNN", _characters(setting, size, chars), tokens, "tokens"
            )
        full = char_ids(windows).to(setting.device)
        yield Comparison(
            f"biLM {size}, training step",
            _training(setting, size, full),
            full[..., 0].numel(),
            "tokens",
        )
        if not on_gpu:  # on a GPU, all windows are of this shape
            streams = setting.batch_size if setting.quick else STREAMS
            full = char_ids(_even(setting.sentences, streams, UNROLL))
            yield Comparison(
                f"biLM {size}, training step, {streams} streams of {UNROLL} tokens",
                _training(setting, size, full),
                full[..., 0].numel(),
                "tokens",
            )


def _even(sentences: Sequence[Sequence[str]], count: int, length: int) -> list[list[str]]:
    """`count` sentences of `length` words, cut from the words of a text."""
    words = cycle(word for sentence in sentences for word in sentence)
    return [list(islice(words, length)) for _ in range(count)]


def _no_gradient(call: Callable[[], object]) -> Callable[[], object]:
    return torch.no_grad()(call)


def _forward(setting: Setting, size: str, chars: Tensor) -> dict[str, Callable[[], object]]:
    model, near = setting.bilm(size).to(setting.device), setting.bilm(size).to(setting.device)
    near.bf16 = True
    lstms, x = _torch_lstms(setting, size, chars)

    if setting.device == "cuda":  # a GPU uses no table of word types
        means: dict[str, Callable[[], object]] = {
            "ours": lambda: model.read(chars),
            "ours, bfloat16": lambda: near.read(chars),
        }
    else:
        unknown = patch.object(char_cnn, "KNOWN_TYPES", 0)(lambda: model.read(chars))
        means = {
            "ours, no word type known": unknown,
            "ours, all word types known": lambda: model.read(chars),
            "ours, all word types known, bfloat16": lambda: near.read(chars),
        }
    means |= {
        "nn.LSTM(proj_size), no char CNN, no clips": lambda: [lstm(x) for lstm in lstms],
        "limit: the LSTMs' products, packed": _products(setting, size, chars),
    }
    expected = model.read(chars, boundaries=True)[0]
    if setting.peers:
        peer = allennlp.load(setting.peers, model, setting.scratch).to(setting.device)
        with torch.no_grad():
            torch.testing.assert_close(
                torch.stack(peer(chars)["activations"]), expected, atol=TOLERANCE, rtol=0
            )
        means["AllenNLP"] = lambda: peer(chars)
    if setting.simple_elmo:
        means["simple_elmo, from tokens to NumPy"] = _simple_elmo(
            setting, setting.simple_elmo, model, expected
        )
    return {name: _no_gradient(call) for name, call in means.items()}


def _simple_elmo(
    setting: Setting, python: Path, model: BiLm, expected: Tensor
) -> Callable[[], object]:
    batch, folder = setting.sentences[: setting.batch_size], setting.scratch / "simple_elmo"
    folder.mkdir(exist_ok=True)
    run = simple_elmo_peer.load(python, model, batch, folder)
    run()  # later calls continue from its state
    vectors = torch.from_numpy(np.load(folder / simple_elmo_peer.VECTORS)).float().transpose(0, 1)
    for row, sentence in enumerate(batch):
        inner = slice(1, len(sentence) + 1)
        torch.testing.assert_close(
            vectors[:, row, : len(sentence)], expected[:, row, inner].cpu(), atol=TOLERANCE, rtol=0
        )
    return run


def _torch_lstms(setting: Setting, size: str, chars: Tensor) -> tuple[list[nn.LSTM], Tensor]:
    """One LSTM per direction, and their input.

    In a bidirectional LSTM, each layer would read both directions of the one below.
    """
    options = SIZES[size]
    sizes = options.projection_size, options.cell_size, options.num_layers
    warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
    lstms = [
        nn.LSTM(*sizes, proj_size=options.projection_size, batch_first=True).to(setting.device)
        for _ in range(2)
    ]
    return lstms, torch.randn(*chars.shape[:2], options.projection_size, device=setting.device)


def _products(setting: Setting, size: str, chars: Tensor) -> Callable[[], object]:
    """The matrix products of the LSTMs, one per step of the whole batch, and nothing else."""
    options = SIZES[size]
    cell, projection = options.cell_size, options.projection_size
    randn = partial(torch.randn, device=setting.device)
    gates, project = (
        PackedLinear(randn(4 * cell, 2 * projection)),
        PackedLinear(randn(projection, cell)),
    )
    x, gated = randn(len(chars), 2 * projection), randn(len(chars), cell)
    tokens = int((chars > 0).any(-1).sum()) + 2 * len(chars)
    steps = 2 * options.num_layers * tokens // len(chars)
    return lambda: [(gates(x), project(gated)) for _ in range(steps)]


def _building(setting: Setting, size: str, chars: Tensor) -> dict[str, Callable[[], object]]:
    """A large batch in bfloat16; the lower limit is the LSTMs' products of all steps at once."""
    model = setting.bilm(size).to(setting.device)
    model.bf16 = True
    options, tokens = SIZES[size], len(chars) * (chars.shape[1] + 2)
    cell, projection = options.cell_size, options.projection_size
    randn = partial(torch.randn, device=setting.device, dtype=torch.bfloat16)
    x, weight = randn(2, tokens, 2 * projection), randn(2, 4 * cell, 2 * projection)
    gated, projection_weight = randn(2, tokens, cell), randn(2, projection, cell)

    def products() -> None:
        for _ in range(options.num_layers):
            x @ weight.mT
            gated @ projection_weight.mT

    means = {
        "ours, bfloat16": lambda: model.read(chars),
        "limit: the LSTMs' products, all steps at once": products,
    }
    return {name: _no_gradient(call) for name, call in means.items()}


def _characters(setting: Setting, size: str, chars: Tensor) -> dict[str, Callable[[], object]]:
    model = setting.bilm(size)
    types, words = char_cnn.WordCache(model.token_encoder), chars.flatten(0, 1)

    means: dict[str, Callable[[], object]] = {
        "ours, no word type known": patch.object(char_cnn, "KNOWN_TYPES", 0)(lambda: types(words)),
        "ours, all word types known": lambda: types(words),
        "ours, each word anew": lambda: model.token_encoder(words),
    }
    if setting.peers:
        peer = allennlp.load(setting.peers, model, setting.scratch)._token_embedder
        means["AllenNLP"] = lambda: peer(chars)
    return {name: _no_gradient(call) for name, call in means.items()}


def _training(setting: Setting, size: str, chars: Tensor) -> dict[str, Callable[[], object]]:
    """Forward and backward from the top layers, without softmax, on windows without padding."""
    model = setting.bilm(size).to(setting.device).train().requires_grad_(True)
    types, inputs = chars.flatten(0, 1).unique(dim=0, return_inverse=True)
    windows = inputs.view(chars.shape[:2]).expand(2, -1, -1)
    state = model.zero_state(len(chars))

    def ours() -> None:
        model.zero_grad()
        tops, _ = model.run(model.token_encoder(types)[windows], state)
        sum(top.sum() for top in tops).backward()  # type: ignore

    lstms, x = _torch_lstms(setting, size, chars)
    means: dict[str, Callable[[], object]] = {
        "ours": ours,
        "nn.LSTM(proj_size), no char CNN, no clips": lambda: sum(
            lstm(x)[0].sum() for lstm in lstms
        ).backward(),  # type: ignore
    }
    near = torch.autocast(setting.device, torch.bfloat16)
    for name in [*means] if setting.device == "cuda" else ["ours"]:
        means[f"{name}, bfloat16"] = near(means[name])
    if setting.peers:
        peer = allennlp.load(setting.peers, setting.bilm(size), setting.scratch, train=True)
        peer = peer.to(setting.device)
        means["AllenNLP, two boundaries more"] = lambda: (
            peer(chars)["activations"][-1].sum().backward()
        )
    return means
