"""Where a page's figures come from: the commands of its runs, their seeds, dates and code."""

import shlex
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import yaml

from elmo_bench.runs import ELSEWHERE, Run, portable_overrides

OVERRIDES = Path(".hydra") / "overrides.yaml"
MOST = 1_000_000  # bytes of that file; a run's has hundreds
# What changes no figure: where a run is, and what it shows meanwhile.
ASIDE = (*ELSEWHERE, "hydra", "trainer.enable_progress_bar", "fit.save_minutes")


def commands(runs: Iterable[Run]) -> list[str]:
    """The command lines that the runs say they came from, a line for those that differ in seeds
    alone; without folders of the machine, and without runs that do not say.
    """
    seeds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for run in runs:
        given = overrides(Path(run["folder"], OVERRIDES))
        if given:
            kept = tuple(one for one in given if _key(one) != "seed")
            seeds[kept] += [str(run["seed"])]
    lines = []
    for settings, numbers in seeds.items():
        several = "-m " if len(numbers) > 1 else ""
        together = ",".join(sorted(numbers, key=lambda number: (len(number), number)))
        lines.append(
            f"python run.py {several}{' '.join([*map(shlex.quote, settings), f'seed={together}'])}"
        )
    return lines


def typed(overrides: Iterable[str]) -> str:
    """What was typed for these overrides, without folders of the machine.

    >>> typed(["job=report", "runs=[/home/me/a,b]"])
    "python run.py job=report 'runs=[a,b]'"
    """
    return shlex.join(["python", "run.py", *portable_overrides(overrides)])


def overrides(path: Path) -> list[str]:
    """What a run's command line said, without what changes no figure; [] where there is no file.

    ValueError where it is not a list of texts.
    """
    if not path.is_file():
        return []
    with path.open("rb") as file:
        content = file.read(MOST + 1)
    try:
        given = yaml.safe_load(content) if len(content) <= MOST else None
    except (yaml.YAMLError, ValueError, RecursionError):
        given = None
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"{path}: not a list of overrides, which a run leaves: remove the file")
    return portable_overrides(
        one
        for one in given
        if not any(_key(one) == key or _key(one).startswith(f"{key}.") for key in ASIDE)
    )


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~").partition("@")[0]
