from .children import Children, Parent
from .folders import RunFolders
from .machine import check_cores, check_slurm_tasks, cores, devices, environment, gpus
from .outcomes import Outcome, Progress, exit_status, print_outcomes

__all__ = [
    "Children",
    "Outcome",
    "Parent",
    "Progress",
    "RunFolders",
    "check_cores",
    "check_slurm_tasks",
    "cores",
    "devices",
    "environment",
    "exit_status",
    "gpus",
    "print_outcomes",
]
