"""Which code a run used: versions of packages, and the commit."""

import importlib.metadata
import subprocess
from pathlib import Path
from typing import Any

from elmo_bench import IS_CLONE, __version__

PACKAGES = ("torch", "pytorch-lightning", "hydra-core")


def code() -> dict[str, Any]:
    """Return the `versions` and the `commit` of the code."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    versions["elmo-bench"] = __version__
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """Return the commit of the code, with a + if there are uncommitted changes; None outside a
    checkout.
    """
    if not IS_CLONE:  # the packages may be installed inside another project's clone
        return None
    command = "git --no-optional-locks describe --always --abbrev=40 --dirty=+ --exclude=*"
    here, quiet = Path(__file__).parent, subprocess.DEVNULL
    try:
        return subprocess.check_output(
            command.split(), cwd=here, stderr=quiet, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None
