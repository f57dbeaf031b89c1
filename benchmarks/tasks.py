"""Each task's training step on the generated corpus, batches made on the way: without ELMo, with a
store, without one.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from elmo_bench import build
from elmo_bench.module import TaskModule

from .timing import CONF, Comparison, Setting

MEANS = {
    "encoder=none": ["encoder=none"],
    "mini, from the store": [],
    "mini, run on each batch": ["elmo.cache=off"],
}


def compare(setting: Setting) -> Iterator[Comparison]:
    """A comparison for each task; a call makes some steps."""
    steps, stories = (1, 20) if setting.quick else (10, 200)
    for task in sorted(path.stem for path in (CONF / "task").glob("*.yaml")):
        settings = [
            f"task={task}",
            f"data.size={stories}",
            f"cache_dir={setting.scratch}",
            f"run_dir={setting.scratch}",
        ]
        settings += ["trainer=cpu", "fit.batch_size=4"] if setting.quick else ["trainer=cpu"]
        with initialize_config_dir(str(CONF), version_base="1.3"):
            means = {
                name: _trainer(compose("config", [*settings, *more]), steps)
                for name, more in MEANS.items()
            }
        yield Comparison(f"{task}, training", means, steps, "steps")


def _trainer(cfg: DictConfig, steps: int) -> Callable[[], None]:
    torch.manual_seed(cfg.seed)
    elmo, data = build.elmo(cfg), build.data(cfg)
    data.vocab, vectors = build.vocab(cfg, data)
    module = build.module(cfg, build.model(cfg, data.vocab, vectors, elmo), data.vocab).train()
    data.store = build.store(cfg, elmo, data)
    loader, optimizer = data.train_dataloader(), module.configure_optimizers()["optimizer"]

    def train() -> None:
        for numbered in islice(loader, steps):
            step(module, optimizer, numbered.batch)

    return train


def step(module: TaskModule, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    """What training does with a batch, without Lightning's own part."""
    optimizer.zero_grad()
    (module.model.loss(module.model(batch), batch) + module.elmo.penalty()).backward()
    optimizer.step()
