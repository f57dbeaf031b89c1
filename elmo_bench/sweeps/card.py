"""`job=card`: evaluate an encoder on tasks with several seeds, and write a folder to share.

It is a sweep over the layers, then `job=archive` and `job=report` of its runs, and a README.
"""

import logging
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from hydra.core.utils import JobReturn, configure_log
from omegaconf import DictConfig

from elmo_bench.files import scratch_path
from elmo_bench.files.download import offline
from elmo_bench.runs import smoke_batches
from elmo_bench.settings.command import overridden, quoted

from .launcher import ProcessLauncher, script

log = logging.getLogger(__name__)
ARCHIVE = "runs.tar.xz"
REPORTS = ("index.html", "README.md", "tables.tex", "tables.csv")
OWN = (ARCHIVE, *REPORTS)


class CardLauncher(ProcessLauncher):
    """Extends a sweep over tasks and seeds by the layers, unless the command sets `elmo.mix`.

    The choices are no encoder, the learned mix of its layers, and each single layer.
    """

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all, and write the card's folder from the finished runs, even if some failed."""
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = self.composed(job_overrides)
        first = configs[0]
        for config in configs:
            if config.encoder != first.encoder:
                raise ValueError("a card is of one encoder: give one command for each")
        folder = card_folder(first)
        mixes = mixes_of(first)
        jobs = list[list[str]]()
        for overrides in job_overrides:
            jobs += [list(overrides) + mix for mix in mixes]
        returned = super().launch(jobs, initial_job_idx)
        self.write(folder, smoke_batches(first))
        return returned

    def write(self, folder: Path, batches: int | None) -> None:
        """Write the folder, replacing an earlier card, unless no run has finished; `batches` are
        those of smoke runs.
        """
        # A run that repeats another has its folder.
        runs = {outcome.folder: outcome for outcome in self.outcomes.values() if outcome.folder}
        finished = [outcome for outcome in runs.values() if outcome.is_done]
        if not finished:
            log.warning("no run has finished; %s is not written", folder)
            return
        has_baseline = any("elmo.mix=none" in outcome.overrides for outcome in finished)
        baseline = "none" if has_baseline else "null"
        kept = list[str]()
        for run_folder, outcome in runs.items():
            # A run that failed before it began has left nothing to keep.
            if outcome.is_done or (run_folder / "run.json").is_file():
                kept.append(quoted(str(run_folder)))
        run_folders = ",".join(kept)
        reports = ",".join(REPORTS)
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_path(folder) as part:
            part.mkdir()
            self._run_job(part, "archive", runs=f"[{run_folders}]", output=ARCHIVE)
            settings = {"columns": "elmo.mix", "baseline": baseline, "output": f"[{reports}]"}
            self._run_job(part, "report", runs=ARCHIVE, **settings)
            for name in OWN:
                (part / name).replace(folder / name)
        if batches is None:
            log.info("written, ready to share: %s", folder)
        else:
            log.warning(
                "written: %s, but of smoke runs of %d batches, whose scores mean nothing",
                folder,
                batches,
            )

    def _run_job(self, folder: Path, job: str, **settings: str) -> None:
        """Run a job inside a folder, so that its output has no path to the folder."""
        cache = {"ELMO_BENCH_CACHE": str(Path(self.config.cache_dir).expanduser().absolute())}
        command = [sys.executable, script(), f"job={job}"]
        command += [f"{key}={value}" for key, value in settings.items()]
        subprocess.run(command, cwd=folder, env=self.environment(None) | cache, check=True)


def card_folder(config: DictConfig) -> Path:
    """Return the folder to share; raises ValueError if it contains other files."""
    path = Path(config.out or Path(config.outputs_dir, "card", config.encoder.name)).expanduser()
    others = {file.name for file in path.iterdir()} if path.exists() else set()
    if ARCHIVE in others:
        others -= set(OWN)
    if others:
        raise ValueError(
            f"out={path} contains {min(others)}, which job=card did not write: choose "
            "another folder"
        )
    return path.absolute()


def mixes_of(config: DictConfig) -> list[list[str]]:
    """Return the overrides of the compared mixes: no layers, the learned mix, each single layer. If
    the command overrides `elmo.mix`, nothing is added.

    Raises ValueError for encoder=none, and any error from loading an encoder.
    """
    from elmo_bench.build import encoders  # imports torch

    if "elmo.mix" in overridden(config):
        return [[]]
    with offline() if config.dry_run is True else nullcontext():
        layers = encoders.encoder(config).num_layers
    # The last layer is called "top", as in sweep=layers. A single layer equals the mix.
    mixes = ["none", "all"]
    if layers > 1:
        mixes += map(str, range(layers - 1))
        mixes.append("top")
    return [[f"elmo.mix={mix}"] for mix in mixes]
