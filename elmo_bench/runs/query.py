"""Choose runs by their settings, and find what distinguishes them."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from elmo_bench.terminal import listed

from .identity import NULLABLE, below
from .read import FILES, INPUTS, Run, frozen, text

Key = tuple[Hashable, ...]  # values of settings
NOTHING = "-"  # value of a key that a run lacks, or that has no effect in it
# Keys that may differ between runs of an experiment, besides those without effect on scores.
WITHIN = ("seed", "trial", "job", "split", "inputs.checkpoint")
ENCODER, MIX = "encoder.name", "elmo.mix"
# How Hydra builds what a section names; other keys of the section say what differs.
HYDRAS = ("._partial_", "._convert_", "._recursive_")
NAMES = ("task.name", "data.name", ENCODER)
CORPUS = ("data", "trained_on", f"{INPUTS}data")  # keys that identify the corpus


def full_keys(runs: Sequence[Run], keys: Sequence[str], option: str) -> list[str]:
    """Return keys in full, such as `encoder.name` for `encoder`; ValueError for an unknown key."""
    known_keys = {key for run in runs for key in run.settings}
    full = [f"{key}.name" if f"{key}.name" in known_keys else key for key in keys]
    if unknown := [key for key in full if key not in known_keys]:
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

    def agrees(run: Run, key: str) -> bool:
        is_baseline = with_baseline and run.is_baseline
        if is_baseline and below(key, ("encoder", "finetune", "elmo", "store")):
            return True
        names = [name for name in (key, f"{key}.name") if name in run.settings]
        return any(equal(run.settings[name], wanted[key]) for name in names)

    return [run for run in runs if all(agrees(run, key) for key in wanted)]


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
    """

    def importance(key: str) -> tuple[bool, bool, bool, bool, bool, bool, str]:
        is_of_elmo, is_input = key.startswith(("elmo.", "finetune.")), key.startswith(INPUTS)
        is_name, is_hydras = key.endswith(".name"), key.endswith(HYDRAS)
        ranks = is_hydras, not is_of_elmo, is_input, not is_name
        return key != "task.name", key not in NAMES, *ranks, key

    keys = {key for run in runs for key in run.acting if not below(key, WITHIN)}
    chosen: list[str] = []
    drawn_keys, untuned = drawn(runs), [run for run in runs if not run.tune]
    for key in sorted(keys, key=importance):
        if varies(untuned if key in drawn_keys else runs, [*keys_given, *chosen], key):
            chosen.append(key)
    return chosen


def drawn(runs: Iterable[Run]) -> set[str]:
    """Return the keys that were drawn for runs of `sweep=tune`, and those that have the value of
    one of them wherever they have an effect, by interpolation.
    """
    tuned = [run for run in runs if run.tune]
    drawn = {key for run in tuned for key in run.tune}
    keys = drawn.union(*(run.acting for run in tuned))
    columns = {key: [values(run, [key])[0] for run in tuned] for key in keys}

    def repeats(key: str, other: str) -> bool:
        pairs = zip(columns[key], columns[other], strict=True)
        return all(value in (NOTHING, others) for value, others in pairs)

    return {key for key in columns if any(repeats(key, other) for other in drawn)}


def check_files(runs: Iterable[Run], known: Sequence[str]) -> None:
    """Raise ValueError if runs of the same task and corpus settings read different files."""
    keys = ["task.name", *(key for key in known if below(key, CORPUS))]
    hashes: dict[tuple[str, Key], dict[Hashable, Run]] = defaultdict(dict)
    for run in runs:
        for name in (f"{INPUTS}data.{split}" for split in ("train", "dev", "test")):
            if digest := run.settings.get(name):
                hashes[name, values(run, keys)].setdefault(digest, run)
    for (name, corpus), several in hashes.items():
        if len(several) > 1:
            shown = ", ".join(f"{digest} in {run.folder}" for digest, run in several.items())
            raise ValueError(
                f"{' '.join(map(text, corpus))}: runs on other data cannot be compared, but {name} "
                f"is {shown}; where={{{name}: {next(iter(several))}}} takes one, "
                f"rows=[task,{name}] parts them"
            )


def varies(runs: Sequence[Run], known: Sequence[str], key: str) -> bool:
    """Whether runs with equal known keys differ in another key.

    A run in which the key has no effect does not count as different. For files, the content counts
    if its hash is known, not only the name. A run may lack a split of the corpus (an evaluation
    reads one), but a file beside the encoder's is another encoder.
    """
    if below(key, (f"{INPUTS}data",)):
        runs = [run for run in runs if key in run.settings]
    elif key.startswith(INPUTS):
        runs = [run for run in runs if run.inputs]
    else:
        runs = [run for run in runs if key in run.acting or key not in run.settings]
    ways = [lambda run: values(run, [key])]
    if key in FILES:
        content = f"{INPUTS}{FILES[key]}"
        ways.append(lambda run: values(run, [content if content in run.settings else key]))
    agreed = len({values(run, known) for run in runs})
    return all(agreed < len({(values(run, known), way(run)) for run in runs}) for way in ways)
