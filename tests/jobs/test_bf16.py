"""`trainer.precision=bf16-mixed` for all six tasks."""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from elmo_bench.jobs.train import train
from elmo_bench.module import TaskModule
from tests.jobs.small import SMALL

CONF = str(Path(__file__).parents[2] / "conf")


@pytest.mark.parametrize("task", SMALL)
def test_two_batches(tmp_path, monkeypatch, task):
    """The loss is near that of float32, and weights stay float32."""
    losses, step = [], TaskModule.training_step

    def both(module, numbered, number):
        with torch.random.fork_rng(), torch.autocast("cpu", enabled=False):
            exact = module.model.loss(module.model(numbered.batch), numbered.batch)
        loss = step(module, numbered, number)
        losses.append((float(exact), float(loss - module.elmo.penalty())))
        return loss

    monkeypatch.setattr(TaskModule, "training_step", both)
    settings = [f"cache_dir={tmp_path}", f"run_dir={tmp_path}", "data.size=2", "encoder=mini"]
    settings += ["trainer.enable_progress_bar=false"]
    settings += ["trainer=smoke", "trainer.accelerator=cpu", "fit.batch_size=1"]
    with initialize_config_dir(CONF, version_base="1.3"):
        kind = "trainer.precision=bf16-mixed"
        train(compose("config", [f"task={task}", kind, *settings, *SMALL[task]]))
    assert len(losses) == 2
    for exact, near in losses:
        assert near != exact
        assert near == pytest.approx(exact, rel=0.02)
    weights = torch.load(tmp_path / "best.ckpt", weights_only=True)["state_dict"]
    assert not [name for name, value in weights.items() if value.dtype == torch.bfloat16]
