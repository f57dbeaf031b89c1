"""Waits and transfers of a training step on a GPU, counted without a GPU.

Training runs on torch's meta device, whose tensors have shapes but no values: code that reads a
value there would wait for a GPU. Lightning, the task's model and the optimizer are the real ones.
"""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from pytorch_lightning.callbacks import LearningRateMonitor
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_bench import build
from elmo_bench.settings.hydra_private import OF_VERSION
from elmo_bench.settings.targets import instantiate

from .timing import CONF

STEPS = 2
TASKS = sorted(path.stem for path in (CONF / "task").glob("*.yaml"))
SETTINGS = {  # for a shorter count, or as in the paper
    "squad": ["fit.batch_size=2"],
    "coref": ["fit.batch_size=1"],  # documents
}
ATEN: Any = torch.ops.aten


class Step(NamedTuple):
    """What was counted in one training step."""

    waits: list[str]  # reasons for which the host waited
    sent: list[Tensor]  # tensors copied to the device
    masks: list[Tensor]  # "B T" of each `Tokens` of the batch

    @property
    def layer_bytes(self) -> int:
        """Bytes of the layers "L B T D", the only tensors with four axes."""
        return sum(tensor.nbytes for tensor in self.sent if tensor.ndim == 4)


class Device(SingleDeviceStrategy):
    """Trains on the meta device as on a GPU."""

    def __init__(self) -> None:
        super().__init__(torch.device("meta"))

    def setup_environment(self) -> None:
        """Do nothing, since Lightning's own setup does not support the meta device."""


class _Made(TorchFunctionMode):
    """Records tensors that are created on the device from Python numbers: each is a copy."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        made = (torch.tensor, torch.as_tensor, Tensor.new_tensor)
        is_of_numbers = func is Tensor.new_tensor or not isinstance(args[0], Tensor)
        if func in made and is_of_numbers and result.is_meta:
            self.names.append("a tensor is sent")
        return result


class Waits(TorchDispatchMode):
    """Records what waits for the device, and the tensors that are copied to it.

    Operations whose output shape depends on values (`nonzero`, a mask as an index) wait too; the
    meta device raises an error for them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.sent: list[Tensor] = []
        self._made = _Made(self.names)

    def __enter__(self) -> "Waits":
        self._made.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._made.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        there = [each.is_meta for each in tensors]
        if func is ATEN._local_scalar_dense.default and all(there):
            self.names.append("a value is read")
            return 0
        if func is ATEN._to_copy.default and kwargs.get("device") is not None:
            return self._copied(tensors[0], kwargs)
        if func is ATEN.index.Tensor and there[0] and not all(there):
            self.names.append("an index comes from the host")
        return func(*args, **kwargs)

    def _copied(self, tensor: Tensor, kwargs: dict[str, Any]) -> Tensor:
        device = kwargs["device"]
        if tensor.is_meta and device.type == "cpu":
            self.names.append("a tensor is read")
            return torch.zeros(tensor.shape, dtype=kwargs.get("dtype") or tensor.dtype)
        if device.type == "meta" and not tensor.is_meta:
            self.sent.append(tensor)
            if not kwargs.get("non_blocking"):
                self.names.append("a tensor is sent")
        return ATEN._to_copy.default(tensor, **kwargs)


class Last(pl.Callback):
    """Keeps the counts of the last step, from the end of the step before it.

    This includes the copy of the batch, which is made before its step begins.
    """

    def __init__(self, waits: Waits) -> None:
        self.waits, self.step = waits, Step([], [], [])

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        masks = [part.mask for part in batch.batch if hasattr(part, "mask")]
        self.step = Step([*self.waits.names], [*self.waits.sent], masks)
        self.waits.names.clear()
        self.waits.sent.clear()


def waits(task: str) -> int:
    """The number of times that a training step of a task waits for the device."""
    with tempfile.TemporaryDirectory() as folder:
        return len(last_step(task, Path(folder)).waits)


def needless_bytes() -> int:
    """Bytes of layers copied with a batch from a store, beyond those that the mix needs.

    The mix needs its own layers, in the dtype of the store.
    """
    with tempfile.TemporaryDirectory() as folder:
        step = last_step("snli", Path(folder), "elmo.mix=[0,2]", "store.dtype=float16")
    words, width = sum(mask.numel() for mask in step.masks), 128  # of the biLM `mini`
    return step.layer_bytes - 2 * words * width * 2


def last_step(task: str, scratch: Path, *settings: str) -> Step:
    """Train a task on the generated corpus from a store for a few steps; the last step's counts."""
    small = ["encoder=mini", "data.size=20", "fit.batch_size=2", *SETTINGS.get(task, [])]
    with initialize_config_dir(str(CONF), **OF_VERSION):
        folders = [f"{key}={scratch}" for key in ("cache_dir", "run_dir")]
        cfg = compose("config", [f"task={task}", "trainer=cpu", *folders, *small, *settings])
    pl.seed_everything(cfg.seed, verbose=False)
    parts = build.parts(cfg)
    module = parts.module
    store = build.store(cfg, parts.elmo, parts.examples.all_sentences, torch.device("cpu"))
    data = build.data(cfg, parts.examples, parts.vocab, module.model.backbone, store)
    waits = Waits()
    last = Last(waits)
    trainer = _trainer(cfg, [last, LearningRateMonitor("step")])
    # The meta device has no autocast, and our code only ever disables it.
    with mock.patch.object(torch, "autocast", return_value=nullcontext()), waits:
        trainer.fit(module, data)
    return last.step


def _trainer(cfg: DictConfig, callbacks: list[pl.Callback]) -> pl.Trainer:
    """The trainer of the config on the meta device, without validation and checkpoints."""
    logger = pl.loggers.CSVLogger(cfg.run_dir)
    short = {"max_steps": STEPS, "limit_val_batches": 0, "enable_checkpointing": False}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    return instantiate(
        cfg.trainer,
        strategy=Device(),
        callbacks=callbacks,
        logger=logger,
        use_distributed_sampler=False,
        **short,
        **quiet,
    )
