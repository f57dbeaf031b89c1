"""`job=report`: finished runs side by side."""

import logging
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench import report as reports

log = logging.getLogger(__name__)
FORMATS = {
    ".html": reports.page,
    ".md": reports.markdown,
    ".tex": reports.latex,
    ".csv": reports.as_csv,
    ".json": reports.as_json,
}


def report(cfg: DictConfig) -> None:
    """Print the tables over all runs below `runs`, and write them to the files of `output`."""
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    outputs = [Path(path) for path in _list(settings["output"])]
    for path in outputs:
        if path.suffix not in FORMATS:
            raise ValueError(f"output={path}: the formats are {', '.join(f'FILE{suffix}' for suffix in FORMATS)}")
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"output={path}: there is no such folder")
    columns = _list(settings["columns"])
    # A single column key has a single value, which may itself be a list: elmo.mix=[0,1].
    chosen = settings["baseline"]
    baseline = _list(chosen) if len(columns) > 1 else [] if chosen is None else [chosen]
    found = reports.report(
        reports.collect(_list(settings["runs"])),
        _list(settings["rows"]) or None,
        columns,
        metric=cfg.metric,
        split=cfg.split,
        baseline=tuple(map(reports.as_text, baseline)) or None,
    )
    console = Console()
    for grid in reports.grids(found):
        console.print(reports.terminal(grid))
    for note in reports.footnotes(found):
        console.print(note, markup=False, highlight=False)
    for path in outputs:
        path.write_text(FORMATS[path.suffix](found), encoding="utf-8")
        log.info("written: %s", path)


def _list(value: Any) -> list[Any]:
    """What an option that may be null, one or a list holds."""
    return [] if value is None else value if isinstance(value, list) else [value]
