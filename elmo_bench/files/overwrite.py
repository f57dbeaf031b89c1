"""Protect files from being overwritten: a job only replaces its own earlier output."""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

RUN = ("run.json", "result.json", "best.ckpt")
WITHIN = 1_000_000  # bytes at the beginning of a file, which identify its writer


def check_output(
    key: str,
    output: str | Path,
    inputs: Mapping[str, str | Path | None],
    is_own: Callable[[Path], bool],
) -> None:
    """Raise ValueError if `output` is one of the inputs (paths by key) under any name, or a file
    that `is_own` does not recognise; FileNotFoundError if its folder does not exist.
    """
    path, other = Path(output), "choose another name"
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{key}={output}: no such folder")
    if path.is_dir():
        raise ValueError(f"{key}={output} is a folder: give a file name")
    if not path.exists():
        return
    for name, given in inputs.items():
        if given and Path(given).exists() and path.samefile(given):
            raise ValueError(
                f"{key}={output} is also {name}={given}, which would be overwritten: {other}"
            )
    if path.stat().st_size and not is_own(path):
        raise ValueError(
            f"{key}={output} exists and was not written by this job: delete it, or {other}"
        )


def begins(pattern: str) -> Callable[[Path], bool]:
    """Return a function that checks how a file begins; dots match everything."""

    def matches(path: Path) -> bool:
        with path.open("rb") as file:
            return re.match(pattern.encode(), file.read(WITHIN), re.DOTALL) is not None

    return matches


def check_bilm_folder(key: str, folder: Path, own: Collection[str]) -> None:
    """Raise ValueError if a folder for a biLM has the files of a run, or others and none of the
    `own` names, one of which this job writes before any other file.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{key}={folder} is not a folder")
    names = sorted(path.name for path in folder.glob("[!.]*"))
    is_own = not {*own}.isdisjoint(names)
    for name in names:
        if name in RUN or not is_own:
            raise ValueError(
                f"{key}={folder} contains {name}, which this job did not write: choose "
                "another folder"
            )
