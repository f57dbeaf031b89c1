"""Sweeps and a run on two nodes, on a real SLURM."""

import json
import subprocess
import sys

import pytest

from tests.test_run import ROOT, SMALL

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slow,
    pytest.mark.xdist_group("slurm"),
]  # one cluster for all
DDP = ["trainer=ddp", "trainer.accelerator=cpu"]


@pytest.fixture
def command(cluster, tmp_path):
    """A run or a sweep of small models for one epoch, after what may stand before it."""

    def start(*arguments, before=(), **more):
        script = [*before, sys.executable, str(ROOT / "run.py")]
        settings = [*SMALL, "fit.max_epochs=1", f"cache_dir={tmp_path}"]
        options = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": 300}
        return subprocess.run([*script, *arguments, *settings], **options, env=cluster | more)

    return start


def figures(folder):
    """Every figure of the run, epoch by epoch."""
    return (folder / "metrics.csv").read_text()


def test_a_sweep_as_a_job_array(command, tmp_path):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    sweep = [
        "-m",
        "fraction=0.5,1.0",
        "seed=1,2",
        "hydra/launcher=submitit_slurm",
        f"hydra.sweep.dir={tmp_path}/sweep",
    ]
    done = command(*sweep, "hydra.launcher.cpus_per_task=1")
    assert done.returncode == 0, done.stderr
    (jobs,) = {path.name.rpartition("_")[0] for path in tmp_path.glob("sweep/.submitit/*_?")}
    assert len([*tmp_path.glob(f"sweep/.submitit/{jobs}_?")]) == 4  # of one array
    config = [
        json.loads((tmp_path / "sweep" / str(k) / "result.json").read_text())["config"]
        for k in range(4)
    ]
    points = [(one["fraction"], one["seed"]) for one in config]
    assert points == [(fraction, seed) for fraction in (0.5, 1.0) for seed in (1, 2)]
    alone = command("fraction=1.0", "seed=2", f"hydra.run.dir={tmp_path}/alone")
    assert alone.returncode == 0, alone.stderr
    assert figures(tmp_path / "alone") == figures(tmp_path / "sweep" / "3")


def test_a_sweep_that_srun_spreads(command, tmp_path):
    """With our own launcher: a run that fails leaves the other alone, and is what `resume=true`
    runs again.
    """
    sweep = [
        "-m",
        "seed=1,2",
        f"hydra.sweep.dir={tmp_path}/sweep",
        "hydra.launcher.n_jobs=2",
        "resume=true",
    ]
    sweep.append("hydra.launcher.prefix='srun --ntasks=1 --label'")
    broken = tmp_path / "sweep" / "1" / "run.json"
    broken.mkdir(parents=True)  # a folder where a file belongs
    first = command(*sweep, COLUMNS="300")
    assert first.returncode != 0
    assert "1 of 2 runs did not finish" in first.stderr
    broken.rmdir()
    second = command(*sweep, COLUMNS="300")
    assert second.returncode == 0, second.stderr
    assert (second.stdout.count("finished before"), second.stdout.count("│ done")) == (1, 1)
    outputs = [path.read_text() for path in tmp_path.glob("sweep/?/output.txt")]
    assert len(outputs) == 2
    assert all(text.startswith("0: ") for text in outputs)  # srun's label


def test_two_nodes_are_one_run_and_so_is_a_sweep_in_one_job(command, tmp_path):
    """One task on each of two nodes leaves the figures of two processes on one machine, bit for
    bit. These are a sweep's in one job, whose runs do not take themselves for tasks of SLURM: two
    devices are two processes of the run's own.
    """
    two = ["trainer.num_nodes=2", "trainer.devices=1", f"hydra.run.dir={tmp_path}/two"]
    run = command(*DDP, *two, before=["srun", "--nodes=2", "--ntasks-per-node=1"], COLUMNS="300")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("result.json") == 1  # one process told it
    sweep = ["-m", "seed=1", *DDP, "trainer.devices=2", f"hydra.sweep.dir={tmp_path}/sweep"]
    done = command(*sweep, before=["srun", "--ntasks=1", "--cpus-per-task=2"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sweep" / "0" / "result.json").is_file()
    assert figures(tmp_path / "two") == figures(tmp_path / "sweep" / "0")
