"""Display names of settings: `encoder.name=books elmo.mix=all` becomes "books, all layers"."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import NamedTuple

from elmo_bench.runs import Run, number

NONE = "–"  # display of NOTHING in a table
NOTHING = "-"  # value of a key that a run lacks, or that has no effect in it
BASELINE = "no encoder"


def _amount(text: str) -> str:
    """Format a number without an exponent if possible; return other text unchanged.

    >>> _amount("1e-05"), _amount("10.0"), _amount("[1,2]")
    ('0.00001', '10', '[1,2]')
    """
    value = number(text)
    if value is None:
        return text
    return f"{value:g}" if 0 < abs(value) < 1e-6 else f"{Decimal(repr(value)).normalize():f}"


def _percent(text: str) -> str:
    value = number(text)
    return text if value is None else f"{100 * value:.10g} %"


def _layers(text: str) -> str:
    """Name the layers with these numbers, 0 the lowest.

    >>> _layers("0"), _layers("[0,1,2]")
    ('layer 0', 'layers 0, 1 and 2')
    """
    numbers = _items(text)
    if not all(item.isdigit() for item in numbers):
        return text
    return f"layer{'s' if len(numbers) > 1 else ''} {_enumeration(numbers)}"


def _places(text: str) -> str:
    return _enumeration(_items(text)) or text


def _items(text: str) -> list[str]:
    return [item for item in text.strip("[]").replace(" ", "").split(",") if item]


def _enumeration(items: Sequence[str]) -> str:
    *leading, last = items or [""]
    return f"{', '.join(leading)} and {last}" if leading else last


def _hyphens(text: str) -> str:
    return text.replace("_", "-")


def _file(text: str) -> str:
    """Return the names of files, without their folders."""
    return " and ".join(PurePath(item).name for item in _items(text)) or text


def _class(text: str) -> str:
    return text.rpartition(".")[2]


class Setting(NamedTuple):
    """Display names of a config key, as the head of a column, for its values, and in a phrase."""

    axis: str
    words: Mapping[str, str] = {}  # display names of certain values
    value: Callable[[str], str] = _amount  # formats all other values
    phrase: str = ""  # a phrase with the value at {}; default: "AXIS = {}"
    silent: tuple[str, ...] = ()  # usual values, which a phrase may omit


SETTINGS = {
    "task.name": Setting("task", value=str, phrase="{}"),
    "data.name": Setting("corpus", value=str, phrase="{}"),
    "trained_on.name": Setting("trained on", value=str, phrase="trained on {}"),
    "seed": Setting("seed", phrase="seed {}"),
    "fraction": Setting("share of the training set", value=_percent, phrase="{} of training"),
    "vocab.vectors": Setting("word vectors", {"None": "no word vectors"}, _file, "{}"),
    "encoder.name": Setting("encoder", {"none": BASELINE}, _hyphens, "{}"),
    "encoder.model": Setting("model", value=str, phrase="{}"),
    "encoder.pretrained": Setting(
        "weights", {"True": "pretrained", "False": "random weights"}, silent=("True",)
    ),
    "encoder.directions": Setting(
        "directions",
        {
            "None": "both directions",
            "[forward,backward]": "both directions",
            "[forward]": "forward alone",
            "[backward]": "backward alone",
        },
        silent=("None",),
    ),
    "elmo.mix": Setting(
        "layers",
        {
            "none": BASELINE,
            "all": "all layers",
            "top": "top layer",
            "uniform": "mean of the layers",
        },
        _layers,
        "{}",
    ),
    "elmo.at": Setting("place", value=_places, phrase="at the {}"),
    "elmo.l2": Setting("λ"),
    "elmo.dropout": Setting("dropout of ELMo's vectors", phrase="dropout {}"),
    "elmo.mix_lr": Setting("learning rate of the mix", {"None": "the task's"}, silent=("None",)),
    "elmo.norm": Setting(
        "norm",
        {"none": "no norm", "batch": "batch norm", "word": "norm by word"},
    ),
    "elmo.finetune": Setting("training", {"True": "fine-tuned", "False": "frozen"}),
    "elmo.adapt": Setting(
        "adapted", {"True": "adapted to the task's text", "False": "not adapted"}, silent=("False",)
    ),
    "elmo.lr": Setting("learning rate of the encoder"),
    "elmo.lr_decay": Setting("decay of the learning rate by layer"),
    "elmo.unfreeze": Setting("unfreezing", {"all": "all layers at once", "gradual": "gradual"}),
    "encoder.pooling": Setting(
        "a word's vector",
        {"first": "first piece", "last": "last piece", "mean": "mean of the pieces"},
        silent=("None",),
    ),
    "encoder.revision": Setting("revision", value=str),
    "fit.batch_size": Setting("batch size", phrase="batches of {}"),
    "fit.max_epochs": Setting("epochs at most", phrase="at most {} epochs"),
    "fit.patience": Setting("patience", phrase="patience of {} epochs"),
    "task.optimizer.lr": Setting("learning rate"),
    "task.optimizer._target_": Setting("optimizer", value=_class),
    "schedule.name": Setting("schedule", value=_hyphens),
    "elmo.lora": Setting("LoRA", {"None": "no LoRA"}, phrase="LoRA of rank {}", silent=("None",)),
}


def _setting(key: str) -> Setting:
    if key in SETTINGS:
        return SETTINGS[key]
    if key.startswith("inputs."):  # a hash may consist only of digits, but is not a number
        return Setting(key, value=str)
    if key.endswith("._target_"):
        return Setting(key.removesuffix("._target_"), value=_class)
    return Setting(key.removesuffix(".name"))


def axis(key: str) -> str:
    """Return the display name of a config key, for a column or an axis.

    >>> axis("elmo.l2"), axis("elmo.mix"), axis("rnn.num_layers")
    ('λ', 'layers', 'rnn.num_layers')
    """
    return _setting(key).axis


def value(key: str, text: str) -> str:
    """Return the display name of a value, for use where the axis is named.

    >>> value("elmo.l2", "1e-3"), value("fraction", "0.1"), value("elmo.mix", "top")
    ('0.001', '10 %', 'top layer')
    """
    setting = _setting(key)
    return setting.words.get(text) or (NONE if text == NOTHING else setting.value(text))


def name(keys: Sequence[str], values: Sequence[str], titles: Mapping[str, str] = {}) -> str:
    """Return the display name of a setting, given by keys and values.

    Keys without effect and usual values are omitted, unless nothing else remains. `titles` maps
    names of tasks to titles.

    >>> name(["encoder.name", "elmo.mix", "elmo.l2"], ["books", "all", "0.001"])
    'books, all layers, λ = 0.001'
    >>> name(["encoder.name", "elmo.mix"], ["none", "-"])
    'no encoder'
    >>> name(["encoder.pretrained"], ["True"])
    'pretrained'
    """
    setting = dict(zip(keys, values, strict=True))
    is_baseline = "none" in (setting.get("encoder.name"), setting.get("elmo.mix"))
    phrases: dict[str, None] = {}  # an ordered set
    for key, text in setting.items():
        if is_baseline and key.startswith(("encoder.", "elmo.")):
            phrases[BASELINE] = None
        elif text != NOTHING and text not in _setting(key).silent:
            title = titles.get(text) if key == "task.name" else None
            phrases[title or _phrase(key, text)] = None
    return ", ".join([*phrases] or [_phrase(key, text) for key, text in setting.items()][:1])


def _phrase(key: str, text: str) -> str:
    setting = _setting(key)
    if text == NOTHING or text in setting.words:
        return value(key, text)
    if key == "elmo.at" and len(_items(text)) > 1:
        return f"at {value(key, text)}"
    return (setting.phrase or f"{setting.axis} = {{}}").replace("{}", value(key, text))


def names(
    keys: Sequence[str], settings: Iterable[Sequence[str]], titles: Mapping[str, str] = {}
) -> dict[tuple[str, ...], str]:
    """Return unique display names for several settings of the same keys.

    >>> [*names(["elmo.mix"], [["top"], ["[0]"], ["0"]]).values()]
    ['top layer', 'elmo.mix=[0]', 'elmo.mix=0']
    """
    phrases = {tuple(values): name(keys, values, titles) for values in settings}
    counts = Counter(phrases.values())
    return {
        values: phrase if counts[phrase] == 1 else as_written(keys, values)
        for values, phrase in phrases.items()
    }


def as_written(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return the setting as on the command line, `encoder=mini elmo.mix=all`, without idle keys."""
    settings = zip(keys, values, strict=True)
    words = [f"{key.removesuffix('.name')}={text}" for key, text in settings if text != NOTHING]
    return " ".join(words) or NOTHING


def task_titles(runs: Iterable[Run]) -> dict[str, str]:
    """Return the titles of the runs' tasks, by task name.

    A name with several titles (the same task with other classes, for example) is its own title.
    """
    titles: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        task = run["config"]["task"]
        titles[task["name"]].add(str(task.get("title") or task["name"]))
    return {name: min(of_name) if len(of_name) == 1 else name for name, of_name in titles.items()}


def metric_title(run: Run, metric: str | None = None) -> str:
    """Return the display name of a metric; None means the metric that the run's task monitors.

    >>> metric_title({"config": {"task": {"monitor": "f1", "monitor_title": "entity F1"}}})
    'entity F1'
    """
    task = run["config"]["task"]
    key = metric or task["monitor"]
    if key == task["monitor"] and task.get("monitor_title"):
        return str(task["monitor_title"])
    return key.replace("_", " ").replace("/", " ").replace("f1", "F1")
