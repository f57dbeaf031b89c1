"""A batch that is too large for the memory of a GPU is read in parts, to the same step."""

import logging

import pytest
import pytorch_lightning as pl
import torch

from elmo_bench import build
from tests import conftest
from tests.jobs.small_settings import SMALL

DRY = ["rnn.dropout=0.0", "task.model.dropout=0.0", "embed.unknown_rate=0.0"]  # no random numbers
PLAIN = {
    "ner": [*DRY, "elmo.dropout=0.0"],
    "snli": [*DRY, "task.esim.attention_dropout=0.0", "elmo.norm=none", "elmo.l2=0.1"],
}


class Small(pl.Callback):
    """A GPU with room for so many examples, forward or backward; it notes the gradient."""

    def __init__(self, room, where="forward"):
        self.room, self.where, self.gradient, self.sizes = room, where, {}, []

    def setup(self, trainer, pl_module, stage):
        loss = pl_module.model.loss

        def limited(scores, batch):
            self.sizes.append(len(batch[-1]))
            value = loss(scores, batch)
            if self.where == "backward":
                value.register_hook(lambda _: self.check(self.sizes[-1]))
            return value

        pl_module.model.loss = limited
        if self.where == "forward":
            pl_module.model.register_forward_pre_hook(lambda _, xs: self.check(len(xs[0][-1])))

    def check(self, size):
        if size > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        weights = pl_module.named_parameters()
        self.gradient = {name: w.grad.clone() for name, w in weights if w.grad is not None}


def parts(tmp_path_factory, task, *overrides):
    folders = f"cache_dir={tmp_path_factory.getbasetemp()}"
    small = ["data.size=10", "encoder=mini", "trainer=cpu", "fit.batch_size=7", folders]
    cfg = conftest.composed(f"task={task}", *SMALL[task], *PLAIN[task], *small, *overrides)
    pl.seed_everything(1, verbose=False)
    built = build.parts(cfg)
    data = build.data(cfg, built.examples, built.vocab, built.module.model.backbone)
    return built.module, data


def fitted(module, data, callback, **settings):
    settings = {"max_steps": 1, "limit_val_batches": 1, "num_sanity_val_steps": 0} | settings
    shown = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    keeps = {"enable_checkpointing": False, "callbacks": [callback]}
    trainer = pl.Trainer(accelerator="cpu", **settings, **shown, **keeps)
    trainer.fit(module, data)
    return trainer


@pytest.mark.parametrize("task", PLAIN)  # one sums its losses, one has their mean and a penalty
@pytest.mark.parametrize(("room", "where"), [(6, "forward"), (3, "forward"), (3, "backward")])
def test_the_gradient_of_parts_is_that_of_the_whole(tmp_path_factory, caplog, task, room, where):
    whole, halved = Small(7), Small(room, where)
    fitted(*parts(tmp_path_factory, task), whole)
    module, data = parts(tmp_path_factory, task)
    fitted(module, data, halved)
    assert whole.gradient.keys() == halved.gradient.keys()
    for name, gradient in whole.gradient.items():
        error = (gradient - halved.gradient[name]).abs().max()
        assert error <= 1e-6 * max(1.0, gradient.abs().max()), name
    times = 1 if room == 6 else 2
    assert module.num_parts == 2**times
    said = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(said) == times
    assert "7 examples at once: batches are read in 2 parts" in said[0]


def test_the_loss_of_parts_is_that_of_the_whole(tmp_path_factory):
    """Over an epoch, and what is said of the last batch."""
    logged = []
    for room in (7, 2):
        built = parts(tmp_path_factory, "ner", "elmo.l2=0.0")
        trainer = fitted(*built, Small(room), max_steps=-1, max_epochs=1, log_every_n_steps=1)
        logged.append({k: float(v) for k, v in trainer.callback_metrics.items() if "train" in k})
    assert logged[0].keys() == {"train/loss", "train/loss_step"}
    assert logged[1] == pytest.approx(logged[0], rel=1e-4)


def test_what_halving_cannot_help_is_said(tmp_path_factory):
    with pytest.raises(MemoryError, match=r"7 examples at once: lower fit.batch_size or fit.ba"):
        fitted(*parts(tmp_path_factory, "ner"), Small(0))
    module, data = parts(tmp_path_factory, "ner")
    with pytest.raises((MemoryError, torch.OutOfMemoryError)):  # gradients of others are there
        fitted(module, data, Small(3), accumulate_grad_batches=2)
    assert module.num_parts == 1


def test_an_evaluation_in_parts(tmp_path_factory):
    """The same predictions, figures and norms of layers."""
    left = []
    for room in (7, 2):
        module, data = parts(tmp_path_factory, "ner")
        trainer = fitted(module, data, callback := Small(7))
        callback.room = room
        figures = trainer.validate(module, data, verbose=False)
        left.append((figures[0], module.predictions))
    assert left[0][1] == left[1][1]
    assert left[1][0] == pytest.approx(left[0][0], rel=1e-5)
    assert any("norm" in name for name in left[0][0])
