"""`job=report`: finished runs side by side."""

from omegaconf import DictConfig, ListConfig
from rich.console import Console

from elmo_bench.report import collect, table


def report(cfg: DictConfig) -> None:
    """Print one table over all runs below `runs`."""
    runs, rows, columns = (list(v) if isinstance(v, ListConfig) else [v] for v in (cfg.runs, cfg.rows, cfg.columns))
    Console().print(table(collect(runs), rows, columns, cfg.metric))
