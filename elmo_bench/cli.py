"""The command line: `elmo-bench`, or `python run.py` in a clone. Slow imports come after signal
handlers are installed and short answers are given.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo_bench import __version__, signals


def main() -> None:
    """Run the command of `sys.argv`."""
    signals.stop_in_a_line()
    signals.end_with_parent()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"elmo-bench {__version__}\n")
        return
    if has_own_configs(arguments):
        sys.path.append(str(Path.cwd()))  # configs may name code in the working folder
    from elmo_bench import main as app
    from elmo_bench.config import advice  # imports Hydra

    jobs = [argument[4:] for argument in arguments if argument.startswith("job=")]
    if {"--help", "-h"} & {*arguments}:
        sys.stdout.write(f"{advice.settings_of_job(jobs[-1]) if jobs else app.help_text()}\n")
    elif wrong := advice.before(arguments):
        sys.exit("\n".join(wrong))
    else:
        advice.explain_errors()
        if "--dry-run" in arguments:
            sys.argv.remove("--dry-run")
            os.environ["ELMO_BENCH_DRY_RUN"] = "true"
        for option in {"-m", "--multirun"} & {*arguments}:  # argparse has it before or after all
            sys.argv.remove(option)
            sys.argv.insert(1, option)
        app.main()


def has_own_configs(arguments: Sequence[str]) -> bool:
    """Whether the command line names a folder of the user's configs.

    Otherwise the working folder, which may contain downloads, is not added to Python's path.
    """
    return any(argument.startswith(("--config-dir", "-cd")) for argument in arguments)
