"""The resources of a sweep's run: cores, a GPU and an environment."""

import os
import subprocess

from elmo_bench import signals

# Variables that mark a process as part of a distributed run. The runs of a sweep do not belong to
# the distributed run that may have started it.
RANKS = (
    "LOCAL_RANK",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PL_GLOBAL_SEED",
    "SLURM_NTASKS",
)


def environment(shares: int, gpu: str | None, group: str) -> dict[str, str]:
    """Return the environment of a run: this process's, without the variables of a distributed run.

    Sets WANDB_RUN_GROUP to `group`, OMP_NUM_THREADS, if `shares` > 1, to one of `shares` equal
    shares of the cores, and CUDA_VISIBLE_DEVICES, unless `gpu` is None, to `gpu`. OMP_NUM_THREADS
    and WANDB_RUN_GROUP keep the user's values.
    """
    variables = {"WANDB_RUN_GROUP": group}
    variables |= {name: value for name, value in os.environ.items() if name not in RANKS}
    variables[signals.IN_SWEEP] = "true"
    if shares > 1:
        variables.setdefault("OMP_NUM_THREADS", str(max(1, cores() // shares)))
    return variables if gpu is None else variables | {"CUDA_VISIBLE_DEVICES": gpu}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """Return the numbers of the GPUs that runs may use; empty without NVIDIA's driver."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [number for number in visible.split(",") if number]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.split()
