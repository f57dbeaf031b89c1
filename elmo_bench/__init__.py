"""elmo-bench: how much do deep contextual word representations help, which layers help which task,
is the difference real?
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .elmo import Elmo
    from .encoders import Encoder, encode, load_encoder
    from elmo_bench.api import compare, compose, predict, read_runs, train

__version__ = "0.2.0"  # pyproject.toml reads it, too
# A wheel holds conf/ inside the package (see setup.py), a clone beside it.
PACKAGE = Path(__file__).parent
IS_CLONE = not (PACKAGE / "conf").is_dir()
CONF = (PACKAGE.parent if IS_CLONE else PACKAGE) / "conf"
INTERNAL = {"for", "paper", "shared"}  # folders in conf/ whose options other options choose
COMMAND = ("python", "run.py") if IS_CLONE else ("elmo-bench",)
__all__ = [
    "Elmo",
    "Encoder",
    "compare",
    "compose",
    "encode",
    "load_encoder",
    "predict",
    "read_runs",
    "train",
]
MODULES = {"Elmo": ".elmo"} | dict.fromkeys(["Encoder", "encode", "load_encoder"], ".encoders")


def __getattr__(name: str) -> Any:
    """Import these names on first access: `elmo-bench --help` and `job=report` need no torch."""
    if name in __all__:
        return getattr(import_module(MODULES.get(name, ".api"), __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
