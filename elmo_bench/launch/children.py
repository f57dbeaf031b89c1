"""The processes of a sweep: none goes on behind the user's back."""

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
    """A run that was forked; the socket is the one on which its parent tells of it.

    Raises OSError where there is no such run: the parent has ended.
    """

    def __init__(self, told: socket.socket) -> None:
        with told:
            self.told = told.makefile()
        said = json.loads(self.told.readline() or "{}")
        if "pid" not in said:
            raise ConnectionError("the parent process has ended, or a fork failed immediately")
        self.pid: int = said["pid"]

    def wait(self) -> int | None:
        """Its exit status when it has ended; None where its parent ended before."""
        with self.told as lines:
            said = lines.readline()
        return json.loads(said)["code"] if said else None


class Parent:
    """A process that has imported `modules`, from which runs of a script are forked (see
    `parent.py`); it is started when the first one is. Several threads may ask at once.
    """

    def __init__(
        self, script: Path, modules: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.script, self.modules, self.environment = script, modules, environment
        self.lock = threading.Lock()
        self.channel: socket.socket | None = None
        self.process: subprocess.Popen | None = None

    def suits(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether its fork is what the command would start: what a package has read from the
        environment is the same.
        """
        others = {name for name, _ in environment.items() ^ self.environment.items()}
        return [*command[:2]] == [sys.executable, str(self.script)] and others <= {
            "CUDA_VISIBLE_DEVICES"
        }

    def fork(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> Forked:
        """Raises OSError where the process cannot be started, or has ended."""
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
        """The channel to the process, which has said that it is ready; it is started once."""
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
            said = lines.readline()
        if not said:
            raise ConnectionError("the parent process did not start")
        if obstacle := json.loads(said)["obstacle"]:
            raise ConnectionError(f"the parent process has {obstacle}")
        return ours

    def give_up(self) -> None:
        """Wait no longer for its start."""
        if self.process and not self.channel:
            self.process.kill()

    def close(self) -> None:
        """End it; runs that go on go on."""
        if self.channel:
            self.channel.close()
        if self.process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)


class Children:
    """Processes, each in a session of its own; `stopped` once a signal or an error has ended them,
    `signal` its number.

    Those of a script are forked from one `parent` that has imported what they need, where there is
    one.
    """

    def __init__(self) -> None:
        self.running: set[subprocess.Popen | Forked] = set()
        self.stopped, self.signal = False, 0
        self.parent: Parent | None = None

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> int | None:
        """Start a command and wait for it; its exit status. `output` None: it prints to ours."""
        process = self._forked(command, environment, output) or subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        self.running.add(process)
        if self.stopped:  # just before it was started
            self.stop(self.signal)
        code = process.wait()
        self.running.discard(process)
        return code

    def _forked(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> Forked | None:
        """The command as a fork of the parent; None where that cannot be."""
        parent = self.parent
        if not parent or not parent.suits(command, environment):
            return None
        try:
            return parent.fork(command, environment, output)
        except OSError as error:
            if self.parent and not self.stopped:  # another thread may have said so
                log.warning(
                    "Cannot fork runs (%s): each run imports its packages itself, which takes "
                    "some seconds",
                    error,
                )
            self.parent = None
            return None

    def stop(self, number: int = 0, *_: Any) -> None:
        """End all that run, and what they have started."""
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
        """Within it Ctrl-C, SIGTERM, SIGHUP (not under nohup) and any error end the children."""
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
