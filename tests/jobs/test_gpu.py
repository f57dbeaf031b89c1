"""What only a GPU can show of training: `pytest -m gpu tests/jobs/test_gpu.py`."""

import json
import statistics

import pytest
import pytorch_lightning as pl
import torch

from elmo_bench.build import hardware, process
from elmo_bench.jobs import train as job
from tests.conftest import composed
from tests.jobs.small_settings import SMALL

SEEDS = (1, 2, 3)
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.fixture(autouse=True)
def _float32():
    process.prepare(tf32=False, deterministic=True)


def run(folder, *overrides):
    """What a run on the GPU watches, on test, and the weights of its best epoch."""
    settings = ["trainer=gpu", "trainer.enable_progress_bar=false", "encoder=mini"]
    folders = [f"cache_dir={folder.parent}", f"run_dir={folder}"]
    cfg = composed(*settings, *folders, *overrides)
    metrics = job.train(cfg)
    device = json.loads((folder / "result.json").read_text())["device"]
    assert device == torch.cuda.get_device_name()
    weights = torch.load(folder / "best.ckpt", weights_only=True)["state_dict"]
    return metrics[f"test/{cfg.task.monitor}"], weights


@pytest.mark.parametrize("task", SMALL)
def test_bf16_is_as_good_as_float32(tmp_path, task):
    """The mean over seeds differs by no more than means of so many seeds do: by three deviations
    of their difference, or by a point where all seeds agree.
    """
    settings = [f"task={task}", "data.size=100", "fit.max_epochs=4"]

    def figures(kind):
        own = [*settings, f"trainer.precision={kind}"]
        return [run(tmp_path / f"{kind}{seed}", f"seed={seed}", *own)[0] for seed in SEEDS]

    exact, near = map(figures, ("32-true", "bf16-mixed"))
    variance = (statistics.variance(exact) + statistics.variance(near)) / len(SEEDS)
    difference = abs(statistics.mean(exact) - statistics.mean(near))
    assert difference <= max(3 * variance**0.5, 0.01), (exact, near)


@pytest.mark.parametrize("task", SMALL)
def test_the_same_numbers_bit_for_bit(tmp_path, task):
    """Twice the same seed, with workers and without."""
    settings = [f"task={task}", "data.size=2", *SMALL[task], "fit.max_epochs=2"]
    _, there = run(tmp_path / "there", *settings)
    _, brought = run(tmp_path / "brought", *settings, "num_workers=2")
    assert there.keys() == brought.keys()
    assert [name for name in there if not torch.equal(there[name], brought[name])] == []


class Strict(pl.Callback):
    """Makes an error of what waits for the GPU in a training step; the first steps set up what they
    need.
    """

    def on_train_batch_start(self, *args) -> None:
        torch.cuda.set_sync_debug_mode("error" if args[-1] >= 2 else "default")

    def on_train_batch_end(self, *_) -> None:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("task", sorted(SMALL.keys() - {"coref"}))  # which chooses on the host
@pytest.mark.parametrize("kind", ["32-true", "bf16-mixed"])
def test_a_step_waits_for_nothing(tmp_path, monkeypatch, task, kind):
    callbacks = hardware.callbacks
    monkeypatch.setattr(hardware, "callbacks", lambda cfg: [*callbacks(cfg), Strict()])
    settings = [f"task={task}", "data.size=2", *SMALL[task], "fit.max_epochs=1", "fit.batch_size=2"]
    run(tmp_path / "run", *settings, f"trainer.precision={kind}")
    run(tmp_path / "memory", *settings, f"trainer.precision={kind}", "store.mode=memory")


@pytest.mark.parametrize("task", ["ner", "snli"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_layers_in_the_memory_of_the_gpu(tmp_path, task, dtype):
    """Bit for bit those of the disk, with workers that do not have them."""
    settings = [f"task={task}", "data.size=2", *SMALL[task], "fit.max_epochs=2"]
    settings += [f"store.dtype={dtype}", "num_workers=2"]
    figure, weights = run(tmp_path / "memory", *settings, "store.mode=memory")
    assert not (tmp_path / "layers").exists()
    expected, others = run(tmp_path / "disk", *settings)
    assert figure == expected
    assert [name for name in weights if not torch.equal(weights[name], others[name])] == []


@pytest.mark.parametrize("way", ["none", "lora", "full"])
def test_a_transformer_as_in_its_own_paper(tmp_path, random_bert, way):
    """With no x_k, whose embedding has no numbers."""
    settings = ["experiment=bert/snli", f"finetune={way}", "data=sample", "data.size=3"]
    encoder = ["encoder=transformer", f"encoder.model={random_bert}", "fit.max_epochs=1"]
    score, _ = run(tmp_path / "run", *settings, *encoder)
    assert 0 <= score <= 1
