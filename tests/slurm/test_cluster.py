"""Sweeps and a run on two nodes, on a real SLURM."""

import json
import subprocess
import sys

import pytest

from elmo_bench.jobs.train import train
from tests.commands import ROOT, SMALLEST, run
from tests.conftest import composed

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one cluster
DDP = ["trainer=ddp", "trainer.accelerator=cpu"]


@pytest.fixture
def settings(tmp_path):
    """Small models for one epoch."""
    return [*SMALLEST, "fit.max_epochs=1", f"cache_dir={tmp_path}"]


def srun(cluster, options, *arguments):
    """A run or a sweep that begins as tasks of SLURM."""
    command = ["srun", *options, sys.executable, str(ROOT / "run.py"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=300, env=cluster
    )


def figures(folder):
    """Every figure of the run, epoch by epoch."""
    return (folder / "metrics.csv").read_text()


def test_a_sweep_as_a_job_array(cluster, settings, tmp_path):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    sweep = ["-m", "seed=1,2", "hydra/launcher=submitit_slurm", "hydra.launcher.cpus_per_task=1"]
    done = run(*sweep, f"hydra.sweep.dir={tmp_path}/sweep", *settings, env=cluster)
    assert done.returncode == 0, done.stderr
    (jobs,) = {path.name.rpartition("_")[0] for path in tmp_path.glob("sweep/.submitit/*_?")}
    assert len([*tmp_path.glob(f"sweep/.submitit/{jobs}_?")]) == 2  # of one array
    results = [json.loads((tmp_path / f"sweep/{k}/result.json").read_text()) for k in (0, 1)]
    assert [one["config"]["seed"] for one in results] == [1, 2]
    (tmp_path / "alone").mkdir()
    train(composed(*settings, "seed=2", f"run_dir={tmp_path}/alone"))
    assert figures(tmp_path / "alone") == figures(tmp_path / "sweep" / "1")


def test_a_sweep_that_srun_spreads(cluster, settings, tmp_path):
    """With our own launcher: a run that fails leaves the other alone, and is what `resume=true`
    runs again.
    """
    spread, broken = tmp_path / "spread", tmp_path / "broken"
    spread.write_text(
        f'#!/bin/sh\ncase "$*" in *seed=1*) [ -e {broken} ] && set false;; esac\n'
        'exec srun --ntasks=1 --label "$@"\n'
    )
    spread.chmod(0o755)
    broken.touch()
    sweep = ["-m", "seed=1,2", f"outputs_dir={tmp_path}", "hydra.launcher.n_jobs=2", "resume=true"]
    sweep += [f"hydra.launcher.prefix={spread}", *settings]
    first = run(*sweep, env=cluster | {"COLUMNS": "300"})
    assert first.returncode != 0
    assert "1 of 2 runs did not finish" in first.stderr
    broken.unlink()
    second = run(*sweep, env=cluster | {"COLUMNS": "300"})
    assert second.returncode == 0, second.stderr
    assert (second.stdout.count("finished before"), second.stdout.count("│ done")) == (1, 1)
    outputs = [
        path.with_name("output.txt").read_text() for path in tmp_path.glob("*/*/?/result.json")
    ]
    assert len(outputs) == 2
    lines = [line for text in outputs for line in text.splitlines()]
    assert all(line.startswith(("0: ", "srun: ")) for line in lines)  # its label, and its own words
    assert sum("0: " in text for text in outputs) == 2


def test_two_nodes_are_one_run_and_so_is_a_sweep_in_one_job(cluster, settings, tmp_path):
    """One task on each of two nodes leaves the figures of two processes on one machine, bit for
    bit. These are a sweep's in one job, whose runs do not take themselves for tasks of SLURM: two
    devices are two processes of the run's own.
    """
    two = ["trainer.num_nodes=2", "trainer.devices=1", f"hydra.run.dir={tmp_path}/two"]
    wide = cluster | {"COLUMNS": "300"}
    done = srun(wide, ["--nodes=2", "--ntasks-per-node=1"], *DDP, *two, *settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("result.json") == 1  # one process told it
    sweep = ["-m", "seed=1", *DDP, "trainer.devices=2", f"hydra.sweep.dir={tmp_path}/sweep"]
    done = srun(cluster, ["--ntasks=1", "--cpus-per-task=2"], *sweep, *settings)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sweep" / "0" / "result.json").is_file()
    assert figures(tmp_path / "two") == figures(tmp_path / "sweep" / "0")
