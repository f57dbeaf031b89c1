"""Which runs of a sweep there is something of already, and the folders of the others."""

import itertools
import threading
from pathlib import Path

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from elmo_bench.inputs import same
from elmo_bench.runs import finished, settings, unfinished


class RunFolders:
    """The folders of a sweep's runs, below `folder`; several threads may ask at once.

    With `resume`, a run that is finished at or below `folder` or `outputs` has its folder there,
    and so has one that was killed.
    """

    def __init__(self, folder: Path, outputs: Path, resume: bool) -> None:
        self.folder, self.resume = folder, resume
        self.searched = [folder, outputs] if resume else []
        self.lock, self.taken = threading.Lock(), set[Path]()
        self.numbers: dict[str, int] = {}  # of the first run of each setting
        self.finished_runs: dict[str, Path] = {}
        self.killed_runs: dict[str, Path] = {}

    def search(self) -> None:
        """Look for what other runs have left."""
        self.finished_runs = finished(self.searched)
        self.killed_runs = unfinished(self.searched)

    def first(self, config: DictConfig, number: int) -> int:
        """The number of the first run of the sweep that is the same as this one; its own if there
        is none.
        """
        try:
            chosen = settings(config)
        except OmegaConfBaseException:  # the run itself says what is wrong
            return number
        with self.lock:
            return self.numbers.setdefault(chosen, number)

    def finished(self, config: DictConfig) -> Path | None:
        """The folder of a finished run that this one would repeat."""
        return same(config, self.finished_runs)

    def own(self, config: DictConfig, number: int) -> Path:
        """The folder of the run that goes on, or one by its number, a new one where that already
        belongs to another run.

        It may have been of another sweep: one that is finished or, where runs go on, has begun.
        """
        begun = same(config, self.killed_runs)
        left = ("result.json", "last.ckpt") if self.resume else ("result.json",)
        with self.lock:
            numbered = (self.folder / str(n) for n in itertools.count(number))
            free = (path for path in numbered if not any((path / name).exists() for name in left))
            run_dir = next(
                path
                for path in itertools.chain([begun] if begun else [], free)
                if path not in self.taken
            )
            self.taken.add(run_dir)
        run_dir.mkdir(exist_ok=True)
        return run_dir
