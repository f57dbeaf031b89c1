"""The process from which a sweep's runs are forked, with their imports already done.

Each request arrives over a socket with four file descriptors: a socket for the run and its three
standard streams. The run's socket then carries its process id and its exit status, and closes when
neither process holds it any more.
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
    """A command `python ARGUMENTS...` (the first is a script), its environment and folder."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str


class End:
    """The last exit handler: flushes open files and ends the process at once.

    Tearing down Python's modules would copy the memory that a fork shares with its parent.
    """

    code, owner = 0, os.getpid()

    def __call__(self) -> None:
        if os.getpid() != self.owner:  # forked by a run, which ends it
            gc.unfreeze()
            return
        files = [each for each in gc.get_objects() if issubclass(type(each), IOBase)]
        for file in [sys.stdout, sys.stderr, *files]:
            with suppress(AttributeError, OSError, ValueError):  # none, or closed
                file.flush()
        ctypes.CDLL(None).fflush(None)  # output of C libraries, e.g. MKL_VERBOSE=1
        os._exit(self.code)


def main(channel: int, modules: Sequence[str]) -> None:
    """Import the modules, report whether forking is safe, and fork until the channel is closed."""
    atexit.register(end := End())  # the handler registered first runs last
    with socket.socket(fileno=channel) as requests:
        preload(modules)
        obstacle = fork_obstacle()
        with suppress(BrokenPipeError):  # the sweep was killed
            requests.sendall(json.dumps({"obstacle": obstacle}).encode() + b"\n")
        request = None if obstacle else serve(requests)
    if request:  # in the process of a run
        run_script(request.arguments[0], end)


def preload(modules: Sequence[str]) -> None:
    """Import the modules and those that they name in `LATER`.

    Failed imports are ignored here: the runs report them.
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
    gc.freeze()  # the runs share these objects; their collector skips them


def fork_obstacle() -> str:
    """Return what makes forking unsafe here: threads or an open GPU driver; empty if nothing."""
    if not (pid := os.fork()):  # forking makes NumPy's BLAS end its threads until it needs them
        os._exit(0)
    os.waitpid(pid, 0)
    if (threads := len([*Path("/proc/self/task").iterdir()])) > 1:
        return f"{threads} threads"
    files = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    if devices := [name for name in files if name.startswith(("/dev/nvidia", "/dev/kfd"))]:
        return f"{devices[0]} is open"
    return ""


def serve(requests: socket.socket) -> Request | None:
    """Fork for each request and report the exit status of each run.

    Returns the request in the process of a run; returns None in this process once `requests` is
    closed and all runs have ended.
    """
    wakes, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    runs: dict[int, socket.socket] = {}
    is_open = True
    while is_open or runs:
        files: list[Any] = [wakes, requests] if is_open else [wakes]
        ready, _, _ = select.select(files, [], [])
        if wakes in ready:
            os.read(wakes, 1024)
            for pid, code in _ended(runs):
                with runs.pop(pid) as run, suppress(OSError):  # the sweep may have ended
                    _tell(run, code=code)
        if requests in ready:
            message, received, _, _ = socket.recv_fds(requests, 1, 4)
            is_open = bool(message)
            if message and (request := fork(received, runs)):
                os.close(wakes)
                os.close(wake)
                return request
    return None


def fork(received: Sequence[int], runs: dict[int, socket.socket]) -> Request | None:
    """Fork a run, given the file descriptors of its socket and streams, and add it to `runs`.

    Returns the request in the process of the run, None in this process.
    """
    run, streams = socket.socket(fileno=received[0]), received[1:]
    run.set_inheritable(False)
    with run.makefile() as lines:
        command = lines.readline()
    if not command:  # the sweep was killed
        run.close()
    elif pid := os.fork():
        runs[pid] = run
    else:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in runs.values():
            other.close()
        request = Request(*json.loads(command))
        become(request, run, streams)
        return request
    for file in streams:
        os.close(file)
    return None


def _tell(run: socket.socket, **facts: int) -> None:
    run.sendall(json.dumps(facts).encode() + b"\n")


def _ended(runs: dict[int, socket.socket]) -> Iterator[tuple[int, int]]:
    """Yield id and exit status (as in `Popen.returncode`) of each run that has ended."""
    for pid in [*runs]:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            yield pid, os.waitstatus_to_exitcode(status)


def become(request: Request, run: socket.socket, streams: Sequence[int]) -> None:
    """Turn this fork into the process that the command would have started."""
    os.setsid()
    _tell(run, pid=os.getpid())
    run.detach()  # keeps the socket open as long as this process
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    if isinstance(sys.stdout, TextIOWrapper):  # stderr is line-buffered everywhere
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv = request.arguments
    if numpy := sys.modules.get("numpy"):  # Python reseeds only its own generator after a fork
        numpy.random.seed()


def run_script(path: str, end: End) -> None:
    """Run a script as `python PATH` does; Python prints its exceptions as usual."""
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
