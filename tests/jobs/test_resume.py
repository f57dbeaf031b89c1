"""A run that was killed goes on, and ends as if it had not been: the same figures, curves and
predictions, bit for bit.
"""

import itertools
import json
import math
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from elmo_bench.jobs import train as training
from elmo_bench.jobs.train import train
from elmo_bench.terminal.signals import Stopped
from elmo_bench.training import data, resume
from elmo_bench.training.in_parts import InParts
from elmo_bench.training.resume import save_state
from tasks.ner.model import BiLstmCrf
from tests.jobs.killed import kill, kill_at, train_and_kill
from tests.jobs.small_settings import SMALL

MORE = {  # what draws random numbers, keeps a state or moves between steps
    "ner": ["elmo.dropout=0.5", "fit.batch_size=4"],
    "sst5": ["embed.unknown_rate=0.3", "fit.batch_size=4"],
    "snli": [
        *("embed.unknown_rate=0.3", "finetune=full", "finetune.lr_decay=0.5", "optimizer=adamw"),
        *("schedule=linear_warmup", "fit.batch_size=10", "+trainer.limit_val_batches=3"),
    ],
    "squad": ["fit.batch_size=4", "+trainer.limit_val_batches=3"],
    "srl": ["fit.batch_size=80"],
    "coref": ["task.model.max_sentences=2", "task.scheduler={step_size:1,gamma:0.9}"],
}


def left(cfg):
    """All that a run leaves, without times."""
    folder = Path(cfg.run_dir)
    result = json.loads((folder / "result.json").read_text())
    weights = torch.load(folder / "best.ckpt", weights_only=True)["state_dict"]
    assert not (folder / "last.ckpt").exists()
    return {
        **{key: result[key] for key in ("metrics", "mix", "epochs")},
        "predictions": next((folder / "predictions").iterdir()).read_text(),
        "curves": (folder / "metrics.csv").read_bytes(),
        "weights": {name: weight.tolist() for name, weight in weights.items()},
    }


@pytest.fixture
def short_run(new_run):
    """The config of a short run."""
    return partial(new_run, "fit.max_epochs=2", "data.size=3")


@pytest.mark.parametrize("task", MORE)
def test_as_if_it_had_not_been_killed(short_run, task):
    settings = [f"task={task}", *SMALL[task], *MORE[task]]
    train(undisturbed := short_run(*settings))
    killed = short_run(*settings, "fit.save_minutes=0", "resume=true")
    for step in (1, 3, 5):  # within an epoch and, where it has three steps, between two
        train_and_kill(killed, InParts, "training_step", kill_at(step))
    train(killed)
    assert left(killed) == left(undisturbed)


PLATEAU = (
    "+task.scheduler={_target_: torch.optim.lr_scheduler.ReduceLROnPlateau, _partial_: true, "
    "mode: max, patience: 0, threshold: 1}"
)


@pytest.mark.parametrize(
    ("settings", "steps"),  # three batches an epoch
    [
        (["+trainer.max_steps=8"], 8),
        (["+trainer.val_check_interval=1", "fit.patience=1"], 2),
        (["+trainer.val_check_interval=2", PLATEAU], 9),
        (["+trainer.max_steps=4", "+trainer.accumulate_grad_batches=2", PLATEAU], 4),
    ],
)
def test_killed_at_each_step(short_run, settings, steps):
    """With these settings, Lightning's own restart skips a part of dev, or a batch."""
    settings = [*SMALL["ner"], "fit.batch_size=4", "fit.max_epochs=3", *settings]
    settings = [*settings, "trainer.log_every_n_steps=1", "fit.save_minutes=0"]
    train(undisturbed := short_run(*settings))
    killed = short_run(*settings, "resume=true")
    for step in range(steps):
        train_and_kill(killed, InParts, "training_step", kill_at(step))
    train(killed)
    assert left(killed) == left(undisturbed)


def test_too_few_steps(short_run):
    with pytest.raises(ValueError, match=r"ended before the first pass over dev.*max_steps"):
        train(short_run(*SMALL["ner"], "fit.batch_size=4", "+trainer.max_steps=2"))


@pytest.mark.parametrize("settings", [[], ["fit.patience=1", "fit.max_epochs=9"]])
def test_killed_after_training(short_run, settings, monkeypatch):
    """Nothing is trained again, whether the last epoch had come or dev no longer rose."""
    train(undisturbed := short_run(*SMALL["ner"], *settings))
    killed = short_run(*SMALL["ner"], *settings, "resume=true")
    train_and_kill(killed, training, "write_result", kill)
    monkeypatch.setattr(InParts, "training_step", kill)
    train(killed)
    assert left(killed) == left(undisturbed)


def interrupted(file, calls):
    """A file in whose writing a signal comes, after some calls."""
    counts = itertools.count(1)

    def write(content):
        if next(counts) == calls:
            raise Stopped(130)
        return file.write(content)

    return SimpleNamespace(write=write, flush=file.flush, fileno=file.fileno)


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_ctrl_c_in_the_middle_of_writing(tmp_path, monkeypatch, calls):
    """It ends the command as anywhere else: torch would call it a write that failed. The earlier
    checkpoint stays as it was.
    """
    save_state({"step": 1}, path := tmp_path / "last.ckpt")
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda what, file: save(what, interrupted(file, calls)))
    with pytest.raises(Stopped, match="130"):
        save_state({"a": torch.ones(5)}, path)
    assert [*tmp_path.iterdir()] == [path]
    assert torch.load(path, weights_only=True) == {"step": 1}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "atomic", lambda _: nullcontext(Path("/dev/full")))
    for size in (5, 1_000_000):  # it is noticed at the end, or while torch writes
        with pytest.raises(OSError, match=r"cannot write \S*last.ckpt|No space left"):
            save_state({"a": torch.ones(size)}, tmp_path / "last.ckpt")


def fail(*_):
    raise RuntimeError("none of its doing")


def test_a_last_ckpt_that_is_none(short_run):
    """It is named, and stays: only a person takes a run's hours away."""
    settings = ["encoder=none", "fit.batch_size=4", "resume=true", "fit.save_minutes=0"]
    cfg = short_run(*SMALL["ner"], *settings)
    train_and_kill(cfg, InParts, "training_step", kill_at(1))
    path = Path(cfg.run_dir, "last.ckpt")
    saved, content = torch.load(path, weights_only=True), path.read_bytes()
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    advice = "; move it away, and the same command starts again$"
    damage = rf"^\S*last.ckpt: not a checkpoint, or damaged.*CRC.*{advice}"
    with pytest.raises(ValueError, match=damage):
        train(cfg)
    figures = {"last": saved["last"] | {"figures": {"dev/f1": "x"}}}
    for changes in (figures, {"last": 5}, {"loops": {}}, {"lr_schedulers": 5}, {"state_dict": {}}):
        torch.save(saved | changes, path)
        wrong_part = rf"^\S*last.ckpt: this run cannot continue from it.*{advice}"
        with pytest.raises(ValueError, match=wrong_part):
            train(cfg)
    assert path.is_file()
    path.write_bytes(content)
    for where, name in ((data, "_collate"), (InParts, "training_step")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, name, fail)
            with pytest.raises(RuntimeError, match=r"^none of its doing$"):
                train(cfg)
    assert train(cfg)


def test_a_folder_that_has_moved(short_run, tmp_path):
    """The best checkpoint is looked for where the run is now."""
    settings = [*SMALL["ner"], "fit.batch_size=4"]
    train(undisturbed := short_run(*settings))
    before = short_run(*settings)
    after = short_run(*settings, "resume=true", f"run_dir={tmp_path}/after")
    train_and_kill(before, InParts, "training_step", kill_at(4))
    Path(before.run_dir).rename(after.run_dir)
    train(after)
    assert left(after) == left(undisturbed)
    assert not Path(before.run_dir).exists()


def test_a_run_of_a_stranger_goes_on_as_data(short_run, tmp_path):
    """Its precision calls nothing, and its name of the best checkpoint deletes nothing."""
    settings = [*SMALL["ner"], "fit.batch_size=4"]
    train(undisturbed := short_run(*settings))
    cfg = short_run(*settings, "resume=true", f"run_dir={tmp_path}/outputs/run")
    train_and_kill(cfg, InParts, "training_step", kill_at(4))
    (tmp_path / "outputs" / "mine").touch()
    begun, last = Path(cfg.run_dir, "run.json"), Path(cfg.run_dir, "last.ckpt")
    writes = {"_target_": "elmo_bench.files.write_text", "_args_": [f"{tmp_path}/written", ""]}
    begun.write_text(json.dumps(json.loads(begun.read_text()) | {"precision": writes}))
    state = torch.load(last, weights_only=True)
    for saved in state["callbacks"].values():
        saved |= {"best_model_path": ".."} if saved.get("best_model_path") else {}
    save_state(state, last)
    train(cfg)
    assert left(cfg) == left(undisturbed)
    assert {path.name for path in tmp_path.rglob("*")} >= {"mine", "best.ckpt"}
    assert not (tmp_path / "written").exists()


def test_parts_of_batches_stay(short_run, monkeypatch, caplog):
    """A run that memory has made to read its batches in parts goes on with as many at once."""
    loss, settings = BiLstmCrf.loss, [*SMALL["ner"], "encoder=none", "fit.batch_size=4"]

    def limited(self, scores, batch):
        if len(batch[-1]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(self, scores, batch)

    monkeypatch.setattr(BiLstmCrf, "loss", limited)
    train(undisturbed := short_run(*settings))
    killed = short_run(*settings, "resume=true", "fit.save_minutes=0")
    train_and_kill(killed, InParts, "training_step", kill_at(4))
    assert caplog.text.count("batches are read in 2 parts") == 2
    train(killed)
    assert left(killed) == left(undisturbed)
    assert caplog.text.count("batches are read in 2 parts") == 2


def test_a_loss_that_16_bits_cannot_hold(short_run, monkeypatch):
    """The run ends, and says what to do."""
    loss = BiLstmCrf.loss

    def overflowing(self, scores, batch):
        return loss(self, scores, batch) * math.nan

    monkeypatch.setattr(BiLstmCrf, "loss", overflowing)
    settings = [*SMALL["ner"], "encoder=none", "fit.batch_size=4"]
    with pytest.raises(FloatingPointError, match=r"loss is nan at step .*try a lower task.optimiz"):
        train(short_run(*settings))
    advice = r"try trainer.precision=32-true, or a lower task.optimizer.lr"
    with pytest.raises(FloatingPointError, match=advice):
        train(short_run(*settings, "trainer.precision=bf16-mixed"))
