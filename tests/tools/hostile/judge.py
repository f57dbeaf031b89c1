"""Read a damaged file, and say what became of it."""

import re
import resource
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from .damages import PACKED, Damage
from .rows import Row, Seed, WrongError
from .shown import damage, said

READ, BY_LINE, BY_FILE = "read", "refused by line", "refused by file"
UNNAMED, OTHER, HANG = "unnamed", "other exception", "hang"
MEMORY, WRONG = "memory", "silently wrong"
OUTCOMES = (READ, BY_LINE, BY_FILE, UNNAMED, OTHER, HANG, MEMORY, WRONG)
BAD = OUTCOMES[3:]
SECONDS = 5  # of processor time, for a case
ADDRESSES = 3 << 30  # bytes: more than this beyond what it has a case cannot ask for
OURS = re.compile(r"elmo_bench/|tasks/")


class Hang(BaseException):
    """A case has taken too long."""


class Verdict(NamedTuple):
    """What became of a case, and what tells it from others."""

    outcome: str
    cause: str = ""


class Case(NamedTuple):
    """A damaged file of a row, among its good ones."""

    seed: Seed
    place: int  # of the seed among the row's
    how: str
    data: bytes | None

    @property
    def file(self) -> str:
        return f"{self.seed.file}.gz" if self.how in PACKED else self.seed.file


def damaged(row: Row, place: int, how: str, change: Damage, rng: Random) -> Case:
    seed = row.seeds()[place]
    return Case(seed, place, how, change(seed.content, rng))


def case_of(row: Row, seed: int, number: int) -> Case:
    """Case `number` of a row: always the same one."""
    rng = Random(f"{seed} {row.name} {number}")
    place = rng.randrange(len(row.seeds()))
    how, change = rng.choice([*row.seeds()[place].damages.items()])
    return damaged(row, place, how, change, rng)


def write(case: Case, folder: Path) -> Path:
    """Put a case's file and those beside it into a folder; the file's path."""
    for name, content in {**case.seed.beside, case.file: case.data}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    return folder / case.file


@cache
def expected(row: Row) -> list[Any]:
    """What the good files of a row say."""
    contents = []
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        for place, seed in enumerate(row.seeds()):
            with TemporaryDirectory() as folder:
                path = write(Case(seed, place, "good", seed.content), Path(folder))
                contents.append(said(row.read(path)))
    return contents


def judged(row: Row, case: Case, path: Path) -> Verdict:
    """Read a file, and say what became of it."""
    try:
        content = row.read(path)
    except Hang:
        return Verdict(HANG, case.how)
    except Exception as error:
        return _of_error(error, [case.file, *case.seed.beside])
    if said(content) != expected(row)[case.place]:
        if row.is_checked:
            return Verdict(WRONG, "read as something else than before the damage")
        if shown := damage(row.name, case.file, case.data):
            return Verdict(WRONG, f"read as something else, though the file has {shown}")
    return Verdict(READ)


def _of_error(error: BaseException, files: Sequence[str]) -> Verdict:
    """What an error is; it may name the damaged file, or the one beside it that it does not fit."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, MemoryError) or "allocate memory" in str(link):
            return Verdict(MEMORY, _cause(error))
        link = link.__cause__ or link.__context__
    if isinstance(error, WrongError):
        return Verdict(WRONG, str(error))
    if not isinstance(error, ValueError | OSError | FloatingPointError):
        return Verdict(OTHER, _cause(error))
    names = "|".join(re.escape(Path(file).name) for file in files)
    if not (named := re.search(rf"({names})(:\d+)?", str(error))):
        return Verdict(UNNAMED, _cause(error))
    return Verdict(BY_LINE if named[2] else BY_FILE)


def _cause(error: BaseException) -> str:
    """The kind of error, and our innermost line that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if OURS.search(f.filename)]
    where = f"{'/'.join(Path(frames[-1].filename).parts[-2:])}:{frames[-1].name}" if frames else "?"
    text = re.sub(r"\S*/\S*|\d{3,}", "…", str(error)[:300])
    return f"{type(error).__name__} in {where}: {text[:90]!r}"


@contextmanager
def limited() -> Iterator[None]:
    """Raise `Hang` after some seconds of processor time, and MemoryError for too much memory."""

    def stop(*_: Any) -> None:
        raise Hang

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + ADDRESSES
    handler = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)
