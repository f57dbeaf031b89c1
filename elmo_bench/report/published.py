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
OF_SMALL_CORPORA = ("elmo.dropout", "elmo.norm")  # what suits another corpus may be another value


@cache
def _content() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("published.yaml").read_bytes())


def stands_in(run: Run, name: str) -> bool:
    """Whether a run of the paper's sweeps belongs to a table or figure of the paper: that of its
    own sweep, and every other with its setting.

    The baselines of Tables 1 and 2 are the same, for example, and `resume=true` runs them once.
    """
    sweep = run.config.get("published") or {}
    tables_of_sweep = [f"{kind}{sweep[kind]}" for kind in ("table", "figure") if kind in sweep]
    has_setting = _reads_as_much(run, name) and bool(_rows(run, name))
    return bool(tables_of_sweep) and (has_setting or name in tables_of_sweep)


def is_of_the_paper(run: Run) -> bool:
    """Whether a run was trained and measured on the paper's corpus for its task."""
    corpus = _content()["corpora"].get(run.task, {"data.name": ()})
    names = {run.settings.get("data.name"), run.settings.get("trained_on.name")}
    if not names <= set(corpus["data.name"]):
        return False
    settings = {key: corpus[key] for key in corpus if key not in ("data.name", "title", "train")}
    return _has_all(run, settings)


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
    if name is None:
        row_of_bert = _row_of_bert(run)
        if row_of_bert:
            return row_of_bert.get(metric) if split == "test" else None
        if not is_of_the_paper(run):
            return None
    if str(run.settings.get("rnn._target_")).endswith(".Identity"):
        return None  # the paper has no scores for a linear head
    if not run.is_baseline and not _has_all(run, _content()["settings"]):
        return None
    tables = [name] if name else _content()["tables"]
    for table in tables:
        is_as_much = bool(name) or _reads_as_much(run, table)
        if is_as_much and _table(table)["split"] == split:
            for row in _rows(run, table):
                if metric in row:
                    return row[metric]
    return None


def source(run: Run) -> str:
    """Return the paper that has a score for a run."""
    return "Devlin et al. (2019)" if _row_of_bert(run) else "Peters et al. (2018)"


def _row_of_bert(run: Run) -> Row:
    """Return the row of a run as in BERT's own paper; {} for another."""
    if not _reads_all(run):
        return {}
    bert = _content()["bert"]
    for row in bert["rows"]:
        if _has_all(run, bert["settings"] | row["runs"]):
            return row
    return {}


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
    """Whether the run uses its whole training set, and neither folds nor the file of a part."""
    if not _has_all(run, {"fraction": 1, "data.folds": None}):
        return False
    whole = _content()["corpora"].get(run.task, {}).get("train")
    used = run.settings.get("data.files.train")
    if not whole or not used:
        return True
    return Path(str(used)).name.removesuffix(".gz") == whole


def _is_of(setting: Row, run: Run) -> bool:
    """Whether a run has a row's setting; keys without effect in the run are ignored.

    Say the row has `{l2: 1}`, and the paper `{l2: 0.1, dropout: 0.5, norm: none}` for the task:
    then the run must have `elmo.mix=all`, `elmo.l2=1` and, on the paper's corpus, `elmo.norm=none`
    and `elmo.dropout=0.5`. A row with `{mix: top}` asks for no `elmo.l2`, which has no effect in
    such a run.
    """
    is_of_baseline = setting.get("mix") == "none"
    if is_of_baseline or run.is_baseline:
        return is_of_baseline and run.is_baseline
    of_paper = {"mix": "all"} | _content()["elmo"][run.task] | setting
    wanted = {f"elmo.{key}": value for key, value in of_paper.items()}
    unread = list(run.without_effect)
    if not is_of_the_paper(run):
        unread += OF_SMALL_CORPORA
    for key in unread:
        wanted.pop(key, None)
    return _has_all(run, wanted)


def _has_all(run: Run, wanted: Mapping[str, Any]) -> bool:
    """Whether a run's config has these values; a key that it lacks has any."""
    for key, value in wanted.items():
        if key in run.settings and not equal(run.settings[key], value):
            return False
    return True
