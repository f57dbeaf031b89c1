"""The resources of a sweep's run: cores, GPUs and an environment."""

import os
import subprocess
from typing import Any

from elmo_bench.files import signals

# Variables that mark a process as part of a distributed run. The runs of a sweep do not belong to
# the distributed run that may have started it.
RANKS = (
    *("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "PL_GLOBAL_SEED", "SLURM_NTASKS"),
)


def environment(shares: int, gpus: str | None, group: str) -> dict[str, str]:
    """Return the environment of a run: this process's, without the variables of a distributed run.

    Sets WANDB_RUN_GROUP to `group`, OMP_NUM_THREADS, if `shares` > 1, to one of `shares` equal
    shares of the cores, and CUDA_VISIBLE_DEVICES, unless `gpus` is None, to `gpus`. OMP_NUM_THREADS
    and WANDB_RUN_GROUP keep the user's values.
    """
    variables = {"WANDB_RUN_GROUP": group}
    variables |= {name: value for name, value in os.environ.items() if name not in RANKS}
    variables[signals.IN_SWEEP] = "true"
    if shares > 1:
        variables.setdefault("OMP_NUM_THREADS", str(max(1, cores() // shares)))
    return variables if gpus is None else variables | {"CUDA_VISIBLE_DEVICES": gpus}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_cores(key: str, processes: int) -> None:
    """Raise ValueError for more processes than cores: they need gigabytes and are slower than fewer
    processes.
    """
    if processes > cores():
        raise ValueError(
            f"{key}={processes}, but only {cores()} cores are available for these "
            "processes; oversubscribe=true starts them anyway"
        )


def check_slurm_tasks(devices: int, nodes: int) -> None:
    """Check that `srun` has started as many tasks as the run has devices.

    Raises ValueError otherwise: the run would wait forever for missing tasks, or run twice.
    Lightning itself checks the number per node.
    """
    if (tasks := int(os.environ["SLURM_NTASKS"])) != devices * nodes:
        raise ValueError(
            f"this SLURM job has {tasks} tasks, but trainer.devices={devices} with "
            f"trainer.num_nodes={nodes} needs {devices * nodes} processes: set srun "
            "--ntasks-per-node and --nodes to these two values"
        )


def devices(asked: Any, count: int) -> list[int]:
    """Return the numbers of the devices that `trainer.devices` asks for, as Lightning reads it, on
    a machine with `count` devices.

    >>> devices(2, 4), devices("2", 4), devices("2,", 4), devices([1, 3], 4), devices("auto", 4)
    ([0, 1], [0, 1], [2], [1, 3], [0, 1, 2, 3])
    """
    if isinstance(asked, str) and "," in asked:
        asked = [number for number in asked.split(",") if number.strip()]
    if asked in ("auto", "-1", -1):
        return [*range(count)]
    try:
        return [*(range(int(asked)) if isinstance(asked, str | int) else map(int, asked))]
    except (TypeError, ValueError):  # Lightning says what may come
        return [0]


def gpus() -> list[str]:
    """Return the numbers of the GPUs that runs may use; empty without NVIDIA's driver."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [number for number in visible.split(",") if number]
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).split()
    except (OSError, subprocess.CalledProcessError):
        return []
