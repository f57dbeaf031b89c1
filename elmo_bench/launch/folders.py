"""The folders of a sweep's runs: those that earlier runs left, and new ones."""

import itertools
import threading
from pathlib import Path

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from elmo_bench.config.inputs import same
from elmo_bench.files import is_taken
from elmo_bench.runs import finished, settings, unfinished


class RunFolders:
    """The folders of a sweep's runs, below `folder`; thread-safe.

    With `resume`, folders of finished and of killed runs are also searched for at or below `folder`
    and `outputs`.
    """

    def __init__(self, folder: Path, outputs: Path, resume: bool) -> None:
        self.folder, self.resume = folder, resume
        self.searched = [folder, outputs] if resume else []
        self.lock, self.taken = threading.Lock(), set[Path]()
        self.numbers: dict[str, int] = {}  # number of the first run with these settings
        self.finished_runs: dict[str, Path] = {}
        self.killed_runs: dict[str, Path] = {}

    def search(self) -> None:
        """Find the finished and the killed runs of earlier sweeps."""
        self.finished_runs = finished(self.searched)
        self.killed_runs = unfinished(self.searched)

    def first(self, config: DictConfig, number: int) -> int:
        """Return the number of the sweep's first run with these settings, which may be `number`."""
        try:
            chosen = settings(config)
        except OmegaConfBaseException:  # the run itself reports what is wrong
            return number
        with self.lock:
            return self.numbers.setdefault(chosen, number)

    def finished(self, config: DictConfig) -> Path | None:
        """Return the folder of a finished run that this one would repeat, or None."""
        return same(config, self.finished_runs)

    def own(self, config: DictConfig, number: int) -> Path:
        """Reserve and create the folder of a run: that of the killed run it resumes, or a new one.

        A new folder is named by the run's number, or by the next number whose folder has no result
        and, with `resume`, no checkpoint of another run, and in which no other sweep's run goes on.
        """
        begun = same(config, self.killed_runs)
        left = ("result.json", "last.ckpt") if self.resume else ("result.json",)
        with self.lock:
            numbered = (self.folder / str(n) for n in itertools.count(number))
            free = (
                path
                for path in numbered
                if not any((path / name).exists() for name in left) and not is_taken(path / "run")
            )
            run_dir = next(
                path
                for path in itertools.chain([begun] if begun else [], free)
                if path not in self.taken
            )
            self.taken.add(run_dir)
        run_dir.mkdir(exist_ok=True)
        return run_dir
