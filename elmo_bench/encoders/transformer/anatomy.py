"""What a model is made of: its layers, blocks and padding, found by running it on a few pieces.

Unlike names of classes and attributes, this holds for any architecture of transformers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

UNBOUNDED = 512  # pieces of a window if neither model nor tokenizer has a limit


class Anatomy(NamedTuple):
    """Properties of a model found by running it on a few subwords."""

    num_layers: int
    dim: int
    blocks: list[nn.Module]  # empty if they cannot be identified
    above: list[nn.Module]  # what runs after the last block, such as a final norm
    causal: bool  # whether it reads only from left to right
    pads: bool  # whether padding has no effect; it has with convolutions


def anatomy(model: Any, name: Any, pad: int) -> Anatomy:
    """Run a model on four subwords, on the same ones with another last one, and on the same ones
    with padding.
    """
    ids = torch.arange(4)[None] + max(model.config.vocab_size // 2 - 2, 0)
    other, padded = ids.clone(), nn.functional.pad(ids, (0, 8), value=pad)
    other[0, -1] -= 2

    def states(ids: Tensor, size: int = 4) -> Sequence[Tensor]:
        mask = (torch.arange(ids.shape[1]) < size).long()[None]
        return hidden_states(model, ids, mask)

    def change(x: Tensor, y: Tensor) -> float:
        return float((x.float() - y.float()).norm())

    model.eval()
    with torch.no_grad():
        layers = states(ids)
        if not layers or any(
            layer is None or layer.shape != (1, 4, layers[0].shape[-1]) for layer in layers
        ):
            raise ValueError(
                f"encoder.model={name} ({type(model).__name__}) does not return one vector "
                "per subword"
            )
        top = states(other)[-1]
        moved = change(top[:, -1], layers[-1][:, -1])
        causal = change(top[:, :-1], layers[-1][:, :-1]) < 1e-3 * moved
        rounding = max(1e-4, 4 * torch.finfo(layers[0].dtype).eps)
        pads = all(
            change(x[:, :4], y) <= rounding * float(y.float().norm())
            for x, y in zip(states(padded), layers, strict=True)
        )
        blocks, above = _parts(model, ids)
    forget_hooks(model)
    return Anatomy(len(layers), layers[0].shape[-1], blocks, above, causal, pads)


def hidden_states(model: Any, ids: Tensor, mask: Tensor | None) -> Sequence[Tensor]:
    """Return all layers of a model, from the embeddings up."""
    states: Sequence[Tensor] = model(
        input_ids=ids, attention_mask=mask, output_hidden_states=True, return_dict=True
    ).hidden_states
    return states


def forget_hooks(model: Any) -> None:
    """Remove the hooks that transformers leaves after hidden states were requested, and installs
    again when needed: they cannot be sent to a worker.
    """
    for module in model.modules():
        for key, hook in list(module._forward_hooks.items()):
            if getattr(hook, "__module__", "") == "transformers.utils.output_capturing":
                del module._forward_hooks[key]
        if hasattr(module, "_output_capturing_hooks_installed"):
            module._output_capturing_hooks_installed = False


def _parts(model: Any, ids: Tensor) -> tuple[list[nn.Module], list[nn.Module]]:
    """Return the blocks, and the modules that run after them.

    The blocks are the first list of modules in which each returns the next layer; the top layer may
    differ by a final norm.
    """
    outputs: dict[nn.Module, Tensor] = {}  # in the order in which modules are done

    def hook(module: nn.Module, _: Any, output: Any) -> None:
        outputs.pop(module, None)
        outputs[module] = block_output(output)

    hooks = [module.register_forward_hook(hook) for module in model.modules()]
    try:
        layers = hidden_states(model, ids, torch.ones_like(ids))
    finally:
        for handle in hooks:
            handle.remove()
    for blocks in model.modules():
        if (
            isinstance(blocks, nn.ModuleList)
            and len(blocks) == len(layers) - 1
            and all(
                isinstance(outputs.get(block), Tensor) and torch.equal(outputs[block], layer)
                for block, layer in zip(blocks[:-1], layers[1:-1], strict=True)
            )
        ):
            done = [*outputs]
            return [*blocks], done[done.index(blocks[-1]) + 1 :]
    return [], []


def block_output(output: Any) -> Any:
    """Return the vectors among the outputs of a block."""
    return output[0] if isinstance(output, tuple) and output else output


def padding_id(model: Any, tokenizer: Any) -> int:
    """Return the model's padding id, from which some models count positions; otherwise any id,
    since the mask marks padding.
    """
    ids = (getattr(model.config, "pad_token_id", None), tokenizer.pad_token_id, 0)
    return next(
        number
        for number in ids
        if isinstance(number, int) and 0 <= number < model.config.vocab_size
    )


def window_size(model: Any, tokenizer: Any, asked: int | None, special: int) -> int:
    """Return the maximum number of subwords that the model reads at once, including
    special tokens.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    bound = positions if isinstance(positions, int) and positions > 0 else None
    for name, module in model.named_modules():
        offset = getattr(module, "padding_idx", None)
        if bound and name.endswith("position_embeddings") and offset is not None:
            # RoBERTa's positions start after the padding index
            bound = module.num_embeddings - offset - 1
    limit = tokenizer.model_max_length
    usual = (bound or UNBOUNDED) if limit > 1e9 else min(limit, bound or limit)
    size = usual if asked is None else asked
    if size <= special or (bound and size > bound):
        came = f"null is {usual}, the limit of its tokenizer" if asked is None else asked
        raise ValueError(
            f"encoder.window={came}, but each window of this model has {special} special "
            f"tokens and {f'at most {bound}' if bound else 'any number of'} subwords: choose a "
            "number in between"
        )
    return int(size)
