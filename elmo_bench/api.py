"""What a notebook calls, with the settings, defaults, checks and messages of the command line.

Hydra's global state, which a notebook may use for configs of its own, is left as it was.
"""

import json
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobRuntime
from hydra.types import RunMode
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf

from elmo_bench import CONF
from elmo_bench.files import write_json, write_text
from elmo_bench.report import SETTINGS, Tables, as_list, build_tables
from elmo_bench.runs import (
    OVERRIDES,
    Run,
    collect,
    flat_mix,
    leaves_error,
    read_run,
    run_folders,
    settings_folder,
    text,
)
from elmo_bench.settings.check import check, expand_home
from elmo_bench.settings.command import as_run, quoted
from elmo_bench.settings.earlier import earlier_run
from elmo_bench.settings.hydra_private import OF_VERSION, singletons

# What Hydra keeps for a process.
GLOBALS: tuple[type, ...] = (GlobalHydra, HydraConfig, JobRuntime, VersionBase)
Paths = str | Path | Sequence[str | Path]


def compose(*settings: str) -> DictConfig:
    """Return the settings of a command. Nothing is run.

    Args:
        settings: As on the command line, such as "task=ner".

    Returns:
        All settings, with their defaults.

    Raises:
        ValueError: A setting is wrong; the message has a line for each.
        HydraException: A key or an option does not exist.

    >>> cfg = compose("task=ner", "encoder=mini", "elmo.l2=0.01")
    >>> cfg.elmo.mix, cfg.elmo.l2, cfg.encoder.name
    ('all', 0.01, 'mini')
    """
    with _command(settings) as cfg:
        return cfg


def train(*settings: str) -> Run:
    """Train a model and score its best epoch on dev and test, as `python run.py SETTING ...` does.

    Args:
        settings: As on the command line. The run gets a new folder below `outputs`, or replaces
            the run in `run_dir=FOLDER` when it has finished; until then that one is in
            FOLDER/replaced. `resume=true` returns an earlier run of these settings that finished,
            continues one that did not, and refuses a folder with a run of other settings.

    Returns:
        The finished run. Its `metrics` are fractions of 1; its `mix` has the weights of the layers
        at each place; its `folder` has best.ckpt, result.json, metrics.csv and predictions/.

    Raises:
        ValueError: A setting is wrong, or the content of a file. If training fails, the folder's
            error.txt has the traceback.
        OSError: A file is missing.

    Example::

        run = train("task=ner", "encoder=mini", "data.size=40", "fit.max_epochs=2")
        run.metrics["test/f1"], run.mix["input"]["shares"][1]  # the share of layer 1
    """
    from elmo_bench.jobs.train import train as job  # imports torch

    with _command(settings, "train") as cfg, _model_job(cfg), leaves_error(cfg.run_dir):
        folder = Path(cfg.run_dir)
        command = folder / settings_folder(folder) / OVERRIDES.name  # for reports
        command.parent.mkdir(parents=True, exist_ok=True)
        write_json(command, settings)  # JSON is YAML
        job(cfg)
    ended = folder / "result.json"
    # With resume=true it may be the run that another one is to replace.
    return read_run(ended if ended.is_file() else folder / "replaced" / "result.json")


def predict(
    checkpoint: str | Path, examples: Sequence[str | Mapping[str, Any]], *settings: str
) -> list[dict[str, Any]]:
    """Label examples with a trained model.

    Args:
        checkpoint: The best.ckpt of a run.
        examples: Texts, or mappings with the keys that the task needs: {"tokens": [...]} for a
            tagger, {"question": ..., "context": ...} for question answering.
        settings: Those of `job=predict`, as on the command line.

    Returns:
        One answer for each example, in order; of a tagger {"tokens": [...], "tags": [...]}.

    Raises:
        ValueError: The file is no checkpoint of elmo-bench, or an example lacks a key.

    Example::

        predict("outputs/ner/best.ckpt", ["Morin opened a brewery in Oslo ."])
    """
    from elmo_bench.jobs.predict import predict as job  # imports torch

    records = [{"text": one} if isinstance(one, str) else dict(one) for one in examples]
    if not records:
        return []
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "input.jsonl")
        labelled = Path(folder, "output.jsonl")
        write_text(given, "".join(f"{json.dumps(one)}\n" for one in records))
        command = ["job=predict", f"checkpoint={quoted(checkpoint)}"]
        command += [f"input={quoted(given)}", f"output={quoted(labelled)}"]
        command += settings
        with _command(command) as cfg, _model_job(cfg):
            job(cfg)
        with labelled.open(encoding="utf-8") as file:  # str.splitlines would split words at U+2028
            answers = [json.loads(line) for line in file]
    for answer in answers:
        answer.pop("line", None)
    return answers


def read_runs(runs: Paths = "outputs") -> list[dict[str, Any]]:
    """Read finished runs, for a data frame.

    Args:
        runs: A folder with runs at any depth, an archive of `job=archive`, or a list of these.

    Returns:
        A flat record for each run, in the order of their paths: its folder, its metrics (fractions
        of 1), its mix, its cost ("seconds.total", "parameters.trainable"), and each setting by its
        dotted key, a list as text.

    Raises:
        FileNotFoundError: A folder has no finished run.
        ValueError: A file is damaged.

    Example::

        pandas.DataFrame(read_runs("outputs")).pivot_table("test/f1", "task.name", "encoder.name")
    """
    cache_dir = compose("job=report").cache_dir  # where archives are unpacked
    records: list[dict[str, Any]] = []
    for run in collect(run_folders(as_list(runs), cache_dir)):
        record: dict[str, Any] = {"folder": str(run.folder)} | run.metrics | flat_mix(run.mix)
        record |= {f"seconds.{key}": value for key, value in run.seconds.items()}
        record |= {f"parameters.{key}": value for key, value in run.parameters.items()}
        for key, value in run.settings.items():
            record[key] = text(value) if isinstance(value, tuple) else value
        records.append(record)
    return records


def compare(runs: Paths = "outputs", **settings: Any) -> Tables:
    """Compare finished runs: means over seeds, differences from a baseline, significance tests.

    Args:
        runs: As in `read_runs`.
        settings: Those of `job=report`, such as `rows`, `columns`, `baseline` and `where`; `python
            run.py job=report --help` describes them.

    Returns:
        Tables, which a notebook shows as HTML; `.records()` returns the numbers.

    Raises:
        FileNotFoundError: A folder has no finished run.
        ValueError: A file is damaged, a setting is unknown, no run has a key, the baseline is not a
            column, or runs of one cell differ in more than their seed.

    Example::

        compare("outputs", rows="task", columns="encoder", baseline="none")
    """
    unknown = settings.keys() - set(SETTINGS) - {"tables"}
    if unknown:
        raise ValueError(
            f"{min(unknown)}: no such setting; there are {', '.join(SETTINGS)}, tables"
        )
    defaults: Any = OmegaConf.to_container(compose("job=report"), resolve=True)
    return Tables(build_tables(defaults | {"runs": runs} | settings))


@contextmanager
def _command(settings: Sequence[str], job: str = "") -> Iterator[DictConfig]:
    """The checked config of these settings; within, Hydra takes it for the one that runs.

    Raises ValueError for a wrong setting, and for another job than `job`, if it is given.
    """
    instances = singletons()
    before = {kind: instances.pop(kind) for kind in GLOBALS if kind in instances}
    try:
        with hydra.initialize_config_dir(str(CONF), **OF_VERSION):
            whole = hydra.compose("config", list(settings), return_hydra_config=True)
        check(whole)
        if job and whole.job.name != job:
            raise ValueError(
                f"job={whole.job.name}: {job} runs job={job}; others run on the command line"
            )
        if whole.hydra.mode == RunMode.MULTIRUN:
            raise ValueError(
                f"{' '.join(settings)}: a sweep starts several runs, which only the command line "
                "does; in Python, write a loop"
            )
        expand_home(whole)
        folder = earlier_run(whole)
        if folder:
            whole.hydra.run.dir = str(folder)
        with as_run(whole) as cfg:
            yield cfg
    finally:
        for kind in GLOBALS:
            instances.pop(kind, None)
        instances.update(before)


@contextmanager
def _model_job(cfg: DictConfig) -> Iterator[None]:
    """Numbers as on the command line; an interrupt ends the cell, and not Python.

    Lightning leaves torch in its deterministic mode, and it answers an interrupt with the end of
    the process, after which interrupts are ignored.
    """
    import torch

    from elmo_bench.build import process

    process.prepare(tf32=cfg.tf32, deterministic=bool(cfg.trainer.deterministic))
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        torch.use_deterministic_algorithms(is_deterministic)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
