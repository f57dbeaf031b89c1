"""Types of settings with their bounds, for constructors and for `settings/schema.py`."""

from collections.abc import Collection
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt, MinLen

from elmo_bench.terminal.words import listed

MAX_SIZE = 65_536  # of a layer; larger values are typing errors
Count = Annotated[int, Ge(1)]
Size = Annotated[int, Ge(1), Le(MAX_SIZE)]  # units, filters, dimensions, layers
Number = float  # a setting may be an integer, too; calls in tests may not
Dropout = Annotated[Number, Ge(0), Lt(1)]
Probability = Annotated[Number, Ge(0), Le(1)]
Share = Annotated[Number, Gt(0), Le(1)]  # above 0, at most 1
Positive = Annotated[Number, Gt(0)]
NotNegative = Annotated[Number, Ge(0)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
Text = Annotated[str, MinLen(1)]
File = Text
Folder = Text


def one_of(key: str, value: object, choices: Collection[object]) -> None:
    """Raise ValueError if a setting has none of the valid values.

    >>> one_of("elmo.norm", "layer", ["none", "batch", "word"])
    Traceback (most recent call last):
    ValueError: elmo.norm=layer, but it must be none, batch or word
    """
    if value not in choices:
        raise ValueError(f"{key}={value}, but it must be {listed(map(str, choices), 'or')}")
