"""Many hostile files, each read in a forked process that may hang, die or eat memory.

A worker reads a slice of a row's cases, one after the other, and tells of each. The kernel ends it
where a case takes more than `SECONDS` of its processor's time; the next worker goes on behind it.
"""

import logging
import multiprocessing
import os
import re
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from .mutate import SECRET, Mutant
from .rows import Row, Seed, WrongError
from .shown import damage, said

READ, BY_LINE, BY_FILE = "read", "refused by line", "refused by file"
UNNAMED, OTHER, HANG = "unnamed", "other exception", "hang"
MEMORY, WRONG = "memory", "silently wrong"
OUTCOMES = (READ, BY_LINE, BY_FILE, UNNAMED, OTHER, HANG, MEMORY, WRONG)
BAD = OUTCOMES[3:]
SECONDS = 5  # of processor time, for a case
PATIENCE = 300  # seconds on the clock, for a case that waits for something
GIGABYTE = 1 << 30  # how much more than its size a file may take
ADDRESSES = 3 * GIGABYTE  # more than this a case cannot even ask for
SLICE = 3.0  # seconds that a worker spends on a row before another's turn
USED = 4  # every so many cases, what was read is used, too
OURS = re.compile(r"elmo_bench/|tasks/")


class Verdict(NamedTuple):
    """What became of a case, and what tells it from others."""

    outcome: str
    cause: str = ""


class Case(NamedTuple):
    """A changed file of a row, as the seed and the number make it."""

    seed: Seed
    mutant: Mutant
    place: int  # of the seed among the row's

    @property
    def file(self) -> str:
        return f"{self.seed.file}.gz" if self.mutant.is_gzip else self.seed.file


@dataclass
class Tally:
    """What became of a row's cases."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[Verdict, list[int]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, case: int, verdict: Verdict) -> None:
        self.counts[verdict.outcome] += 1
        if verdict.outcome in BAD:
            self.findings.setdefault(verdict, []).append(case)


def case_of(row: Row, seed: int, number: int) -> Case:
    """Case `number` of a row: always the same one."""
    rng = Random(f"{seed} {row.name} {number}")
    seeds = row.seeds()
    place = rng.randrange(len(seeds))
    mutate = rng.choice(seeds[place].mutators)
    return Case(seeds[place], mutate(seeds[place].content, rng), place)


def write(case: Case, folder: Path) -> Path:
    """Put a case's file and those beside it into an empty folder; the file's path."""
    for name, content in {**case.seed.beside, case.file: case.mutant.data}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    return folder / case.file


@cache
def expected(row: Row) -> list[Any]:
    """What the good files of a row say; they are also used, as some of the others are."""
    contents = []
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        for seed in row.seeds():
            with tempfile.TemporaryDirectory() as folder:
                path = write(Case(seed, Mutant(seed.content, "good"), 0), Path(folder))
                content = row.read(path)
                contents.append(said(row.says(content)))
                if row.use:
                    row.use(content, path)
    return contents


def judge(row: Row, case: Case, path: Path, is_used: bool) -> Verdict:
    """Read a file, and say what became of it."""
    try:
        content = row.read(path)
        if is_used and row.use:
            row.use(content, path)
    except Exception as error:
        return _verdict(error, [case.file, *case.seed.beside])
    if case.mutant.is_forbidden:
        return Verdict(WRONG, f"read, though forbidden: {case.mutant.how}")
    if said(row.says(content)) != expected(row)[case.place]:
        if row.is_checked and not case.mutant.is_edit:
            return Verdict(WRONG, "read as something else than before the damage")
        if shown := damage(row.name, case.file, case.mutant.data):
            return Verdict(WRONG, f"read as something else, though the file has {shown}")
    return Verdict(READ)


def _verdict(error: BaseException, files: Sequence[str]) -> Verdict:
    """What an error is; it may name the changed file, or the one beside it that it does not fit."""
    chain, cause = [], _cause(error)
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    if any(isinstance(link, MemoryError) or "allocate memory" in str(link) for link in chain):
        return Verdict(MEMORY, cause)
    if isinstance(error, WrongError):
        return Verdict(WRONG, str(error))
    if not isinstance(error, ValueError | OSError | FloatingPointError):
        return Verdict(OTHER, cause)
    names = "|".join(re.escape(Path(file).name) for file in files)
    if not (named := re.search(rf"({names})(:\d+)?", str(error))):
        return Verdict(UNNAMED, cause)
    return Verdict(BY_LINE if named[2] else BY_FILE)


def _cause(error: BaseException) -> str:
    """The kind of error, and our innermost line that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if OURS.search(f.filename)]
    where = f"{'/'.join(Path(frames[-1].filename).parts[-2:])}:{frames[-1].name}" if frames else "?"
    text = re.sub(r"\S*/\S*|\d{3,}", "…", str(error)[:300])
    return f"{type(error).__name__} in {where}: {text[:90]!r}"


# --- workers ---


def _work(row: Row, seed: int, first: int, last: int, until: float, results: Connection) -> None:
    """The cases of a slice, in a process of their own."""
    _go_quiet()
    os.environ[SECRET] = "secret-of-this-machine"
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process, whatever it does
    root = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    results.send(str(root))
    for number in range(first, last):
        if time.monotonic() > until:
            break
        folder = root / "case"
        folder.mkdir()
        case = case_of(row, seed, number)
        path = write(case, folder)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        verdict = judge(row, case, path, number % USED == 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) << 10
        is_large = taken > GIGABYTE + len(case.mutant.data or b"")
        if is_large:
            verdict = Verdict(MEMORY, f"more than 1 GB: {case.mutant.how}; then {verdict.outcome}")
        results.send((number, verdict))
        if is_large:  # what the next one takes could not be told
            break
        shutil.rmtree(folder)
    shutil.rmtree(root)
    results.send(None)


def _go_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


class _Worker:
    """A process at a slice of a row."""

    def __init__(self, row: Row, seed: int, first: int, last: int, until: float) -> None:
        context = multiprocessing.get_context("fork")
        self.row, self.next = row, first
        self.results, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(row, seed, first, last, until, theirs))
        self.process.start()
        theirs.close()
        self.begun = self.heard = time.monotonic()
        self.folder = ""

    def hear(self, tally: Tally) -> bool:
        """Take in what came; whether the slice is over."""
        self.heard = time.monotonic()
        try:
            message = self.results.recv()
        except EOFError:
            self.process.join()
            tally.add(self.next, self._death())
            self.next += 1
            message = None
        if isinstance(message, str):
            self.folder = message
        elif message is not None:
            number, verdict = message
            tally.add(number, verdict)
            self.next = number + 1
        else:
            self.process.join()
            tally.seconds += time.monotonic() - self.begun
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)
        return message is None

    def _death(self) -> Verdict:
        code = -(self.process.exitcode or 0)
        if code == signal.SIGPROF:
            return Verdict(HANG, f"more than {SECONDS} seconds")
        if code == signal.SIGALRM:
            return Verdict(HANG, f"waits for more than {PATIENCE} seconds")
        if code == signal.SIGKILL:
            return Verdict(MEMORY, "killed")
        return Verdict(
            OTHER, f"the process died: {signal.Signals(code).name if code > 0 else code}"
        )


def fuzz(
    rows: Iterable[Row],
    *,
    seed: int = 0,
    jobs: int = 1,
    cases: int | None = None,
    minutes: float | None = None,
) -> dict[str, Tally]:
    """What became of `cases` of each row, or of as many as fit into the minutes, an equal time for
    each row.
    """
    waiting = deque(rows)
    for row in waiting:
        expected(row)  # also imports what the workers need
    tallies = {row.name: Tally() for row in waiting}
    numbers = dict.fromkeys(tallies, 0)
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    workers: list[_Worker] = []
    while waiting or workers:
        while waiting and len(workers) < jobs:
            row, now = waiting.popleft(), time.monotonic()
            if numbers[row.name] < (cases or float("inf")) and now < end:
                last = cases or 1 << 60
                slice_end = min(now + SLICE, end)
                workers.append(_Worker(row, seed, numbers[row.name], last, slice_end))
        heard = wait([worker.results for worker in workers], timeout=1)
        for worker in [*workers]:
            if worker.results in heard and worker.hear(tallies[worker.row.name]):
                workers.remove(worker)
                numbers[worker.row.name] = worker.next
                waiting.append(worker.row)
            elif time.monotonic() - worker.heard > PATIENCE:
                os.kill(worker.process.pid or 0, signal.SIGALRM)
    return tallies


def bad(tallies: dict[str, Tally]) -> Sequence[str]:
    """A line for each cause of a bad outcome, with its first case."""
    return [
        f"{name} --case {numbers[0]} ({len(numbers)}): {outcome}: {cause}"
        for name, tally in tallies.items()
        for (outcome, cause), numbers in tally.findings.items()
    ]
