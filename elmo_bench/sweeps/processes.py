"""The processes of a sweep, and what each has of the machine: cores, GPUs, an environment."""

import contextlib
import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from elmo_bench.settings.machine import cores
from elmo_bench.terminal import signals

LOST = 255  # exit status that `multiprocessing` reports if the server has been killed
# Variables of a distributed run, to which the runs of a sweep that it has started do not belong.
RANKS = (
    "LOCAL_RANK",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PL_GLOBAL_SEED",
    "SLURM_NTASKS",
)


class Processes:
    """Processes of commands, each in a new session, forked from one process: a server.

    `stopped` is true after a signal or an error has ended them; `signal` is the signal's number.
    """

    def __init__(self) -> None:
        self.running: dict[Any, BaseProcess] = {}  # by what `connection.wait` waits for
        self.stopped = False
        self.signal = 0

    def serve(self, environment: Mapping[str, str], modules: Sequence[str] | None) -> None:
        """Start the server, unless it runs; it imports these modules meanwhile. It ignores Ctrl-C,
        and has the environment of the commands, which a library may read when it is imported.
        """
        preloaded = [__name__]
        preloaded.extend(modules or ())
        forkserver.set_forkserver_preload(preloaded)
        python_path = str(Path(__file__).parents[2])
        if environment.get("PYTHONPATH"):
            python_path += os.pathsep + environment["PYTHONPATH"]
        imports = {"PYTHONPATH": python_path, "PYTHONSAFEPATH": "1"}
        ours = dict(os.environ)
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _set_environment(dict(environment) | imports)
            forkserver.ensure_running()
        finally:
            _set_environment(ours)
            signal.signal(signal.SIGINT, handler)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: Path | None,
        modules: Sequence[str] | None,
    ) -> BaseProcess:
        """Start a command, which prints to the file `output` or, without one, to our streams.

        With `modules`, it is a script of Python, which the server forks and which has them imported
        already. Raises OSError or EOFError if the server does not start.
        """
        self.serve(environment, modules)
        context = multiprocessing.get_context("forkserver")
        is_forked = modules is not None
        process = context.Process(target=become, args=(command, environment, output, is_forked))
        process.start()
        self.running[process.sentinel] = process
        if self.stopped:  # meanwhile
            self.stop(self.signal)
        return process

    def ended(self) -> list[BaseProcess]:
        """Wait until a process has ended, if any is running; return all that have."""
        ready = connection.wait(self.running) if self.running else ()
        processes = [self.running.pop(sentinel) for sentinel in ready]
        for process in processes:
            process.join()
            if process.exitcode == LOST:
                time.sleep(1)  # until the server is gone and another can start
        return processes

    def stop(self, number: int = 0, *_: Any) -> None:
        """Send SIGTERM to all running processes and the processes that they have started."""
        if number and not self.stopped:
            signals.say(number, "the runs of the sweep end")
        self.stopped = True
        self.signal = number
        for process in self.running.values():
            assert process.pid
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                try:
                    os.killpg(process.pid, signal.SIGTERM)
                except ProcessLookupError:  # or has no session yet
                    os.kill(process.pid, signal.SIGTERM)

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """End them on Ctrl-C, SIGTERM, SIGHUP (not under nohup), and on any exception."""
        kinds = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        heard = [kind for kind in kinds if signal.getsignal(kind) is not signal.SIG_IGN]
        before = {kind: signal.signal(kind, self.stop) for kind in heard}
        try:
            yield
        except BaseException:
            self.stop()
            raise
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def become(
    command: Sequence[str], environment: Mapping[str, str], output: Path | None, is_forked: bool
) -> None:
    """Turn a process that was just forked into the one that the command would have started."""
    os.setsid()
    if output:
        with output.open("a") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
    _set_environment(environment)
    if not is_forked:
        os.execvp(command[0], list(command))
    sys.argv = list(command[1:])
    runpy.run_path(sys.argv[0], run_name="__main__")


def _set_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def environment(shares: int, gpus: str | None, group: str) -> dict[str, str]:
    """Return the environment of a run: this process's, without the variables of a distributed run.

    The run sees these GPUs (None: those of this process). Where the user has not said otherwise,
    its W&B group is `group`, and with several `shares`, its threads are one share of the cores.
    """
    variables = {"WANDB_RUN_GROUP": group}
    if shares > 1:
        variables["OMP_NUM_THREADS"] = str(max(1, cores() // shares))
    variables |= {name: value for name, value in os.environ.items() if name not in RANKS}
    if gpus is not None:
        variables["CUDA_VISIBLE_DEVICES"] = gpus
    variables[signals.IN_SWEEP] = "true"
    return variables
