from .bilm import BiLm, Chars, State
from .chars import char_ids
from .options import DIRECTIONS, Options
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
