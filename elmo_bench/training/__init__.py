from .checkpoint import load, refusing
from .processes import from_first, of_all, rank
from .resume import AtomicCheckpoints, StepCheckpoint, naming, save_state

__all__ = [
    "AtomicCheckpoints",
    "StepCheckpoint",
    "from_first",
    "load",
    "naming",
    "of_all",
    "rank",
    "refusing",
    "save_state",
]
