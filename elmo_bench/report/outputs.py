"""The files that a report is written to, each in the format of its suffix."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from elmo_bench.files import atomic, begins, check_output

from .build import as_list
from .page import GENERATOR, page
from .provenance import Origin
from .table import Report
from .write import as_csv, as_json, latex, markdown

log = logging.getLogger(__name__)


def _svg(written: Sequence[Report]) -> bytes:
    from .plots import document  # imports matplotlib, which is slow

    return document.svg(written)


def _pdf(written: Sequence[Report]) -> bytes:
    from .plots import document

    return document.pdf(written)


FORMATS: dict[str, Callable[..., str | bytes]] = {
    ".html": page,
    ".svg": _svg,
    ".pdf": _pdf,
    ".md": markdown,
    ".tex": latex,
    ".csv": as_csv,
    ".json": as_json,
}
TITLE = "[^\\n]*mean ± standard deviation \\(runs"  # in the first line
OWN = {  # the beginning of a report of ours, which may be overwritten
    ".html": f'<!DOCTYPE html>.*<meta name="generator" content="{GENERATOR}"/>',
    ".svg": f'<svg [^>]*data-generator="{GENERATOR}"',
    ".pdf": f"%PDF-.*/Creator \\({GENERATOR}\\)",
    ".md": TITLE,
    ".tex": TITLE,
    ".csv": "[^\\n]*mean,deviation,runs,best",
    ".json": '\\{.*"cells": \\[.*"mean": .*"deviation": .*"best": ',
}


def checked_outputs(settings: Mapping[str, Any]) -> list[Path]:
    """Return the files of `output`; raises ValueError for one that must not be written."""
    outputs = [Path(path) for path in as_list(settings["output"])]
    for path in outputs:
        check_format(path, OWN)
    return outputs


def check_format(path: Path, own: Mapping[str, str]) -> None:
    """Raise ValueError for a file of no format, or a file of others.

    `own` has the beginning of each format's files of ours, by suffix.
    """
    if path.suffix not in own:
        formats = ", ".join(f"FILE{suffix}" for suffix in own)
        raise ValueError(f"output={path}: the formats are {formats}")
    check_output("output", path, {}, begins(own[path.suffix]))


def write_files(
    outputs: Sequence[Path], reports: Sequence[Report], origin: Origin, title: str | None
) -> None:
    """Write each file atomically, in the format of its suffix."""
    writers = FORMATS | {
        ".html": partial(page, title=title, origin=origin),
        **{suffix: partial(FORMATS[suffix], origin=origin) for suffix in (".md", ".tex", ".json")},
    }
    # Format everything before the first write, so that an error leaves no partial set of files.
    contents = {path: writers[path.suffix](reports) for path in outputs}
    for path, content in contents.items():
        if isinstance(content, str):
            content = content.encode(errors="backslashreplace")
        with atomic(path) as part:
            part.write_bytes(content)
        log.info("written: %s", path)
