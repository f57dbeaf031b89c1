"""Choose runs by their settings, and find what distinguishes them."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from elmo_bench.terminal import listed

from .identity import NULLABLE, below
from .read import FILES, INPUTS, Run, frozen, text

Key = tuple[Hashable, ...]  # values of settings
NOTHING = "-"  # value of a key that a run lacks, or that has no effect in it
# Keys that may differ between runs of an experiment, besides those without effect on scores.
WITHIN = ("seed", "trial", "data.fold", "trained_on.fold", "job", "split", "inputs.checkpoint")
ENCODER = "encoder.name"
MIX = "elmo.mix"
# How Hydra builds what a section names; other keys of the section say what differs.
HYDRAS = ("._partial_", "._convert_", "._recursive_")
OF_ENCODER = ("encoder", "finetune", "elmo", "store")  # sections that a baseline does not use
NAMES = ("task.name", "data.name", ENCODER)
CORPUS = ("data", "trained_on", f"{INPUTS}data")  # keys that identify the corpus
CORPUS_FILES = (f"{INPUTS}data.train", f"{INPUTS}data.dev", f"{INPUTS}data.test")


def full_keys(runs: Sequence[Run], keys: Sequence[str], option: str) -> list[str]:
    """Return keys in full, such as `encoder.name` for `encoder`; ValueError for an unknown key."""
    config_keys = set[str]()
    for run in runs:
        config_keys.update(run.settings)
    full = []
    for key in keys:
        name = f"{key}.name"
        full.append(name if name in config_keys else key)
    unknown = [key for key in full if key not in config_keys]
    if unknown:
        raise ValueError(
            f"{option}={','.join(keys)}: no run has {listed(unknown, 'or')} in its config; it has "
            "keys such as encoder, elmo.mix, task, data.size"
        )
    return full


def values(run: Run, keys: Sequence[str]) -> Key:
    """Return a run's settings under dotted keys; NOTHING for one that it lacks or that has no
    effect in it.
    """
    return tuple(_value(run, key) for key in keys)


def _value(run: Run, key: str) -> Hashable:
    if key in run.without_effect:
        return NOTHING
    default = None if below(key, NULLABLE) else NOTHING
    return run.settings.get(key, default)


def where(
    runs: Iterable[Run], wanted: Mapping[str, object], *, with_baseline: bool = False
) -> list[Run]:
    """Return the runs with these settings; `with_baseline` also those without an encoder."""
    chosen: list[Run] = []
    for run in runs:
        conditions = dict(wanted)
        if with_baseline and run.is_baseline:
            conditions = {key: wanted[key] for key in wanted if not below(key, OF_ENCODER)}
        if all(_has(run, key, value) for key, value in conditions.items()):
            chosen.append(run)
    return chosen


def _has(run: Run, key: str, value: object) -> bool:
    """Whether a run has a setting, or an option of a config group: `encoder` is `encoder.name`."""
    for name in (key, f"{key}.name"):
        if name in run.settings and equal(run.settings[name], value):
            return True
    return False


def equal(setting: Hashable, value: object) -> bool:
    """Whether a setting has this value, or is written like it.

    >>> equal(1.0, 1), equal((0, 1), [0, 1]), equal((0, 1), "[0,1]"), equal("012", 12)
    (True, True, True, False)
    """
    return setting == frozen(value) or text(setting) == text(frozen(value))


def distinguishing(runs: Sequence[Run], keys_given: Sequence[str]) -> list[str]:
    """Return the further config keys, the task first, that distinguish runs beyond their seed.

    A key that follows from those before it (a task's batch size, given the task) is left out, and
    so is one that dev selected among draws: the space distinguishes such runs. The last keys are
    hashes of the files that the runs read, such as `inputs.data.train`.

    Say runs on `ner` have `fit.batch_size=32`, runs on `srl` 64, and both read the layers 0 and 1:
    the keys are `task.name` and `elmo.mix`; the batch size follows from the task.
    """
    acting_keys = set[str]()
    for run in runs:
        acting_keys.update(run.acting)
    keys = [key for key in acting_keys if not below(key, WITHIN)]
    drawn_keys = drawn(runs)
    untuned = [run for run in runs if not run.tune]
    chosen: list[str] = []
    for key in sorted(keys, key=_importance):
        compared = untuned if key in drawn_keys else runs
        if varies(compared, list(keys_given) + chosen, key):
            chosen.append(key)
    return chosen


def _importance(key: str) -> tuple[bool, bool, bool, bool, bool, bool, str]:
    """Return what sorts keys so that the first distinguish runs and later ones follow from them.

    >>> sorted(["rnn.dim", "rnn._partial_", "inputs.vocab", "elmo.l2"], key=_importance)
    ['elmo.l2', 'rnn.dim', 'inputs.vocab', 'rnn._partial_']
    """
    return (
        key != "task.name",
        key not in NAMES,
        key.endswith(HYDRAS),
        not key.startswith(("elmo.", "finetune.")),
        key.startswith(INPUTS),
        not key.endswith(".name"),
        key,
    )


def drawn(runs: Iterable[Run]) -> set[str]:
    """Return the keys that were drawn for runs of `sweep=tune`, and those that have the value of
    one of them wherever they have an effect, by interpolation.

    Say `fit.lr` was drawn, `elmo.lr` is `${fit.lr}`, and `fit.epochs` is always 10: the keys are
    `fit.lr` and `elmo.lr`.
    """
    tuned = [run for run in runs if run.tune]
    drawn_keys = set[str]()
    acting_keys = set[str]()
    for run in tuned:
        drawn_keys.update(run.tune)
        acting_keys.update(run.acting)
    columns: dict[str, list[Hashable]] = {}
    for key in drawn_keys | acting_keys:
        columns[key] = [_value(run, key) for run in tuned]
    repeating = set[str]()
    for key, column in columns.items():
        if any(_repeats(column, columns[drawn_key]) for drawn_key in drawn_keys):
            repeating.add(key)
    return repeating


def _repeats(column: Sequence[Hashable], drawn_column: Sequence[Hashable]) -> bool:
    """Whether a key's values, one of each run, are those of a key that was drawn, where the first
    has an effect.

    >>> _repeats([0.1, NOTHING], [0.1, 0.5]), _repeats([0.1, 0.1], [0.1, 0.5])
    (True, False)
    """
    pairs = zip(column, drawn_column, strict=True)
    return all(value in (NOTHING, drawn_value) for value, drawn_value in pairs)


def check_files(runs: Iterable[Run], keys_given: Sequence[str]) -> None:
    """Raise ValueError if runs of the same task and corpus settings read different files."""
    keys = ["task.name"] + [key for key in keys_given if below(key, CORPUS)]
    # By the name of the file and the values of the keys: a run for each content of the file.
    contents: dict[tuple[str, Key], dict[Hashable, Run]] = defaultdict(dict)
    for run in runs:
        for name in CORPUS_FILES:
            digest = run.settings.get(name)
            if digest:
                contents[name, values(run, keys)].setdefault(digest, run)
    for (name, corpus), run_of in contents.items():
        if len(run_of) > 1:
            shown = ", ".join(f"{digest} in {run.folder}" for digest, run in run_of.items())
            raise ValueError(
                f"{' '.join(map(text, corpus))}: runs on other data cannot be compared, but {name} "
                f"is {shown}; where={{{name}: {next(iter(run_of))}}} takes one, "
                f"rows=[task,{name}] parts them"
            )


def varies(runs: Sequence[Run], keys_given: Sequence[str], key: str) -> bool:
    """Whether runs with equal values of the keys given differ in another key.

    A run in which the key has no effect does not count as different. For files, the content counts
    if its hash is known, not only the name. A run may lack a split of the corpus (an evaluation
    reads one), but a file beside the encoder's is another encoder.

    Say two runs of `ner` have the seeds 1 and 2, and one of `srl` has 3. Given `task.name`, `seed`
    varies, for the two of `ner` differ. Given `seed`, `task.name` does not: it follows.
    """
    if below(key, (f"{INPUTS}data",)):
        compared = [run for run in runs if key in run.settings]
    elif key.startswith(INPUTS):
        compared = [run for run in runs if run.inputs]
    else:
        compared = [run for run in runs if key in run.acting or key not in run.settings]
    given = [values(run, keys_given) for run in compared]
    if not _adds(given, [_value(run, key) for run in compared]):
        return False
    if key not in FILES:
        return True
    content_key = f"{INPUTS}{FILES[key]}"
    contents = []
    for run in compared:
        has_hash = content_key in run.settings
        contents.append(_value(run, content_key if has_hash else key))
    return _adds(given, contents)


def _adds(given: Sequence[Key], column: Sequence[Hashable]) -> bool:
    """Whether a key tells runs apart that have the same given values.

    >>> _adds([("ner",), ("ner",), ("srl",)], [1, 2, 3])  # the seed, given the task
    True
    >>> _adds([(1,), (2,), (3,)], ["ner", "ner", "srl"])  # the task, given the seed
    False
    """
    return len(set(given)) < len(set(zip(given, column, strict=True)))
