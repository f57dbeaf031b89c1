"""A run as others get it: what a report reads of it, without checkpoints, texts and paths of the
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
    """Copy what a report reads of a finished run into the folder `part`, which is made; the result,
    as it stands there. `overrides` are what its command line says of it.
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
    """Write what a run that failed has left at its start, as `failures` gives it, into the folder
    `part`, which is made.
    """
    keys = ("identity", "inputs", "started", "reason")
    content = {key: begun[key] for key in keys if key in begun}
    content["config"] = portable(begun["config"])
    part.mkdir(parents=True)
    (part / BEGUN).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def folder_name(config: Mapping[str, Any]) -> str:
    """What the folder of a run with this config is called; runs with other settings may have the
    same.
    """
    words = portable([config["task"]["name"], config["encoder"]["name"], config["elmo"]["mix"]])
    name = "-".join([*map(as_text, words), f"seed{config['seed']}"])
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).lstrip(".-")[:LONGEST]
