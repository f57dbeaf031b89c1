"""Whether an earlier run is the run that a command asks for.

Importing this is cheap: a sweep asks it for every run that it may leave out.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from omegaconf import DictConfig, ListConfig, OmegaConf

from elmo_bench.runs import (
    finished,
    hash_files,
    identity_of,
    num_layers_in,
    read_run,
    unfinished,
)

from .command import overridden
from .inputs import files

log = logging.getLogger(__name__)


def same_run(cfg: DictConfig, run_folders: Mapping[str, Path]) -> Path | None:
    """Return the folder, among these by identity, of the run that a config would repeat."""
    # The digest of the settings is cheap, and says of most commands that no run is the same.
    digests = {_digest(identity_of(cfg, {}, number)) for number in _possible_layers(cfg)}
    if not any(_digest(identity) in digests for identity in run_folders):
        return None
    try:
        paths = files(cfg)
        identity = identity_of(cfg, hash_files(paths), num_layers_in(paths))
    except (OSError, ValueError):  # the run itself reports the error
        return None
    return run_folders.get(identity)


def _digest(identity: str) -> str:
    """Return the part of an identity that is of the settings alone, and not of the files."""
    return identity.partition("-")[0]


def _possible_layers(cfg: DictConfig) -> Iterator[int | None]:
    """Yield the numbers of the encoder's layers by which `elmo.mix` may have two names."""
    yield from (None, 1)
    mix = OmegaConf.select(cfg, "elmo.mix")  # a job of one's own may have none
    layers = list(mix) if isinstance(mix, ListConfig) else [mix]
    if all(isinstance(layer, int) for layer in layers):
        yield max(layers) + 1


def earlier_run(cfg: DictConfig) -> Path | None:
    """Return the folder, below `outputs_dir`, in which `resume=true` has a run end or go on.

    None if its folder was chosen, as a sweep does for its runs and Lightning for the further
    processes of a run.
    """
    chosen = [each for each in cfg.hydra.overrides.hydra if each.startswith("hydra.run.dir=")]
    if chosen or "run_dir" in overridden(cfg) or cfg.job.get("name") != "train" or not cfg.resume:
        return None
    folders = [Path(cfg.outputs_dir).absolute()]
    return same_run(cfg, finished(folders)) or same_run(cfg, unfinished(folders))


def finished_figures(cfg: DictConfig) -> dict[str, float] | None:
    """Return the metrics of a finished run of this identity in `run_dir`, and log where it is."""
    folder = same_run(cfg, finished([Path(cfg.run_dir)]))
    if folder is None:
        return None
    log.info("already finished: %s", folder / "result.json")
    return read_run(folder / "result.json").metrics
