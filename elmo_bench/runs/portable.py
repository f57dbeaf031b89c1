"""Settings, commands and folders of runs without the paths of their machine."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .identity import ELSEWHERE, below

# Settings without effect on scores: locations, and display of progress.
NO_EFFECT = (*ELSEWHERE, "hydra", "trainer.enable_progress_bar", "fit.save_minutes")
OVERRIDES = Path(".hydra") / "overrides.yaml"  # in a run's folder
# Config keys with locations on a run's machine. Other paths keep their file names.
WHERE = ("run_dir", "outputs_dir", "data_dir", "cache_dir", "out", "checkpoint")
# A path begins a text or follows one of these; the // of a URL does not begin one.
_PATH = re.compile(
    r"""(?<![^\s=:\[({,'"|;])
    (?: file:/+ | (?<!:)/+(?=[^\s/]) | /(?=[^\s/]) | ~[\w.-]*/ | [A-Za-z]:[/\\](?!/) | \\\\
      | (?:[^\s=:\[({,'"|;]*[/\\])?\.\.[/\\] )
    [^\s,]*(?:(?:[ ][^\s,/=]+)+/[^\s,]*)*  # folders may have spaces in their names
    """,
    re.VERBOSE,
)


def portable(value: Any) -> Any:
    """Replace the paths in a value of a config, or in a whole config, by file and folder names.

    >>> portable("{train:/home/me/a.txt}"), portable("see ~/me/b, ../c"), portable("google/electra")
    ('{train:a.txt}', 'see b, c', 'google/electra')
    >>> portable(["https://host/a/b", "file:///home/me/a"]), portable({"data_dir": "corpora"})
    (['https://host/a/b', 'a'], {'data_dir': None})
    """
    if isinstance(value, dict):
        return {key: None if key in WHERE else portable(value[key]) for key in value}
    if isinstance(value, list | tuple):
        return type(value)(map(portable, value))
    if isinstance(value, str):
        return _PATH.sub(lambda path: re.split(r"[/\\]", path[0].rstrip("/\\"))[-1], value)
    return value


def portable_overrides(overrides: Iterable[str]) -> list[str]:
    """Return overrides without folders of the machine; deletions (`~KEY`) are kept.

    >>> portable_overrides(["data_dir=/home/me/data", "~logger/wandb", "runs=[outputs/a,/tmp/b]"])
    ['data_dir=data', '~logger/wandb', 'runs=[outputs/a,b]']
    """
    portables: list[str] = []
    for override in overrides:
        key, sign, value = override.partition("=")
        if sign:
            portables.append(f"{key}={portable(value)}")
        elif re.match("~[^/]", key):  # a deletion
            portables.append(key)
        else:
            portables.append(portable(key))
    return portables


def overrides(path: Path) -> list[str]:
    """Return a run's overrides, without settings that do not affect scores; [] without a file.

    Raises ValueError if the file is not a list of texts.
    """
    if not path.is_file():
        return []
    try:
        given = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError):  # a date that is none, too many brackets
        given = None
    if not isinstance(given, list) or not all(isinstance(override, str) for override in given):
        raise ValueError(f"{path}: damaged: a run writes a YAML list of texts")
    kept = [override for override in given if not below(key_of(override), NO_EFFECT)]
    return portable_overrides(kept)


def key_of(override: str) -> str:
    """Return the key that an override sets or deletes.

    >>> key_of("+encoder@other=mini"), key_of("~recipe")
    ('encoder', 'recipe')
    """
    return override.partition("=")[0].lstrip("+~").partition("@")[0]


def short(folder: Path) -> str:
    """Return the last two parts of a run's folder, for files that may be shared.

    >>> short(Path("/home/me/outputs/sweep/3"))
    'sweep/3'
    """
    return "/".join(folder.absolute().parts[-2:])
