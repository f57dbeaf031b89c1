"""`job=report`: finished runs side by side."""

from omegaconf import DictConfig, ListConfig
from rich.console import Console

from elmo_bench.report import collect, table


def report(cfg: DictConfig) -> None:
    """Print one table over all runs below `runs`."""
    runs, rows, columns = (
        list(value) if isinstance(value, ListConfig) else [value] for value in (cfg.runs, cfg.rows, cfg.columns)
    )
    Console().print(table(collect(runs), None if cfg.rows is None else rows, columns, cfg.metric))
