"""elmo-bench: how much do deep contextual word representations help, which layers help which task, is the difference real?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .elmo import Elmo

__all__ = ["Elmo"]


def __getattr__(name: str) -> Any:
    """`Elmo` is imported when it is asked for: `run.py --help` and `job=report` need no torch."""
    if name == "Elmo":
        from .elmo import Elmo

        return Elmo
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
