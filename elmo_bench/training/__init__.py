from .processes import from_first, of_all, rank
from .resume import AtomicCheckpoints, StepCheckpoint, naming, save_state

__all__ = [
    "AtomicCheckpoints",
    "StepCheckpoint",
    "from_first",
    "naming",
    "of_all",
    "rank",
    "save_state",
]
