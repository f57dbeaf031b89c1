from .bilm import DIRECTIONS, Chars, Options, State
from .chars import char_ids
from .fast import BiLm
from .packed import warn_of_bfloat16
from .weights import in_folder, load, save, shipped

__all__ = [
    "DIRECTIONS",
    "BiLm",
    "Chars",
    "Options",
    "State",
    "char_ids",
    "in_folder",
    "load",
    "save",
    "shipped",
    "warn_of_bfloat16",
]
