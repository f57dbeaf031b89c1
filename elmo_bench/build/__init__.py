"""Inside a run: the objects that the settings of a command name. Nothing is checked here twice."""

from .objects import (
    Parts as Parts,
    cautions as cautions,
    data as data,
    elmo as elmo,
    examples as examples,
    is_stored as is_stored,
    max_bytes as max_bytes,
    metric as metric,
    model as model,
    module as module,
    parts as parts,
    store as store,
    vocab as vocab,
)
