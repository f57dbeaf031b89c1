"""Hostile files for every reader: a table of what became of them, and how to get one again.

python -m tests.hostile --minutes 60                 every row, an equal time for each
python -m tests.hostile --rows ner,srl --cases 1000  two rows, a thousand files each
python -m tests.hostile --row ner --case 17          case 17 alone: writes the file, reads it here
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from rich.console import Console
from rich.table import Table

from .mutate import SECRET
from .rows import ROWS
from .run import BAD, OUTCOMES, Tally, bad, case_of, expected, fuzz, judge, write


def main() -> int:
    """Run what the command line asks for; 1 where anything bad came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, help="how long, in all")
    parser.add_argument("--cases", type=int, help="how many files of each row")
    parser.add_argument("--rows", default=",".join(ROWS), help="some of the rows, with commas")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--row", choices=ROWS, help="the row of one case")
    parser.add_argument("--case", type=int, help="its number")
    given = parser.parse_args()
    if given.row:
        return replay(given.row, given.seed, given.case)
    if not given.minutes and not given.cases:
        parser.error("give --minutes, --cases, or --row and --case")
    rows = [ROWS[name] for name in given.rows.split(",")]
    begun = time.monotonic()
    limits = {"cases": given.cases, "minutes": given.minutes}
    tallies = fuzz(rows, seed=given.seed, jobs=given.jobs, **limits)
    show(tallies, time.monotonic() - begun)
    return 1 if bad(tallies) else 0


def show(tallies: dict[str, Tally], seconds: float) -> None:
    """Print the table and the findings."""
    console = Console(markup=False, emoji=False, highlight=False, width=150)
    table = Table()
    for name in ("", "inputs", *OUTCOMES, "inputs/s"):
        table.add_column(name, justify="right" if name else "left")
    for name, tally in tallies.items():
        table.add_row(name, *_cells(tally, tally.seconds))
    total = Tally()
    for tally in tallies.values():
        total.counts += tally.counts
    table.add_section()
    table.add_row("all", *_cells(total, seconds))
    console.print(table)
    for line in bad(tallies):
        console.print(f"--row {line}", soft_wrap=True)


def _cells(tally: Tally, seconds: float) -> list[str]:
    counts = [tally.counts.total(), *(tally.counts[outcome] for outcome in OUTCOMES)]
    return [*(f"{count:,}" for count in counts), f"{tally.counts.total() / (seconds or 1):,.0f}"]


def replay(name: str, seed: int, number: int) -> int:
    """Write the file of a case into a folder that is kept, and read it in this process."""
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    row = ROWS[name]
    expected(row)
    os.environ[SECRET] = "secret-of-this-machine"
    case = case_of(row, seed, number)
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    path = write(case, folder)
    console.print(f"{path}: {case.mutant.how}")
    verdict = judge(row, case, path, is_used=True)
    console.print(f"{verdict.outcome} {verdict.cause}")
    if verdict.outcome in BAD:
        content = row.read(path)  # again, for its traceback
        if row.use:
            row.use(content, path)
    return int(verdict.outcome in BAD)


if __name__ == "__main__":
    raise SystemExit(main())
