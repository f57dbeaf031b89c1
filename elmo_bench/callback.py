"""Hydra's callback: what happens before a run, when its settings are known.

`conf/config.yaml` names it (`hydra.callbacks`); no code of ours calls it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from elmo_bench.runs import is_finished, settings_folder
from elmo_bench.settings.advice import MENDABLE, no_cache
from elmo_bench.settings.check import check, expand_home
from elmo_bench.settings.earlier import earlier_run


class Check(Callback):
    """Hydra's callback before a run: a command with a wrong setting ends with a few lines and
    writes no file. `--dry-run` ends here, and `resume=true` finds the folder of an earlier run.
    """

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        with ending(config):
            check(config)
            expand_home(config)
            if config.dry_run:
                from elmo_bench.build import dry_run  # imports torch

                lines = list(dry_run.lines([config]))
                lines.append("The settings are valid; nothing was run.")
                sys.stdout.write("\n".join(lines) + "\n")
                sys.exit()
            folder = earlier_run(config)
            if folder:
                sys.stdout.write(f"resume=true: this run is in {folder}\n")
                config.hydra.run.dir = str(folder)
            Path(config.hydra.run.dir).mkdir(parents=True, exist_ok=True)
            _keep_settings(config)

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        expand_home(config)

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """For sweeps with other launchers, whose runs do not trigger `on_run_start`."""
        with ending(config):
            check(config)


def _keep_settings(config: DictConfig) -> None:
    """Let Hydra write the settings of the command beside those of a finished run in its folder;
    nowhere with `resume=true`, which replaces no finished run.
    """
    folder = Path(config.hydra.run.dir)
    if config.hydra.output_subdir and is_finished(folder):
        config.hydra.output_subdir = None if config.resume else settings_folder(folder)


@contextmanager
def ending(cfg: DictConfig) -> Iterator[None]:
    """Exit with an exception's message; Hydra would turn that of a callback into a warning."""
    try:
        yield
    except Exception as error:
        message = f"{error}{no_cache(error, cfg)}" if isinstance(error, MENDABLE) else ""
        sys.exit(message or f"{type(error).__name__}: {error}")
