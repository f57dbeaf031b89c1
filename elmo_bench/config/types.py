"""Whether a value is of a type, and the valid values in words.

A type is a Python hint. A string in an `Annotated` describes the valid values if the hint alone is
not enough.
"""

import json
import types
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from elmo_bench.files import Number, either

STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


def fits(value: object, hint: Any) -> bool:
    """Whether a value of a config is of a type; a path is a text there, and a tuple a list."""
    try:
        _adapter(hint).validate_json(json.dumps(value))
    except ValidationError:
        return False
    return True


@cache
def _adapter(hint: Any) -> Any:
    return TypeAdapter(hint, config=STRICT)


def may_be(hint: Any) -> str:
    """Describe the valid values of a type in words.

    >>> from elmo_bench.files import Dropout
    >>> may_be(Dropout | None), may_be(bool | Literal["auto"]), may_be(list[Number])
    ('a number from 0 to less than 1 or null', 'true, false or auto', 'a list of numbers')
    """
    return either(_alternatives(hint))


def _alternatives(hint: Any) -> list[str]:
    """Return the alternatives of a type."""
    if hint in NAMES:
        return NAMES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return [words for part in arguments for words in _alternatives(part)]
    if origin is Literal:
        return [shown(value) for value in arguments]
    if origin is Annotated:
        base, *metadata = arguments
        if said := [text for text in metadata if isinstance(text, str)]:
            return said
        return [_range(_alternatives(base)[0], metadata)]
    if origin is dict or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        return NAMES[dict]
    if origin is not None and arguments:  # lists and other sequences
        return [f"a list of {_plural(may_be(arguments[0]))}"]
    return [getattr(hint, "__name__", str(hint))]


NAMES: dict[Any, list[str]] = {
    int: ["an integer"],
    float: ["a number"],
    Number: ["a number"],
    bool: ["true", "false"],
    str: ["a string"],
    Path: ["a path"],
    type(None): ["null"],
    None: ["null"],
    dict: ["{KEY:VALUE}"],
    list: ["a list"],
}


def _range(kind: str, bounds: Collection[Any]) -> str:
    """Describe a kind of number with its bounds; the length of a list is not mentioned."""
    names = ("ge", "gt", "le", "lt")
    given = {name: getattr(each, name) for each in bounds for name in names if hasattr(each, name)}
    match given:
        case {"ge": low, "lt": high}:
            return f"{kind} from {low} to less than {high}"
        case {"ge": low, "le": high}:
            return f"{kind} from {low} to {high}"
        case {"gt": low, "le": high}:
            return f"{kind} greater than {low} and at most {high}"
        case {"gt": low, "lt": high}:
            return f"{kind} greater than {low} and less than {high}"
        case {"ge": low}:
            return f"{kind}, {low} or more"
        case {"gt": low}:
            return f"{kind} greater than {low}"
    return kind


def _plural(words: str) -> str:
    for one in ("an integer", "a number", "a string", "a file", "a folder"):
        words = words.replace(one, f"{one.partition(' ')[2]}s")
    return words


def shown(value: Any) -> str:
    """Return a value as it is written on the command line.

    >>> shown([None, True, "a", 1.5, {"k": 1}])
    '[null,true,a,1.5,{k:1}]'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(shown, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{shown(each)}" for key, each in value.items()) + "}"
    return str(value)
