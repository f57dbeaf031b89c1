"""Golden figures of AllenNLP's smaller modules, which `benchmarks/golden.py` writes: random weights
and inputs, and what comes out, in one JSON file for each module.

Axes: B batch, T tokens, K labels, H features.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

WORDS = (
    *("the", "", "naïve", "北京", "🙂", "<S>", "</S>", "A\u00a0B"),
    *("w" + "o" * 60 + "rd", "a" + "é" * 40, "x" * 48, "x" * 49),
)
LABELS = ("O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC") for prefix in "BILU"))
LENGTHS = [6, 4, 1]  # of the sentences of a batch, the longest first, as AllenNLP's LSTMs ask for


def figures() -> Iterator[tuple[str, Any]]:
    """The name of each file, and what is in it; `allennlp.find` comes first."""
    torch.manual_seed(19)
    makers: tuple[Callable[[], Any], ...] = (
        char_ids,
        crf,
        highway_lstm,
        maxout,
        scalar_mix,
    )
    with torch.no_grad():
        for maker in makers:
            yield f"{maker.__name__}.json", maker()


def char_ids() -> dict[str, Any]:
    """Words that are cut off, one of them within a character, and the words of the boundaries."""
    from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper

    ids = ELMoCharacterMapper().convert_word_to_char_ids
    return {"cases": [{"token": word, "ids": ids(word)} for word in WORDS]}


def crf() -> dict[str, Any]:
    """BIOUL over two kinds: with and without scores of the start and the end."""
    from allennlp.modules.conditional_random_field.conditional_random_field import (
        ConditionalRandomField,
        allowed_transitions,
    )

    size = len(LABELS)
    pairs = allowed_transitions("BIOUL", dict(enumerate(LABELS)))
    return {
        "labels": LABELS,
        "allowed_transitions": sorted([a, b] for a, b in pairs if max(a, b) < size),
        "allowed_start": sorted(b for a, b in pairs if a == size),
        "allowed_end": sorted(a for a, b in pairs if b == size + 1),
        "cases": [_crf_case(ConditionalRandomField, pairs, ends) for ends in (False, True)],
    }


def _crf_case(kind: Any, pairs: list[tuple[int, int]], ends: bool) -> dict[str, Any]:
    size, mask = len(LABELS), _mask()
    crf = kind(size, pairs, include_start_end_transitions=ends).double()
    free = kind(size, include_start_end_transitions=ends).double()
    transitions, start, end = (_random(*shape) for shape in ((size, size), (size,), (size,)))
    for each in (crf, free):
        each.transitions.copy_(transitions)
        if ends:
            each.start_transitions.copy_(start)
            each.end_transitions.copy_(end)
    scores, tags = _random(*mask.shape, size), torch.randint(size, mask.shape)
    parts = {
        "gold_score": _digits(crf._joint_likelihood(scores, crf.transitions, tags, mask)),
        "log_partition": _digits(crf._input_likelihood(scores, crf.transitions, mask)),
        "viterbi_bioul": crf.viterbi_tags(scores, mask),
        "viterbi_unconstrained": free.viterbi_tags(scores, mask),
    }
    return {
        "start_end_transitions": ends,
        "logits": _array(scores),
        "transitions_from_row_to_col": _array(transitions),
        "start": _array(start) if ends else None,
        "end": _array(end) if ends else None,
        "rows": [
            {"length": length, "tags": tags[row, :length].tolist()}
            | {name: values[row] for name, values in parts.items()}
            for row, length in enumerate(LENGTHS)
        ],
        "sum_log_likelihood": _digits(crf(scores, tags, mask))[0],
    }


def highway_lstm() -> dict[str, Any]:
    """A highway LSTM of semantic role labelling, forward and backward."""
    from allennlp.modules.augmented_lstm import AugmentedLstm

    cases = []
    for forward in (True, False):
        lstm = _filled(AugmentedLstm(4, 3, forward, use_input_projection_bias=False))
        x = _random(*_mask().shape, 4) * _mask()[..., None]
        packed, (h, c) = lstm(pack_padded_sequence(x, LENGTHS, batch_first=True))
        cases.append(
            {
                "forward": forward,
                "lengths": LENGTHS,
                "x": _array(x),
                "input_weight_6H_i_f_g_o_r_x": _array(lstm.cell.input_linearity.weight),
                "state_weight_5H_i_f_g_o_r": _array(lstm.cell.state_linearity.weight),
                "state_bias": _array(lstm.cell.state_linearity.bias),
                "outputs": _array(_padded(packed)),
                "final_h": _array(h),
                "final_c": _array(c),
            }
        )
    return {"cases": cases}


def maxout() -> dict[str, Any]:
    """Two layers of different widths and pools."""
    from allennlp.modules.maxout import Maxout

    widths, pools, x = [3, 2], [2, 4], _random(4, 5)
    layers = _filled(Maxout(5, 2, widths, pools))
    return {
        "width": widths,
        "pool": pools,
        "x": _array(x),
        "W": [_array(layer.weight) for layer in layers._linear_layers],
        "b": [_array(layer.bias) for layer in layers._linear_layers],
        "out": _array(layers(x)),
    }


def scalar_mix() -> dict[str, Any]:
    """Three layers of unlike scale, with and without AllenNLP's norm, under a mask."""
    from allennlp.modules.scalar_mix import ScalarMix

    mask, logits, gamma = _mask(), [0.5, -1.25, 0.75], 1.5
    layers = [
        offset + scale * _random(*mask.shape, 4) for offset, scale in ((0, 1), (3, 5), (-1, 0.1))
    ]
    mixed = []
    for norm in (False, True):
        mix = ScalarMix(3, norm, logits).double()
        mix.gamma.fill_(gamma)
        mixed.append(_array(mix(layers, mask)))
    return {
        "w": logits,
        "gamma": gamma,
        "mask": mask.int().tolist(),
        "layers": [_array(layer) for layer in layers],
        "mix": mixed[0],
        "mix_layer_norm": mixed[1],
    }


def _mask() -> Tensor:
    return torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def _random(*shape: int) -> Tensor:
    """Numbers of float32, to be computed with in float64."""
    return torch.randn(shape).double()


def _filled(module: nn.Module) -> Any:
    """The module with such numbers for weights."""
    module.double()
    for parameter in module.parameters():
        parameter.copy_(_random(*parameter.shape))
    return module


def _padded(packed: PackedSequence) -> Tensor:
    return pad_packed_sequence(packed, batch_first=True)[0]


def _array(tensor: Tensor) -> dict[str, Any]:
    return {"shape": [*tensor.shape], "data": _digits(tensor)}


def _digits(tensor: Tensor) -> list[float]:
    """Its numbers, with the nine digits that tell any two of float32 apart."""
    return [float(f"{value:.9g}") for value in tensor.flatten().tolist()]
