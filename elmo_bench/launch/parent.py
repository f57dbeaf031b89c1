"""The process that a sweep's runs are forked from: it has imported what each of them would import.

What it is asked for comes over a socket, with the four files of a run: a socket of its own and its
standard streams. On the run's socket it then hears its process id, its exit status, and, from the
end of both processes, nothing more.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import IOBase, TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from elmo_bench import on_demand


class Request(NamedTuple):
    """A command `python ARGUMENTS...`, the first of which is a script, and where it runs."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str


class End:
    """How this process ends: as ever until all that was to be done at its end is done, then at
    once. To take Python's modules apart would copy, of a fork, all that it shares.
    """

    code, owner = 0, os.getpid()

    def __call__(self) -> None:
        if os.getpid() != self.owner:  # a process that a run has forked ends as it likes
            gc.unfreeze()
            return
        files = [each for each in gc.get_objects() if issubclass(type(each), IOBase)]
        for file in [sys.stdout, sys.stderr, *files]:
            with suppress(AttributeError, OSError, ValueError):  # none, or closed
                file.flush()
        ctypes.CDLL(None).fflush(None)  # what libraries have printed, of MKL_VERBOSE=1, say
        os._exit(self.code)


def main(channel: int, modules: Sequence[str]) -> None:
    """Import the modules, say whether it is safe to fork, and do so until the other end of the
    channel is closed.
    """
    atexit.register(end := End())  # what is registered first comes last
    with socket.socket(fileno=channel) as asked:
        preload(modules)
        obstacle = what_forbids_forks()
        with suppress(BrokenPipeError):  # the one who asked was killed
            asked.sendall(json.dumps({"obstacle": obstacle}).encode() + b"\n")
        request = None if obstacle else serve(asked)
    if request:  # this is a run's process
        run_script(request.arguments[0], end)


def preload(modules: Sequence[str]) -> None:
    """Import them, and what they say of `LATER`; what cannot be imported the runs say
    themselves.
    """
    on_demand.torchmetrics_in_parts()
    for name in modules:
        with suppress(Exception):
            module = importlib.import_module(name)
            for later in getattr(module, "LATER", ()):
                importlib.import_module(later)
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()  # the runs share these objects, and need not look through them


def what_forbids_forks() -> str:
    """What is not in a fork as in a process of its own: threads, and a GPU's driver."""
    if not (pid := os.fork()):  # after a fork NumPy's BLAS has no threads until it needs them
        os._exit(0)
    os.waitpid(pid, 0)
    if (threads := len([*Path("/proc/self/task").iterdir()])) > 1:
        return f"{threads} threads"
    files = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    if devices := [name for name in files if name.startswith(("/dev/nvidia", "/dev/kfd"))]:
        return f"{devices[0]} is open"
    return ""


def serve(asked: socket.socket) -> Request | None:
    """Fork for each request and tell how the process ended; returns the request in its process,
    None in this one when nobody asks any more and all have ended.
    """
    wakes, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    runs: dict[int, socket.socket] = {}
    is_asked = True
    while is_asked or runs:
        files: list[Any] = [wakes, asked] if is_asked else [wakes]
        ready, _, _ = select.select(files, [], [])
        if wakes in ready:
            os.read(wakes, 1024)
            for pid, code in _ended(runs):
                with runs.pop(pid) as run, suppress(OSError):  # the one who asked may be gone
                    _tell(run, code=code)
        if asked in ready:
            message, received, _, _ = socket.recv_fds(asked, 1, 4)
            is_asked = bool(message)
            if message and (request := fork(received, runs)):
                os.close(wakes)
                os.close(wake)
                return request
    return None


def fork(received: Sequence[int], runs: dict[int, socket.socket]) -> Request | None:
    """Fork for the run whose socket and streams have come, and add it to `runs`; returns the
    request in its process, None in this one.
    """
    run, streams = socket.socket(fileno=received[0]), received[1:]
    run.set_inheritable(False)
    with run.makefile() as lines:
        said = lines.readline()
    if not said:  # the one who asked was killed
        run.close()
    elif pid := os.fork():
        runs[pid] = run
    else:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in runs.values():
            other.close()
        request = Request(*json.loads(said))
        become(request, run, streams)
        return request
    for file in streams:
        os.close(file)
    return None


def _tell(run: socket.socket, **facts: int) -> None:
    run.sendall(json.dumps(facts).encode() + b"\n")


def _ended(runs: dict[int, socket.socket]) -> Iterator[tuple[int, int]]:
    """Of each process that has ended, its id and exit status, as `Popen` has it."""
    for pid in [*runs]:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            yield pid, os.waitstatus_to_exitcode(status)


def become(request: Request, run: socket.socket, streams: Sequence[int]) -> None:
    """Make of this fork what a process is that was started by the command."""
    os.setsid()
    _tell(run, pid=os.getpid())
    run.detach()  # and open as long as this process
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    if isinstance(sys.stdout, TextIOWrapper):  # stderr is the same whatever it writes to
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = request.arguments
    if numpy := sys.modules.get("numpy"):  # Python's own generator has a new seed after a fork
        numpy.random.seed()


def run_script(path: str, end: End) -> None:
    """Run it as `python` runs a script; what it raises Python shows as ever."""
    end.owner = os.getpid()
    main = ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), vars(main))
    except SystemExit as error:
        end.code = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    except BaseException as error:
        end.code = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        raise
