"""Damaged files for every reader: a table of what became of them, and how to get one again.

python -m tests.tools.hostile --minutes 60                 every row, an equal time for each
python -m tests.tools.hostile --row ner --case 17          case 17 alone: writes the file, reads it here
"""

import argparse
import logging
import multiprocessing
import os
import tempfile
import time
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from rich.console import Console
from rich.table import Table

from .judge import BAD, OTHER, OUTCOMES, case_of, expected, judged, limited, write
from .rows import ROWS

PATIENCE = 120  # seconds in which a worker must have read a case
Found = dict[tuple[str, str, str], list[int]]  # row, bad outcome and its cause -> cases


def main() -> int:
    """Run what the command line asks for; 1 where anything bad came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.hostile", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, in all")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers")
    parser.add_argument("--row", choices=ROWS, help="the row of one case")
    parser.add_argument("--case", type=int, default=0, help="its number")
    given = parser.parse_args()
    for row in [ROWS[given.row]] if given.row else ROWS.values():
        expected(row)  # also imports what the workers need
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True, width=150)
    if given.row:
        case = case_of(ROWS[given.row], given.seed, given.case)
        path = write(case, Path(tempfile.mkdtemp(prefix="hostile-")))
        verdict = judged(ROWS[given.row], case, path)
        console.print(f"{path}: {case.how}: {verdict.outcome} {verdict.cause}")
        if verdict.outcome in BAD:
            ROWS[given.row].read(path)  # again, for its traceback
        return int(verdict.outcome in BAD)
    counts, found = fuzz(given.seed, time.monotonic() + 60 * given.minutes)
    show(console, counts)
    for (name, outcome, cause), cases in found.items():
        console.print(f"--row {name} --case {cases[0]} ({len(cases)}): {outcome}: {cause}")
    return int(bool(found))


def fuzz(seed: int, until: float) -> tuple[dict[str, Counter[str]], Found]:
    """Let a worker read the rows' cases in turn, and another go on where one has died or hangs;
    count the outcomes.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in ROWS}
    found: Found = {}
    name, number = "", 0

    def count(verdict: tuple[str, str]) -> None:
        counts[name][verdict[0]] += 1
        if verdict[0] in BAD:
            found.setdefault((name, *verdict), []).append(number)

    while time.monotonic() < until:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        arguments = (seed, number, until, theirs)
        worker = multiprocessing.get_context("fork").Process(target=_work, args=arguments)
        worker.start()
        theirs.close()
        try:
            while ours.poll(PATIENCE):
                name, number, verdict = ours.recv()
                if verdict:
                    count(verdict)
            worker.kill()
        except EOFError:  # it has ended
            pass
        worker.join()
        if worker.exitcode:
            count((OTHER, f"the process died: {worker.exitcode}"))
        number += 1
    return counts, found


def _work(seed: int, number: int, until: float, results: Connection) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    while time.monotonic() < until:
        for row in ROWS.values():
            for case_number in range(number, number + row.weight):
                results.send((row.name, case_number, None))
                with tempfile.TemporaryDirectory() as folder, limited():
                    case = case_of(row, seed, case_number)
                    verdict = judged(row, case, write(case, Path(folder)))
                results.send((row.name, case_number, tuple(verdict)))
            if time.monotonic() > until:
                break
        number += max(row.weight for row in ROWS.values())


def show(console: Console, counts: dict[str, Counter[str]]) -> None:
    """Print the table."""
    table = Table()
    for name in ("", "files", *OUTCOMES):
        table.add_column(name, justify="right" if name else "left")
    total = sum(counts.values(), Counter[str]())
    for name, row in {**counts, "all": total}.items():
        table.add_row(name, f"{row.total():,}", *(f"{row[outcome]:,}" for outcome in OUTCOMES))
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
