"""What a model is made of: its layers, blocks and padding, found by running it on a few pieces.

Unlike names of classes and attributes, this holds for any architecture of transformers.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

UNBOUNDED = 512  # pieces of a window if neither model nor tokenizer has a limit


def hidden_states(
    model: Any, ids: Tensor, mask: Tensor | None = None, kinds: Tensor | None = None
) -> Sequence[Tensor]:
    """Return all layers of a model, from the embeddings up; `kinds` are token types."""
    more = {} if kinds is None else {"token_type_ids": kinds}
    states: Sequence[Tensor] = model(
        input_ids=ids, attention_mask=mask, output_hidden_states=True, return_dict=True, **more
    ).hidden_states
    return states


def four_pieces(model: Any) -> Tensor:
    """Return the ids of four subwords."""
    return torch.arange(4)[None] + max(model.config.vocab_size // 2 - 2, 0)


def taken_apart(model: Any) -> tuple[Sequence[Tensor], list[nn.Module], list[nn.Module]]:
    """Return the layers of four subwords, the model's blocks, and what runs after the last block,
    such as a final norm.

    The blocks are the list of modules with one for each layer above the embeddings that run in this
    order; there are none if there is no such list, or several side by side. Raises ValueError for a
    model without a vector for each subword.
    """
    done: list[nn.Module] = []
    hooks = [
        module.register_forward_hook(lambda module, *_: done.append(module))
        for module in model.modules()
    ]
    layers = hidden_states(model, four_pieces(model)) or ()
    for handle in hooks:
        handle.remove()
    if not layers or any(x is None or x.shape != (1, 4, layers[0].shape[-1]) for x in layers):
        raise ValueError(f"{type(model).__name__} does not return one vector per subword")
    lists = [each for each in model.modules() if isinstance(each, nn.ModuleList)]
    lists = [each for each in lists if len(each) == len(layers) - 1]
    lists = [each for each in lists if [one for one in done if one in {*each}] == [*each]]
    if lists and {*lists} <= {*lists[0].modules()}:  # XLM has a list for each part of its blocks
        blocks = [*lists[0]]
        return layers, blocks, done[done.index(blocks[-1]) + 1 :]
    return layers, [], []


def is_causal(model: Any, layers: Sequence[Tensor]) -> bool:
    """Whether a model reads only from left to right: another fourth subword changes no vector
    before it. `layers` are those of the four.
    """
    ids = four_pieces(model)
    ids[0, -1] -= 2
    moved = (hidden_states(model, ids)[-1].float() - layers[-1].float())[0]
    return float(moved[:-1].norm()) < 1e-3 * float(moved[-1].norm())


def ignores_padding(model: Any, layers: Sequence[Tensor], pad: int) -> bool:
    """Whether padding has no effect on the layers of four subwords; it has with convolutions."""
    ids = nn.functional.pad(four_pieces(model), (0, 8), value=pad)
    mask = nn.functional.pad(torch.ones_like(four_pieces(model)), (0, 8))
    rounding = max(1e-4, 4 * torch.finfo(layers[0].dtype).eps)
    return all(
        float((x[:, :4].float() - y.float()).norm()) <= rounding * float(y.float().norm())
        for x, y in zip(hidden_states(model, ids, mask), layers, strict=True)
    )


def window_size(model: Any, tokenizer: Any, asked: int | None, special: int) -> int:
    """Return the maximum number of subwords that the model reads at once, including `special`
    tokens: as many as are asked, or the limit of the model and its tokenizer.
    """
    bound = max(getattr(model.config, "max_position_embeddings", 0) or 0, 0)
    for name, module in model.named_modules():
        offset = getattr(module, "padding_idx", None)
        if bound and name.endswith("position_embeddings") and offset is not None:
            bound = len(module.weight) - offset - 1  # RoBERTa counts from its padding's
    limits = [n for n in (bound, tokenizer.model_max_length) if n and n < 1e9]
    size = min(limits, default=UNBOUNDED) if asked is None else asked
    if size <= special or (bound and size > bound):
        raise ValueError(
            f"encoder.window={f'null is {size}' if asked is None else size}, but each window of "
            f"this model has {special} special tokens and {f'at most {bound}' if bound else 'more'}"
            " subwords: choose a number in between"
        )
    return int(size)
