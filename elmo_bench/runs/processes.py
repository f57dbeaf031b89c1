"""The processes of a sweep, which all end when the sweep is stopped."""

import contextlib
import logging
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from elmo_bench.files import signals

log = logging.getLogger(__name__)
LOST = 255  # exit status that `multiprocessing` reports if its fork server has ended before


class Processes:
    """Processes of commands, each in a new session; thread-safe.

    `stopped` is true after a signal or an error has ended them; `signal` is the signal's number.
    After `start_forks`, commands of Python are forked from a process with their imports done.
    """

    def __init__(self) -> None:
        self.running: set[subprocess.Popen | BaseProcess] = set()
        self.stopped, self.signal, self.forks = False, 0, False
        self.lock = threading.Lock()

    def start_forks(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the process to fork from, which imports these modules.

        It has the environment of the commands, which a library may read when it is imported, and
        ignores Ctrl-C.
        """
        paths = [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]
        imports = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONSAFEPATH": "1"}
        forkserver.set_forkserver_preload([__name__, *modules])
        ours, handler = {**os.environ}, signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _set_environment({**environment, **imports})
            forkserver.ensure_running()
        finally:
            _set_environment(ours)
            signal.signal(signal.SIGINT, handler)
        self.forks = True

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], output: Path | None
    ) -> int | None:
        """Run a command and return its exit status, or None if nobody knows it.

        The file `output` gets what it prints; without a file it inherits our streams.
        """
        if self.forks:
            try:
                return self._run_fork(command, environment, output)
            except (OSError, EOFError) as error:
                self._no_forks(f"the process to fork from did not start: {error!r}")
        with output.open("a") if output else contextlib.nullcontext() as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=file, env=environment, start_new_session=True
            )
        with self._running(process):
            return process.wait()

    def _run_fork(
        self, command: Sequence[str], environment: Mapping[str, str], output: Path | None
    ) -> int | None:
        """Fork and wait; raises OSError or EOFError if there is no process to fork from."""
        reader, writer = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("forkserver").Process(
            target=become, args=(command, environment, output, writer)
        )
        with reader:
            with writer, self.lock:
                process.start()
            with self._running(process):
                connection.wait([reader])  # it is closed when the process has ended
        with self.lock:  # a start asks for the status of every process, too
            process.join()
        if process.exitcode == LOST:
            self._no_forks("the process to fork from has ended")
            return None
        return process.exitcode

    def _no_forks(self, reason: str) -> None:
        if self.forks and not self.stopped:
            log.warning("Each run takes some seconds to import its packages: %s", reason)
        self.forks = False

    @contextlib.contextmanager
    def _running(self, process: subprocess.Popen | BaseProcess) -> Iterator[None]:
        self.running.add(process)
        if self.stopped:  # stopped just before the start
            self.stop(self.signal)
        yield
        self.running.discard(process)

    def stop(self, number: int = 0, *_: Any) -> None:
        """Send SIGTERM to all running processes and the processes that they have started."""
        if number and not self.stopped:
            signals.say(number, "the runs of the sweep end")
        self.stopped, self.signal = True, number
        for process in [*self.running]:
            assert process.pid
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                try:
                    os.killpg(process.pid, signal.SIGTERM)
                except ProcessLookupError:  # or is a fork that has no session yet
                    os.kill(process.pid, signal.SIGTERM)

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """End them on Ctrl-C, SIGTERM, SIGHUP (not under nohup), and on any exception."""
        kinds = [
            kind
            for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(kind) is not signal.SIG_IGN
        ]
        before = {kind: signal.signal(kind, self.stop) for kind in kinds}
        try:
            yield
        except BaseException:
            self.stop()
            raise
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def become(
    command: Sequence[str], environment: Mapping[str, str], output: Path | None, _: Connection
) -> None:
    """Turn a process that was just forked into the one that the command would have started."""
    os.setsid()
    if output:
        with output.open("a") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
    _set_environment(environment)
    sys.argv = [*command[1:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _set_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
