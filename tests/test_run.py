"""The command itself, in a process of its own: what it prints, its exit status, how soon it
answers.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from pytorch_lightning.callbacks import Callback

from elmo_bench.cli import is_out_of_memory
from elmo_bench.jobs.train import train
from elmo_bench.report import Tables, report
from elmo_bench.runs import collect, read_counts
from elmo_bench.terminal.signals import Stopped
from tests.commands import (
    ROOT,
    SMALLEST,
    children,
    forked,
    kill_sweep,
    run,
    start,
    wait_for,
    wait_for_handler,
)
from tests.conftest import composed


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"]])
def test_answers_without_torch(arguments):
    code = (
        "import sys, runpy; sys.argv = ['run.py', *sys.argv[1:]]\n"
        "try: runpy.run_path('run.py', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'pytorch_lightning', 'wandb', 'h5py'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "elmo" in done.stdout


LONG = ["fit.max_epochs=1000", "fit.patience=1000"]


def is_a_line(said):
    return "stopped by" in said and "Traceback" not in said


@pytest.mark.slow
def test_a_signal_is_a_line(tmp_path):
    """At once and in training; no result comes of it, and there is a way to go on."""
    folder, said = tmp_path / "run", tmp_path / "said"
    command = [*SMALLEST, *LONG, f"hydra.run.dir={folder}", f"cache_dir={tmp_path}"]
    begun = start(*command)
    wait_for_handler(begun)  # it imports
    begun.send_signal(signal.SIGINT)
    line = begun.communicate(timeout=60)[1]
    assert begun.returncode == 128 + signal.SIGINT
    assert is_a_line(line)
    assert "stopped by Ctrl-C: the same command goes on" in line
    for number, name in ((signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")):
        training = forked(*command, "resume=true", files=[tmp_path / "stdout", said])
        wait_for(folder / "last.ckpt", training, since=time.time())
        os.kill(training.pid, number)
        training.join()
        assert training.exitcode == 128 + number
        assert is_a_line(said.read_text())
        assert f"stopped by {name}: " in said.read_text()
    assert not (folder / "result.json").exists()
    assert not (folder / "error.txt").exists()


class Swallow(Callback):
    """Gets a signal in the first batch, and clears the error that it raises."""

    def on_train_batch_start(self, *_):
        with suppress(Stopped):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)


@pytest.mark.slow
def test_a_swallowed_signal_ends_the_run(tmp_path):
    """Compiled code may clear an error; the run ends at the next batch."""
    swallowing = f"+task.callbacks=[{{_target_:{__name__}.Swallow}}]"
    done = run(*SMALLEST, swallowing, f"hydra.run.dir={tmp_path}", f"cache_dir={tmp_path}")
    assert done.returncode == 128 + signal.SIGINT
    assert is_a_line(done.stderr)
    assert not (tmp_path / "result.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    not [*Path("/proc/self/task").glob("*/children")],
    reason="needs /proc, which lists a process's children",
)
def test_no_process_outlives_the_first(tmp_path):
    """Of two that train together one is killed: the other ends, in silence."""
    devices = ["trainer=ddp", "trainer.accelerator=cpu", "num_workers=1"]
    command = [*SMALLEST, *LONG, *devices, f"hydra.run.dir={tmp_path}", f"cache_dir={tmp_path}"]
    first = start(*command)
    wait_for(tmp_path / "last.ckpt", first)
    others = [Path("/proc", str(child)) for child in children(first.pid)]
    assert others
    first.kill()
    said = first.communicate(timeout=60)[1]  # when all have closed it
    until = time.monotonic() + 60
    while any(other.exists() for other in others):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "Traceback" not in said


def test_a_failed_run_says_why_and_leaves_it_until_it_succeeds(tmp_path):
    """In its folder, which is made."""
    folder = tmp_path / "a" / "run"
    settings = [f"run_dir={folder}", f"hydra.run.dir={tmp_path}/hydra", "encoder=mini"]
    settings += [f"output={tmp_path}/vectors.hdf5", f"input={tmp_path}/text"]
    (tmp_path / "text").write_text("a b\n")
    done = run("job=embed", *settings, "encoder.weights=nowhere.hdf5")
    assert done.returncode != 0
    assert "encoder.weights=nowhere.hdf5: no such file" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in (folder / "error.txt").read_text()
    assert not (tmp_path / "vectors.hdf5").exists()
    done = run("job=embed", *settings)
    assert done.returncode == 0, done.stderr
    assert not (folder / "error.txt").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    not [*Path("/proc/self/task").glob("*/children")],
    reason="needs /proc, which lists a process's children",
)
def test_a_killed_sweep_goes_on(tmp_path):
    """Kill -9 of it and of its run: given again, it leaves alone what was finished, and the report
    is the undisturbed one's.
    """
    settings = [*SMALLEST, f"cache_dir={tmp_path}", "fit.max_epochs=1"]
    sweep = ["-m", *settings, "seed=1,2", f"outputs_dir={tmp_path}/killed", "resume=true"]
    killed = forked(*sweep)
    while len([*tmp_path.glob("killed/*/*/?/.hydra/config.yaml")]) < 2 and killed.is_alive():
        time.sleep(0.05)
    kill_sweep(killed)
    (finished,) = tmp_path.glob("killed/**/result.json")
    before = finished.stat().st_mtime_ns
    done = run(*sweep)
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(f"│ {what}") for what in ("finished before", "done")] == [1, 1]
    assert finished.stat().st_mtime_ns == before
    for seed in (1, 2):
        (tmp_path / "undisturbed" / str(seed)).mkdir(parents=True)
        train(composed(*settings, f"seed={seed}", f"run_dir={tmp_path}/undisturbed/{seed}"))
    killed, undisturbed = (
        Tables([report(collect([tmp_path / name]), None, ["encoder"])]).records()
        for name in ("killed", "undisturbed")
    )
    assert killed[0]["runs"] == 2
    assert killed[0]["mean"] > 0
    assert killed == undisturbed


@pytest.mark.slow
def test_three_ways_to_fail(tmp_path):
    """One run raises, one is killed, one has a loss that is no number: the others finish, and a
    table names the three.
    """
    (tmp_path / "ends.py").write_text(
        "import os\ndef raises(): raise ValueError('it raises')\ndef killed(): os.kill(os.getpid(), 9)\n"
    )
    kinds = {
        "raises": "task: {callbacks: [{_target_: ends.raises}]}",
        "killed": "task: {callbacks: [{_target_: ends.killed}]}",
        "diverges": "task: {optimizer: {lr: 1e30}}",
        "fine": "seed: 2",
    }
    (tmp_path / "kind").mkdir()
    for name, content in kinds.items():
        (tmp_path / "kind" / f"{name}.yaml").write_text(f"# @package _global_\n{content}\n")
    (tmp_path / "mine.yaml").write_text("defaults: [config, _self_]\nfit: {max_epochs: 1}\n")
    sweep = ["--config-dir", str(tmp_path), "--config-name", "mine", "-m"]
    sweep += [f"+kind={','.join(kinds)}", "hydra.launcher.n_jobs=2"]
    folders = [f"hydra.sweep.dir={tmp_path}/sweep", f"cache_dir={tmp_path}"]
    environment = {"COLUMNS": "300", "PYTHONPATH": str(tmp_path)}
    done = run(*sweep, *SMALLEST, *folders, env=os.environ | environment)
    assert done.returncode != 0
    assert "3 of 4 runs did not finish; the same command with resume=true" in done.stderr
    rows = [[*map(str.strip, line.split("│"))] for line in done.stdout.splitlines()]
    table = {row[2].rpartition("=")[2]: row[3:6] for row in rows if len(row) > 5}
    ended = dict.fromkeys(kinds, "failed") | {"fine": "done"}
    assert {name: row[0] for name, row in table.items()} == ended
    assert "it raises" in table["raises"][2]
    assert "killed by signal 9, which the system sends when memory runs out" in table["killed"][2]
    assert "or before it; try a lower task.optimizer.lr" in table["diverges"][2]
    assert [path.parent.name for path in tmp_path.glob("sweep/*/result.json")] == ["3"]


@pytest.mark.slow
def test_several_devices_in_a_sweep(tmp_path):
    """A run of one process and one of two measure every example once."""
    devices = ["-m", "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1,2"]
    folders = [f"cache_dir={tmp_path}", f"hydra.sweep.dir={tmp_path}/sweep"]
    done = run(*SMALLEST, *devices, *folders, "fit.max_epochs=1")
    assert done.returncode == 0, done.stderr
    results = [json.loads((tmp_path / f"sweep/{k}/result.json").read_text()) for k in (0, 1)]
    assert results[0]["metrics"].keys() == results[1]["metrics"].keys()
    assert results[0]["parameters"] == results[1]["parameters"]
    for split in ("dev", "test"):
        one, two = (read_counts(tmp_path / f"sweep/{k}/counts/{split}.npz", "f1") for k in (0, 1))
        assert one.sentences.tolist() == two.sentences.tolist()


@pytest.mark.slow
def test_the_first_of_two_processes_says_why_they_failed(tmp_path):
    """The other then fails for want of it; what an earlier run left is replaced."""
    fails = "import pytorch_lightning as pl\n\nclass Fails(pl.Callback):\n    def on_train_batch_start(self, trainer, *_):\n"
    fails += "        if trainer.global_rank == 1:\n            raise ValueError('the second process says why')\n"
    (tmp_path / "failing.py").write_text(fails)
    (tmp_path / "error.txt").write_text("of yesterday")
    os.utime(tmp_path / "error.txt", (0, 0))
    settings = [*SMALLEST, "trainer=ddp", "trainer.accelerator=cpu"]
    settings += ["+task.callbacks=[{_target_: failing.Fails}]", f"cache_dir={tmp_path}"]
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = run(*settings, f"hydra.run.dir={tmp_path}", env=os.environ | {"PYTHONPATH": path})
    assert done.returncode != 0
    said = (tmp_path / "error.txt").read_text()
    assert said.endswith("ValueError: the second process says why\n")


def test_a_model_of_files_of_ones_own_is_evaluated_on_them(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("Ann I-PER\nslept O\n\nBob I-PER\nsang O\n")
    files = [f"data.files.{split}={tmp_path}/{split}.txt" for split in ("train", "dev", "test")]
    small = [setting for setting in SMALLEST if not setting.startswith("data.")]
    folder = f"hydra.run.dir={tmp_path}"
    trained = run("data=files", *files, *small, "fit.max_epochs=1", f"{folder}/run")
    assert trained.returncode == 0, trained.stderr
    command = ["job=evaluate", f"checkpoint={tmp_path}/run/best.ckpt"]
    again = run(*command, f"{folder}/again")
    assert again.returncode == 0, again.stderr
    results = [json.loads((tmp_path / f"{x}/result.json").read_text()) for x in ("run", "again")]
    assert results[1]["metrics"]["test/f1"] == results[0]["metrics"]["test/f1"]
    (tmp_path / "test.txt").unlink()
    gone = run(*command, f"{folder}/gone")
    assert "data.files.test: no file" in gone.stderr


def test_too_little_memory():
    """Torch says so in words alone."""
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 45)
    assert is_out_of_memory(raised.value)
    assert not is_out_of_memory(RuntimeError("another"))
