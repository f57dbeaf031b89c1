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
from hydra.core.singleton import Singleton
from hydra.core.utils import JobRuntime
from hydra.types import RunMode
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf

from elmo_bench import CONF
from elmo_bench.config.check import check, expand_home
from elmo_bench.config.inputs import as_run, quoted
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
    text,
)

# What Hydra keeps for a process.
GLOBALS: tuple[type, ...] = (GlobalHydra, HydraConfig, JobRuntime, VersionBase)
Paths = str | Path | Sequence[str | Path]


def compose(*settings: str) -> DictConfig:
    """Return the config of a command, with settings as on the command line. Nothing is run.

    Raises ValueError, with a line for each setting that is wrong, and
    `hydra.errors.HydraException` for a key or an option that does not exist.

    >>> cfg = compose("task=ner", "encoder=mini", "elmo.l2=0.01")
    >>> cfg.elmo.mix, cfg.elmo.l2, cfg.encoder.name
    ('all', 0.01, 'mini')
    """
    with _command(settings) as cfg:
        return cfg


def train(*settings: str) -> Run:
    """Train a model, measure its best epoch on dev and test, and return the finished run.

    This is `python run.py SETTING ...`; several seeds are a loop. The run has a new folder below
    `outputs`, or that of `run_dir=FOLDER`, in which an earlier run is replaced or, with
    `resume=true`, continued. Its `folder` holds `best.ckpt`, `result.json`, `metrics.csv` and
    `predictions/`; `metrics` are fractions of 1; `mix` is what the mix at each place has learned.

    Raises what `compose` raises, and ValueError or OSError for a file that is missing or wrong. A
    run that fails leaves the traceback in its folder's error.txt, as a command's does.

    Example::

        run = train("task=ner", "encoder=mini", "data.size=40", "fit.max_epochs=2")
        run.metrics["test/f1"], run.mix["input"]["shares"][1]  # the share of layer 1
    """
    from elmo_bench.jobs.train import train as job  # imports torch

    with _command(settings) as cfg, _model_job(cfg), leaves_error(cfg.run_dir):
        overrides = Path(cfg.run_dir, OVERRIDES)  # the run's command, for reports
        overrides.parent.mkdir(parents=True, exist_ok=True)
        write_json(overrides, settings)  # JSON is YAML
        job(cfg)
        folder = Path(cfg.run_dir)
    return read_run(folder / "result.json")


def predict(
    checkpoint: str | Path, examples: Sequence[str | Mapping[str, Any]], *settings: str
) -> list[dict[str, Any]]:
    """Label examples with a trained model: one answer for each example, in order.

    `checkpoint` is the `best.ckpt` of a run. An example is a text, or an object with the keys that
    the task needs: `{"tokens": [...]}` for a tagger, `{"question": ..., "context": ...}` for
    question answering. A tagger's answer is `{"tokens": [...], "tags": [...]}`. `settings` are
    those of `job=predict`.

    Raises ValueError for a file that is not a checkpoint of elmo-bench, or for an example that
    lacks a key.

    Example::

        predict("outputs/ner/best.ckpt", ["Morin opened a brewery in Oslo ."])
    """
    from elmo_bench.jobs.predict import predict as job  # imports torch

    records = [{"text": one} if isinstance(one, str) else dict(one) for one in examples]
    if not records:
        return []
    with tempfile.TemporaryDirectory() as folder:
        given, labelled = Path(folder, "input.jsonl"), Path(folder, "output.jsonl")
        write_text(given, "".join(f"{json.dumps(one)}\n" for one in records))
        files = {"checkpoint": checkpoint, "input": given, "output": labelled}
        chosen = [f"{key}={quoted(path)}" for key, path in files.items()]
        with _command(["job=predict", *chosen, *settings]) as cfg, _model_job(cfg):
            job(cfg)
        with labelled.open(encoding="utf-8") as file:  # str.splitlines would split words at U+2028
            answers = [json.loads(line) for line in file]
    return [{key: value for key, value in one.items() if key != "line"} for one in answers]


def read_runs(runs: Paths = "outputs") -> list[dict[str, Any]]:
    """Return a flat record for each finished run, in the order of their paths.

    `runs` is a folder with runs at any depth, an archive that `job=archive` wrote, or a list of
    these. A record has the run's folder, its metrics and its mix, its cost (`seconds.total`,
    `parameters.trainable`), and every setting under its dotted key, a list of values as text.

    Raises FileNotFoundError for a folder without a result, and ValueError for a damaged file.

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
    """Set finished runs side by side: means over seeds, differences to a baseline, tests of
    significance.

    `runs` is as in `read_runs`, and the settings (`rows`, `columns`, `baseline`, `where`, ...) are
    those of `job=report`, which conf/job/report.yaml explains. In a notebook the answer shows
    itself as HTML tables; `records()` has its figures.

    Raises what `read_runs` raises, and ValueError for another setting, a key that no run has, a
    baseline that is no column, or runs in one cell that differ in more than their seed.

    Example::

        compare("outputs", rows="task", columns="encoder", baseline="none")
    """
    if unknown := settings.keys() - {*SETTINGS, "tables"}:
        raise ValueError(
            f"{min(unknown)}: no such setting; there are {', '.join(SETTINGS)}, tables"
        )
    defaults: Any = OmegaConf.to_container(compose("job=report"), resolve=True)
    return Tables(build_tables(defaults | {"runs": runs} | settings))


@contextmanager
def _command(settings: Sequence[str]) -> Iterator[DictConfig]:
    """The checked config of these settings; within, Hydra takes it for the one that runs."""
    instances = Singleton._instances
    before = {kind: instances.pop(kind) for kind in GLOBALS if kind in instances}
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            whole = hydra.compose("config", [*settings], return_hydra_config=True)
        check(whole)
        if whole.hydra.mode == RunMode.MULTIRUN:
            raise ValueError(
                f"{' '.join(settings)}: a sweep starts several runs, which only the command line "
                "does; in Python, write a loop"
            )
        expand_home(whole)
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

    from elmo_bench.config import process

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
