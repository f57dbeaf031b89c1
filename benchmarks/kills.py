"""Kill small commands at random moments (SIGKILL) and run each again:

    python -m benchmarks.kills --kills 200

A command that was killed and repeated must leave the same as an undisturbed one, bit for bit on one
CPU thread: figures, predictions and training curves, the files of the other jobs, the vectors of a
store. In the last stages, eight processes open one store at once and some are killed, and a run
that replaces a finished one is killed at steps spread over all its changes of files: it must leave
exactly one whole finished run, the old or the new, and the repeated command the new one.

Commands are forked from a process with the imports done; otherwise most kills would fall into the
imports. The runs of a sweep are started as usual.
"""

import argparse
import json
import multiprocessing
import os
import random
import runpy
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import h5py
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

from elmo_bench.runs import collect
from elmo_bench.training.checkpoint import load

from . import readers

ROOT = Path(__file__).parents[1]
JOBS = [f"elmo_bench.jobs.{name}" for name in ("train", "pretrain", "embed", "report")]
TRAIN = [
    "fit.max_epochs=2",
    "fit.save_minutes=0.005",
    "trainer=cpu",
    "trainer.enable_progress_bar=false",
    "rnn.hidden_size=16",
    "resume=true",
]
# Small settings that use random numbers or keep state: dropout, unknown words, schedules, averages,
# a biLM that is trained.
TASKS = {
    "ner": ["data.size=10", "task.model.hidden_size=16", "finetune=full"],
    "srl": ["data.size=20", "rnn.num_layers=2", "fit.batch_size=20"],
    "coref": ["data.size=15", "task.model.max_sentences=3", "task.scheduler.step_size=7"],
    "squad": ["data.size=15", "task.model.hidden_size=16", "embed.num_filters=16"],
    "snli": ["data.size=10", "task.model.hidden_size=16", "embed.unknown_rate=0.3"],
    "sst5": ["data.size=20", "task.model.hidden_size=16", "embed.unknown_rate=0.3"],
}
NER = ["task=ner", *TRAIN, "task.model.hidden_size=16", "embed.num_filters=16"]
PRETRAIN = [
    *("job=pretrain", "text.size=20", "pretrain.epochs=2", "pretrain.save_every=5"),
    *("pretrain.batch_size=8", "pretrain.unroll=10", "bilm.cell_size=16"),
    *("bilm.projection_size=8", "bilm.filters=[[1,4],[3,4]]"),
]
ADAPT = [*NER, "data.size=10", "elmo.adapt=true", "adapt.batch_size=4", "adapt.lr=0.01"]
REPORT = ["job=report", "columns=seed", "runs={scratch}/sweep/undisturbed"]
TOLD = (b"| command", b"| time")
Left = dict[str, object]  # outputs of a command, by name


class Stage(NamedTuple):
    """A command, the period in which it is killed, and the function that reads its outputs.

    In `arguments`, {run} is the folder of this run and {scratch} a folder shared by all. The period
    begins when a file below {run} matches the pattern `begins`, and ends when one matches `ends` or
    the command ends.
    """

    arguments: list[str]
    begins: str
    left: Callable[[Path], Left]
    ends: str = "never"


class Outcome(NamedTuple):
    """A kill: seconds after the stage began, or its number among the changes of files, and the
    names of outputs that differ afterwards.
    """

    stage: str
    moment: float
    different: list[str]


def of_run(run: Path) -> Left:
    """The outputs of a finished run, without times."""
    result = json.loads((run / "result.json").read_text())
    predictions = {path.name: path.read_bytes() for path in (run / "predictions").iterdir()}
    curves = (run / "metrics.csv").read_text()
    return (
        {key: result[key] for key in ("metrics", "mix", "epochs")} | predictions | {"csv": curves}
    )


def of_store(run: Path) -> Left:
    """The outputs of a finished run, and the numbers in the files of its store."""
    files = (run / "cache" / "layers").glob("*/[!.]*")
    return of_run(run) | {
        f"{path.name} {name}": tensor.tobytes()
        for path in files
        for name, tensor in load_file(path).items()
    }


def of_vectors(run: Path) -> Left:
    """The data sets of an HDF5 file."""
    with h5py.File(run / "out" / "v.hdf5") as file:
        vectors = {name: file[name][()].tobytes() for name in file if name.isdigit()}
        return vectors | {"index": file["sentence_to_index"][0], "notes": {**file.attrs}}


def of_sweep(run: Path) -> Left:
    """The outputs of each run of a sweep, which may have begun in another folder."""
    results = run.glob("sweep/**/result.json")
    return {json.loads(path.read_text())["identity"]: of_run(path.parent) for path in results}


def of_files(run: Path) -> Left:
    """The files in `out`, without checkpoints and the model card's lines on command and time."""
    paths = (path for path in (run / "out").iterdir() if path.suffix != ".ckpt")
    contents = ((path.name, path.read_bytes()) for path in paths)
    return {
        name: [line for line in content.splitlines() if not line.startswith(TOLD)]
        for name, content in contents
    }


STAGES = {
    **{
        f"training {task}": Stage([f"task={task}", *TRAIN, *settings], "last.ckpt", of_run)
        for task, settings in TASKS.items()
    },
    **{
        f"training with {setting}": Stage(
            [*NER, "data.size=10", "fit.batch_size=8", f"+trainer.{setting}={value}"],
            "last.ckpt",
            of_run,
        )
        for setting, value in {"max_steps": 8, "val_check_interval": 0.5}.items()
    },
    "store": Stage(
        [*NER, "data.size=100", "fraction=0.05", "elmo.mix=[0,2]", "cache_dir={run}/cache"],
        "cache/layers/*",
        of_store,
        "cache/layers/*/layer2.safetensors",
    ),
    "pretraining": Stage(
        [*PRETRAIN, "out={run}/out", "cache_dir={run}/cache"], "out/pretrain.lock", of_files
    ),
    "adapt": Stage(
        [*ADAPT, "cache_dir={run}/cache"],
        "cache/adapted",
        of_run,
        "cache/adapted/*/adaptation.json",
    ),
    "embed": Stage(
        ["job=embed", "input={scratch}/text.txt", "output={run}/out/v.hdf5", "batch_tokens=256"],
        "out/*",
        of_vectors,
    ),
    "sweep": Stage(
        [
            *(*NER, "data.size=10", "seed=1,2", "hydra.sweep.dir={run}/sweep"),
            *("outputs_dir={run}/sweep", "hydra/launcher=processes", "hydra.launcher.n_jobs=2"),
            "--multirun",
        ],
        "sweep/0",
        of_sweep,
    ),
    "report": Stage(
        [*REPORT, "output=[{run}/out/r.html,{run}/out/r.csv,{run}/out/r.svg]"], "out", of_files
    ),
}
READERS = "eight processes on one store"
REPLACING = "replacing a finished run"
REPLACED = [*NER, "data.size=10"]
SEEDS = {"old": "seed=1", "new": "seed=2"}
# The events of Python with which a process changes the names of files; `open` may make one.
CHANGES = ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "open")


def main() -> None:
    """Kill commands, repeat them and print a table; the exit status is 1 if any outputs differ."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kills", description="Do killed commands end as undisturbed ones?"
    )
    parser.add_argument(
        "--kills", type=int, default=30, help="how many, shared among the stages (default: 30)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments (default: 1)")
    parser.add_argument(
        "--jobs", type=int, default=1, help="how many stages at a time (default: 1)"
    )
    parser.add_argument(
        "--stages",
        nargs="+",
        choices=[*STAGES, READERS, REPLACING],
        default=[*STAGES, READERS, REPLACING],
        metavar="STAGE",
        help=f"which (default: all of {', '.join([*STAGES, READERS, REPLACING])})",
    )
    parser.add_argument("--folder", help="where to keep all outputs (default: they are deleted)")
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload([*JOBS, "hydra.main", "elmo_bench.encoders.bilm"])
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(chosen.jobs) as pool:
        scratch = Path(chosen.folder or temporary)
        write_text(scratch / "text.txt")

        def kills(stage: str) -> list[Outcome]:
            count = len(range(chosen.stages.index(stage), chosen.kills, len(chosen.stages)))
            rng = random.Random(f"{chosen.seed} {stage}")
            if stage == READERS:
                outcomes = [
                    Outcome(stage, moment, different)
                    for moment, different in readers.killed(count, rng, scratch / "readers")
                ]
            elif stage == REPLACING:
                outcomes = [*replaced(count, scratch / "replacing")]
            else:
                outcomes = [*killed(stage, count, rng, scratch)]
            equal = sum(not outcome.different for outcome in outcomes)
            Console(stderr=True).print(f"{stage}: {len(outcomes)} kills, {equal} ended equal")
            return outcomes

        if "report" in chosen.stages:  # it reads the runs of the sweep
            undisturbed("sweep", scratch)
        outcomes = [outcome for of_one in pool.map(kills, chosen.stages) for outcome in of_one]
    Console(width=100).print(table(outcomes))
    for outcome in (outcome for outcome in outcomes if outcome.different):
        Console().print(f"{outcome.stage}, {outcome.moment:.2f}: {outcome.different}")
    sys.exit(1 if any(outcome.different for outcome in outcomes) else 0)


def write_text(path: Path) -> None:
    """Write 400 sentences of many word types for job=embed: a biLM computes a new type together
    with others of its batch, whose number changes its last bits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    words = [f"w{number**2}" for number in range(3000)]
    lines = (rng.choices(words, k=k % 30) for k in range(400))
    path.write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")


@cache
def undisturbed(stage: str, scratch: Path) -> tuple[float, Left]:
    """The seconds that a stage takes undisturbed, and the outputs, which stay in its folder."""
    run = scratch / stage / "undisturbed"
    shutil.rmtree(run, ignore_errors=True)  # of an earlier command with this --folder
    process = start(stage, run, scratch)
    wait_for(STAGES[stage].begins, process, run)
    begun = time.perf_counter()
    wait_for(STAGES[stage].ends, process, run)
    seconds = time.perf_counter() - begun
    process.join()
    if process.exitcode:
        raise SystemExit(f"{stage}: it failed undisturbed: {(run / 'output.txt').read_text()}")
    return seconds, STAGES[stage].left(run)


def killed(stage: str, count: int, rng: random.Random, scratch: Path) -> Iterator[Outcome]:
    """Run a stage `count` times, kill each run once at a random moment, and repeat its command."""
    seconds, expected = undisturbed(stage, scratch)
    number = 0
    while number < count:
        run, moment = scratch / stage / str(number), rng.uniform(0, seconds)
        process = start(stage, run, scratch)
        wait_for(STAGES[stage].begins, process, run)
        time.sleep(moment)
        with suppress(ProcessLookupError):
            os.kill(rng.choice(family(process)), signal.SIGKILL)
        process.join()
        if process.exitcode == 0:  # it ended before the kill: try again
            shutil.rmtree(run)
            continue
        number += 1
        again = start(stage, run, scratch)
        again.join()
        if again.exitcode:
            yield Outcome(stage, moment, [f"it fails: {run}/output.txt"])
            continue
        names = different(STAGES[stage].left(run), expected)
        if not names:
            shutil.rmtree(run)
        yield Outcome(stage, moment, names)


def replaced(count: int, scratch: Path) -> Iterator[Outcome]:
    """Let a run replace a finished one `count` times, each killed before another of its changes of
    files, evenly spread, and repeat its command.
    """
    runs = {}
    for name, seed in SEEDS.items():
        replace_in(scratch / name, seed, scratch, resume=False)
        runs[name] = of_run(scratch / name)
    replace_in(copied(scratch), SEEDS["new"], scratch, resume=False)
    total = int((scratch / "changes").read_text())
    Console(stderr=True).print(f"{REPLACING}: {total} changes of files")
    for number in range(count):
        step, run = total * (2 * number + 1) // (2 * count), copied(scratch)
        code = replace_in(run, SEEDS["new"], scratch, resume=False, step=step)
        wrong = [] if code == -signal.SIGKILL else [f"it was not killed, but ended with {code}"]
        finished = collect([run])
        if len(finished) != 1:
            wrong.append(f"{len(finished)} finished runs")
        elif not any(is_whole(finished[0].folder, expected) for expected in runs.values()):
            wrong.append(f"{finished[0].folder} is not whole")
        # With resume=true it goes on, if it had begun; else the finished run is of another seed.
        code = replace_in(run, SEEDS["new"], scratch, resume=(run / "last.ckpt").is_file())
        is_only_one = [one.folder for one in collect([run])] == [run]
        has_more = any((run / name).exists() for name in ("last.ckpt", "replaced"))
        if code or has_more or not is_only_one or not is_whole(run, runs["new"]):
            wrong.append("the repeated command does not end as the undisturbed one")
        if wrong:
            run.rename(scratch / f"step {step}")
        yield Outcome(REPLACING, step, wrong)


def copied(scratch: Path) -> Path:
    """A copy of the old run, at one place: its counts of changes must be comparable."""
    shutil.rmtree(scratch / "run", ignore_errors=True)
    return Path(shutil.copytree(scratch / "old", scratch / "run"))


def replace_in(
    run: Path, seed: str, scratch: Path, *, resume: bool, step: int | None = None
) -> int:
    """Train in a folder, and return the exit status; the process is killed before the change of
    files number `step` in the folder. An undisturbed one writes how many there were.
    """
    run.mkdir(parents=True, exist_ok=True)
    arguments = [*REPLACED, seed, f"resume={str(resume).lower()}", f"hydra.run.dir={run}"]
    arguments += [f"cache_dir={scratch}/cache"]
    process = multiprocessing.Process(target=counting, args=(arguments, run, scratch, step))
    process.start()
    process.join()
    return process.exitcode or 0


def counting(arguments: list[str], run: Path, scratch: Path, step: int | None) -> None:
    """Run a command in this process, and count its changes of files in a folder."""
    changes = 0

    def see(event: str, about: tuple) -> None:
        nonlocal changes
        if not is_change(event, about, run):
            return
        if changes == step:
            os.kill(os.getpid(), signal.SIGKILL)
        changes += 1

    sys.addaudithook(see)
    command(arguments, scratch / "output.txt")
    (scratch / "changes").write_text(str(changes))


def is_change(event: str, about: tuple, folder: Path) -> bool:
    """Whether an event that Python tells its audit hooks, before it happens, changes the name of a
    file below a folder.
    """
    if event not in CHANGES:
        return False
    if event == "open" and not about[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return False
    path, where = str(about[0]), about[-1]
    if event in ("os.remove", "os.rmdir") and where >= 0:  # of shutil.rmtree: relative to a folder
        path = f"{Path(f'/proc/self/fd/{where}').readlink()}/{path}"
    return path.startswith(str(folder))


def is_whole(run: Path, expected: Left) -> bool:
    """Whether a folder has all files of a finished run, with the expected figures and curves."""
    try:
        load(run / "best.ckpt")
        return (run / "counts").is_dir() and of_run(run) == expected
    except (OSError, ValueError):
        return False


def different(left: Left, expected: Left) -> list[str]:
    """The names of outputs that differ."""
    names = sorted(expected.keys() | left.keys())
    return [name for name in names if left.get(name) != expected.get(name)]


def start(stage: str, run: Path, scratch: Path) -> BaseProcess:
    """Start the command of a stage in a new process."""
    (run / "out").mkdir(parents=True, exist_ok=True)
    folders = [] if stage == "report" else [f"hydra.run.dir={run}", f"cache_dir={scratch}/cache"]
    arguments = [argument.format(run=run, scratch=scratch) for argument in STAGES[stage].arguments]
    process = multiprocessing.Process(
        target=command, args=([*folders, *arguments], run / "output.txt")
    )
    process.start()
    return process


def command(arguments: list[str], output: Path) -> None:
    """Run `python run.py ARGUMENTS` in this process."""
    with output.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    sys.argv = ["run.py", *arguments]
    runpy.run_path("run.py", run_name="__main__")


def family(process: BaseProcess) -> list[int]:
    """The process ids of a command and its descendants, such as the runs of a sweep."""
    family = [process.pid or 0]
    for member in family:  # grows in the loop
        for listed in Path(f"/proc/{member}/task").glob("*/children"):
            with suppress(OSError):  # it has just ended
                family += map(int, listed.read_text().split())
    return family


def wait_for(pattern: str, process: BaseProcess, run: Path) -> None:
    """Wait until a file below the run's folder matches the pattern, or the process has ended."""
    while process.is_alive() and not any(run.glob(pattern)):
        time.sleep(0.01)


def table(outcomes: list[Outcome]) -> Table:
    """A row for each stage: the number of kills, and of those with equal and unequal outputs."""
    shown = Table("stage", "kills", "equal", "unequal")
    for stage in [*dict.fromkeys(outcome.stage for outcome in outcomes), "all"]:
        rows = [outcome for outcome in outcomes if stage in (outcome.stage, "all")]
        unequal = sum(bool(outcome.different) for outcome in rows)
        shown.add_row(stage, *map(str, (len(rows), len(rows) - unequal, unequal)))
    return shown


if __name__ == "__main__":
    main()
