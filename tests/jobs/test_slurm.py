"""SLURM's tasks and the run's devices must be as many; what SLURM tells a task stands in its
environment.
"""

import os

import pytest

from elmo_bench.build import hardware


@pytest.fixture
def task(monkeypatch):
    """A task of `srun --nodes=N --ntasks-per-node=K`, in a job of some name."""

    def start(nodes, per_node, job="train"):
        told = {"NTASKS": nodes * per_node, "NTASKS_PER_NODE": per_node, "NNODES": nodes}
        told |= {"JOB_NAME": job, "JOB_ID": os.getpid()}
        told |= {"PROCID": 0, "LOCALID": 0, "NODEID": 0, "NODELIST": "localhost"}
        for name, value in told.items():
            monkeypatch.setenv(f"SLURM_{name}", str(value))

    return start


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (1, 4), (2, 2)])
def test_tasks_that_are_not_the_devices(tiny_ner, task, nodes, per_node):
    """Without it, a run with too few tasks waits for ever, and one with too many is so many runs."""
    task(nodes, per_node)
    said = (
        f"this SLURM job has {nodes * per_node} tasks, but trainer.devices=2 with trainer.num_nod"
    )
    with pytest.raises(ValueError, match=said):
        hardware.trainer(tiny_ner("trainer=ddp", "trainer.accelerator=cpu"), [])


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 2), (2, 2)])
def test_tasks_that_are_the_devices(tiny_ner, task, nodes, per_node):
    task(nodes, per_node)
    settings = ["trainer=ddp", "trainer.accelerator=cpu", f"trainer.num_nodes={nodes}"]
    hardware.trainer(tiny_ner(*settings), [])


def test_a_shell_of_slurm_is_no_task(tiny_ner, task):
    task(1, 1, job="bash")  # of salloc; the devices are then processes of ours
    hardware.trainer(tiny_ner("trainer=ddp", "trainer.accelerator=cpu"), [])
