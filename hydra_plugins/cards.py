"""Hydra launcher of `job=card`: runs a sweep for each choice of layers and writes a model card."""

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, configure_log
from hydra.errors import CompactHydraException
from hydra.types import RunMode

from .processes import Processes

log = logging.getLogger(__name__)


class Cards(Processes):
    """Extends a sweep over tasks and seeds by the layers, unless the command sets `elmo.mix`.

    The choices are no encoder, the learned mix of its layers, and each layer alone.
    """

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all, and write the card's folder from the finished runs, even if some failed."""
        from elmo_bench import card

        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        try:
            configs = self.composed(job_overrides)
            folder, encoders = card.folder(configs), card.encoders(configs)
            jobs = [
                [*overrides, *mix]
                for overrides, config in zip(job_overrides, configs, strict=True)
                for mix in card.mixes(config, encoders)
            ]
            if self.config.get("dry_run") and not encoders:
                log.info("Each further layer of the encoder is one more run.")
            returned = super().launch(jobs, initial_job_idx)
            card.write(folder, self.outcomes.values(), encoders, self.report)
        except (ValueError, OSError, ImportError) as error:
            raise CompactHydraException(str(error)) from error
        return returned

    def report(self, folder: Path, **settings: Any) -> None:
        """Run `job=report` inside a folder, so that its output has no path to the folder."""
        from elmo_bench.jobs.report import report

        name, load = self.config.hydra.job.config_name, self.hydra_context.config_loader
        cfg = load.load_configuration(name, ["job=report"], RunMode.RUN)
        del cfg.hydra
        cfg.update(settings)
        with contextlib.chdir(folder):
            report(cfg)
