"""Print a run's figures as tables on the terminal."""

from collections.abc import Mapping

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from elmo_bench.files import duration, plain, plain_lines
from elmo_bench.runs import Result, flat_mix


def print_result(result: Result, cfg: DictConfig) -> None:
    """Print the test figures (dev figures if there are none), the mix weights and the time."""
    split = "test" if any(key.startswith("test/") for key in result.metrics) else "dev"
    title = (
        f"{result.task} on {cfg.data.name}, encoder={cfg.encoder.name}, seed {result.seed}: {split}"
    )
    print_metrics(result.metrics, split, title)
    if result.mix:
        print_line(
            "mix: "
            + "   ".join(
                f"{name.removeprefix('elmo/')} {value:.3f}"
                for name, value in flat_mix(result.mix).items()
            )
        )
    print_line(
        f"{result.epochs} epoch{'' if result.epochs == 1 else 's'} in "
        f"{duration(result.seconds['training'])} of training "
        f"({rate(result.examples_per_second)} examples/s), {duration(result.seconds['total'])} in "
        f"all; {cfg.run_dir}/result.json"
    )


def print_line(line: str) -> None:
    """Print a line without wrapping, so that paths in it stay whole."""
    Console(markup=False, emoji=False).print(plain_lines(line), soft_wrap=True, highlight=False)


def rate(value: float) -> str:
    """Format examples per second; below 10, as for whole documents, with two digits."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def print_metrics(metrics: Mapping[str, float], split: str, title: str) -> None:
    """Print a table of a split's figures in percent: a row for each type, and one for all."""
    names = [name.removeprefix(f"{split}/") for name in metrics if name.startswith(f"{split}/")]
    groups = list(dict.fromkeys(name.rpartition("/")[0] for name in names))
    columns = {
        group: [name.rpartition("/")[2] for name in names if name.rpartition("/")[0] == group]
        for group in groups
    }
    # The groups with the most figures define the order of columns, since others may lack some.
    kinds = list(
        dict.fromkeys(
            kind for figures in sorted(columns.values(), key=len, reverse=True) for kind in figures
        )
    )
    table = Table()
    table.add_column("")
    for kind in kinds:
        table.add_column(plain(kind), justify="right")
    for group in sorted(groups, key=lambda group: (group == "", group)):
        figures = (metrics.get("/".join(filter(None, (split, group, kind)))) for kind in kinds)
        cells = ("" if figure is None else f"{100 * figure:.2f}" for figure in figures)
        table.add_row(plain(group) or "all", *cells, style="" if group else "bold")
    print_line(f"\n{title}, in percent")
    Console(markup=False, emoji=False).print(table)
