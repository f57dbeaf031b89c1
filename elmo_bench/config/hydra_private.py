"""Names of Hydra that it does not promise to keep, in one place. tests/test_private_names.py fails
when one of them goes; CONTRIBUTING.md has those of other packages.
"""

from types import ModuleType
from typing import Any

from hydra._internal import hydra as _hydra
from hydra._internal import utils as _utils
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import _locate, get_args_parser
from hydra.core.singleton import Singleton

__all__ = ["REPORTERS", "BasicSweeper", "get_args_parser", "locate", "singletons"]

# Imports what a dotted path names. hydra.utils.get_object also logs each failure.
locate = _locate
# The modules that call `run_and_report`, which prints what Hydra or a job raises.
REPORTERS: tuple[ModuleType, ...] = (_utils, _hydra)


def singletons() -> dict[type, Any]:
    """Return what Hydra keeps for a process, by class; changes to it are Hydra's."""
    return Singleton._instances
