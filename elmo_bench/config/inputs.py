"""Which files a run reads, and whether an earlier run is the same.

Importing this is cheap: a sweep asks it for every run that it may leave out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra.utils
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from elmo_bench.files import corpus as find
from elmo_bench.files import fetch_path
from elmo_bench.runs import hash_files, identity_of, key_of

SPLITS = ("train", "dev", "test")
MODEL_SUFFIXES = (".safetensors", ".json", ".txt", ".model")  # weights, config, tokenizer
ENCODER_FILES = ("options", "weights", "vectors")  # settings of encoders that name a file
ABOUT = ("name", "dir")  # settings of an encoder that its constructor does not take
GENERATED = "elmo_bench.sample.files"


class NotHereError(OSError):
    """What a run downloads or converts, and a dry run does not."""


def files(cfg: DictConfig) -> dict[str, Path]:
    """Return the files of a run's corpus, word vectors, encoder and checkpoint.

    Missing files are downloaded or generated. For an evaluation, the corpus has only the evaluated
    split. Raises ValueError and OSError, like reading the files.
    """
    splits = [cfg.split] if cfg.get("split") else SPLITS
    paths: dict[str, Any] = {f"data.{split}": path for split, path in corpus(cfg, splits).items()}
    paths["checkpoint"] = cfg.get("checkpoint")
    for number, path in enumerate(vector_files(cfg)):
        paths[f"vocab.vectors.{number}" if number else "vocab.vectors"] = path
    if cfg.elmo.mix != "none":
        paths |= encoder_files(cfg)
        if cfg.elmo.adapt and (weights := paths.get("encoder.weights")):
            paths["encoder.softmax"] = Path(weights).with_name("softmax.safetensors")
    return _present(paths)


def by_split(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return the corpus among the `files` of a run, by split."""
    return {split: files[f"data.{split}"] for split in SPLITS if f"data.{split}" in files}


def encoder_files(cfg: DictConfig) -> dict[str, Path]:
    """Return the files of an encoder; missing files are downloaded."""
    is_pretrained = cfg.encoder.get("pretrained", True)
    chosen = [key for key in ENCODER_FILES if key != "weights" or is_pretrained]
    nodes = {f"encoder.{key}": cfg.encoder.get(key) for key in chosen}
    paths = {
        key: instantiate(node) if isinstance(node, DictConfig) else node
        for key, node in nodes.items()
    }
    if model := cfg.encoder.get("model"):  # a folder, or a name on the hub
        files = Path(model).expanduser().glob("*")
        paths |= {f"encoder.{path.name}": path for path in files if path.suffix in MODEL_SUFFIXES}
    return _present(paths)


def check_encoder(cfg: DictConfig) -> None:
    """Raise NotHereError in a dry run if building the encoder downloads something."""
    if not cfg.get("dry_run"):
        return
    model, nodes = cfg.encoder.get("model"), map(cfg.encoder.get, ENCODER_FILES)
    remote = [node for node in nodes if isinstance(node, DictConfig) and "url" in node]
    files = [fetch_path(each.url, folder=each.folder, sha256=each.get("sha256")) for each in remote]
    is_here = Path(model).expanduser().is_dir() if model else all(map(Path.is_file, files))
    if not is_here:
        raise NotHereError(f"encoder={cfg.encoder.name}: not here; a run downloads it")


def _present(paths: Mapping[str, Any]) -> dict[str, Path]:
    # The reader of a file reports that it is missing.
    whole = {name: Path(path).expanduser() for name, path in paths.items() if path}
    return {name: path for name, path in whole.items() if path.is_file()}


def vector_files(cfg: DictConfig) -> list[str]:
    """Return the files of `vocab.vectors`, which may name none, one or several; FILE.gz if only
    that exists.
    """
    chosen = cfg.vocab.vectors
    files = [] if not chosen else [chosen] if isinstance(chosen, str) else list(chosen)
    is_packed = [_is_file(f"{file}.gz") and not _is_file(file) for file in files]
    return [f"{file}{'.gz' * packed}" for file, packed in zip(files, is_packed, strict=True)]


def checked_vector_files(cfg: DictConfig) -> list[str]:
    """Return the files of `vocab.vectors`, all of which exist.

    Raises FileNotFoundError, which says where a missing file of the paper's recipes comes from.
    """
    for file in (files := vector_files(cfg)):
        if not _is_file(file):
            is_given = "vocab.vectors" in overridden(cfg)
            origin = "" if is_given else cfg.vocab.get("origin", "")
            raise FileNotFoundError(f"vocab.vectors={file}: no such file{origin and f'; {origin}'}")
    return files


def _is_file(path: str) -> bool:
    return Path(path).expanduser().is_file()


def same_run(cfg: DictConfig, run_folders: Mapping[str, Path]) -> Path | None:
    """Return the folder, among these by identity, of the run that a config would repeat."""
    settings = identity_of(cfg, {}).partition("-")[0] if run_folders else ""
    if not any(identity.startswith(settings) for identity in run_folders):
        return None
    try:
        inputs = hash_files(files(cfg))
    except (OSError, ValueError):  # the run itself reports the error
        return None
    return run_folders.get(identity_of(cfg, inputs))


def corpus(cfg: DictConfig, splits: Sequence[str] = SPLITS) -> dict[str, Path]:
    """Return the files of `cfg.data`, by split; a corpus may lack a test file.

    Raises ValueError for a missing path or name, FileNotFoundError for a missing file and, in a dry
    run, NotHereError for one that a run downloads.
    """
    data, files = cfg.data, cfg.data.files
    if "_target_" not in files:
        paths = _located(cfg, {split: files[split] for split in splits if files.get(split)})
    elif cfg.get("dry_run") and files._target_ != GENERATED:
        raise NotHereError(
            f"data={data.name}: its files were not read; a run downloads or converts them"
        )
    else:
        made = instantiate(files)
        paths = {split: Path(path) for split, path in made.items() if split in splits}
    needed = [split for split in splits if split != "test" or len(splits) == 1]
    if missing := [split for split in needed if split not in paths]:
        raise ValueError(
            f"data.files.{missing[0]} is empty: {data.name or 'the corpus'} has no "
            f"{missing[0]} file; give one"
        )
    return paths


def _located(cfg: DictConfig, files: Mapping[str, str]) -> dict[str, Path]:
    """Find the files of a corpus; missing ones are downloaded, but for a dry run."""
    data, keys = cfg.data, overridden(cfg)
    given = {split for split in files if f"data.files.{split}" in keys}
    other = sorted(given - {"train"})
    if other and "origin" in data and "data.name" not in keys:
        raise ValueError(
            f"data.files.{other[0]}={files[other[0]]} is not a file of {data.name}, so "
            "its scores would be reported under the wrong corpus: choose data=files, "
            "or name the corpus with data.name=NAME"
        )
    downloads, origin = data.get("downloads", {}), data.get("origin", "")
    offline = {} if cfg.get("dry_run") else downloads
    try:
        return find(files, data_dir=cfg.data_dir, given=given, origin=origin, downloads=offline)
    except FileNotFoundError as error:
        remote = [file for file in files.values() if file in downloads]
        if offline or not remote:
            raise
        raise NotHereError(
            f"data={data.name}: {', '.join(remote)}: not here and so not read; a run downloads it "
            f"from {downloads[remote[0]].url}"
        ) from error


def composition(cfg: DictConfig) -> Any:
    """Return Hydra's own part of a config, or of the one that runs; None without either."""
    return cfg.get("hydra") or (HydraConfig.get() if HydraConfig.initialized() else None)


def overridden(cfg: DictConfig) -> dict[str, str]:
    """Return the values that the command line sets, by key; in a sweep, the run's config lists
    them.
    """
    hydra = composition(cfg)
    overrides: Any = OmegaConf.to_container(hydra.overrides.task) if hydra else ()
    return {key_of(override): override.partition("=")[2] for override in overrides}


def instantiate(node: Any, **more: Any) -> Any:
    """Call Hydra's `instantiate` and re-raise what a constructor raises, with its own message."""
    try:
        return hydra.utils.instantiate(node, **more)
    except InstantiationException as error:
        if error.__cause__ is None or isinstance(error.__cause__, TypeError):
            raise
        raise error.__cause__ from None


@contextmanager
def as_run(config: DictConfig) -> Iterator[DictConfig]:
    """The config as a job gets it; within, Hydra takes it for the one that runs."""
    hydra, cfg = HydraConfig.instance(), config.copy()
    before = hydra.cfg
    with open_dict(cfg), read_write(cfg.hydra):
        cfg.hydra.runtime.output_dir = str(Path(cfg.hydra.run.dir).absolute())
        hydra.set_config(cfg)
        del cfg["hydra"]
        cfg.run_dir = cfg.run_dir  # resolved
    try:
        yield cfg
    finally:
        hydra.cfg = before


def choices() -> dict[str, str]:
    """Return the chosen option of each config group; empty if Hydra did not compose the config."""
    return dict(HydraConfig.get().runtime.choices) if HydraConfig.initialized() else {}
