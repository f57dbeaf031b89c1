"""What this machine has, and whether the settings ask for more."""

import os
import subprocess


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_cores(key: str, processes: int) -> None:
    """Raise ValueError for more processes than cores: they would be slower than fewer."""
    if processes > cores():
        raise ValueError(
            f"{key}={processes}, but only {cores()} cores are available for these "
            "processes; oversubscribe=true starts them anyway"
        )


def check_slurm_tasks(devices: int, nodes: int) -> None:
    """Raise ValueError unless `srun` has started as many tasks as the run has devices: it would
    wait forever for missing tasks, or run twice. Lightning itself checks the number per node.
    """
    tasks = int(os.environ["SLURM_NTASKS"])
    if tasks != devices * nodes:
        raise ValueError(
            f"this SLURM job has {tasks} tasks, but trainer.devices={devices} with "
            f"trainer.num_nodes={nodes} needs {devices * nodes} processes: set srun "
            "--ntasks-per-node and --nodes to these two values"
        )


def gpus() -> list[str]:
    """Return the numbers of the GPUs that runs may use; empty without NVIDIA's driver."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [number for number in visible.split(",") if number]
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).split()
    except (OSError, subprocess.CalledProcessError):
        return []
