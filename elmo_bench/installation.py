"""What differs between a clone of the repository and an installed package."""

from pathlib import Path

PACKAGE = Path(__file__).parent
IS_CLONE = not (PACKAGE / "conf").is_dir()  # setup.py puts conf/ there in a wheel
CONF = (PACKAGE.parent if IS_CLONE else PACKAGE) / "conf"
COMMAND = ("python", "run.py") if IS_CLONE else ("elmo-bench",)
