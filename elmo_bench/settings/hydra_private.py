"""Names of Hydra that it does not promise to keep, and what differs between its versions, in one
place. tests/test_private_names.py fails when a name goes; CONTRIBUTING.md has those of other
packages. One stands elsewhere, in sweeps/sweeper.py: Hydra 1.3 makes its plugins anew when it
looks for plugins, and ours must extend the new class.
"""

import inspect
from types import ModuleType
from typing import Any

import hydra.utils
from hydra._internal import hydra as _hydra
from hydra._internal import utils as _utils
from hydra._internal.utils import _locate, get_args_parser
from hydra.core.singleton import Singleton

__all__ = [
    "HAS_WHITELIST",
    "OF_VERSION",
    "REPORTERS",
    "get_args_parser",
    "locate",
    "singletons",
]

# Hydra 1.4 has a whitelist of its own, which also sees what a name stands for and what is returned.
HAS_WHITELIST = "_execution_whitelist_" in inspect.signature(hydra.utils.instantiate).parameters
# For hydra.main and hydra.initialize_config_dir: 1.3 asks for it, and 1.4 warns of it.
OF_VERSION: dict[str, Any] = {} if HAS_WHITELIST else {"version_base": "1.3"}
# Imports what a dotted path names. hydra.utils.get_object also logs each failure.
locate = _locate
# The modules that call `run_and_report`, which prints what Hydra or a job raises.
REPORTERS: tuple[ModuleType, ...] = (_utils, _hydra)


def singletons() -> dict[type, Any]:
    """Return what Hydra keeps for a process, by class; changes to it are Hydra's."""
    return Singleton._instances
