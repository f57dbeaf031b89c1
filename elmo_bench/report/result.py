"""Print a run's scores as tables on the terminal."""

from collections import defaultdict
from collections.abc import Mapping

from rich.console import Console

from elmo_bench.runs import Run, flat_mix
from elmo_bench.terminal import counted_noun, duration, plain_lines, two_digits

from .writers import Grid, Terminal


def print_result(run: Run) -> None:
    """Print the test scores (dev scores if there are none), the mix weights and the time."""
    split = "test" if any(key.startswith("test/") for key in run.metrics) else "dev"
    corpus = run.config["data"]["name"]
    encoder = run.config["encoder"]["name"]
    system = f"{run.task} on {corpus}, encoder={encoder}, seed {run.seed}"
    print_metrics(run.metrics, split, f"{system}: {split}")
    mix = flat_mix(run.mix)
    if mix:
        weights = [f"{name.removeprefix('elmo/')} {value:.3f}" for name, value in mix.items()]
        print_line(f"mix: {'   '.join(weights)}")
    print_line(
        f"{counted_noun(run.epochs, 'epoch')} in {duration(run.seconds['training'])} of "
        f"training ({two_digits(run.examples_per_second)} examples/s), "
        f"{duration(run.seconds['total'])} in all; {run.folder}/result.json"
    )


def print_line(line: str) -> None:
    """Print a line without wrapping, so that paths in it stay whole."""
    Console(markup=False, emoji=False).print(plain_lines(line), soft_wrap=True, highlight=False)


def print_metrics(metrics: Mapping[str, float], split: str, title: str) -> None:
    """Print a table of a split's scores in percent: a row for each type, and one for all; of
    another scorer, whose types are groups within a group, only the one for all.
    """
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for name, value in metrics.items():
        if name.startswith(f"{split}/"):
            group, _, kind = name.removeprefix(f"{split}/").rpartition("/")
            groups[group][kind] = f"{100 * value:.2f}"
    # The groups with the most figures define the order of columns, since others may lack some.
    kinds: dict[str, None] = {}  # an ordered set
    for figures in sorted(groups.values(), key=len, reverse=True):
        kinds |= dict.fromkeys(figures)
    names = []
    for group in groups:
        if not any(group.startswith(f"{other}/") for other in groups):
            names.append(group)
    names.sort(key=lambda group: (group == "", group))  # the one for all last
    rows = []
    for group in names:
        row = [group or "all"]
        row += [groups[group].get(kind, "") for kind in kinds]
        rows.append(row)
    print_line("")
    Console(emoji=False).print(Terminal(Grid(f"{title}, in percent", ["", *kinds], rows, 1)))
