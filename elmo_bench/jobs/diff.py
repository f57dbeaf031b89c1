"""`job=diff`: compare two runs: settings, scores, and the examples on which they differ."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench.build import trusted
from elmo_bench.report import difference as differences
from elmo_bench.report.difference import Difference
from elmo_bench.runs import (
    Counts,
    Run,
    below,
    counted,
    fold_of,
    hash_files,
    number_of,
    read_counts,
    read_run,
)
from elmo_bench.settings import command, inputs
from elmo_bench.terminal import listed, not_a_folder
from elmo_bench.text import tags_to_spans, texts_of

TAG = re.compile("O|[BI]-.+")
# What says which examples a run was measured on, and what is right; job=evaluate reads any split
# as test.
SAME = ("task.name", "data.name", "task.read.dev", "task.read.test")
# Errors from reading the corpus of a run of another machine.
NOT_HERE = (ValueError, OSError, ImportError, TypeError, AttributeError, KeyError)


def diff(cfg: DictConfig) -> None:
    """Print the differences, with the first `limit` rows of each table.

    Raises FileNotFoundError or ValueError if `a` or `b` is not a run, lacks the counts of `split`,
    or was evaluated on other examples than the other run.
    """
    differences.show(Console(emoji=False), prepare(cfg), cfg.limit)


def prepare(cfg: DictConfig) -> Difference:
    """Return what the job prints."""
    a = _run("a", Path(cfg.a))
    b = _run("b", Path(cfg.b))
    _check_alike(a, b, cfg.split)
    metric = cfg.metric or a.config["task"]["monitor"]
    counts_of_a = _counts(a, cfg.split, metric)
    counts_of_b = _counts(b, cfg.split, metric)
    if not np.array_equal(counts_of_a.sentences, counts_of_b.sentences):
        raise ValueError(
            f"a={a.folder} and b={b.folder} were evaluated on different {cfg.split} examples: "
            "job=evaluate scores a checkpoint on the other's"
        )
    texts: list[list[str]] = []
    note = ""
    try:
        texts = _texts(cfg, (a, b), counts_of_a)
    except NOT_HERE as error:
        note = f"Words and predictions are omitted, since {error}"
    scores = (differences.scores(counts_of_a.rows), differences.scores(counts_of_b.rows))
    return Difference((a, b), cfg.split, metric, scores, texts, note)


def _run(key: str, folder: Path) -> Run:
    path = folder / "result.json"
    if path.is_file():
        return read_run(path)
    why = "no finished run" if folder.is_dir() else not_a_folder(folder)
    raise FileNotFoundError(f"{key}={folder}: {why}; give the folder with the result.json of one")


def _check_alike(a: Run, b: Run, split: str) -> None:
    """Raise ValueError for the same run twice, or runs of different tasks, corpora or labels."""
    if a.folder.resolve() == b.folder.resolve():
        raise ValueError(f"a={a.folder} and b={b.folder} are the same run: give two")
    of_file = (f"data.read.{a.task}.{split}", f"inputs.data.{split}")
    keys = differing(a.settings, b.settings, SAME + of_file)
    if keys:
        raise ValueError(
            f"a={a.folder} and b={b.folder} differ in {listed(keys)}, so their examples cannot be "
            "compared; job=report compares such runs"
        )


def differing(a: Mapping[str, Any], b: Mapping[str, Any], nodes: tuple[str, ...]) -> list[str]:
    """Return the keys, of those that are or lie below `nodes`, whose settings are not the same.

    >>> differing({"task.name": "ner", "seed": 1}, {"task.name": "srl", "seed": 2}, ("task",))
    ['task.name']
    """
    keys = {key for key, _ in a.items() ^ b.items()}
    return sorted(key for key in keys if below(key, nodes))


def _counts(run: Run, split: str, metric: str) -> Counts:
    """Return a run's counts per example; raises ValueError if it has none of the metric."""
    path = run.folder / "counts" / f"{split}.npz"
    counts = read_counts(path, metric)
    if counts is not None:
        return counts
    there = f"only of {listed(counted(path))}" if path.is_file() else "there is no such file"
    raise ValueError(
        f"{path} has no counts per example of metric={metric}: {there}; job=evaluate "
        f"checkpoint=RUN/best.ckpt split={split} writes those of task.monitor into another run"
    )


def _texts(cfg: DictConfig, runs: tuple[Run, Run], counts: Counts) -> list[list[str]]:
    """Return the texts of all examples; nothing is downloaded. Raises one of `NOT_HERE` if the
    corpus or predictions are missing, or are not those of the counts.
    """
    from elmo_bench.build.task_format import reader, required, task_format  # imports torch

    for key, run in zip("ab", runs, strict=True):
        _check_trusted(run, f"{key}={run.folder}")
    split = cfg.split
    if fold_of(runs[0].config) is not None:
        raise ValueError("these runs were measured on folds (data.folds), which no file has")
    config = _config(cfg, runs[0])
    path = inputs.corpus(config, [split])[split]
    name = f"data.{split}"  # of the file among the run's inputs
    digest = hash_files({name: path})[name]
    if runs[0].inputs.get(name) not in (None, digest):
        raise ValueError(f"{path} is not the file that a={runs[0].folder} was evaluated on")
    read_as = "test" if split == "train" else split  # only job=evaluate measures train
    examples = list(reader(config, read_as, split)(path))
    numbers = [number_of(texts_of(example)) for example in examples]
    if numbers != counts.sentences.tolist():
        raise ValueError(f"the corpus does not contain the {len(counts.sentences):,} examples")
    read_predictions = required(task_format(config), "read_predictions", "job=diff")
    answers = [[example.gold for example in examples]]
    for run in runs:
        file = run.folder / "predictions" / f"{split}{config.task.suffix}"
        if not file.is_file():
            raise FileNotFoundError(
                f"{file} does not exist: run job=evaluate checkpoint=RUN/best.ckpt split={split} "
                "and compare the folder that it writes"
            )
        answers.append(list(read_predictions(file, examples)))
    return list(map(_text, examples, zip(*answers, strict=True)))


def _check_trusted(run: Run, source: str) -> None:
    """Raise ValueError for a run whose task or corpus names code or files that it may not.

    It may come from a stranger, so this precedes any import or read from its config.
    """
    task = run.config["task"]
    trusted.check_plain([task, run.config.get("data"), run.config.get("data_dir")], source)
    trusted.check_task(task, source)


def _config(cfg: DictConfig, run: Run) -> DictConfig:
    """Return a config with the task and the corpus of a run, whose data_dir is that of the command
    line, else of the run.
    """
    config = cfg.copy()
    OmegaConf.set_struct(config, False)
    config.task = run.config["task"]
    if "data_dir" not in command.overridden(cfg):
        config.data_dir = run.config.get("data_dir") or cfg.data_dir
    data = run.config.get("data") or {}
    option = run.choices.get("data")
    if option in (None, "checkpoint"):  # job=evaluate took the corpus of its checkpoint
        option = data["name"]
    config.data = trusted.corpus(config, data | {"option": option}, f"a={run.folder}")
    config.data.downloads = {}
    return config


def _text(example: Any, answers: Sequence[Any]) -> list[str]:
    """Return where an example stands, its words, and what gold and the runs say, first what not all
    of them have.
    """
    texts = texts_of(example)
    words = list(chain.from_iterable(texts))
    labels = [in_words(answer, words) for answer in answers]
    shared = set.intersection(*map(set, labels))
    row = [Path(example.source).name, " | ".join(map(" ".join, texts))]
    for labels_of_one in labels:
        own_first = sorted(labels_of_one, key=lambda label: label in shared)
        row.append("; ".join(own_first) or "nothing")
    return row


def in_words(answer: Any, words: Sequence[str]) -> list[str]:
    """Return gold or predicted labels as texts.

    `answer` is a class or number, an answer, several answers, IOB2 tags (shown as chunks), other
    tags of words or the cells of a treebank's, or clusters of mentions.

    >>> in_words(["B-PER", "I-PER", "O", "B-LOC"], ["Ann", "Lee", "in", "Rome"])
    ['PER: Ann Lee', 'LOC: Rome']
    >>> in_words([[(0, 1), (3, 3)]], ["Ann", "Lee", "says", "she"])
    ['Ann Lee = she']
    >>> in_words("neutral", ["Rain"]), in_words([("2", "nsubj"), ("0", "root")], ["Rain", "falls"])
    (['neutral'], ['Rain/2/nsubj', 'falls/0/root'])
    """
    if isinstance(answer, str):
        return [answer]
    if isinstance(answer, float):
        return [f"{answer:.4g}"]
    if hasattr(answer, "text"):
        return [str(answer.text)]
    if all(isinstance(part, str) for part in chain.from_iterable(answer)):
        tags = [item if isinstance(item, str) else "/".join(item) for item in answer]
        return _tags_in_words(tags, words)
    clusters = []
    for cluster in answer:
        mentions = [" ".join(words[first : last + 1]) for first, last in cluster]
        clusters.append(" = ".join(mentions))
    return clusters


def _tags_in_words(tags: list[str], words: Sequence[str]) -> list[str]:
    """Return IOB2 tags as chunks, other tags of words beside these, and other answers once each."""
    if len(tags) != len(words):
        return list(dict.fromkeys(tags))
    if all(map(TAG.fullmatch, tags)):
        spans = tags_to_spans(tags)
        return [f"{span.label}: {' '.join(words[span.start : span.end + 1])}" for span in spans]
    return [f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)]
