"""`job=diff`: compare two runs: settings, figures, and the examples on which they differ."""

import logging
import re
from collections.abc import Hashable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench.config import inputs, trusted
from elmo_bench.files import listed, write_text
from elmo_bench.report import difference as differences
from elmo_bench.report.difference import Difference
from elmo_bench.report.write import check_format
from elmo_bench.runs import (
    Counts,
    Run,
    below,
    counted,
    hash_files,
    number_of,
    read_counts,
    read_run,
)
from elmo_bench.text import label_map, tags_to_spans

log = logging.getLogger(__name__)
OWN = {".html": f'<!DOCTYPE html>.*"{differences.GENERATOR}"'}  # begins a page of ours
TAG = re.compile("O|[BI]-.+")
# Errors from reading the corpus of a run of another machine.
NOT_HERE = (ValueError, OSError, ImportError, TypeError, AttributeError, KeyError)


def diff(cfg: DictConfig) -> None:
    """Write all differences to the page `output`, and print them with the first `limit` examples.

    Raises FileNotFoundError or ValueError if `a` or `b` is not a run, lacks the counts of `split`,
    or was evaluated on other examples than the other run.
    """
    output, difference = check(cfg)
    if output:
        write_text(output, differences.as_page(difference))
        log.info("written: %s", output)
    # Print last: if the reader closes the pipe (`| head`), the process ends here.
    differences.show(Console(emoji=False), difference, cfg.limit)


def check(cfg: DictConfig) -> tuple[Path | None, Difference]:
    """Return the file to write, if any, and what it will say."""
    output = None if cfg.output is None else Path(cfg.output)
    if output:
        check_format(output, OWN)
    a, b = (_run(key, Path(cfg[key])) for key in "ab")
    _check_alike(a, b, cfg.split)
    metric = cfg.metric or a.config["task"]["monitor"]
    ours, theirs = (_counts(run, cfg.split, metric) for run in (a, b))
    if not np.array_equal(ours.sentences, theirs.sentences):
        raise ValueError(
            f"a={a.folder} and b={b.folder} were evaluated on different {cfg.split} examples"
        )
    texts, note = [], ""
    try:
        texts = _texts(cfg, (a, b), ours)
    except NOT_HERE as error:
        note = f"Words and predictions are omitted, since {error}"
    scores = differences.scores(ours.rows), differences.scores(theirs.rows)
    return output, Difference((a, b), cfg.split, metric, scores, texts, note)


def _run(key: str, folder: Path) -> Run:
    if (path := folder / "result.json").is_file():
        return read_run(path)
    why = "no finished run" if folder.is_dir() else "no such folder"
    raise FileNotFoundError(f"{key}={folder}: {why}; give the folder with the result.json of one")


def _check_alike(a: Run, b: Run, split: str) -> None:
    """Raise ValueError for the same run twice, or runs of different tasks, corpora or labels."""
    sides = f"a={a.folder} and b={b.folder}"
    if a.folder.resolve() == b.folder.resolve():
        raise ValueError(f"{sides} are the same run")
    ours, theirs = (_of_examples(run, split) for run in (a, b))
    if differing := sorted({key for key, _ in ours.items() ^ theirs.items()}):
        raise ValueError(
            f"{sides} differ in {listed(differing)}, so their examples cannot be compared; "
            "job=report compares such runs"
        )


def _of_examples(run: Run, split: str) -> dict[str, Hashable]:
    """Return the settings that say which examples a run was evaluated on, and what is right."""
    read = f"task.read.{_read_as(run, split)}", f"data.read.{run.task}.{split}"
    keys = ("task.name", "data.name", "data.labels", *read, f"inputs.data.{split}")
    return {
        key.replace(read[0], f"task.read.{split}"): value
        for key, value in run.settings.items()
        if below(key, keys)
    }


def _read_as(run: Run, split: str) -> str:
    """Return the split whose `task.read` a run used: job=evaluate reads any split as test."""
    return "test" if str(run.settings.get("job._target_")).endswith(".evaluate") else split


def _data(run: Run) -> dict[str, Any]:
    return run.config.get("data") or {}


def _options(run: Run, split: str) -> dict[str, Any]:
    """Return the arguments of the task's `read`."""
    of_task = run.config["task"].get("read") or {}
    of_corpus = (_data(run).get("read") or {}).get(run.task) or {}
    return (of_task.get(_read_as(run, split)) or {}) | (of_corpus.get(split) or {})


def _counts(run: Run, split: str, metric: str) -> Counts:
    """Return a run's counts per example; raises ValueError if it has none of the metric."""
    path = run.folder / "counts" / f"{split}.npz"
    if (counts := read_counts(path, metric)) is not None:
        return counts
    there = f"only of {listed(counted(path))}" if path.is_file() else "there is no such file"
    raise ValueError(
        f"{path} has no counts per example of metric={metric}: {there}; job=evaluate "
        f"checkpoint=RUN/best.ckpt split={split} writes those of task.monitor into another run"
    )


def _texts(cfg: DictConfig, runs: tuple[Run, Run], counts: Counts) -> list[list[str]]:
    """Return the texts of all examples.

    Nothing is downloaded. Raises one of `NOT_HERE` if the corpus or predictions are missing, or
    are not those of the counts.
    """
    for key, run in zip("ab", runs, strict=True):
        _check_foreign(run, f"{key}={run.folder}")
    task = import_module(runs[0].config["task"]["data"])
    examples = _examples(cfg, runs[0], task)
    if [number_of(example.sentences) for example in examples] != counts.sentences.tolist():
        raise ValueError(f"the corpus does not contain the {len(counts.sentences):,} examples")
    gold = [example.gold for example in examples]
    predictions = [_predictions(run, cfg.split, task, examples) for run in runs]
    return [*map(_text, examples, zip(gold, *predictions, strict=True))]


def _text(example: Any, answers: Sequence[Any]) -> list[str]:
    """Return where an example stands, its words, and what gold and the runs say, first what not all
    of them have.
    """
    words = [word for sentence in example.sentences for word in sentence]
    labels = [in_words(answer, words) for answer in answers]
    shared = set.intersection(*map(set, labels))
    said = ["; ".join(sorted(each, key=shared.__contains__)) or "nothing" for each in labels]
    return [Path(example.source).name, " | ".join(map(" ".join, example.sentences)), *said]


def _check_foreign(run: Run, source: str) -> None:
    """Raise ValueError unless the run's config names only known tasks, corpora and plain values.

    The run may come from a stranger, so this check precedes any import or read from its config.
    """
    config = run.config
    trusted.check_plain([config["task"], _data(run), config.get("data_dir")], source)
    trusted.check_task(config["task"], source)


def _examples(cfg: DictConfig, run: Run, task: ModuleType) -> list[Any]:
    """Return the examples of the corpus that a run was evaluated on."""
    path, digest = _file(cfg, run), run.inputs.get(f"data.{cfg.split}")
    if digest not in (None, hash_files({cfg.split: path})[cfg.split]):
        raise ValueError(f"{path} is not the file that a={run.folder} was evaluated on")
    examples = list(task.read(path, **_options(run, cfg.split)))
    if names := _data(run).get("labels"):
        gold = label_map(names).gold
        examples = [task.relabel(example, gold) for example in examples]
    return examples


def _file(cfg: DictConfig, run: Run) -> Path:
    """Return the corpus's file of the split, from the data_dir of the command line, else of the
    run.
    """
    run_cfg, data, chosen = cfg.copy(), _data(run), run.groups.get("data", "")
    OmegaConf.set_struct(run_cfg, False)
    run_cfg.task = run.config["task"]
    if "data_dir" not in inputs.overridden(cfg):
        run_cfg.data_dir = run.config.get("data_dir") or cfg.data_dir
    is_option = chosen in trusted.options("data") and chosen != "checkpoint"
    data = data | {"option": chosen if is_option else data["name"]}
    run_cfg.data = trusted.corpus(run_cfg, data, f"a={run.folder}")
    run_cfg.data.downloads = {}
    return inputs.corpus(run_cfg, [cfg.split])[cfg.split]


def _predictions(run: Run, split: str, task: ModuleType, examples: Sequence[Any]) -> list[Any]:
    path = run.folder / "predictions" / f"{split}{run.config['task']['suffix']}"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: run job=evaluate checkpoint=RUN/best.ckpt split={split} and "
            "compare the folder that it writes"
        )
    return list(task.read_predictions(path, examples))


def in_words(answer: Any, words: Sequence[str]) -> list[str]:
    """Return gold or predicted labels as texts.

    `answer` is a class, an answer, several answers, IOB2 tags (shown as chunks), other tags of
    words, or clusters of mentions.

    >>> in_words(["B-PER", "I-PER", "O", "B-LOC"], ["Ann", "Lee", "in", "Rome"])
    ['PER: Ann Lee', 'LOC: Rome']
    >>> in_words([[(0, 1), (3, 3)]], ["Ann", "Lee", "says", "she"])
    ['Ann Lee = she']
    >>> in_words("neutral", ["Rain"])
    ['neutral']
    """
    if isinstance(answer, str):
        return [answer]
    if hasattr(answer, "text"):
        return [str(answer.text)]
    if all(isinstance(item, str) for item in answer):
        if len(answer) != len(words):
            return list(dict.fromkeys(answer))
        if all(map(TAG.fullmatch, answer)):
            spans = tags_to_spans(answer)
            return [f"{s.label}: {' '.join(words[s.start : s.end + 1])}" for s in spans]
        return [f"{word}/{tag}" for word, tag in zip(words, answer, strict=True)]
    return [
        " = ".join(" ".join(words[first : last + 1]) for first, last in cluster)
        for cluster in answer
    ]
