"""The board: encoders on three corpora, each pair tested. docs/board.md says how to add one.

python results/board.py                       # the entries of results/: outputs/board.md and .html
python results/board.py outputs/board         # and the encoder of these runs, or of an archive
python results/board.py --check ARCHIVE       # may this archive be added to results/board/?
python results/board.py ARCHIVE --export DIR  # its scores in formats of others
"""

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import cells
from cells import Entry, Name

from elmo_bench.files import begins, check_output, write_text
from elmo_bench.report import Grid, Report, escape, markdown_table, report
from elmo_bench.report.comparison import BOTH, SPLITS, Comparison, compared, families
from elmo_bench.report.grids import ABOUT_SMALLEST, ABOUT_TESTS, TESTED, tables, tested
from elmo_bench.report.methods import methods
from elmo_bench.report.page import GENERATOR, STYLE, footnotes
from elmo_bench.report.provenance import provenance
from elmo_bench.report.significance import LEVEL
from elmo_bench.report.writers import as_html, html_table
from elmo_bench.runs import Run, collect, run_folders
from elmo_bench.terminal import counted_noun

log = logging.getLogger(__name__)
OUTPUTS = ("outputs/board.md", "outputs/board.html")
TITLES = {"en_ewt": "EWT (trees)", "ewt_propbank": "EWT (SRL)", "wnut17": "WNUT-17 (NER)"}
OWN = {".md": "# The board", ".html": f'<!DOCTYPE html>.*content="{GENERATOR}"'}  # how ours begin
TIE = "not told apart"
ABOUT_PAIRS = (
    f"Points, above 0 if the first is better. {TIE.capitalize()}: p (Holm) is {LEVEL} or more. "
    f"{ABOUT_TESTS} {ABOUT_SMALLEST}"
)


class Pair(NamedTuple):
    """Two entries on a corpus, and the difference of the first to the second."""

    corpus: str
    ours: Name
    theirs: Name
    comparison: Comparison

    @property
    def verdict(self) -> str:
        """Which of both is better, or that the runs do not tell them apart."""
        if self.comparison.test is None:
            return f"no test: {self.comparison.flaw and self.comparison.flaw[0]}"
        if not self.comparison.is_significant:
            return TIE
        better = self.ours if self.comparison.difference > 0 else self.theirs
        return f"{better} is better"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", help="folders or archives of runs of sweep=board")
    parser.add_argument("--split", choices=[*SPLITS, BOTH], default="test")
    parser.add_argument("--output", action="append", help="FILE.md or FILE.html")
    parser.add_argument("--check", metavar="ARCHIVE", help="refuse an archive that is not sound")
    parser.add_argument("--export", metavar="DIR", help="write formats of others, of these runs")
    parser.add_argument("--cache-dir", default=cells.CACHE)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if options.check:
        from contribution import check

        for line in check(Path(options.check), options.cache_dir):
            log.info(line)
        return
    entries = cells.entries(cells.board_runs(options.cache_dir))
    added = added_entries(options.runs, options.cache_dir, entries) if options.runs else {}
    if options.export:
        from exports import export

        if not added:
            raise ValueError("--export: give the runs whose scores it writes, or their archive")
        export(added, Path(options.export))
        return
    command = " ".join(["python results/board.py", *map(_name, options.runs)])
    write(options.output or list(OUTPUTS), entries, added, options.split, command)


def _name(path: str) -> str:
    return Path(path).name


def added_entries(
    paths: Sequence[str], cache_dir: str, entries: Mapping[Name, Entry]
) -> dict[Name, Entry]:
    """Return the entries of a user's runs.

    Raises ValueError for runs that do not have the board's recipes, and if no entry is whole.
    """
    runs = collect(run_folders(paths, cache_dir))
    wrong = [run for run in runs if cells.recipe_of(run) is None]
    if wrong:
        raise ValueError(
            f"{wrong[0].folder}: not a run of the board's recipes ({len(wrong)} of {len(runs)} are "
            "not): train with --config-dir results/conf sweep=board, and change nothing but "
            "encoder and elmo.mix"
        )
    theirs = {run.identity for run in runs_of(entries.values())}
    new = [run for run in runs if run.identity not in theirs]
    added = cells.entries(new)
    if not added:
        wanted = ", ".join(map(str, cells.seeds()))
        raise ValueError(
            f"{' '.join(paths)}: {counted_noun(len(new), 'run')} that the board does not have, but "
            f"no corpus has seeds {wanted}: go on with sweep=board and resume=true"
        )
    taken = [name for name in added if name in entries]
    if taken:
        raise ValueError(
            f"encoder.name={taken[0].encoder}: the board has another encoder of this name: give "
            "yours another one, encoder.name=NAME"
        )
    return added


def runs_of(entries: Iterable[Entry]) -> list[Run]:
    """Return the runs of entries on all corpora."""
    runs: list[Run] = []
    for entry in entries:
        for of_corpus in entry.values():
            runs += of_corpus
    return runs


def pairs(entries: Mapping[Name, Entry], added: Mapping[Name, Entry], split: str) -> list[Pair]:
    """Return all comparisons, p corrected for all of them: of an added encoder with each entry, and
    of its single layers with its mix; without one, of the entries among each other.
    """
    every = {**entries, **added}
    all_pairs: list[Pair] = []
    for ours, theirs in _asked(entries, added):
        for corpus in TITLES:
            if corpus in every[ours] and corpus in every[theirs]:
                of_corpus = every[ours][corpus], every[theirs][corpus]
                comparison = compared(*of_corpus, None, split)
                all_pairs.append(Pair(corpus, ours, theirs, comparison))
    correct = families(pair.comparison for pair in all_pairs)
    return [pair._replace(comparison=correct(pair.comparison)) for pair in all_pairs]


def _asked(
    entries: Mapping[Name, Entry], added: Mapping[Name, Entry]
) -> Iterator[tuple[Name, Name]]:
    """Yield the names of both sides of each comparison."""
    subjects = added or entries
    whole = [name for name in subjects if name.layers in ("all", "none")]
    if added:
        for ours in whole or list(added):
            yield from ((ours, theirs) for theirs in entries)
    else:
        yield from ((ours, theirs) for theirs, ours in combinations(whole, 2))
    for name in subjects:
        mix = Name(name.encoder, "all")
        if name != mix and mix in subjects:
            yield name, mix


def write(
    outputs: Sequence[str],
    entries: Mapping[Name, Entry],
    added: Mapping[Name, Entry],
    split: str,
    command: str,
) -> None:
    """Write the page in the format of each file's ending, `.md` or `.html`."""
    files = [Path(output) for output in outputs]
    for path in files:
        if path.suffix not in OWN:
            raise ValueError(f"--output={path}: the board is FILE.md or FILE.html")
        path.parent.mkdir(parents=True, exist_ok=True)
        check_output("--output", path, {}, begins(OWN[path.suffix]))
    every = {**entries, **added}
    of_all = report(runs_of(every.values()), ["encoder", "elmo.mix"], ["data"], split=split)
    all_pairs = pairs(entries, added, split)
    encoders = ", ".join(dict.fromkeys(name.encoder for name in added))
    title = f"The board: {encoders} beside the encoders already run" if added else "The board"
    grids = [overview(of_all), pair_grid(all_pairs)]
    for path in files:
        if path.suffix == ".md":
            content = as_markdown(title, lead(all_pairs, added), grids, of_all, command)
        else:
            content = as_page(title, lead(all_pairs, added), grids, of_all, command)
        write_text(path, content)
        log.info("written: %s", path)


def overview(of_all: Report) -> Grid:
    """Return the table of means: a row for an encoder and its layers, a column for a corpus."""
    grid = tables(of_all)["means"]
    return grid._replace(
        title=f"{of_all.split_title} scores, percent: mean ± standard deviation (runs)"
    )


def pair_grid(all_pairs: Sequence[Pair]) -> Grid:
    """Return a table with a row for each comparison, those of a corpus together."""
    rows: list[list[str]] = []
    for corpus, title in TITLES.items():
        for pair in all_pairs:
            if pair.corpus == corpus:
                names = [title, f"{pair.ours}", f"{pair.theirs}"]
                rows.append([*names, *tested(pair.comparison), pair.verdict])
    heads = ["corpus", "this", "against", *TESTED, "so"]
    return Grid("Each pair, tested", heads, rows, 3, ABOUT_PAIRS)


def lead(all_pairs: Sequence[Pair], added: Mapping[Name, Entry]) -> str:
    """Return a sentence for each corpus on what the comparisons say."""
    if not added:
        return f"{counted_noun(len(all_pairs), 'comparison')} of the entries, p corrected for all."
    sentences: list[str] = []
    for corpus, title in TITLES.items():
        outcomes: dict[str, list[str]] = {"better than": [], "worse than": [], TIE: []}
        for pair in all_pairs:
            if pair.corpus != corpus or pair.theirs in added:
                continue
            outcome = TIE
            if pair.comparison.is_significant:
                outcome = "better than" if pair.comparison.difference > 0 else "worse than"
            outcomes[outcome].append(str(pair.theirs))
        said = [f"{how} {'; '.join(names)}" for how, names in outcomes.items() if names]
        if said:
            sentences.append(f"{title}: {', '.join(said)}.".replace(f"{TIE} ", f"{TIE} from "))
    return " ".join(sentences)


def as_markdown(title: str, lead: str, grids: Iterable[Grid], of_all: Report, command: str) -> str:
    """Return the page as Markdown."""
    parts = [f"# {escape.markdown(title)}", escape.markdown(lead)]
    parts += map(markdown_table, grids)
    parts += map(escape.markdown, footnotes([of_all]))
    parts += ["## How this was made", escape.markdown(methods([of_all]))]
    parts.append(markdown_table(provenance([of_all], command)))
    return "\n\n".join(parts) + "\n"


def as_page(title: str, lead: str, grids: Sequence[Grid], of_all: Report, command: str) -> str:
    """Return the page as HTML that needs nothing else."""
    means, of_pairs = map(html_table, grids)
    notes = as_html("notes", footnotes([of_all]))
    how = as_html("paragraph", methods([of_all])) + html_table(provenance([of_all], command))
    chapters: list[tuple[str, list[tuple[str, Any]]]] = [
        ("Scores", [("", means + notes)]),
        ("Each pair, tested", [("", of_pairs)]),
        ("How this was made", [("", how)]),
    ]
    style = STYLE.read_text(encoding="utf-8")
    return as_html("page", GENERATOR, title, lead, chapters, style) + "\n"


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"{error}")
