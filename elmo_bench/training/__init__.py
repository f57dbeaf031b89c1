from .checkpoint import load as load, refusing as refusing
from .processes import from_first as from_first, rank as rank
from .resume import (
    AtomicCheckpoints as AtomicCheckpoints,
    StepCheckpoint as StepCheckpoint,
    naming as naming,
    save_state as save_state,
)
