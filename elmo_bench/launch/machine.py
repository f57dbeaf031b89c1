"""What a run of a sweep has of the machine: cores, a GPU, an environment."""

import os
import subprocess

from elmo_bench import signals

# What a process of a distributed run knows of it: no run of a sweep is part of one that started the
# sweep.
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
    """Ours without what ties it to a distributed run; one of `shares` of the cores, a GPU, and the
    sweep as W&B's group. What the user has set stays.
    """
    variables = {"WANDB_RUN_GROUP": group}
    variables |= {name: value for name, value in os.environ.items() if name not in RANKS}
    variables[signals.IN_SWEEP] = "true"
    if shares > 1:
        variables.setdefault("OMP_NUM_THREADS", str(max(1, cores() // shares)))
    return variables if gpu is None else variables | {"CUDA_VISIBLE_DEVICES": gpu}


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """The GPUs that runs may have, by number."""
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
