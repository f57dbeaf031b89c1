"""How a command ends that is asked to: by Ctrl-C or SIGTERM in one line, and with its parent."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from subprocess import Popen
from types import FrameType
from typing import Any

NAMES: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
IN_SWEEP = "ELMO_BENCH_IN_SWEEP"  # set in runs of a sweep, which reports what ended them
WATCH = 1.0  # seconds between two checks of the parent
_started: list[Callable[[], list[Popen]]] = []  # return processes of this run
_raised: list[int] = []  # the signal that has raised `Stopped`


class Stopped(SystemExit):
    """A signal has ended the command; the exit status is 128 and its number, as in a shell."""


def stopped_behind(error: BaseException) -> Stopped | None:
    """The `Stopped` that another error hides: torch's writer of files raises its own after it."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, Stopped):
        seen = seen.__cause__ or seen.__context__
    return seen


def stop_in_a_line() -> None:
    """Let Ctrl-C and SIGTERM write a line and raise `Stopped`; a second one ends at once.

    Ignored signals, as under `nohup`, remain ignored.
    """
    owner = os.getpid()

    def stop(number: int, _: FrameType | None) -> None:
        is_forked = os.getpid() != owner  # a worker, which its parent ends
        if is_forked and number == signal.SIGINT:
            return
        if is_forked or not _is_first():  # the first process reports for all
            os._exit(128 + number)
        signal.signal(number, signal.SIG_DFL)
        for ask in _started:
            processes = ask()
            for process in processes:
                process.kill()  # safe, since files are written atomically
            processes.clear()  # otherwise Lightning, which watches them, kills this process
        say(number, "the same command goes on from what it has kept (a training with resume=true)")
        _raised.append(number)
        raise Stopped(128 + number)

    for kind in NAMES:
        if signal.getsignal(kind) is not signal.SIG_IGN:
            signal.signal(kind, stop)
    sys.unraisablehook = _unraisable


def _unraisable(raised: Any) -> None:
    """While an object is deleted Python can raise nothing: it would tell so at length and go on."""
    if isinstance(raised.exc_value, Stopped):
        os._exit(int(str(raised.exc_value)))
    sys.__unraisablehook__(raised)


def raise_again() -> None:
    """Raise `Stopped` if a signal has raised it before, and something has swallowed it."""
    if _raised:
        raise Stopped(128 + _raised[0])


def end_before_this(processes: Callable[[], list[Popen]]) -> None:
    """Register processes of this run, which a signal to this process ends at once."""
    _started.append(processes)


def say(number: int, advice: str) -> None:
    """Write the line to stderr; of a run's processes the first does, of a sweep's runs none."""
    if _is_first() and IN_SWEEP not in os.environ:
        name = NAMES.get(number, f"signal {number}")
        # Not via sys.stderr, since the signal may have interrupted a write to it.
        os.write(2, f"\nstopped by {name}: {advice}\n".encode())


def end_with_parent() -> None:
    """End this process with its parent, the run's first process or `torchrun`."""
    if _is_first() and "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def outlive_parent() -> None:
    """Before such a process says why it fails: it may be because its parent is gone, and then
    `end_with_parent` ends it here, in silence.
    """
    if not _is_first():
        time.sleep(2 * WATCH)


def _is_first() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "0"
