"""A paragraph that says how the scores of reports came about, for the Methods of a paper."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from elmo_bench.runs import Run
from elmo_bench.terminal import counted_noun, duration, listed

from .comparison import folders_of
from .names import metric_title, name, task_titles
from .significance import FEWEST, LEVEL
from .table import Report, comparisons_of, runs_of, total_time
from .tabulate import grouped
from .tuning import sides

CORPORA = ("trained_on.name", "data.name")  # the second is another after job=evaluate data=...
TESTS = (
    " Differences are tested by a two-sided t-test that takes runs and test examples alike as "
    "drawn at random (Obuchowski and Rockette 1995; Hillis 2007), with examples that belong "
    f"together as one, at {100 * LEVEL:g} %, corrected for all comparisons of a split by Holm's "
    "(1979) method; the 95 % intervals are not corrected. With fewer than "
    f"{FEWEST} runs a side no difference is claimed."
)
FOLDS = (
    "all examples are dealt into {} folds, in whole documents or whatever else shares text; in "
    "each run one fold is test, another dev, and the others training."
)
ON_FOLDS = (
    " Where runs have folds, a two-sided t-test over the folds' differences takes its place, whose "
    "variance is corrected for training sets that overlap (Nadeau and Bengio 2003)."
)


def methods(reports: Sequence[Report]) -> str:
    """Return a Methods paragraph, ready to paste into a paper."""
    runs = runs_of(reports)
    tasks, figures, notes = _trained_and_measured(reports, task_titles(runs))
    settings: set[frozenset[str]] = set()  # by the folders of their runs
    for report in reports:
        for cell in report.cells:
            settings.add(folders_of(cell.runs))
    seeds = sorted({run.seed for run in runs})
    seed_or_seeds = "seeds" if len(seeds) > 1 else "seed"
    tested = [one.test for one in comparisons_of(reports) if one.test and one.test.p is not None]
    tests = TESTS if tested else ""
    if any(test.folds for test in tested):
        tests += ON_FOLDS
    return (
        f"We train models of {listed(tasks)}: {counted_noun(len(runs), 'run')} of "
        f"{counted_noun(len(settings), 'setting')}, with {seed_or_seeds} "
        f"{listed(map(str, seeds))}. Scores are {listed(figures)}, means over runs with their "
        "standard deviation. Of each run the epoch that is best on dev is measured."
        f"{_tuning(reports)}{tests}{''.join(notes)}"
    )


def _trained_and_measured(
    reports: Iterable[Report], titles: Mapping[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """Return all tasks with their corpora, all figures, and all notes on corpora, each once."""
    tasks: dict[str, None] = {}  # an ordered set, like the others
    figures: dict[str, None] = {}
    notes: dict[str, None] = {}
    for report in reports:
        for run in report.runs:
            trained_on, tested_on = [str(run.settings.get(key, "a corpus")) for key in CORPORA]
            if trained_on == tested_on:
                tasks[f"{titles[run.task]} ({trained_on})"] = None
            else:
                tasks[f"{titles[run.task]} ({trained_on}, scored on {tested_on})"] = None
            folds = run.settings.get("data.folds")
            note = (run.config.get("data") or {}).get("note")
            if folds is not None:
                notes[f" {tested_on}: {FOLDS.format(folds)}"] = None
            elif note:  # on the files of a split
                notes[f" {tested_on}: {note}"] = None
            figures[f"{report.split_title} {metric_title(run, report.metric)}"] = None
    return list(tasks), list(figures), list(notes)


def _tuning(reports: Sequence[Report]) -> str:
    """Return a sentence on the draws of settings; "" without any."""
    draws: dict[Path, Run] = {}
    numbers: set[int] = set()
    curves = ""
    for report in reports:
        draws |= {draw.folder: draw for draw in report.draws}
        for side in grouped(report.draws, report.rows, report.columns).values():
            numbers.add(len(side))
        if sides(report):
            curves = "; tuning curves have simultaneous bands (Lourie et al. 2024)"
    if not draws:
        return ""
    shown_numbers = listed(map(str, sorted(numbers)))
    time = duration(total_time(draws.values()))
    return (
        f" {_tuned_sides(reports)} are the best on dev of {shown_numbers} random draws, each "
        f"trained with one seed ({len(draws):,} draws in all, {time}){curves}."
    )


def _tuned_sides(reports: Iterable[Report]) -> str:
    """Return whose settings were drawn, as the beginning of a sentence."""
    tuned: dict[str, None] = {}  # an ordered set
    is_each = True
    for report in reports:
        for cell in report.cells:
            if cell.runs[0].tune:
                tuned[name(report.keys, cell.key)] = None
            else:
                is_each = False
    return "The settings of each side" if is_each else f"Only the settings of {'; '.join(tuned)}"
