"""The command `elmo-bench`, for a clone: `python run.py`."""

import sys
from importlib.util import find_spec

if __name__ == "__main__":
    if sys.version_info < (3, 11) or not (find_spec("hydra") and find_spec("torch")):
        sys.exit(
            f"elmo-bench is not installed in {sys.executable}. With Python 3.11 or later, type: "
            "python3 -m venv .venv && .venv/bin/pip install -e . && source .venv/bin/activate"
        )
    from elmo_bench.cli import main

    main()
