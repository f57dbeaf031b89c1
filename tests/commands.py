"""The command line in processes of its own: started, ended, sent a signal or killed; and what a
command is told before it runs.
"""

import io
import logging
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig

from elmo_bench import cli
from elmo_bench.settings.advice import MENDABLE, before, message
from elmo_bench.settings.check import faults
from elmo_bench.settings.hydra_private import OF_VERSION, REPORTERS
from elmo_bench.terminal import signals

ROOT = Path(__file__).parents[1]
SMALLEST = ["encoder=none", "data.size=4", "rnn.hidden_size=4", "task.model.hidden_size=4"]
SMALLEST += ["fit.batch_size=4"]


def forked(*arguments, cwd=ROOT, env=os.environ, files=()):
    """Start `python run.py ARGUMENTS` in a process of its own, forked from one that has torch
    imported, which takes most of a small run's time; its streams go to these files.
    """
    multiprocessing.set_forkserver_preload(["hydra.main", "elmo_bench.jobs.train"])
    process = multiprocessing.get_context("forkserver").Process(
        target=become, args=([str(ROOT / "run.py"), *arguments], cwd, {**env}, files)
    )
    process.start()
    return process


def become(command, cwd, env, files):
    """In the fork: be the command."""
    for number, path in enumerate(files, 1):
        with path.open("w") as file:
            os.dup2(file.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path += filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")


def run(*arguments, **more):
    """Such a process when it has ended, as `subprocess.run` returns it."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdout", "stderr")]
        process = forked(*arguments, **more, files=files)
        process.join(300)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(arguments)
        said = [path.read_text() for path in files]
    return subprocess.CompletedProcess(arguments, process.exitcode, *said)


def run_here(*arguments):
    """What `run` returns, of a command in this process: sooner, for what is said before a run."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        for name in ("stop_in_a_line", "end_with_parent"):
            patch.setattr(signals, name, lambda: None)
        for module in REPORTERS:
            patch.setattr(module, "run_and_report", module.run_and_report)
        patch.setattr(sys, "argv", [str(ROOT / "run.py"), *arguments])
        patch.setenv("ELMO_BENCH_DRY_RUN", "false")  # which the command may set
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    root.handlers[:] = handlers
    root.setLevel(level)
    HydraConfig.instance().cfg = None
    if isinstance(code, str):  # Python's own way to end with a message
        return subprocess.CompletedProcess(
            arguments, 1, stdout.getvalue(), stderr.getvalue() + code
        )
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def start(*arguments):
    """Start `python run.py ARGUMENTS` anew: it has nothing imported."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores SIGINT, and so would all that it starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(path, process, since=0.0):
    """Until a process has written the file."""
    while not path.exists() or path.stat().st_mtime <= since:
        if isinstance(process, subprocess.Popen):
            assert process.poll() is None
        else:
            assert process.is_alive()
        time.sleep(0.01)


def wait_for_handler(process):
    """Until the process has said what a signal does: Python itself has a handler of SIGINT only."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        time.sleep(1)
    else:
        while not int(status.read_text().partition("SigCgt:")[2].split()[0], 16) >> 14 & 1:
            time.sleep(0.01)


def children(process):
    listed = Path(f"/proc/{process}/task").glob("*/children")
    return [int(word) for path in listed for word in path.read_text().split()]


def kill_sweep(process):
    """Kill -9 of a sweep and of its runs."""
    servers = children(process.pid)  # one of them has forked the runs
    for each in (process.pid, *(run for server in servers for run in children(server))):
        os.kill(each, signal.SIGKILL)
    process.join()
    while any(Path(f"/proc/{server}").exists() for server in servers):  # they have nobody left
        time.sleep(0.05)


def said(arguments: list[str]) -> str:
    """What a command ends with; empty if its settings are right."""
    if wrong := before(arguments):
        return "\n".join(wrong)
    with initialize_config_dir(str(ROOT / "conf"), **OF_VERSION):
        try:
            config = compose("config", arguments, return_hydra_config=True)
        except MENDABLE as error:  # any other would be a traceback
            return message(error, arguments)
    return "\n".join(faults(config))
