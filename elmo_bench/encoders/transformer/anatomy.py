"""What a model is made of: its layers, blocks and padding, found by running it on a few pieces.

Unlike names of classes and attributes, this holds for any architecture of transformers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .load import saying

UNBOUNDED = 512  # pieces of a window if neither model nor tokenizer has a limit


class Anatomy(NamedTuple):
    """Properties of a model found by running it on a few subwords."""

    num_layers: int
    dim: int
    blocks: list[nn.Module]  # empty if they cannot be identified
    causal: bool  # whether it reads only from left to right
    pads: bool  # whether padding has no effect; it has with convolutions


def anatomy(model: Any, name: Any, pad: int) -> Anatomy:
    """Run a model on four subwords, on the same ones with another last one, and on the same ones
    with padding.

    The blocks are the modules of the only list in which each is given a layer and returns the input
    of the next.
    """
    ids = torch.arange(4)[None] + max(num_embeddings(model) // 2 - 2, 0)
    other, padded = ids.clone(), nn.functional.pad(ids, (0, 8), value=pad)
    other[0, -1] -= 2

    def states(ids: Tensor, size: int = 4) -> Sequence[Tensor]:
        mask = (torch.arange(ids.shape[1]) < size).long()[None]
        return model(
            input_ids=ids, attention_mask=mask, output_hidden_states=True, return_dict=True
        ).hidden_states

    def change(x: Tensor, y: Tensor) -> float:
        return float((x.float() - y.float()).norm())

    model.eval()
    with torch.no_grad(), _hooks_as_they_were(model):
        layers = saying(name, states, ids)
        if not layers or any(
            layer is None or layer.shape != (1, 4, layers[0].shape[-1]) for layer in layers
        ):
            raise ValueError(
                f"encoder.model={name} ({type(model).__name__}) does not return one vector "
                "per subword"
            )
        top, same = (
            states(other)[-1],
            max(1e-4, 4 * torch.finfo(layers[0].dtype).eps),
        )  # equal up to rounding
        causal = change(top[:, :-1], layers[-1][:, :-1]) < 1e-3 * change(
            top[:, -1], layers[-1][:, -1]
        )
        pads = all(
            change(x[:, :4], y) <= same * float(y.float().norm())
            for x, y in zip(states(padded), layers, strict=True)
        )
        lists = [
            m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == len(layers) - 1
        ]
        blocks = next(
            (list(blocks) for blocks in lists if _are_blocks(blocks, lambda: states(ids))), []
        )
    return Anatomy(len(layers), layers[0].shape[-1], blocks, causal, pads)


@contextmanager
def _hooks_as_they_were(model: Any) -> Iterator[None]:
    """Remove the hooks that transformers leaves after hidden states were requested: they cannot be
    sent to a worker.
    """
    before = {module: {*module._forward_hooks} for module in model.modules()}
    yield
    for module, kept in before.items():
        for key in {*module._forward_hooks} - kept:
            del module._forward_hooks[key]
        if hasattr(module, "_output_capturing_hooks_installed"):
            module._output_capturing_hooks_installed = False  # it then installs them again


def _are_blocks(modules: nn.ModuleList, states: Callable[[], Sequence[Tensor]]) -> bool:
    given: list[Tensor] = []
    returned: list[Tensor] = []

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given.append(block_input(args, kwargs))
        returned.append(block_output(output))

    hooks = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        layers = states()
    except (IndexError, KeyError):  # another signature than a block's
        return False
    finally:
        for handle in hooks:
            handle.remove()

    def same(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> bool:
        return len(xs) == len(ys) and all(
            isinstance(x, Tensor) and torch.equal(x, y) for x, y in zip(xs, ys, strict=True)
        )

    return same(given, layers[:-1]) and same(returned[:-1], given[1:])


def run_after(model: Any, block: nn.Module) -> set[nn.Parameter]:
    """Return the parameters of the modules that run after a block."""
    inside = {*block.modules()}
    done = False
    after: set[nn.Parameter] = set()

    def hook(module: nn.Module, *_: Any) -> None:
        nonlocal done
        if done and module not in inside:
            after.update(module.parameters(recurse=False))
        done = done or module is block

    hooks = [module.register_forward_hook(hook) for module in model.modules()]
    training = model.training
    device = next(model.parameters()).device
    try:
        with torch.no_grad():
            model.eval()(
                input_ids=torch.arange(4, device=device)[None] + num_embeddings(model) // 2 - 2
            )
    finally:
        model.train(training)
        for handle in hooks:
            handle.remove()
    return after


def block_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return the input of a block."""
    return args[0] if args else kwargs["hidden_states"]


def block_output(output: Any) -> Tensor:
    """Return the output of a block."""
    return output[0] if isinstance(output, tuple) else output


def num_embeddings(model: Any) -> int:
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return int(model.config.vocab_size)


def padding_id(model: Any, tokenizer: Any) -> int:
    """Return the model's padding id, from which some models count positions; otherwise any id,
    since the mask marks padding.
    """
    ids = (getattr(model.config, "pad_token_id", None), tokenizer.pad_token_id, 0)
    return next(
        number for number in ids if isinstance(number, int) and 0 <= number < num_embeddings(model)
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
    usual = min(
        bound or UNBOUNDED if tokenizer.model_max_length > 1e9 else tokenizer.model_max_length,
        bound or 10**9,
    )
    size = usual if asked is None else asked
    if size <= special or (bound and size > bound):
        came = f"null is {usual}, the limit of its tokenizer" if asked is None else asked
        raise ValueError(
            f"encoder.window={came}, but each window of this model has {special} special "
            f"tokens and {f'at most {bound}' if bound else 'any number of'} subwords: choose a "
            "number in between"
        )
    return int(size)
