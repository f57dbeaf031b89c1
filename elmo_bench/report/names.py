"""Display names of settings, `encoder.name=books elmo.mix=all` becomes "books, all layers", and of
scores.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple, TypeGuard

import yaml

from elmo_bench.runs import NOTHING, Key, Run, text
from elmo_bench.terminal import listed

from .significance import LEVEL

NONE = "–"  # display of NOTHING in a table
BASELINE = "no encoder"  # as in names.yaml


def is_number(value: Hashable) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Setting(NamedTuple):
    """What names.yaml says of a config key."""

    axis: str
    words: Mapping[str, str] = {}
    phrase: str = ""
    silent: Sequence[str] = ()


@cache
def _settings() -> dict[str, Setting]:
    content = yaml.safe_load(Path(__file__).with_name("names.yaml").read_bytes())
    return {key: Setting(**about) for key, about in content.items()}


def _setting(key: str) -> Setting:
    return _settings().get(key) or Setting(key.removesuffix("._target_").removesuffix(".name"))


def axis(key: str) -> str:
    """Return the display name of a config key, for a column or an axis.

    >>> axis("elmo.l2"), axis("elmo.mix"), axis("rnn.num_layers")
    ('λ', 'layers', 'rnn.num_layers')
    """
    return _setting(key).axis


def value(key: str, setting: Hashable) -> str:
    """Return the display name of a value, for use where the axis is named: without the folder of a
    file or the module of a class, a number without an exponent if possible.

    >>> value("elmo.l2", 1e-05), value("fraction", 0.1), value("rnn._target_", "nn.Gru")
    ('0.00001', '10 %', 'Gru')
    >>> value("elmo.mix", "top"), value("elmo.mix", (0, 1)), value("elmo.at", ("input",))
    ('top layer', 'layers 0 and 1', 'the input')
    """
    word = _setting(key).words.get(text(setting))
    if word:
        return word
    if setting == NOTHING:
        return NONE
    items = setting if isinstance(setting, tuple) else (setting,)
    if key == "elmo.mix" and all(map(is_number, items)):
        layers = listed(map(text, items))
        return f"layers {layers}" if len(items) > 1 else f"layer {layers}"
    if key == "elmo.at":
        places = listed(map(text, items))
        return f"the {places}" if len(items) == 1 else places
    if is_number(setting) and key == "fraction":
        return f"{100 * setting:.10g} %"
    if is_number(setting) and not 0 < abs(setting) < 1e-6:
        return f"{Decimal(repr(setting)).normalize():f}"
    if key == "vocab.vectors":
        return listed(PurePath(text(item)).name for item in items)
    if key.endswith("._target_"):
        return text(setting).rpartition(".")[2]
    return text(setting)


def name(keys: Sequence[str], values: Sequence[Hashable], titles: Mapping[str, str] = {}) -> str:
    """Return the display name of a setting, given by keys and values.

    Keys without effect and usual values are omitted, unless nothing else remains. `titles` maps
    names of tasks to titles.

    >>> name(["encoder.name", "elmo.mix", "elmo.l2"], ["books", "all", 0.001])
    'books, all layers, λ = 0.001'
    >>> name(["encoder.name", "elmo.mix"], ["none", "-"])
    'no encoder'
    """
    settings = dict(zip(keys, values, strict=True))
    is_baseline = "none" in (settings.get("encoder.name"), settings.get("elmo.mix"))
    phrases: dict[str, None] = {}  # an ordered set
    for key, setting in settings.items():
        if is_baseline and key.startswith(("encoder.", "finetune.", "elmo.")):
            phrases[BASELINE] = None
        elif setting != NOTHING and text(setting) not in _setting(key).silent:
            title = titles.get(text(setting)) if key == "task.name" else None
            phrases[title or _phrase(key, setting)] = None
    if phrases or not settings:
        return ", ".join(phrases)
    key, setting = next(iter(settings.items()))
    return _phrase(key, setting)


def _phrase(key: str, setting: Hashable) -> str:
    about = _setting(key)
    if setting == NOTHING or text(setting) in about.words:
        return value(key, setting)
    return (about.phrase or f"{about.axis} = {{}}").replace("{}", value(key, setting))


def names(
    keys: Sequence[str], settings: Iterable[Key], titles: Mapping[str, str] = {}
) -> dict[Key, str]:
    """Return names for settings of the same keys, as they are written where two would be the same.

    >>> list(names(["elmo.mix"], [("top",), ((0,),), (0,)]).values())
    ['top layer', 'elmo.mix=[0]', 'elmo.mix=0']
    """
    phrases = {values: name(keys, values, titles) for values in settings}
    counts = Counter(phrases.values())
    by_setting: dict[Key, str] = {}
    for values, phrase in phrases.items():
        if counts[phrase] > 1:
            pairs = zip(keys, values, strict=True)
            by_setting[values] = " ".join(f"{key}={text(setting)}" for key, setting in pairs)
        else:
            by_setting[values] = phrase
    return by_setting


def task_titles(runs: Iterable[Run]) -> dict[str, str]:
    """Return the titles of the runs' tasks by name, which is its own title if it has several."""
    titles: dict[str, str] = {}
    for run in runs:
        task_name = run.config["task"]["name"]
        title = str(run.config["task"].get("title") or task_name)
        if titles.setdefault(task_name, title) != title:
            titles[task_name] = task_name
    return titles


def corpus_title(run: Run, titles: Mapping[str, str]) -> str:
    """Return the title of a run's task with its corpus, as a heading has it: "Parsing (en_ewt)";
    `titles` are those of tasks.
    """
    title = heading(titles[run.task], run.task)
    corpus = run.settings.get("data.name")
    return f"{title} ({corpus})" if corpus else title


def heading(title: str, task: str) -> str:
    """Return a task's title as a heading begins with it; its name, without a title, stays.

    >>> heading("parsing", "parse"), heading("parse", "parse")
    ('Parsing', 'parse')
    """
    return title if title == task else title[:1].upper() + title[1:]


def metric_title(run: Run, metric: str | None = None) -> str:
    """Return the display name of a metric; None means the metric that the run's task monitors."""
    task = run.config["task"]
    key = metric or task["monitor"]
    if key == task["monitor"] and task.get("monitor_title"):
        return str(task["monitor_title"])
    return key.replace("_", " ").replace("/", " ").replace("f1", "F1")


def points(value: float | None, *, signed: bool = False) -> str:
    """Format a fraction of 1 in percent; None as "".

    >>> points(-0.0125), points(0.5, signed=True), points(None), points(0.0, signed=True)
    ('−1.25', '+50.00', '', '0.00')
    >>> points(-1e-9, signed=True), points(1e-9, signed=True)
    ('0.00', '+0.00')
    """
    if value is None:
        return ""
    digits = f"{100 * value:+z.2f}" if signed else f"{100 * value:z.2f}"
    if digits == "+0.00" and value <= 0:
        digits = "0.00"
    return digits.replace("-", "−")


def p_value(p: float | None) -> str:
    """Format a p, so that one below 0.05 never looks like 0.05.

    >>> p_value(0.049), p_value(0.04996), p_value(0.0001)
    ('0.049', '<0.050', '<0.001')
    """
    if p is None:
        return ""
    if p < 0.001:
        return "<0.001"
    if p < LEVEL <= round(p, 3):
        return f"<{LEVEL:.3f}"
    return f"{p:.3f}"
