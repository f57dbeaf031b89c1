"""Tests compose a few hundred choices of options some thousand times. What Hydra makes of a choice
is kept for the next time; the settings of a command are applied to it by Hydra itself.

No test changes a file of `conf/`. Processes of their own keep nothing.
"""

import io
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from hydra._internal import config_loader_impl as loader
from hydra._internal.defaults_list import DefaultsList
from omegaconf import DictConfig, OmegaConf

CONF = Path(__file__).parents[1] / "conf"
Loader = loader.ConfigLoaderImpl
list_files = loader.create_defaults_list
merge = Loader._compose_config_from_defaults_list
load = OmegaConf.load

LISTS: dict[tuple[Any, ...], DefaultsList] = {}  # of files, by what chose them
CHOSEN: set[int] = set()  # the identities of these lists
CONFIGS: dict[int, bytes] = {}  # pickled, by the identity of a list


def source_state(source: Any) -> tuple[Any, ...]:
    """Where configs come from; of a folder that a test may change, also what is in it."""
    files: list[Path] = []
    if source.scheme() == "file" and Path(source.path) != CONF:
        files = sorted(Path(source.path).rglob("*.yaml"))
    texts = [(path, path.read_bytes()) for path in files]
    return source.scheme(), source.path, *texts


def kept_list(*, repo: Any, config_name: str, overrides_list: list[Any], **more: bool) -> Any:
    """The files that a command chooses, and its settings."""
    sources = [source_state(source) for source in repo.get_sources()]
    options, settings = [], []
    for override in overrides_list:
        if override.is_sweep_override():
            continue
        is_group = repo.group_exists(override.key_or_group)
        is_option = is_group and not isinstance(override.value(), dict)
        (options if is_option else settings).append(override)
    key = (config_name, *sources, *(option.input_line for option in options), *more.items())
    if key not in LISTS:
        chosen = list_files(repo=repo, config_name=config_name, overrides_list=options, **more)
        LISTS[key] = chosen
        CHOSEN.add(id(chosen.defaults))
    return replace(LISTS[key], config_overrides=settings)


def kept_config(self: Any, defaults: list[Any], repo: Any) -> DictConfig:
    """The config of these files, before the settings of a command."""
    number = id(defaults)
    if number not in CHOSEN:
        return merge(self, defaults=defaults, repo=repo)
    if number not in CONFIGS:
        CONFIGS[number] = pickle.dumps(merge(self, defaults=defaults, repo=repo))
    return pickle.loads(CONFIGS[number])


@cache
def read(text: str) -> bytes:
    """The config of a file's text, pickled."""
    return pickle.dumps(load(io.StringIO(text)))


def kept_file(file: Any) -> Any:
    """The config of an open file; many choices have the same files."""
    if not hasattr(file, "read"):
        return load(file)
    start = file.tell()
    try:
        return pickle.loads(read(file.read()))
    except Exception:
        file.seek(start)
        return load(file)  # whose error names the file


def keep_configs() -> None:
    """Let Hydra 1.3 keep what it makes in this process; other versions have other private parts."""
    if not hydra.__version__.startswith("1.3."):
        return
    loader.create_defaults_list = kept_list
    Loader._compose_config_from_defaults_list = kept_config
    OmegaConf.load = staticmethod(kept_file)
