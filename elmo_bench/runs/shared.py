"""Copy runs for others: the files that a report reads, without checkpoints, texts and paths of the
machine.
"""

import csv
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from elmo_bench.files import read_arrays

from .folder import BEGUN, ENDED, result_of
from .portable import OVERRIDES, portable
from .read import Run, frozen, text

CURVES, COUNTS = "metrics.csv", "counts"
SPLITS = ("train.npz", "dev.npz", "test.npz")
LONGEST = 100  # characters of a folder's name


def copy_run(source: Path, part: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Copy the files of a finished run that a report reads into the new folder `part`.

    `overrides` are the run's overrides on its command line. Returns the result as it was written.
    Raises ValueError, with the file, for a link, which might lead to a file that the run has not
    written, and for a file that is not what its name says.
    """
    files = [CURVES, *(f"{COUNTS}/{name}" for name in SPLITS)]
    own = [ENDED, str(OVERRIDES), str(OVERRIDES.parent), COUNTS, *files]
    for path in (source / name for name in own):
        if path.is_symlink():
            raise ValueError(f"{path}: a link, but only a run's own files are copied: remove it")
    result = result_of(source)
    result["config"] = portable(result["config"])
    (part / OVERRIDES).parent.mkdir(parents=True)
    (part / ENDED).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (part / OVERRIDES).write_text(json.dumps([*overrides]), encoding="utf-8")  # JSON is YAML
    for name in files:  # only known files, since archives reject others
        if (path := source / name).is_file():
            _check_curves(path) if name == CURVES else read_arrays(path)
            (part / name).parent.mkdir(exist_ok=True)
            shutil.copy(path, part / name)
    return result


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
    (part / BEGUN).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def folder_name(config: Mapping[str, Any]) -> str:
    """Return a folder name for a run with this config, which may not be unique."""
    words = portable([config["task"]["name"], config["encoder"]["name"], config["elmo"]["mix"]])
    name = "-".join([*map(text, map(frozen, words)), f"seed{config['seed']}"])
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).lstrip(".-")[:LONGEST]
