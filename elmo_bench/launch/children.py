"""The processes of a sweep: none goes on behind the user's back."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any


class Children:
    """Processes, each in a session of its own; `stopped` once a signal or an error has ended them,
    `signal` its number.
    """

    def __init__(self) -> None:
        self.running: set[subprocess.Popen] = set()
        self.stopped, self.signal = False, 0

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], output: IO[str] | None
    ) -> int:
        """Start a command and wait for it; its exit status. `output` None: it prints to ours."""
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        self.running.add(process)
        if self.stopped:  # just before it was started
            self.stop(self.signal)
        code = process.wait()
        self.running.discard(process)
        return code

    def stop(self, number: int = 0, *_: Any) -> None:
        """End all that run, and what they have started."""
        self.stopped, self.signal = True, number
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
