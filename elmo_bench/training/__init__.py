from .checkpoint import load as load, refusing as refusing
from .resume import (
    AtomicCheckpoints as AtomicCheckpoints,
    StepCheckpoint as StepCheckpoint,
    naming_checkpoint as naming_checkpoint,
    save_state as save_state,
)
