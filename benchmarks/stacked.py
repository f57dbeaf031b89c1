"""GPU operations, waits and memory of the biLM (`encoders/bilm/scan.py`), counted without a GPU.

Operations are counted on a CPU, where a kernel of `pointwise.py` counts as one, as
on a GPU. Waits and memory are counted on torch's meta device, whose tensors have shapes but no
values.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_bench.encoders.bilm import BiLm, Options, bilm, pointwise, scan

from .steps import Waits
from .timing import SIZES

OPTIONS = Options(cell_size=8, projection_size=4, filters=((1, 4),))


class Operations(TorchDispatchMode):
    """Records the names of torch's operations except views."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not func.is_view:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Memory(TorchDispatchMode):
    """The peak memory, in bytes, of the tensors created within `with`."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most = 0
        self._storages: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in () if func.is_view else tree_leaves(result):
            storage = tensor.untyped_storage()
            if id(storage) not in self._storages:
                self._storages.add(id(storage))
                self.held += storage.nbytes()
                weakref.finalize(storage, self._free, id(storage), storage.nbytes())
        self.most = max(self.most, self.held)
        return result

    def _free(self, storage: int, size: int) -> None:
        self._storages.remove(storage)
        self.held -= size


@contextmanager
def one_kernel_each(names: list[str]) -> Iterator[None]:
    """Count each function of `pointwise.py` as one operation, whatever its CPU version runs."""

    def one(kernel: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any) -> None:
            count = len(names)
            kernel(*args)
            names[count:] = [f"pointwise.{kernel.__name__}"]

        return run

    with (
        mock.patch.object(pointwise, "forward", one(pointwise.forward)),
        mock.patch.object(pointwise, "backward", one(pointwise.backward)),
    ):
        yield


@contextmanager
def on_meta() -> Iterator[None]:
    """Use the code path of GPUs on the meta device, without autocast and kernels."""
    with ExitStack() as patches:
        for owner, name, value in (
            (bilm, "TOGETHER_ON", ("meta",)),
            (torch, "autocast", lambda *_, **__: nullcontext()),
            (torch, "is_autocast_enabled", lambda *_: False),
            (pointwise, "forward", lambda *_: None),
            (pointwise, "backward", lambda *_: None),
        ):
            patches.enter_context(mock.patch.object(owner, name, value))
        yield


def step() -> int:
    """Operations per time step without gradients: both directions, one layer."""
    weights = scan.Weights(scan.stack(_parameters(), torch.float32))

    @torch.no_grad()
    def read(steps: int) -> None:
        x, h, c = _inputs(steps)
        rows = [2] * steps
        scan.read(weights.inputs(x, rows), h, c, rows, weights, OPTIONS)

    return _a_step(read)


def training_step() -> int:
    """Operations per time step and its gradient: both directions, one layer."""
    return _a_step(lambda steps: _train(steps, _parameters()))


def _a_step(read: Callable[[int], None]) -> int:
    """How many more operations 9 steps take than 8."""
    counts = []
    for steps in (8, 9):
        with Operations() as operations, one_kernel_each(operations.names):
            read(steps)
        counts.append(len(operations.names))
    return counts[1] - counts[0]


def waits() -> int:
    """How often the host waits in a forward pass plus a training window with its gradient."""
    model = BiLm(OPTIONS).eval().requires_grad_(False).to("meta")
    parameters = _parameters("meta")
    with on_meta(), Waits() as waits:
        x = torch.empty(3, 9, 4, device="meta")
        model.read_tokens(x, [9, 2, 5], model.zero_state(3))
        _train(20, parameters)
    return len(waits.names)


def megabytes(count: int = 640, tokens: int = 500) -> int:
    """Peak memory, in MB, of a forward pass of the original size.

    Parameters (374 MB) and characters are not included. The figure depends on the number of tokens:
    64 sentences of 5,000 tokens take longer to count and need slightly less.
    """
    model = BiLm(SIZES["original"]).eval().requires_grad_(False).to("meta")
    with on_meta(), Memory() as memory, torch.no_grad():
        lengths = [tokens + 2] * count
        model.read_tokens(_vectors(model, lengths), lengths, model.zero_state(count))
    return memory.most // 1_000_000


def _vectors(model: BiLm, lengths: list[int]) -> Tensor:
    return torch.empty(len(lengths), lengths[0], model.options.projection_size, device="meta")


def _parameters(device: str = "cpu") -> list[Tensor]:
    """The parameters of one layer, both directions."""
    lstms = [bilm.ProjectedLstm(OPTIONS).to(device) for _ in range(2)]
    return [parameter for lstm in lstms for parameter in lstm.parameters()]


def _inputs(steps: int, device: str = "cpu") -> list[Tensor]:
    """x, h and c of two sentences."""
    shapes = (2, 2 * steps, 4), (2, 2, 4), (2, 2, 8)
    return [torch.zeros(shape, device=device) for shape in shapes]


def _train(steps: int, parameters: list[Tensor]) -> None:
    """Run one layer over a training window, forward and backward."""
    x, h, c = _inputs(steps, parameters[0].device.type)
    settings = [2] * steps, OPTIONS, torch.float32
    outputs, *_ = scan.Scan.apply(x, h, c, *settings, *parameters)
    torch.autograd.grad(outputs.sum(), parameters)
