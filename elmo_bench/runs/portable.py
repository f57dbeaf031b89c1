"""Copy runs for others: the files that a report reads, without checkpoints, texts and paths of the
machine.
"""

import csv
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import yaml

from elmo_bench.files import read_arrays, write_json, write_text

from .identity import ELSEWHERE, below
from .read import BEGUN, ENDED, Run, frozen, text
from .result import result_of

OVERRIDES = Path(".hydra") / "overrides.yaml"  # in a run's folder
CURVES, COUNTS = "metrics.csv", "counts"
SPLITS = ("train.npz", "dev.npz", "test.npz")
LONGEST = 100  # characters of a folder's name
# Settings without effect on figures: locations, and display of progress.
NO_EFFECT = (*ELSEWHERE, "hydra", "trainer.enable_progress_bar", "fit.save_minutes")
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
        return {key: None if key in WHERE else portable(each) for key, each in value.items()}
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
    words = (one.partition("=") for one in overrides)
    return [
        f"{key}={portable(value)}" if sign else key if re.match("~[^/]", key) else portable(key)
        for key, sign, value in words
    ]


def overrides(path: Path) -> list[str]:
    """Return a run's overrides, without settings that do not affect figures; [] without a file.

    Raises ValueError if the file is not a list of texts.
    """
    if not path.is_file():
        return []
    try:
        given = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError):  # a date that is none, too many brackets
        given = None
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"{path}: damaged: a run writes a YAML list of texts")
    return portable_overrides(one for one in given if not below(key_of(one), NO_EFFECT))


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


def copy_run(source: Path, part: Path, overrides: Sequence[str]) -> None:
    """Copy the files of a finished run that a report reads into the new folder `part`.

    `overrides` are the run's overrides on its command line. Raises ValueError, with the file, for a
    link, which might lead to a file that the run has not written, and for curves or counts that no
    report could read.
    """
    files = [CURVES, *(f"{COUNTS}/{name}" for name in SPLITS)]
    own = [ENDED, str(OVERRIDES), str(OVERRIDES.parent), COUNTS, *files]
    for path in (source / name for name in own):
        if path.is_symlink():
            raise ValueError(f"{path}: a link, but only a run's own files are copied: remove it")
    result = result_of(source)
    result["config"] = portable(result["config"])
    (part / OVERRIDES).parent.mkdir(parents=True)
    write_json(part / ENDED, result)
    write_text(part / OVERRIDES, json.dumps([*overrides]))  # JSON is YAML
    for name in files:  # only known files, since archives reject others
        if (path := source / name).is_file():
            _check_curves(path) if name == CURVES else read_arrays(path)
            (part / name).parent.mkdir(exist_ok=True)
            shutil.copy(path, part / name)


def _check_curves(path: Path) -> None:
    """Raise ValueError, with file and line, unless a file is a table of numbers by epoch."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            names = next(reader, [])
            if "epoch" not in names:
                raise ValueError(f"columns {shown(names)}")
            for row in reader:
                if len(row) != len(names):
                    raise ValueError(f"{len(row)} cells, but {len(names)} columns")
                [float(cell) for cell in row if cell]
        except (ValueError, csv.Error) as error:
            where = f"{path}:{reader.line_num}"
            raise ValueError(f"{where}: not the metrics of a run: {error}") from error


def copy_begun(begun: Run, part: Path) -> None:
    """Write the first files of a failed run, from `failures`, into the new folder `part`."""
    keys = ("identity", "inputs", "started", "reason")
    content = {key: getattr(begun, key) for key in keys}
    content["config"] = portable(begun.config)
    part.mkdir(parents=True)
    write_json(part / BEGUN, content)


def folder_name(config: Mapping[str, Any]) -> str:
    """Return a folder name for a run with this config, which may not be unique."""
    words = portable([config["task"]["name"], config["encoder"]["name"], config["elmo"]["mix"]])
    name = "-".join([*map(text, map(frozen, words)), f"seed{config['seed']}"])
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).lstrip(".-")[:LONGEST]
