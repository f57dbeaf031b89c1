"""Which files a run reads. Importing this is cheap: a sweep asks it for every run that it may leave out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig

from elmo_bench.runs import Identity, hash_files


def files(cfg: DictConfig) -> dict[str, Path]:
    """A run's corpus, word vectors, biLM and checkpoint, by what they are to it; downloaded or generated if need be.

    Raises ValueError and OSError as reading them does.
    """
    found: dict[str, Any] = {f"data.{split}": path for split, path in _made(cfg.data.files).items()}
    found["checkpoint"] = cfg.get("checkpoint")
    for number, path in enumerate(vector_files(cfg)):
        found[f"vocab.vectors.{number}" if number else "vocab.vectors"] = path
    if cfg.elmo.mix != "none" and cfg.elmo.layers is not None:
        for key in ("options", "weights"):
            if key == "options" or cfg.elmo.pretrained:
                found[f"elmo.{key}"] = _made(cfg.elmo.get(key))
        if cfg.elmo.adapt and found.get("elmo.weights"):
            found["elmo.softmax"] = Path(found["elmo.weights"]).with_name("softmax.safetensors")
    # A file that is missing is for those who read it to complain of.
    return {name: Path(path) for name, path in found.items() if path and Path(path).is_file()}


def vector_files(cfg: DictConfig) -> list[str]:
    """The files of `vocab.vectors`, which may name none, one or several."""
    chosen = cfg.vocab.vectors
    return [] if not chosen else [chosen] if isinstance(chosen, str) else list(chosen)


def same(cfg: DictConfig, run_folders: Mapping[str, Path]) -> Path | None:
    """The folder of the run, among these by identity, that a config would repeat with today's files."""
    settings = Identity.of(cfg, {}).settings if run_folders else ""
    if not any(identity.startswith(settings) for identity in run_folders):
        return None
    try:
        inputs = hash_files(files(cfg), cfg.cache_dir)
    except (OSError, ValueError):  # the run itself says what is wrong
        return None
    return run_folders.get(str(Identity.of(cfg, inputs)))


def _made(node: Any) -> Any:
    try:
        return instantiate(node) if isinstance(node, DictConfig) else node
    except InstantiationException as error:
        if isinstance(error.__cause__, ValueError | OSError | ImportError):
            raise error.__cause__ from None
        raise
