"""The types of a class's arguments, whether a value is of a type, in pydantic's words, and how it
is written on a command line.
"""

import inspect
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from .hydra_private import locate

OURS = ("elmo_bench.", "tasks.", "torch.optim.lr_scheduler.")  # modules with exact type hints
STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
# What pydantic calls a value of JSON, and how a config has it.
WORDS = {"a valid array": "a list", "an object": "{KEY:VALUE}", "a valid boolean": "true or false"}
WORDS |= {"a valid integer": "an integer", "a valid ": "a ", "False": "false"}


@cache
def arguments(target: str) -> dict[str, Any]:
    """Return the arguments of a `_target_` and their types; ** if it accepts others.

    Types are known only of our own classes: others may accept more than their hints say.
    """
    called = locate(target)
    is_exact = target.startswith(OURS)
    try:
        signature = inspect.signature(called, eval_str=True)
    except NameError:  # hints only for type checkers
        signature = inspect.signature(called)
        is_exact = False
    hints: dict[str, Any] = {}
    for each in signature.parameters.values():
        name = "**" if each.kind is each.VAR_KEYWORD else each.name
        hints[name] = each.annotation if is_exact and each.annotation is not each.empty else Any
    return hints


def misfits(value: object, hint: Any) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the parts of a value that are not of a type: the path of each, pydantic's kind of
    error and what it must be. A path is a text in a config, and a tuple a list.

    >>> from elmo_bench.bounds import Dropout
    >>> misfits({"a": 1}, dict[str, Dropout | bool])
    [(('a',), 'less_than', 'be less than 1, or true or false')]
    """
    try:
        _adapter(hint).validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        errors: dict[tuple[str, ...], list[Any]] = {}
        for each in error.errors():
            path = _path(value, each["loc"], is_missing=each["type"] == "missing")
            errors.setdefault(path, []).append(each)
        return [(path, each[0]["type"], _words(each)) for path, each in errors.items()]
    return []


@cache
def _adapter(hint: Any) -> Any:
    is_model = isinstance(hint, type) and issubclass(hint, BaseModel)
    return TypeAdapter(hint, config=None if is_model else STRICT)


def _path(value: Any, location: Sequence[str | int], *, is_missing: bool) -> tuple[str, ...]:
    """Return the keys on the way to an error, without items of lists or alternatives of types; the
    last may be one that is missing.
    """
    path: list[str] = []
    for name in location:
        if not isinstance(value, dict) or not (name in value or is_missing):
            break
        path.append(str(name))
        value = value.get(name)
    return tuple(path)


def _words(errors: Sequence[Any]) -> str:
    """Return what a value must be by the errors of all alternatives of its type."""
    messages = [each["msg"].partition(" should ")[2] or each["msg"] for each in errors]
    alternatives = ", or ".join(dict.fromkeys(messages)).replace(", or be ", ", or ")
    return re.sub("|".join(WORDS), lambda match: WORDS[match[0]], alternatives)


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
