"""The processes of a sweep, which all end when the sweep is stopped."""

import atexit
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from elmo_bench import signals

log = logging.getLogger(__name__)
PARENT = (
    "import sys; sys.path[0] = {ours!r}; from elmo_bench.launch import parent; "
    "sys.path[0] = {scripts!r}; parent.main({channel}, {modules})"
)


class Forked:
    """A forked run; its parent reports process id and exit status on `channel`.

    Raises OSError if the parent has ended.
    """

    def __init__(self, channel: socket.socket) -> None:
        with channel:
            self.reports = channel.makefile()
        report = json.loads(self.reports.readline() or "{}")
        if "pid" not in report:
            raise ConnectionError("the parent process has ended, or a fork failed immediately")
        self.pid: int = report["pid"]

    def wait(self) -> int | None:
        """Wait for its end and return the exit status; None if the parent has ended before."""
        with self.reports as lines:
            report = lines.readline()
        return json.loads(report)["code"] if report else None


class Parent:
    """A process that has imported `modules`, and forks runs of a script (see `parent.py`).

    It is started with the first run. Thread-safe.
    """

    def __init__(
        self, script: Path, modules: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.script, self.modules, self.environment = script, modules, environment
        self.lock = threading.Lock()
        self.channel: socket.socket | None = None
        self.process: subprocess.Popen | None = None

    def suits(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a fork equals a new process: same script and environment, except for GPUs."""
        others = {name for name, _ in environment.items() ^ self.environment.items()}
        return [*command[:2]] == [sys.executable, str(self.script)] and others <= {
            "CUDA_VISIBLE_DEVICES"
        }

    def fork(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> Forked:
        """Fork a run of the command; raises OSError if the parent cannot start or has ended."""
        ours, theirs = socket.socketpair()
        request = json.dumps([[*command[1:]], {**environment}, str(Path.cwd())])
        streams = [0, *([output.fileno()] * 2 if output else [1, 2])]
        with theirs, self.lock:
            if not self.channel:
                self.channel = self._start()
            try:
                socket.send_fds(self.channel, [b"+"], [theirs.fileno(), *streams])
            except BrokenPipeError as error:
                raise ConnectionError("the parent process has ended") from error
        ours.sendall(request.encode() + b"\n")
        return Forked(ours)

    def _start(self) -> socket.socket:
        """Start the process, wait until it is ready and return its channel; raises OSError."""
        if self.process:
            raise ConnectionError("the parent process did not start")
        ours, theirs = socket.socketpair()
        code = PARENT.format(
            ours=str(Path(__file__).parents[2]),
            scripts=str(self.script.parent),
            channel=theirs.fileno(),
            modules=[*self.modules],
        )
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, str(self.script)],
                env=self.environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self.close)
        with ours.makefile() as lines:
            report = lines.readline()
        if not report:
            raise ConnectionError("the parent process did not start")
        if obstacle := json.loads(report)["obstacle"]:
            raise ConnectionError(f"the parent process has {obstacle}")
        return ours

    def give_up(self) -> None:
        """Kill the process if it has not finished starting."""
        if self.process and not self.channel:
            self.process.kill()

    def close(self) -> None:
        """End the process; running forks continue."""
        if self.channel:
            self.channel.close()
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)


class Children:
    """Child processes, each in a new session.

    `stopped` is true after a signal or an error has ended them; `signal` is the signal's number. If
    `parent` is set, commands that suit it are forked from it.
    """

    def __init__(self) -> None:
        self.running: set[subprocess.Popen | Forked] = set()
        self.stopped, self.signal = False, 0
        self.parent: Parent | None = None

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> int | None:
        """Run a command and return its exit status; without `output` it inherits our streams."""
        process = self._forked(command, environment, output) or subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        self.running.add(process)
        if self.stopped:  # stopped just before the start
            self.stop(self.signal)
        code = process.wait()
        self.running.discard(process)
        return code

    def _forked(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> Forked | None:
        """Fork the command from the parent; None if that is not possible."""
        parent = self.parent
        if not parent or not parent.suits(command, environment):
            return None
        try:
            return parent.fork(command, environment, output)
        except OSError as error:
            if self.parent and not self.stopped:  # another thread may have logged this
                log.warning(
                    "Cannot fork runs (%s): each run imports its packages itself, which takes "
                    "some seconds",
                    error,
                )
            self.parent = None
            return None

    def stop(self, number: int = 0, *_: Any) -> None:
        """Send SIGTERM to all running processes and the processes that they have started."""
        if number and not self.stopped:
            signals.say(number, "the runs of the sweep end")
        self.stopped, self.signal = True, number
        if self.parent:
            self.parent.give_up()
        for process in list(self.running):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGTERM)

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """End the children on Ctrl-C, SIGTERM, SIGHUP (not under nohup), and on any exception."""
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
