"""The training step of each task on the generated corpus, including the collation of batches.

Without ELMo, with a store and without one; on a GPU also with the layers in GPU memory, and in
bf16-mixed.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from lightning_fabric.utilities import move_data_to_device
from omegaconf import DictConfig

from elmo_bench import build
from elmo_bench.build import hardware
from elmo_bench.settings.hydra_private import OF_VERSION
from elmo_bench.training.batches import Numbered
from elmo_bench.training.module import TaskModule

from .timing import CONF, Comparison, Setting

MEANS = {
    "encoder=none": ["encoder=none"],
    "mini, from the store": [],
    "mini, run on each batch": ["store.mode=off"],
}
ON_A_GPU = {"mini, bf16-mixed": ["trainer.precision=bf16-mixed"]}


def compare(setting: Setting) -> Iterator[Comparison]:
    """A comparison for each task; each call makes some training steps."""
    steps, stories = (1, 20) if setting.quick else (10, 200)
    all_means = MEANS | ON_A_GPU if setting.device == "cuda" else MEANS
    trainer = "trainer=gpu" if setting.device == "cuda" else "trainer=cpu"
    for task in sorted(path.stem for path in (CONF / "task").glob("*.yaml")):
        settings = [
            f"task={task}",
            f"data.size={stories}",
            f"cache_dir={setting.scratch}",
            f"run_dir={setting.scratch}",
        ]
        settings += [trainer, "fit.batch_size=4"] if setting.quick else [trainer]
        with initialize_config_dir(str(CONF), **OF_VERSION):
            means = {
                name: _trainer(compose("config", [*settings, *more]), steps)
                for name, more in all_means.items()
            }
        yield Comparison(f"{task}, training", means, steps, "steps")


def _trainer(cfg: DictConfig, steps: int) -> Callable[[], None]:
    torch.manual_seed(cfg.seed)
    parts = build.parts(cfg)
    device = torch.device(hardware.device(cfg))
    store = build.store(cfg, parts.elmo, parts.examples.all_sentences, device)
    data = build.data(cfg, parts.examples, parts.vocab, parts.module.model.backbone, store)
    module = parts.module.train().to(device)
    loader, optimizer = data.train_dataloader(), module.configure_optimizers()["optimizer"]

    def train() -> None:
        for numbered in islice(loader, steps):
            batch = there(numbered, device)
            step(module, optimizer, batch, bf16=cfg.trainer.precision == "bf16-mixed")

    return train


def there(numbered: Numbered, device: torch.device) -> Any:
    """A batch on the device, moved there in the same way as by Lightning."""
    if device.type == "cpu":
        return numbered.batch
    return move_data_to_device(numbered, device).batch


def step(
    module: TaskModule, optimizer: torch.optim.Optimizer, batch: Any, *, bf16: bool = False
) -> None:
    """One training step, without Lightning's overhead."""
    optimizer.zero_grad()
    with torch.autocast(module.device.type, torch.bfloat16, bf16):
        loss = module.model.loss(module.model(batch), batch) + module.elmo.penalty()
    loss.backward()
    optimizer.step()
