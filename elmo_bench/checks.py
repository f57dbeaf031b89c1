"""Settings that have a wrong value: what they are called, what came, what may come."""

from collections.abc import Collection


def one_of(key: str, value: object, choices: Collection[object]) -> None:
    """Raise ValueError where a setting has none of its values.

    >>> one_of("elmo.norm", "layer", ["none", "batch", "word"])
    Traceback (most recent call last):
    ValueError: elmo.norm=layer, but it may be none, batch or word
    """
    if value not in choices:
        *others, last = map(str, choices)
        raise ValueError(f"{key}={value}, but it may be {', '.join(others)} or {last}")


def at_least(key: str, value: int | float | None, least: int) -> None:
    """Raise ValueError where a number is too small; None is for the caller to judge.

    >>> at_least("fit.batch_size", 0, 1)
    Traceback (most recent call last):
    ValueError: fit.batch_size=0, but it may be 1 or more
    """
    if value is not None and value < least:
        raise ValueError(f"{key}={value}, but it may be {least} or more")
