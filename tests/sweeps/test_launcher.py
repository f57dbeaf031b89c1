"""Sweeps: every run a process of its own; what fails leaves the others alone; what is finished is
not run again.
"""

import json
import os
import signal
import sys
import threading
import time
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from elmo_bench.build import dry_run
from elmo_bench.runs import identity_of
from elmo_bench.settings import earlier
from elmo_bench.sweeps import launcher, processes
from elmo_bench.sweeps.launcher import ProcessLauncher
from elmo_bench.sweeps.outcome import parted
from elmo_bench.terminal.signals import Stopped
from tests.conftest import CONF, composed
from tests.runs.made_runs import write_run

SWEEPS = sorted(path.stem for path in (CONF / "sweep").glob("*.yaml"))
CONFIG = "{{'task': {{'name': 'ner', 'monitor': 'f1'}}}}"
METRICS = "{{'dev/f1': 0.25, 'test/f1': 0.5}}"
CONTENT = f"{{{{'identity': '{{identity}}', 'inputs': {{{{}}}}, 'metrics': {METRICS}, 'config': {CONFIG}, 'seed': 1}}}}"
RESULT = f"import json, pathlib; pathlib.Path('{{run_dir}}', 'result.json').write_text(json.dumps({CONTENT}))"
DONE = RESULT + "; open('{folder}/log', 'a').write('{name} ')"
RAISES = "import pathlib, sys; pathlib.Path('{run_dir}', 'error.txt').write_text('Traceback (most recent call last):\\n  f()\\nValueError: no such mix\\nmore'); sys.exit(1)"
KILLED = "import os; os.kill(os.getpid(), 9)"
OURS = "elmo_bench.jobs.train"


def named(name):
    return OmegaConf.create({"name": name, "run_dir": "somewhere"})


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep of processes, one for each name=code, as `launch` of the launcher; `fork`ed or each
    started by itself.
    """
    forkserver._forkserver._stop()  # that of an earlier test has other streams
    script = tmp_path / "script.py"
    script.write_text("import sys\nif __name__ == '__main__':\n    exec(sys.argv[1])\n")
    monkeypatch.setattr(sys, "argv", [str(script)])

    def command(codes, overrides, run_dir):
        (name,) = overrides
        facts = {"name": name, "run_dir": run_dir, "folder": tmp_path}
        code = codes[name].format(**facts, identity=identity_of(named(name), {}))
        return [sys.executable, str(script), code]

    def config(_, overrides):
        name = overrides[0].removesuffix("_again")
        return OmegaConf.create({"name": name, "run_dir": "?", "cache_dir": str(tmp_path)})

    def build(n_jobs=1, resume=False, given=(), fork=False, **codes):
        made = ProcessLauncher(n_jobs, fork=fork)
        made.command = lambda overrides, run_dir: command(codes, overrides, run_dir)
        hydra = {"sweep": {"dir": str(tmp_path / "sweep")}, "hydra_logging": None, "verbose": False}
        typed = {"hydra": [*given], "task": [*given]}
        hydra |= {"overrides": typed, "job": {"env_set": {}}}
        settings = {"outputs_dir": str(tmp_path / "outputs"), "resume": resume}
        context = SimpleNamespace(config_loader=SimpleNamespace(load_sweep_config=config))
        whole = OmegaConf.create({"hydra": hydra, **settings, "oversubscribe": True})
        made.hydra_context, made.config = context, whole
        made.check()
        jobs = made.launch([[name] for name in codes], 0)
        return [job.return_value for job in jobs]  # as Hydra's own sweeper looks at them

    yield build
    forkserver._forkserver._stop()


@pytest.fixture(autouse=True)
def no_logging(monkeypatch):
    monkeypatch.setattr(launcher, "configure_log", lambda *_: None)
    monkeypatch.setattr(earlier, "files", lambda _: {})
    monkeypatch.setattr(launcher, "faults", lambda _: [])


@pytest.mark.parametrize("fork", [False, True])
def test_what_fails_leaves_the_others_alone(sweep, tmp_path, capsys, caplog, fork):
    caplog.set_level("INFO")
    with pytest.raises(
        ValueError, match="2 of 4 runs did not finish; the same command with resume=true"
    ):
        sweep(fork=fork, first=DONE, second=RAISES, third=KILLED, fourth=DONE)
    assert (tmp_path / "log").read_text() == "first fourth "
    printed = capsys.readouterr()
    told = " ".join(printed.out.split())
    assert "│ no such mix " in told  # what a person can mend is told without its class
    assert not printed.err  # Hydra's own words on the first that failed
    assert "signal 9" in told
    assert "runs: 1 of 4, about " in caplog.text


def test_a_folder_that_cannot_be_made_leaves_the_others_alone(sweep, tmp_path, monkeypatch, capsys):
    new_folder = ProcessLauncher._new_folder

    def full(self, number):
        if number == 0:
            raise OSError("No space left on device")
        return new_folder(self, number)

    monkeypatch.setattr(ProcessLauncher, "_new_folder", full)
    with pytest.raises(ValueError, match="1 of 2 runs did not finish"):
        sweep(first=DONE, second=DONE)
    assert (tmp_path / "log").read_text() == "second "
    assert "No space left on device" in " ".join(capsys.readouterr().out.split())


def test_what_is_finished_is_not_run_again(sweep, tmp_path, capsys):
    with pytest.raises(ValueError, match="1 of 2 runs did not finish"):
        sweep(first=DONE, second=RAISES)
    sweep(zeroth=DONE, first=DONE, second=DONE, resume=True)  # told apart by content, not by number
    assert (tmp_path / "log").read_text() == "first zeroth second "
    sweep(zeroth=DONE, first=DONE, second=DONE, resume=True)
    assert (tmp_path / "log").read_text() == "first zeroth second "
    assert "finished before" in capsys.readouterr().out
    sweep(first=DONE)
    assert (tmp_path / "log").read_text() == "first zeroth second first "


def test_what_was_killed_goes_on_in_its_folder(sweep, tmp_path):
    """Its folder may be anywhere below the outputs; folders of other killed runs are not used."""
    for place, name in (("outputs/1", "second"), ("sweep/0", "another")):
        write_run(tmp_path / place, {}, identity=identity_of(named(name), {}), inputs={})
        (tmp_path / place / "last.ckpt").touch()
    sweep(first=DONE, second=DONE, resume=True)
    assert (tmp_path / "outputs" / "1" / "result.json").is_file()
    assert not (tmp_path / "sweep" / "0" / "result.json").exists()
    assert len([*tmp_path.glob("sweep/*/result.json")]) == 1


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_same_run_runs_once(sweep, tmp_path, capsys, n_jobs):
    """Duplicates get the first run's figure on dev, or its error."""
    figures = sweep(n_jobs, first=DONE, second=DONE, first_again=DONE)
    assert figures == [0.25, 0.25, 0.25]
    assert sorted((tmp_path / "log").read_text().split())[-1] == "second"
    assert len([*tmp_path.glob("sweep/*/result.json")]) == 2
    assert "same run as #" in capsys.readouterr().out
    with pytest.raises(ValueError, match="2 of 3 runs did not finish"):
        sweep(n_jobs, third=RAISES, third_again=RAISES, fourth=DONE)
    assert len([*tmp_path.glob("sweep/*/error.txt")]) == 1


def test_a_job_returns_its_figure_on_dev(sweep):
    """Sweepers that search need the figure; a job that trains no model returns None."""
    assert sweep(first=DONE, second="pass") == [0.25, None]
    assert sweep(first=DONE, resume=True) == [0.25]


def test_a_folder_that_another_sweep_takes_meanwhile_is_left_to_it(sweep, tmp_path):
    """Whatever is in it, and even where it is a file of a user."""
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "0").write_text("a user's own")
    other = f"import pathlib; pathlib.Path('{tmp_path}/sweep/2').mkdir()\n"
    sweep(first=other + DONE, second=DONE, third=DONE)
    assert {path.parent.name for path in tmp_path.glob("sweep/*/result.json")} == {"1", "3", "4"}


def test_side_by_side(sweep, tmp_path):
    """Each waits for the other."""
    wait = "import pathlib, time\nwhile not pathlib.Path('{folder}/{other}').exists(): time.sleep(0.01)"
    meet = "open('{folder}/{name}', 'w').close()\n" + wait
    sweep(n_jobs=2, fork=True, a=meet.replace("{other}", "b"), b=meet.replace("{other}", "a"))


FACTS = """
import json, os, pathlib, sys, threading
facts = dict(
    name=__name__, file=__file__, argv=len(sys.argv), cwd=os.getcwd(), session=os.getsid(0) == os.getpid(),
    main=sys.modules['__main__'].__file__, environment=dict(os.environ),
)
pathlib.Path('{folder}/{name}.json').write_text(json.dumps(facts))
threading.Thread(target=lambda: print('a thread')).start()
sys.exit({code})
"""


def test_a_fork_is_a_process_of_its_own(sweep, tmp_path, monkeypatch, capfd):
    """A fork has the streams, environment and exit status of a separate process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    codes = {"a": "'the reason'", "b": "7"}
    codes = {name: FACTS.replace("{code}", code) for name, code in codes.items()}
    left = []
    for fork in (False, True):
        with pytest.raises(ValueError, match="2 of 2 runs did not finish"):
            sweep(fork=fork, **codes)
        told = capfd.readouterr()
        assert "exit status 7" in told.out
        assert "exit status 1" in told.out
        assert "the reason" in told.err
        assert told.out.count("a thread") == 2
        facts = [json.loads((tmp_path / f"{name}.json").read_text()) for name in codes]
        left.append(facts)
    assert left[0] == left[1]


def test_what_a_fork_comes_from_is_killed(sweep, tmp_path):
    """Its run counts as failed; later ones are forked from another."""
    kills = "import os; os.kill(os.getppid(), 9)"
    with pytest.raises(ValueError, match="1 of 3 runs did not finish"):
        sweep(fork=True, first=kills, second=DONE, third=DONE)
    assert (tmp_path / "log").read_text() == "second third "


@pytest.mark.parametrize(
    ("prefix", "variables", "can_fork"),
    [("", {}, True), ("nice", {}, False), ("", {"A": 1}, False)],
)
def test_where_runs_are_forked(monkeypatch, prefix, variables, can_fork):
    """Runs with a prefix, or with variables that would be set after the imports, are not forked."""
    monkeypatch.setattr(sys, "platform", "linux")
    made = launcher_of(1, prefix, job={"env_set": variables})
    configs = [OmegaConf.create({"job": {"_target_": f"{name}.train"}}) for name in (OURS, "mine")]
    assert made._modules(configs) == ([OURS] if can_fork else None)


@pytest.mark.parametrize("fork", [False, True])
def test_a_stopped_sweep_leaves_nothing_behind(sweep, tmp_path, capfd, fork):
    begun = tmp_path / "begun"
    forever = f"import os, time; open('{begun}', 'w').write(str(os.getpid())); time.sleep(600)"

    def stop():
        while not (begun.exists() and begun.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    with pytest.raises(Stopped, match="143"):
        sweep(first=forever, second=DONE, fork=fork)
    told = capfd.readouterr()
    assert told.err.count("stopped by SIGTERM: the runs of the sweep end") == 1
    assert "stopped" in told.out
    assert "not started" in told.out
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
    assert not (tmp_path / "log").exists()


def launcher_of(n_jobs, prefix="", **hydra):
    made = ProcessLauncher(n_jobs, prefix)
    usual = {"overrides": {"hydra": [], "task": []}, "sweep": {"dir": "outputs/2026-01-31/12-00"}}
    made.config = OmegaConf.create({"hydra": usual | hydra, "oversubscribe": True})
    made.check()
    return made


def test_environment(monkeypatch):
    for name in ("RANK", "MASTER_ADDR", "SLURM_NTASKS"):
        monkeypatch.setenv(name, "1")
    for name in ("OMP_NUM_THREADS", "WANDB_RUN_GROUP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(processes, "cores", lambda: 8)
    four = launcher_of(4)
    found = four.environment("1")
    expected = {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "1"}
    assert found.items() >= (expected | {"WANDB_RUN_GROUP": "2026-01-31/12-00"}).items()
    assert not {"RANK", "MASTER_ADDR", "SLURM_NTASKS"} & {*found}
    for whole in (launcher_of(1), launcher_of(4, "nice")):
        assert "OMP_NUM_THREADS" not in whole.environment(None)
    for name in ("OMP_NUM_THREADS", "WANDB_RUN_GROUP"):
        monkeypatch.setenv(name, "mine")
        assert four.environment(None)[name] == "mine"


def test_each_run_is_told_by_what_differs():
    jobs = {3: ["encoder=none", "seed=1", "data=sst"], 4: ["encoder=none", "seed=2", "data=sst"]}
    assert parted(jobs) == ("encoder=none data=sst", {3: "seed=1", 4: "seed=2"})
    assert parted({3: jobs[3]}) == ("", {3: "encoder=none seed=1 data=sst"})


def test_a_dry_run_removes_what_hydra_made_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "lines", lambda _: [])
    for mine in ([], ["notes.txt"]):
        folder = tmp_path / "users" / "sweep"
        folder.mkdir(parents=True)
        for name in ("multirun.yaml", *mine):
            (folder / name).touch()
        runtime = {"choices": {}, "config_sources": []}
        hydra = {"hydra_logging": None, "verbose": False, "runtime": runtime}
        made = launcher_of(1, sweep={"dir": str(folder)}, **hydra)
        made.config.dry_run = True
        made.composed = lambda _: []
        with pytest.raises(SystemExit):
            made.launch([[]], 0)
        left = {path.name for path in (tmp_path / "users").rglob("*")}
        assert left == ({"sweep", "multirun.yaml", *mine} if mine else set())


def test_the_home_of_a_user_is_known(monkeypatch):
    """In a dry run of a sweep, too."""
    monkeypatch.setenv("HOME", "/me")
    made = launcher_of(1)
    made.config.dry_run = True
    loader = SimpleNamespace(load_sweep_config=lambda _, overrides: composed(*overrides))
    made.hydra_context = SimpleNamespace(config_loader=loader)
    (config,) = made.composed([["vocab.vectors='~/v.txt'"]])
    assert config.vocab.vectors == "/me/v.txt"


def test_a_run_gets_the_configs_of_its_sweep(monkeypatch):
    paths = {"hydra": "hydra.conf", "main": "/mine/conf", "command-line": "/more/conf"}
    sources = [{"provider": provider, "path": path} for provider, path in paths.items()]
    given = ["hydra.launcher.n_jobs=2", "hydra.job.chdir=false", "hydra.mode=MULTIRUN"]
    own = {"job": {"config_name": "small"}, "overrides": {"hydra": given, "task": []}}
    made = launcher_of(1, "nice -n 5", runtime={"config_sources": sources}, **own)
    monkeypatch.setattr(sys, "argv", ["/mine/run.py"])
    words = made.command(["seed=2"], Path("/out/it's\\"))
    assert words[:5] == ["nice", "-n", "5", sys.executable, "/mine/run.py"]
    assert words[5:9] == ["--config-path", "/mine/conf", "--config-dir", "/more/conf"]
    assert words[9:] == [
        *("--config-name", "small", "seed=2", "hydra.job.chdir=false"),
        *("hydra.run.dir='/out/it\\'s\\\\'", "hydra.mode=RUN"),
    ]


@pytest.mark.parametrize(
    ("n_jobs", "visible", "slots"),
    [
        (1, "2,3,5,7", [None]),
        (2, "2,3,5,7", ["2,3", "5,7"]),
        (3, "2,3,5,7", ["2", "3", "5"]),
        (5, "2,3,5,7", ["2", "3", "5", "7", "2"]),
        (2, "", [None, None]),
    ],
)
def test_each_run_gets_its_share_of_the_gpus(monkeypatch, n_jobs, visible, slots):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert ProcessLauncher(n_jobs)._slots() == slots


def test_settings_that_cannot_be(sweep):
    with pytest.raises(ValueError, match=r"hydra.sweep.subdir cannot be changed"):
        sweep(given=["hydra.sweep.subdir=${hydra.job.override_dirname}"], one=DONE)
    with pytest.raises(ValueError, match="run_dir=FOLDER would be the folder of all runs"):
        sweep(given=["run_dir=here"], one=DONE)
    with pytest.raises(ValueError, match=r"sweep=layers has elmo.mix=none,0.* sweep=figure1 elmo"):
        sweep(given=["sweep=[layers,figure1]"], one=DONE)
    for n_jobs, prefix, said in (
        (0, "", "n_jobs=0, but it must be 1 or more"),
        (1, "'srun", "prefix='srun: No closing quotation"),
        (1, "no_srun -n 1", "prefix=no_srun -n 1, but there is no command"),
    ):
        with pytest.raises(ValueError, match=said):
            launcher_of(n_jobs, prefix)


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep(name):
    """Its keys are there, and so are its options of groups."""
    hydra = composed(f"sweep={name}", whole=True).hydra
    assert hydra.mode.name == "MULTIRUN"
    given = [f"{key}={values}" for key, values in hydra.sweeper.params.items()]
    overrides = OverridesParser.create().parse_overrides(given)
    assert all(override.is_sweep_override() for override in overrides)
    options = {
        each.key_or_group: ["0.5"] if each.is_interval_sweep() else [*each.sweep_string_iterator()]
        for each in overrides
    }
    several = {"task", "encoder"} & {*options}
    for number in range(max(map(len, options.values())) if several else 1):
        composed(*(f"{key}={values[number % len(values)]}" for key, values in options.items()))
