"""GPU operations, waits and memory of the biLM (`encoders/bilm/stacked.py`), counted without a GPU.

Operations and casts are counted on a CPU, where a kernel of `cell.py` counts as one operation, as
on a GPU. Waits and memory are counted on torch's meta device, whose tensors have shapes but no
values.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_bench.encoders.bilm import BiLm, Options, cell, fast, stacked
from elmo_bench.encoders.bilm.bilm import ProjectedLstm
from elmo_bench.encoders.bilm.stacked_scan import Clips, StackedScan, frozen, stack

from .steps import Waits
from .timing import SIZES

OPTIONS = Options(cell_size=8, projection_size=4, filters=((1, 4),))


class Operations(TorchDispatchMode):
    """Records the names of torch's operations except views, and counts casts by data pointer."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.casts: Counter[int] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not func.is_view:
            self.names.append(str(func))
        if func is torch.ops.aten._to_copy.default:
            self.casts[args[0].data_ptr()] += 1
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
    """Count each kernel of `cell.py` as one operation, whatever its CPU version runs."""

    def one(kernel: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **settings: Any) -> None:
            count = len(names)
            kernel(*args, **settings)
            names[count:] = [f"cell.{kernel.__name__}"]

        return run

    with (
        mock.patch.object(cell, "step", one(cell.step)),
        mock.patch.object(cell, "gradient", one(cell.gradient)),
    ):
        yield


@contextmanager
def on_meta() -> Iterator[None]:
    """Use the code path of GPUs on the meta device, without autocast and kernels."""
    with ExitStack() as patches:
        for owner, name, value in (
            (fast, "STACKED_ON", ("meta",)),
            (torch, "autocast", lambda *_, **__: nullcontext()),
            (torch, "is_autocast_enabled", lambda *_: False),
            (cell, "step", lambda *_, **__: None),
            (cell, "gradient", lambda *_: None),
        ):
            patches.enter_context(mock.patch.object(owner, name, value))
        yield


def defined_step() -> int:
    """Operations per time step of the definition: both directions, one layer."""
    lstm = ProjectedLstm(4, OPTIONS)

    @torch.no_grad()
    def read(steps: int) -> None:
        x, is_token = torch.zeros(2, steps, 4), torch.ones(2, steps, dtype=torch.bool)
        lstm(x, is_token, torch.zeros(2, 4), torch.zeros(2, 8))

    return 2 * _a_step(read)


def step() -> int:
    """Operations per time step without gradients: both directions, one layer."""
    weights = stack(_parameters(), torch.float32)

    @torch.no_grad()
    def read(steps: int) -> None:
        x, h, c = _inputs(steps)
        frozen(x, h, c, [2] * steps, weights, Clips(3.0, 3.0))

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


def casts() -> int:
    """The most casts of one LSTM weight in two forward passes of 30 steps under autocast."""
    model = BiLm(OPTIONS).eval().requires_grad_(False)
    x, state = torch.zeros(3, 30, 4), model.zero_state(3)
    with (
        mock.patch.object(fast, "STACKED_ON", ("cpu",)),
        torch.autocast("cpu", torch.bfloat16),
        Operations() as operations,
    ):
        for _ in range(2):
            list(model.run_directions([x, x], None, state))
    return max(operations.casts[weight.data_ptr()] for weight in model.directions.parameters())


def waits() -> int:
    """How often the host waits in a forward pass plus a training window with its gradient."""
    model = BiLm(OPTIONS).eval().requires_grad_(False).to("meta")
    parameters = _parameters("meta")
    with on_meta(), Waits() as waits:
        weights = stacked.Stacked(model, torch.float32)
        x = torch.empty(3, 9, 4, device="meta")
        stacked.read(model, weights, x, [9, 2, 5], model.zero_state(3))
        _train(20, parameters)
    return len(waits.names)


def megabytes(count: int = 640, tokens: int = 500) -> int:
    """Peak memory, in MB, of a forward pass of the original size.

    Parameters (374 MB) and characters are not included. The figure depends on the number of tokens:
    64 sentences of 5,000 tokens take longer to count and need slightly less.
    """
    model = BiLm(SIZES["original"]).eval().requires_grad_(False).to("meta")
    with on_meta(), Memory() as memory, torch.no_grad():
        weights, state = stacked.Stacked(model, torch.float32), model.zero_state(count)
        lengths = [tokens + 2] * count
        stacked.read(model, weights, _vectors(model, lengths), lengths, state)
    return memory.most // 1_000_000


def _vectors(model: BiLm, lengths: list[int]) -> Tensor:
    return torch.empty(len(lengths), lengths[0], model.options.projection_size, device="meta")


def _parameters(device: str = "cpu") -> list[Tensor]:
    """The parameters of one layer, both directions."""
    lstms = [ProjectedLstm(4, OPTIONS).to(device) for _ in range(2)]
    return [parameter for lstm in lstms for parameter in lstm.parameters()]


def _inputs(steps: int, device: str = "cpu") -> list[Tensor]:
    """x, h and c of two sentences."""
    shapes = (2, 2 * steps, 4), (2, 2, 4), (2, 2, 8)
    return [torch.zeros(shape, device=device) for shape in shapes]


def _train(steps: int, parameters: list[Tensor]) -> None:
    """Run one layer over a training window, forward and backward."""
    x, h, c = _inputs(steps, parameters[0].device.type)
    settings = [2] * steps, Clips(3.0, 3.0), torch.float32
    outputs, *_ = StackedScan.apply(x, h, c, *settings, *parameters)
    torch.autograd.grad(outputs.sum(), parameters)
