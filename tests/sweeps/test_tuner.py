"""`sweep=tune`: equal numbers of draws of each side, dev chooses, fresh seeds are tested."""

import json
import re
import time
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from elmo_bench import CONF
from elmo_bench.runs import drawn_space
from elmo_bench.settings.check import faults
from elmo_bench.sweeps.tuner import Side, value
from tests.commands import SMALLEST, forked, kill_sweep, run, run_here
from tests.conftest import OF_RESULTS, composed

TASKS = sorted(path.stem for path in CONF.glob("task/*.yaml"))


def spaces(texts):
    lines = [f"{key}={text}" for key, text in texts.items()]
    return dict(zip(texts, OverridesParser.create().parse_overrides(lines), strict=True))


EXPERIMENTS = sorted(path.stem for path in CONF.parent.glob("results/conf/experiment/*.yaml"))
EXPERIMENTS += [f"bert/{path.stem}" for path in sorted(CONF.glob("experiment/bert/*.yaml"))]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rates_are_those_of_an_experiments_optimizer(name):
    cfg = composed(
        OF_RESULTS,
        "sweep=tune",
        f"experiment={name}",
        "finetune=full" if "bert" in name else "finetune=none",
    )
    low, high = map(float, re.findall(r"[\d.]+e-\d|[\d.]+", cfg.tune["task.optimizer.lr"]))
    assert low <= cfg.task.optimizer.lr <= high


@pytest.mark.parametrize("options", [f"task={task}" for task in TASKS] + ["experiment=bert/snli"])
def test_every_space(options):
    """What is drawn from it are settings, in their range."""
    space = drawn_space(OmegaConf.to_container(composed("sweep=tune", options)))
    side = Side([options, "data=sample", "run_dir=here"], spaces(space))
    for number in range(4):
        assert faults(composed(*side.trial(number, None), whole=True)) == []


def test_draws():
    """They fill a space evenly, and depend on nothing but the key and the number."""
    space = spaces(
        {"a": "interval(2, 4)", "b": "tag(log, interval(1e-4, 1))", "c": "choice([1,2],x)"}
    )
    draws = [Side([], space).trial(number, None) for number in range(400)]
    a, b, c = ([each[k].partition("=")[2] for each in draws] for k in range(3))
    quarters = [sum(low <= float(x) < low + 0.5 for x in a) for low in (2, 2.5, 3, 3.5)]
    decades = [sum(10**e <= float(x) < 10 ** (e + 1) for x in b) for e in (-4, -3, -2, -1)]
    assert quarters == pytest.approx([100] * 4, abs=30)
    assert decades == pytest.approx([100] * 4, abs=30)
    assert c.count("x") == pytest.approx(200, abs=45)
    assert c.count("x") + c.count("[1,2]") == 400
    other = Side(["task=srl"], {"b": space["b"]})
    assert [other.trial(number, None)[1] for number in range(400)] == [each[1] for each in draws]
    # With a seed of its own the search is another one, and can be repeated, too.
    again = [Side([], space).trial(number, 7) for number in range(400)]
    assert again == [Side([], space).trial(number, 7) for number in range(400)]
    assert not {*map(tuple, again)} & {*map(tuple, draws)}


def test_a_fixed_key_is_not_drawn():
    """However it is set."""
    done = run_here("sweep=tune", "--dry-run", "budget=1", "++fit.batch_size=64", "elmo.l2=0.5")
    assert done.returncode == 0, done.stderr
    assert " ++fit.batch_size=64 elmo.l2=0.5 " in done.stdout
    assert " fit.batch_size=" not in done.stdout
    assert done.stdout.count(" elmo.l2=") == 1
    assert "1 run: the settings are valid; nothing was run." in done.stdout
    assert "5 runs with the settings that dev selects would follow." in done.stdout


@pytest.mark.parametrize(
    "text", ["interval(2, 1)", "tag(log, interval(0, 1))", "0.5", "shuffle(choice(1,2))"]
)
def test_what_is_no_space(text):
    with pytest.raises(ValueError, match=r"tune: a=.*(LOW < HIGH|must be interval)"):
        value(spaces({"a": text})["a"], "")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("seed=1,2", "seed=1,2, but all draws have one seed; seeds=5 is"),
        ("job=card", "sweep=tune has a launcher of its own: leave hydra/launcher and job=card out"),
        ("budget=0", "budget=0, but it must be greater than or equal to 1"),
        ("task=squad rnn=identity optimizer=adam", "tune draws rnn.output_dropout=interval(0.0, 0.4), but the model does"),
        ("task=srl ~task/for", "interval(3e-4, 5e-3)), but the model has task.optimizer.lr=1.0: "),
        ("++tune.rnn.dropout=0.3", "tune: rnn.dropout=0.3, but it must be interval(LOW,HIGH)"),
    ],
)  # fmt: skip
def test_wrong_commands(argument, said):
    done = run_here("sweep=tune", "--dry-run", *argument.split())
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(
    not [*Path("/proc/self/task").glob("*/children")],
    reason="needs /proc, which lists a process's children",
)
def test_tuning(tmp_path):
    """Both sides get the same draws, which are not tested; one that fails is passed over; the best
    on dev is trained with fresh seeds and tested. Killed and given again, it goes on.
    """
    command = ["sweep=tune", *SMALLEST[1:], "encoder=none,mini", "fit.max_epochs=1", "budget=3"]
    command += ["task.optimizer.lr=choice(1e30,0.01)", "seeds=2", "resume=true"]
    command += [f"outputs_dir={tmp_path}", f"cache_dir={tmp_path}"]
    killed = forked(*command, f"hydra.sweep.dir={tmp_path}/killed")
    while not (first := [*tmp_path.glob("killed/*/result.json")]):
        assert killed.is_alive()
        time.sleep(0.01)
    kill_sweep(killed)
    written = first[0].stat().st_mtime_ns
    done = run(*command, f"hydra.sweep.dir={tmp_path}/again")
    assert done.returncode == 0, done.stderr
    assert first[0].stat().st_mtime_ns == written
    assert done.stdout.count(" of 3 (1 failed) is the best on dev, with ") == 2
    sides = [tuned(tmp_path, encoder) for encoder in ("none", "mini")]
    assert sides[0] == sides[1] == {1: 0.01, 2: 0.01}


def tuned(folder, encoder):
    """Check the runs of a side; return the learning rate of each draw that has a score."""
    results = [json.loads(path.read_text()) for path in folder.glob("*/*/result.json")]
    ours = [each for each in results if each["config"]["encoder"]["name"] == encoder]
    trials = {each["config"]["trial"]: each for each in ours if each["config"]["trial"] is not None}
    last = [each for each in ours if each["config"]["trial"] is None]
    assert len(ours) == len(trials) + len(last)
    assert not [key for each in trials.values() for key in each["metrics"] if "test/" in key]
    best = max(sorted(trials), key=lambda number: trials[number]["metrics"]["dev/f1"])
    drawn = [*OmegaConf.load(CONF / "task" / "ner.yaml").tune]
    assert sorted(each["seed"] for each in last) == [2, 3]
    for each in last:
        assert "test/f1" in each["metrics"]
        # What the command has fixed is told as its own space.
        assert each["config"]["tune"]["fit"]["batch_size"] == "4"
        chosen, theirs = (OmegaConf.create(one["config"]) for one in (each, trials[best]))
        select = OmegaConf.select
        assert [select(chosen, key) for key in drawn] == [select(theirs, key) for key in drawn]
    return {n: trials[n]["config"]["task"]["optimizer"]["lr"] for n in sorted(trials)}
