"""The one LightningModule: how it looks at losses."""

import math
import multiprocessing
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torchmetrics import MeanMetric

from elmo_bench.nn import TaskModel
from elmo_bench.training.batches import Numbered
from elmo_bench.training.module import CHECK_EVERY, TaskModule


class Model(TaskModel):
    """One whose losses are given."""

    def __init__(self, losses):
        super().__init__()
        self.losses = iter(losses)
        self.backbone = nn.Module()
        self.backbone.elmo = nn.Module()
        self.backbone.elmo.penalty = lambda: 0.0
        self.backbone.elmo.mixes = nn.ModuleDict()

    def forward(self, batch):
        return batch

    def loss(self, scores, batch):
        return torch.tensor(next(self.losses))

    def decode(self, scores, batch):
        return []


@pytest.fixture
def module(monkeypatch):
    monkeypatch.setattr(TaskModule, "log", lambda *_, **__: None)
    monkeypatch.setattr(TaskModule, "global_step", property(lambda self: self.steps))
    monkeypatch.setattr(TaskModule, "trainer", SimpleNamespace(precision="32-true"))

    def build(*losses):
        module = TaskModule(Model(losses), MeanMetric(), torch.optim.SGD, monitor="dev/f1")
        module.steps = 0
        return module

    return build


def train(module, steps):
    for step in range(steps):
        step_of(module, 1, step)
        module.steps += 1


def step_of(module, size, number=0):
    """The loss of a batch of this size."""
    loss = module.training_step(Numbered([*range(size)], None), number)
    module.on_train_batch_end(None, None, number)
    return loss


@pytest.mark.parametrize("sums", [True, False])
def test_the_loss_of_an_example_is_logged(module, monkeypatch, sums):
    """Whatever the size of a batch, and whether the model adds up; what is optimised stays."""
    logged = []
    monkeypatch.setattr(TaskModule, "log", lambda _, *named, **__: logged.append(named))
    it = module(6.0, 8.0)
    it.model.sums_losses = sums
    optimised = [step_of(it, size) for size in (3, 1)]
    assert [float(loss) for loss in optimised] == [6, 8]
    steps = [float(value) for name, value in logged if name == "train/loss_step"]
    assert steps == ([2, 8] if sums else [6, 8])
    assert float(it.mean_loss.compute()) == (3.5 if sums else 6.5)


def test_losses_are_looked_at_now_and_then(module, monkeypatch):
    """A look waits for the GPU: not at each step."""
    trained, looks = module(*[1.0] * 2 * CHECK_EVERY), []
    monkeypatch.setattr(TaskModule, "check_loss", lambda self: looks.append(self.steps))
    for read in ("item", "tolist", "__bool__", "__float__"):
        monkeypatch.setattr(torch.Tensor, read, lambda *_: pytest.fail("a step waits for the GPU"))
    train(trained, 2 * CHECK_EVERY)
    assert looks == [CHECK_EVERY - 1, 2 * CHECK_EVERY - 1]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number(module, bad):
    trained = module(1.0, bad, 2.0)
    train(trained, 3)
    with pytest.raises(FloatingPointError, match=rf"the loss is {bad} at step 3 .*optimizer.lr"):
        trained.on_validation_epoch_start()


def test_a_monitored_figure_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setattr(MeanMetric, "compute", lambda _: {"f1": torch.tensor(math.nan)})
    it = TaskModule(Model([]), MeanMetric(), torch.optim.SGD, monitor="dev/f1")
    it.metrics["dev"].update(1.0)
    with pytest.raises(FloatingPointError, match="dev/f1 is nan, so no epoch is the best"):
        it._log_metric("dev")


def share(rank, folder, results):
    """Save and load the mean loss of an epoch, of which each of two processes has a part; and begin
    a pass over dev.
    """
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    before, after = (
        TaskModule(Model([]), MeanMetric(), torch.optim.SGD, monitor="dev/f1") for _ in range(2)
    )
    before.mean_loss.update(torch.tensor(1.0 + rank), 2)
    checkpoint = {"state_dict": {}}
    before.on_save_checkpoint(checkpoint)
    files = [checkpoint]
    dist.broadcast_object_list(files)  # the first process writes its own
    after.on_load_checkpoint(files[0])
    running = nn.BatchNorm1d(1)
    running.running_mean[:] = 5.0 + rank
    after.model.norm = running
    after.on_validation_epoch_start()
    mean = running.running_mean.item()
    results.put((rank, after.mean_loss.sums.item(), after.mean_loss.count.item(), mean))


def test_each_process_has_its_own_share_of_the_loss_and_the_same_running_means(tmp_path):
    """When it resumes, and when it scores dev."""
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    processes = [fork.Process(target=share, args=(k, tmp_path, results)) for k in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(results.get() for _ in processes) == [(0, 1.0, 2, 5.0), (1, 2.0, 2, 5.0)]
