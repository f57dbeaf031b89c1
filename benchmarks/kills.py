"""`python -m benchmarks.kills --kills 30`: kill -9 at random moments of small runs of every task;
each then goes on.

A run that goes on ends as the one that nobody disturbed, on one CPU thread to the bit: metrics,
predictions and curves.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
# Small, and with what draws random numbers or keeps a state: dropout, unknown words, schedules,
# averages, a biLM that learns too.
SETTINGS = {
    "ner": [
        "data.size=10",
        "rnn.hidden_size=16",
        "task.model.hidden_size=16",
        "elmo.finetune=true",
    ],
    "srl": ["data.size=20", "rnn.hidden_size=16", "rnn.num_layers=2", "fit.batch_size=20"],
    "coref": [
        "data.size=15",
        "rnn.hidden_size=16",
        "task.model.max_sentences=3",
        "task.scheduler.step_size=7",
    ],
    "squad": [
        "data.size=15",
        "rnn.hidden_size=16",
        "task.model.hidden_size=16",
        "embed.num_filters=16",
    ],
    "snli": [
        "data.size=10",
        "rnn.hidden_size=16",
        "task.model.hidden_size=16",
        "embed.unknown_rate=0.3",
    ],
    "sst5": [
        "data.size=20",
        "rnn.hidden_size=16",
        "task.model.hidden_size=16",
        "embed.unknown_rate=0.3",
    ],
}
SHARED = [
    "fit.max_epochs=4",
    "fit.save_minutes=0.005",
    "trainer=cpu",
    "trainer.enable_progress_bar=false",
    "resume=true",
]


class Outcome(NamedTuple):
    """When a run was killed, in seconds after its first checkpoint; what it had left by then;
    whether it ended as it should.
    """

    task: str
    moment: float
    left: str
    is_equal: bool


def main() -> None:
    """Kill as often as the command line says, and print what became of it; the exit status says
    whether all ended equal.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kills", description="Do killed runs end as undisturbed ones?"
    )
    parser.add_argument(
        "--kills", type=int, default=30, help="how many, shared among the tasks (default: 30)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="how many tasks at a time (default: 1)")
    parser.add_argument(
        "--tasks",
        nargs="+",
        choices=SETTINGS,
        default=list(SETTINGS),
        help="which tasks (default: all)",
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(chosen.jobs) as pool:

        def kills(task: str) -> list[Outcome]:
            count = len(range(chosen.tasks.index(task), chosen.kills, len(chosen.tasks)))
            return killed_runs(task, count, random.Random(f"{chosen.seed} {task}"), Path(folder))

        outcomes = [outcome for of_task in pool.map(kills, chosen.tasks) for outcome in of_task]
    Console(width=100).print(table(outcomes))
    sys.exit(0 if all(outcome.is_equal for outcome in outcomes) else 1)


def killed_runs(task: str, count: int, rng: random.Random, scratch: Path) -> list[Outcome]:
    """Runs of a task, each killed once at a moment between its first checkpoint and its end, and
    then given again.
    """
    undisturbed = scratch / task / "undisturbed"
    process = start(task, undisturbed, scratch)
    wait_for_checkpoint(process, undisturbed)
    begun = time.perf_counter()
    if process.wait():
        raise SystemExit(
            f"{task}: the undisturbed run failed: {(undisturbed / 'output.txt').read_text()}"
        )
    seconds, expected = time.perf_counter() - begun, measured(undisturbed)
    outcomes: list[Outcome] = []
    while len(outcomes) < count:
        run, moment = scratch / task / str(len(outcomes)), rng.uniform(0, seconds)
        process = start(task, run, scratch)
        wait_for_checkpoint(process, run)
        time.sleep(moment)
        process.kill()
        if process.wait() == 0:  # it was faster this time: another run, another moment
            (run / "result.json").unlink()
            continue
        left = (
            "predictions"
            if (run / "predictions").is_dir()
            else "best.ckpt"
            if (run / "best.ckpt").is_file()
            else "last.ckpt"
        )
        code = start(task, run, scratch).wait()
        outcomes.append(Outcome(task, moment, left, code == 0 and measured(run) == expected))
    return outcomes


def start(task: str, run: Path, scratch: Path) -> subprocess.Popen:
    """The command, in a process of its own."""
    run.mkdir(parents=True, exist_ok=True)
    folders = [f"hydra.run.dir={run}", f"cache_dir={scratch / 'cache'}"]
    command = [
        sys.executable,
        str(ROOT / "run.py"),
        f"task={task}",
        *SETTINGS[task],
        *SHARED,
        *folders,
    ]
    with (run / "output.txt").open("a") as output:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=environment)


def wait_for_checkpoint(process: subprocess.Popen, run: Path) -> None:
    """Until training has begun."""
    while not (run / "last.ckpt").exists() and process.poll() is None:
        time.sleep(0.01)


def measured(run: Path) -> tuple[object, ...]:
    """What a finished run has found, without times."""
    result = json.loads((run / "result.json").read_text())
    predictions = [path.read_bytes() for path in sorted((run / "predictions").iterdir())]
    return (
        result["metrics"],
        result["mix"],
        result["epochs"],
        predictions,
        (run / "metrics.csv").read_text(),
    )


def table(outcomes: list[Outcome]) -> Table:
    """A row for each task: how many of its runs were killed when, and how many ended as the
    undisturbed one.
    """
    columns = {"in the first epoch": "last.ckpt", "later": "best.ckpt", "after test": "predictions"}
    shown = Table("task", "kills", *columns, "ended equal")
    for task in [*dict.fromkeys(outcome.task for outcome in outcomes), "all"]:
        rows = [outcome for outcome in outcomes if task in (outcome.task, "all")]
        counts = (sum(outcome.left == left for outcome in rows) for left in columns.values())
        shown.add_row(
            task,
            str(len(rows)),
            *map(str, counts),
            f"{sum(o.is_equal for o in rows)} of {len(rows)}",
        )
    return shown


if __name__ == "__main__":
    main()
