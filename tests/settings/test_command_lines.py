"""Random command lines, the same ones each time, compared as `run.py` compares them: wrong ones are
refused in a few lines, right ones compose. COMMAND_LINES=400 judges more of them.
"""

import os
import random
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from omegaconf import OmegaConf

from elmo_bench.runs import leaves
from tests.commands import said
from tests.conftest import CONF, composed

CASES = int(os.environ.get("COMMAND_LINES", "60"))
# What each job needs, which Hydra cannot know.
NEEDS = {
    "archive": ["runs=a", "output=b.tar.xz"],
    "diff": ["a=a", "b=b"],
    "embed": ["input=a.txt", "output=b.hdf5"],
    "ontonotes": ["ldc=a", "skeletons=b"],
    "evaluate": ["checkpoint=best.ckpt"],
    "perplexity": ["input=a.txt"],
    "predict": ["checkpoint=best.ckpt", "input=a.txt", "output=b.jsonl"],
    "score": ["gold=a.txt", "predicted=b.txt"],
}
TASKS = sorted(path.stem for path in CONF.glob("task/*.yaml"))
JOBS = sorted(path.stem for path in CONF.glob("job/*.yaml"))
BASES = [[f"task={task}"] for task in TASKS] + [[f"job={job}", *NEEDS.get(job, [])] for job in JOBS]
GROUPS = ("embed", "rnn", "encoder", "trainer", "schedule", "optimizer", "task")
# By what a setting is now: values of another kind, or out of every range.
WRONG: dict[type, list[str]] = {
    bool: ["7", "word", "[1]", "1.5", "{a:1}", "''"],
    int: ["word", "1.5", "[a]", "{a:1}", "true", "-7", "''", "1e400"],
    float: ["word", "[a]", "{a:1}", "true", "-7", "nan", "-inf", "''"],
    str: ["[[1]]", "{a:1}", "3.5", "''", "null,"],
    list: ["word", "{a:1}", "-7", "true", "[{a:1}]", "[[[]]]"],
}
# Settings that are not for users to say, or may be anything.
FREE = ("_target_", "_partial_", "logger.", "job.", "published", "baseline", "data.downloads")
FREE += ("tables", "hydra", "data.origin", "word")
# What may be all the same.
MAY = {"vocab.lowercase": ("true",), "fit.save_minutes": ("1.5",)}
BROKEN = [
    ["fit.batch_size=["], ["task="], ["=3"], ["elmo.mix=[0,"], ["task=ner,"], ["foo.bar=1"], ["task=net"], ["job=trian"],
    ["fit.batchsize=3"], ["elmo.mix.foo=1"], ["seed"], ["~seed=2"], ["+seed=1"], ["encoder=nope"], ["recipe=nope"], ["sweep=nope"],
    ["fit.batch_size=${nope}"], ["fit.batch_size=${fit.batch_size}"], ["data_dir=${oc.env:NOPE_NOPE}"], ["seed=${oc.env:HOME}"],
    ["'"], ["seed='1"], ["fit=3"], ["task.model=3"], ["rnn=[a]"], ["trainer=gpu,"], ["seed=1", "seed=x"],
    ["job=embed"], ["job=evaluate"], ["-m", "seed=1,x"], ["-m", "elmo.mix=all,bottom"], ["--multirn"], ["elmo=wiki"], ["encoder=bigru"],
    ["model=x"], ["outputs_dir="], ["cache_dir="], ["cache_dir=null"], ["outputs_dir=[a]"], ["run_dir="], ["checkpoint=x"],
]  # fmt: skip


@cache
def settings(base: tuple[str, ...]) -> dict[str, Any]:
    """Every setting of a composed config by its dotted key, as it stands; none of FREE."""
    every: Any = OmegaConf.to_container(composed(*base, whole=True))
    return {
        key: value
        for key, value in leaves(every)
        if not (key.startswith(FREE) or {*key.split(".")} & {*FREE})
    }


def commands(seed: int) -> Iterator[tuple[list[str], bool]]:
    """Arguments, and whether they are wrong, as four in five are; the same for the same seed."""
    rng = random.Random(seed)
    yield from ((arguments, True) for arguments in BROKEN)
    while True:
        base = tuple(rng.choice(BASES))
        if rng.random() < 0.2:
            yield [*base, *right(base, rng)], False
            continue
        key, value = rng.choice([*settings(base).items()])
        values = WRONG.get(type(value), [])
        if isinstance(value, str) and "${" in value:  # another setting's: its kind is not seen here
            values = ["{a:[1]}"]
        if values := [wrong for wrong in values if wrong not in MAY.get(key, ())]:
            yield [*base, f"{key}={rng.choice(values)}"], True


def right(base: tuple[str, ...], rng: random.Random) -> list[str]:
    """Options of two groups, and a number one larger than it is."""
    groups = rng.sample([group for group in GROUPS if f"{group}=" not in "".join(base)], 2)
    options = {
        group: sorted(path.stem for path in CONF.glob(f"{group}/*.yaml")) for group in groups
    }
    numbers = {
        key: value + 1
        for key, value in settings(base).items()
        if type(value) is int and key.startswith(("fit.", "seed", "pretrain.batch"))
    }
    key = rng.choice([*numbers])
    return [*(f"{group}={rng.choice(options[group])}" for group in groups), f"{key}={numbers[key]}"]


def judged(arguments: list[str], is_wrong: bool) -> tuple[str, str]:
    """What becomes of a command, and what it says."""
    try:
        told = said(arguments)
    except Exception as error:
        return "traceback", repr(error)
    if is_wrong:
        return "refused" if told else "wrong, but accepted", told
    return "refused, but right" if told else "accepted", told


def test_wrong_ones_are_refused_and_right_ones_are_not():
    first = 30 if CASES == 60 else 0  # behind most of BROKEN, which other tests have
    outcomes = [(one, *judged(*one)) for one in islice(commands(seed=2), first, first + CASES)]
    assert [each for each in outcomes if each[1] not in ("refused", "accepted")] == []
