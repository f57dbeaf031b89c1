"""Which files a run reads: its corpus, word vectors, encoder and checkpoint.

Importing this is cheap: a sweep asks it for every run that it may leave out.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from elmo_bench.files.download import NotHereError, offline
from elmo_bench.files.download import corpus as find
from elmo_bench.runs import is_baseline, leaves
from elmo_bench.terminal import not_a_file, not_a_folder

from .command import overridden
from .targets import instantiate

log = logging.getLogger(__name__)
SPLITS = ("train", "dev", "test")
MODEL_SUFFIXES = (".safetensors", ".json", ".txt", ".model")  # weights, config, tokenizer
# Files beside a model that no layer depends on: those of sentence-transformers, and of generation.
UNREAD = (
    "config_sentence_transformers.json",
    "data_config.json",
    "generation_config.json",
    "modules.json",
    "sentence_bert_config.json",
)
ENCODER_FILES = ("options", "weights", "vectors")  # settings of encoders that name a file


def files(cfg: DictConfig) -> dict[str, Path]:
    """Return the files of a run's corpus, word vectors, encoder and checkpoint.

    Missing files are downloaded or generated. For an evaluation, the corpus has only the evaluated
    split. Raises ValueError and OSError, like reading the files.
    """
    splits = [cfg.split] if cfg.get("split") else SPLITS
    paths: dict[str, Any] = {f"data.{split}": path for split, path in corpus(cfg, splits).items()}
    paths["checkpoint"] = cfg.get("checkpoint")
    paths |= _numbered("vocab.vectors", vector_files(cfg))
    if not is_baseline(cfg):
        paths |= encoder_files(cfg)
        weights = paths.get("encoder.weights")
        if cfg.elmo.adapt and weights:
            paths["encoder.softmax"] = weights.with_name("softmax.safetensors")
            if paths["encoder.softmax"].is_file():  # whose rows these words name
                paths["encoder.vocabulary"] = weights.with_name("vocabulary.txt")
    return _present(paths)


def by_split(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return the files of the corpus, by split, of what `files` returned."""
    return {split: files[f"data.{split}"] for split in SPLITS if f"data.{split}" in files}


def encoder_files(cfg: DictConfig) -> dict[str, Path]:
    """Return the files of an encoder; missing files are downloaded."""
    is_pretrained = cfg.encoder.get("pretrained", True)
    paths: dict[str, Any] = {}
    for key in ENCODER_FILES:
        if key == "weights" and not is_pretrained:
            continue
        setting = made(cfg.encoder.get(key))
        if isinstance(setting, str | Path):  # of a user's encoder it may be something else
            paths[f"encoder.{key}"] = setting
    vectors = paths.get("encoder.vectors")
    if isinstance(vectors, str):
        paths["encoder.vectors"] = located(vectors, cfg)
    if cfg.encoder.get("_target_", "elmo_bench.").startswith("elmo_bench."):
        several = cfg.encoder.get("vectors")
        if isinstance(several, ListConfig):
            paths |= _numbered("encoder.vectors", [located(file, cfg) for file in several])
    else:
        named = {f"encoder.{key}": path for key, path in _named_by_a_user(cfg)}
        paths = named | paths
    paths |= _in_folders(paths)
    for key, pattern in (("model", "*"), ("adapter", "adapter_*")):
        folder = cfg.encoder.get(key)
        if isinstance(folder, str):  # or a name on the hub
            for file in Path(folder).expanduser().glob(pattern):
                if file.suffix in MODEL_SUFFIXES and file.name not in UNREAD:
                    paths[f"encoder.{file.name}"] = file
    return _present(paths)


def _in_folders(paths: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files in those paths that are folders, which a user's own encoder may read."""
    files: dict[str, Path] = {}
    for name, path in paths.items():
        folder = Path(path).expanduser() if path else None
        if folder and folder.is_dir():
            for file in folder.rglob("*"):
                files[f"{name}/{file.relative_to(folder)}"] = file
    return files


def check_model(model: str) -> None:
    """Raise FileNotFoundError for an `encoder.model` that must be a folder, by its first character,
    and is none.
    """
    if model.startswith(("/", "~", ".")) and not Path(model).expanduser().is_dir():
        raise FileNotFoundError(f"encoder.model={model}: {not_a_folder(model)}")


def check_present(cfg: DictConfig) -> None:
    """Raise ValueError or OSError for a corpus, word vectors or an encoder that a run would not
    find; what it downloads may be missing. A sweep asks this before its first run.
    """
    with offline():
        looks: list[Callable[[DictConfig], object]] = [corpus, checked_vector_files]
        if not is_baseline(cfg):
            looks.append(_check_encoder)
        for look in looks:
            with suppress(NotHereError):
                look(cfg)


def _check_encoder(cfg: DictConfig) -> None:
    """Raise ValueError or OSError for files of our encoders that are not there."""
    target = str(cfg.encoder.get("_target_"))
    if not target.startswith("elmo_bench."):
        return
    model = cfg.encoder.get("model")
    if isinstance(model, str):
        check_model(model)
    elif "model" in cfg.encoder and model is None:
        raise ValueError(
            f"encoder={cfg.encoder.name} needs a model: encoder.model=NAME_ON_THE_HUB, or "
            "encoder.model=FOLDER"
        )
    present = encoder_files(cfg)
    for key in ENCODER_FILES:
        file = cfg.encoder.get(key)
        is_read = key != "weights" or cfg.encoder.get("pretrained", True)
        if is_read and isinstance(file, str) and f"encoder.{key}" not in present:
            raise FileNotFoundError(f"encoder.{key}={file}: {not_a_file(file)}")


def _named_by_a_user(cfg: DictConfig) -> Iterator[tuple[str, Path]]:
    """Yield the files, and the folders written with a /, that the settings of a user's encoder
    name, at any depth; not those that a run writes.
    """
    cache = Path(cfg.cache_dir).expanduser().resolve()
    settings: Any = OmegaConf.to_container(cfg.encoder, resolve=True)
    for key, value in leaves(settings):
        is_list = isinstance(value, list)
        for number, text in enumerate(value if is_list else [value]):
            with suppress(OSError, RuntimeError, TypeError, ValueError):  # no path
                path = Path(text).expanduser()
                is_folder = path.is_dir() and "/" in text.rstrip("/")
                if path.is_file() or (is_folder and path.resolve() not in (cache, *cache.parents)):
                    yield f"{key}.{number}" if is_list else key, path


def _numbered(key: str, files: Sequence[str]) -> dict[str, str]:
    """Return files by key: the first under the key itself, others with a number."""
    return {f"{key}.{number}" if number else key: file for number, file in enumerate(files)}


def made(node: Any) -> Any:
    """Return a setting that may be a file, or a function that finds or downloads one."""
    return instantiate(node) if isinstance(node, DictConfig) else node


def _present(paths: Mapping[str, Any]) -> dict[str, Path]:
    present: dict[str, Path] = {}
    for name, given in paths.items():
        path = Path(given).expanduser() if given else None
        if path and path.is_file():  # the reader of a file reports that it is missing
            present[name] = path
    return present


def vector_files(cfg: DictConfig) -> list[str]:
    """Return the files of `vocab.vectors`: none, one or several, found like a corpus."""
    chosen = cfg.vocab.vectors or []
    files = [chosen] if isinstance(chosen, str) else chosen
    return [located(file, cfg) for file in files]


def located(file: str, cfg: DictConfig) -> str:
    """Return the path of FILE or FILE.gz in the working directory, or else below data_dir."""
    for path in (file, f"{file}.gz", f"{cfg.data_dir}/{file}", f"{cfg.data_dir}/{file}.gz"):
        if _is_file(path):
            return path
    return file


def checked_vector_files(cfg: DictConfig) -> list[str]:
    """Return the files of `vocab.vectors`, all of which exist.

    Raises FileNotFoundError, which says where a missing file of the paper's recipes comes from.
    """
    files = vector_files(cfg)
    for file in files:
        if not _is_file(file):
            is_given = "vocab.vectors" in overridden(cfg)
            origin = "" if is_given else cfg.vocab.get("origin", "")
            missing = f"vocab.vectors={file}: {not_a_file(file)}"
            raise FileNotFoundError(f"{missing}; {origin}" if origin else missing)
    return files


def _is_file(path: str) -> bool:
    return Path(path).expanduser().is_file()


def corpus(cfg: DictConfig, splits: Sequence[str] = SPLITS) -> dict[str, Path]:
    """Return the files of `cfg.data`, by split; a corpus may lack a test file.

    Missing files are downloaded. Raises ValueError for a missing path or name and FileNotFoundError
    for a missing file.
    """
    data = cfg.data
    if "_target_" in data.files:
        made_files = made(data.files)
        paths = {split: Path(path) for split, path in made_files.items() if split in splits}
    else:
        paths = _located(
            cfg, {split: data.files[split] for split in splits if data.files.get(split)}
        )
    is_drawn = data.get("held_out") or data.get("folds")
    drawn = ("test", "dev") if is_drawn else ("test",)
    missing = list[str]()
    for split in splits:
        is_needed = split not in drawn or len(splits) == 1
        if is_needed and split not in paths:
            missing.append(split)
    if missing:
        advice = ""
        if missing == ["dev"] and "train" in paths:
            add = "" if "held_out" in data else "+"
            advice = f", or make a tenth of the training examples dev: {add}data.held_out=0.1"
        raise ValueError(
            f"data.files.{missing[0]} is empty: {data.name or 'the corpus'} has no {missing[0]} "
            f"file; give one{advice}"
        )
    for split in sorted(paths.keys() - {"train"}):
        if "train" in paths and paths[split].samefile(paths["train"]):
            log.warning(
                "data.files.%s is the training file: its scores say how well the model remembers",
                split,
            )
    return paths


def _located(cfg: DictConfig, files: Mapping[str, str]) -> dict[str, Path]:
    """Find or download the files of a corpus."""
    data = cfg.data
    keys = overridden(cfg)
    given = {split for split in files if f"data.files.{split}" in keys}
    other = sorted(given - {"train"})
    if other and "origin" in data and "data.name" not in keys:
        raise ValueError(
            f"data.files.{other[0]}={files[other[0]]} is not a file of {data.name}, so "
            "its scores would be reported under the wrong corpus: choose data=files, "
            "or name the corpus with data.name=NAME"
        )
    return find(
        files,
        data_dir=cfg.data_dir,
        given=given,
        origin=data.get("origin", ""),
        downloads=data.get("downloads", {}),
    )
