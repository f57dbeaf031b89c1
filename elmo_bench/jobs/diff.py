"""`job=diff`: compare two runs: settings, figures, and the examples on which they differ."""

import logging
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench.config import inputs, trusted
from elmo_bench.files import find_files, listed, write_text
from elmo_bench.report import difference as differences
from elmo_bench.report.difference import Difference, ExampleText
from elmo_bench.report.write import check_format
from elmo_bench.runs import Counts, Run, counted, hash_files, number_of, read_counts, read_run
from elmo_bench.text import label_map, named, tags_to_spans

log = logging.getLogger(__name__)
FORMATS = {
    ".html": differences.as_page,
    ".md": differences.as_markdown,
    ".json": differences.as_json,
}
OWN = {  # the beginning of a file of ours
    ".html": f'<!DOCTYPE html>.*"{differences.GENERATOR}"',
    ".md": f"# [^\\n]*{differences.ABOUT}",
    ".json": f'\\{{\\s*"generator": "{differences.GENERATOR}"',
}
TAG = re.compile("O|[BI]-.+")
# Errors from reading the corpus of a run of another machine.
NOT_HERE = (ValueError, OSError, ImportError, TypeError, AttributeError, KeyError)


class Side(NamedTuple):
    """A run and its key on the command line, `a` or `b`."""

    key: str
    run: Run

    def __str__(self) -> str:
        return f"{self.key}={self.run.folder}"


def diff(cfg: DictConfig) -> None:
    """Write all differences to `output`, and print them with the first `limit` examples.

    Raises FileNotFoundError or ValueError if `a` or `b` is not a run, lacks the counts of `split`,
    or was evaluated on other examples than the other run.
    """
    output, difference = check(cfg)
    if output:
        write_text(output, FORMATS[output.suffix](differences.shared(difference)))
        log.info("written: %s", output)
    # Print last: if the reader closes the pipe (`| head`), the process ends here.
    differences.show(Console(emoji=False), difference, cfg.limit)


def check(cfg: DictConfig) -> tuple[Path | None, Difference]:
    """Return the file to write, if any, and what it will say."""
    output = None if cfg.output is None else Path(cfg.output)
    if output:
        check_format(output, OWN)
    sides = [Side(key, _run(key, Path(cfg[key]))) for key in "ab"]
    _check_alike(sides, cfg.split)
    metric = cfg.metric or sides[0].run.config["task"]["monitor"]
    counts = [_counts(side, cfg.split, metric) for side in sides]
    if not np.array_equal(counts[0].sentences, counts[1].sentences):
        raise ValueError(
            f"{sides[0]} and {sides[1]} were evaluated on different {cfg.split} examples"
        )
    texts, notes = _texts(cfg, sides, counts[0])
    runs = sides[0].run, sides[1].run
    scores = differences.scores(counts[0].rows), differences.scores(counts[1].rows)
    return output, Difference(runs, cfg.split, metric, scores, texts, notes)


def _run(key: str, folder: Path) -> Run:
    path = folder / "result.json"
    if path.is_file():
        return read_run(path)
    if below := find_files(folder, "result.json"):
        raise ValueError(
            f"{key}={folder} is not a run, but contains {len(below)}: give the folder of "
            f"one, such as {key}={below[0].parent}"
        )
    why = "no finished run" if folder.is_dir() else "no such folder"
    raise FileNotFoundError(f"{key}={folder}: {why}; the folder of a run contains a result.json")


def _check_alike(sides: Sequence[Side], split: str) -> None:
    """Raise ValueError for the same run twice, or runs of different tasks, corpora or labels."""
    a, b = sides
    if a.run.folder.resolve() == b.run.folder.resolve():
        raise ValueError(f"{a} and {b} are the same run")
    for description, value in (
        ("tasks", lambda run: run.task),
        ("corpora", lambda run: _data(run).get("name")),
        (f"{split} files", lambda run: run.inputs.get(f"data.{split}", "")[:12]),
        ("data.labels", lambda run: _data(run).get("labels")),
        ("labels (task.read, data.read)", lambda run: _options(run, split)),
    ):
        values = [value(side.run) for side in sides]
        if values[0] != values[1]:
            raise ValueError(
                f"{a} and {b} are runs of different {description}, {values[0]} and {values[1]}, so "
                "their examples cannot be compared; use job=report to compare such runs"
            )


def _data(run: Run) -> dict[str, Any]:
    return run.config.get("data") or {}


def _options(run: Run, split: str) -> dict[str, Any]:
    """Return the arguments of the task's `read`; job=evaluate reads any split as test."""
    is_evaluation = str(run.settings.get("job._target_")).endswith(".evaluate")
    of_task = run.config["task"].get("read") or {}
    of_corpus = (_data(run).get("read") or {}).get(run.task) or {}
    as_split = "test" if is_evaluation else split
    return (of_task.get(as_split) or {}) | (of_corpus.get(split) or {})


def _counts(side: Side, split: str, metric: str) -> Counts:
    """Return a run's counts per example.

    Raises ValueError if they lack the metric, FileNotFoundError if there is no file.
    """
    path = side.run.folder / "counts" / f"{split}.npz"
    if (counts := read_counts(path, metric)) is not None:
        return counts
    if path.is_file():
        raise ValueError(
            f"metric={metric}: {path} has no counts of it, only of "
            f"{', '.join(counted(path))}; the default is task.monitor"
        )
    other_splits = listed(other.stem for other in sorted(path.parent.glob("*.npz")))
    available = f"it has those for {other_splits} (split=...)" if other_splits else "it has none"
    raise FileNotFoundError(
        f"{side}: no counts/{split}.npz with the counts per example: {available}; run job=evaluate "
        f"checkpoint=RUN/best.ckpt split={split} and compare the folder that it writes"
    )


def _texts(
    cfg: DictConfig, sides: Sequence[Side], counts: Counts
) -> tuple[list[ExampleText], list[str]]:
    """Return all examples as texts, and notes on missing texts with the reasons."""
    reasons: list[str] = []
    for side in sides:  # either run may locate the corpus
        try:
            task, examples = _examples(cfg, side, counts)
            break
        except NOT_HERE as error:
            reasons.append(str(error))
    else:
        return [], [f"Words and predictions are omitted, since {reasons[0]}"]
    notes: list[str] = []
    predictions: list[Sequence[Any]] = []
    for side, name in zip(sides, differences.SIDES, strict=True):
        try:
            predictions.append(_predictions(side, cfg.split, task, examples))
        except NOT_HERE as error:
            predictions.append([None] * len(examples))
            notes.append(f"The predictions of {name} are not shown: {error}")
    texts = []
    for example, *predicted in zip(examples, *predictions, strict=True):
        words = [word for sentence in example.sentences for word in sentence]
        ours, theirs = (
            None if prediction is None else in_words(prediction, words) for prediction in predicted
        )
        sentences = [" ".join(sentence) for sentence in example.sentences]
        file_name = Path(example.source).name
        texts.append(ExampleText(file_name, sentences, in_words(example.gold, words), ours, theirs))
    return texts, notes


def _examples(cfg: DictConfig, side: Side, counts: Counts) -> tuple[ModuleType, list[Any]]:
    """Return the task's module and the examples that a run was evaluated on.

    Nothing is downloaded. Raises one of `NOT_HERE` if the corpus is missing or differs.
    """
    config, data, split = side.run.config, _data(side.run), cfg.split
    _check_foreign(side)
    run_cfg = cfg.copy()
    OmegaConf.set_struct(run_cfg, False)
    run_cfg.task = config["task"]
    path = _file(run_cfg, side)
    digest = side.run.inputs.get(f"data.{split}")
    if digest not in (None, hash_files({split: path}, cfg.cache_dir)[split]):
        raise ValueError(f"{path} is not the file that {side} was evaluated on: its hash differs")
    task = import_module(config["task"]["data"])
    examples = list(task.read(path, **_options(side.run, split)))
    if names := data.get("labels"):
        gold = label_map(getattr(task, "complete_labels", dict)(named(names))).gold
        relabelled = (task.relabel(example, gold) for example in examples)
        examples = [example for example in relabelled if example is not None]
    if [number_of(example.sentences) for example in examples] != counts.sentences.tolist():
        raise ValueError(
            f"{path} does not contain the {len(counts.sentences):,} examples that {side} counted"
        )
    return task, examples


def _check_foreign(side: Side) -> None:
    """Raise ValueError unless the run's config names only known tasks, corpora and plain values.

    The run may come from a stranger, so this check precedes any import or read from its config.
    """
    config = side.run.config
    trusted.check_plain([config["task"], _data(side.run), config.get("data_dir")], str(side))
    trusted.check_task(config["task"], str(side))


def _file(cfg: DictConfig, side: Side) -> Path:
    """Return the corpus's file of the split, from data_dir of the command line, else of the run."""
    data, chosen = _data(side.run), side.run.groups.get("data", "")
    is_option = chosen in trusted.options("data") and chosen != "checkpoint"
    described = trusted.described(data, chosen if is_option else data["name"])
    errors = []
    for folder in dict.fromkeys([cfg.data_dir, side.run.config.get("data_dir", cfg.data_dir)]):
        run_cfg = cfg.copy()
        run_cfg.data_dir = folder
        try:
            if cfg.data.name == "checkpoint":  # the default: the corpus of the run
                run_cfg.data = trusted.corpus(run_cfg, described, str(side))
            run_cfg.data.downloads = {}
            return inputs.corpus(run_cfg, [cfg.split])[cfg.split]
        except (ValueError, OSError) as error:
            errors.append(error)
    raise errors[0]


def _predictions(side: Side, split: str, task: ModuleType, examples: Sequence[Any]) -> list[Any]:
    _check_foreign(side)
    path = side.run.folder / "predictions" / f"{split}{side.run.config['task']['suffix']}"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: run job=evaluate checkpoint=RUN/best.ckpt split={split} and "
            "compare the folder that it writes"
        )
    if not hasattr(task, "read_predictions"):
        raise ValueError(f"{task.__name__} has no read_predictions")
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
