"""Copy runs for others: the files that a report reads, without checkpoints, texts and paths of the
machine.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .collect import Run, as_text
from .earlier import today
from .folder import BEGUN, ENDED, result_of
from .portable import OVERRIDES, portable

CURVES, COUNTS = "metrics.csv", "counts"
SPLITS = ("train.npz", "dev.npz", "test.npz")
LONGEST = 100  # characters of a folder's name


def copy_run(source: Path, part: Path, overrides: Sequence[str]) -> Run:
    """Copy the files of a finished run that a report reads into the new folder `part`.

    `overrides` are the run's overrides on its command line. Returns the result as it was written.
    """
    result = result_of(source)
    today(result["config"])  # the result may be of an earlier version
    result["config"] = portable(result["config"])
    (part / OVERRIDES).parent.mkdir(parents=True)
    (part / ENDED).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (part / OVERRIDES).write_text(json.dumps([*overrides]), encoding="utf-8")  # JSON is YAML
    if (source / CURVES).is_file():
        shutil.copy(source / CURVES, part)
    for name in SPLITS:  # only known files, since archives reject others
        if (source / COUNTS / name).is_file():
            (part / COUNTS).mkdir(exist_ok=True)
            shutil.copy(source / COUNTS / name, part / COUNTS)
    return result


def copy_begun(begun: Run, part: Path) -> None:
    """Write the first files of a failed run, from `failures`, into the new folder `part`."""
    keys = ("identity", "inputs", "started", "reason")
    content = {key: begun[key] for key in keys if key in begun}
    content["config"] = portable(begun["config"])
    part.mkdir(parents=True)
    (part / BEGUN).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def folder_name(config: Mapping[str, Any]) -> str:
    """Return a folder name for a run with this config, which may not be unique."""
    words = portable([config["task"]["name"], config["encoder"]["name"], config["elmo"]["mix"]])
    name = "-".join([*map(as_text, words), f"seed{config['seed']}"])
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).lstrip(".-")[:LONGEST]
