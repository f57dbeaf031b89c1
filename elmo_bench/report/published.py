"""The papers' scores, from `published.yaml`, and the runs that they may be compared with: of ELMo,
and of BERT as in its own paper.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from elmo_bench.runs import Run, equal

Row = dict[str, Any]
OWN = ("at", "l2", "dropout", "norm")  # keys of ELMo that a task sets, under task.elmo


@cache
def _content() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("published.yaml").read_bytes())


def stands_in(run: Run, name: str) -> bool:
    """Whether a run of the paper's sweeps belongs to a table or figure of the paper: that of its
    own sweep, and every other with its setting.

    The baselines of Tables 1 and 2 are the same, for example, and `resume=true` runs them once.
    """
    sweep = run.config.get("published") or {}
    own_tables = [f"{kind}{sweep[kind]}" for kind in ("table", "figure") if kind in sweep]
    has_setting = _reads_as_much(run, name) and bool(_rows(run, name))
    return bool(own_tables) and (has_setting or name in own_tables)


def is_of_the_paper(run: Run) -> bool:
    """Whether a run was trained and measured on the paper's corpus for its task."""
    corpus = _content()["corpora"].get(run.task, {"data.name": ()})
    names = {run.settings.get(key) for key in ("data.name", "trained_on.name")}
    others = {key: corpus[key] for key in corpus if key not in ("data.name", "title", "train")}
    return {*corpus["data.name"]} >= names and _has_all(run, others)


def paper_corpus(run: Run) -> str:
    """Return the paper's corpus if the run has another, or less of it; "" if it has the same."""
    title = str(_content()["corpora"].get(run.task, {}).get("title", ""))
    less = "" if _reads_all(run) else f"all of {title}"
    return less if is_of_the_paper(run) else title


def published(run: Run, metric: str, split: str, name: str | None = None) -> float | None:
    """Return the paper's score for a run's setting, a fraction of 1, or None if it has none.

    It comes from the table `name`, whatever the run reads, or else from the first table that has
    one, and only for runs on the paper's corpus, on as much of it.
    """
    if name is None and (row := _row_of_bert(run)):
        return row.get(metric) if split == "test" else None
    if name is None and not is_of_the_paper(run):
        return None
    if str(run.settings.get("rnn._target_")).endswith(".Identity"):
        return None  # the paper has no scores for a linear head
    if not run.is_baseline and not _has_all(run, _content()["settings"]):
        return None
    every = [each for each in _content()["tables"] if _reads_as_much(run, each)]
    tables = [name] if name else every
    rows = (row for table in tables if _table(table)["split"] == split for row in _rows(run, table))
    return next((row[metric] for row in rows if metric in row), None)


def source(run: Run) -> str:
    """Return the paper that has a score for a run."""
    return "Devlin et al. (2019)" if _row_of_bert(run) else "Peters et al. (2018)"


def _row_of_bert(run: Run) -> Row:
    """Return the row of a run as in BERT's own paper; {} for another."""
    bert = _content()["bert"]
    rows = (row for row in bert["rows"] if _has_all(run, bert["settings"] | row["runs"]))
    return next(rows, {}) if _reads_all(run) else {}


def _table(name: str) -> dict[str, Any]:
    tables = _content()["tables"]
    if name not in tables:
        raise ValueError(f"paper={name}, but it must be {', '.join(tables)}")
    return tables[name]


def _rows(run: Run, name: str) -> list[Row]:
    """Return the rows of a table with the run's task and setting."""
    return [row for row in _table(name)["rows"].get(run.task, []) if _is_of(row["elmo"], run)]


def _reads_as_much(run: Run, name: str) -> bool:
    """Whether the run uses its whole training set, or the table is about parts of it."""
    return bool(_table(name).get("fractions")) or _reads_all(run)


def _reads_all(run: Run) -> bool:
    """Whether the run uses its whole training set, and not the file of a part of it."""
    whole = _content()["corpora"].get(run.task, {}).get("train")
    used = run.settings.get("data.files.train")
    is_part = whole and used and Path(str(used)).name.removesuffix(".gz") != whole
    return _has_all(run, {"fraction": 1}) and not is_part


def _is_of(setting: Row, run: Run) -> bool:
    """Whether a run has a row's setting; keys without effect in the run are ignored."""
    is_baseline = setting.get("mix") == "none"
    if is_baseline or run.is_baseline:
        return is_baseline and run.is_baseline
    of_task = run.config["task"].get("elmo", {})
    own = {key: of_task[key] for key in OWN if key in of_task}
    row = {"norm": "none", "mix": "all"} | own | setting
    wanted = {f"elmo.{key}": value for key, value in row.items()}
    return _has_all(run, {key: wanted[key] for key in wanted if key not in run.without_effect})


def _has_all(run: Run, wanted: Mapping[str, Any]) -> bool:
    """Whether a run's config has these values; a key that it lacks has any."""
    return all(equal(run.settings[key], wanted[key]) for key in wanted.keys() & run.settings.keys())
