"""What a notebook calls does what the command line does, and leaves the notebook's Hydra alone."""

import inspect
import re
import signal

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.version import VersionBase

import elmo_bench
from elmo_bench.settings.hydra_private import HAS_WHITELIST
from elmo_bench.training.log import EpochLines
from tests.conftest import QUIET, TINY

SMALL = ["task=ner", "data.size=4", *TINY, *QUIET]
OTHER = "1.3" if HAS_WHITELIST else "1.2"  # a version_base that is not ours


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """A working folder in which Hydra is initialised for configs of the notebook's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "app.yaml").write_text("hello: ${hydra:job.name}\n")
    before = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    GlobalHydra.instance().clear()
    initialize_config_dir(str(tmp_path / "own"), job_name="mine", version_base=OTHER)
    cfg = compose("app", return_hydra_config=True)
    HydraConfig.instance().set_config(cfg)
    yield cfg
    GlobalHydra.instance().hydra, HydraConfig.instance().cfg = before


def test_a_path_in_the_home_folder(notebook, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    cfg = elmo_bench.compose("job=evaluate", "checkpoint='~/best.ckpt'", "run_dir='~/evaluation'")
    assert (cfg.checkpoint, cfg.run_dir) == ("/home/me/best.ckpt", "/home/me/evaluation")


def test_train_predict_and_read(notebook, tmp_path_factory):
    cache = f"cache_dir={tmp_path_factory.getbasetemp()}"
    mini = elmo_bench.train(*SMALL, "encoder=mini", "seed=2", cache)
    none = elmo_bench.train(*SMALL, "encoder=none", "run_dir='none\\'s, too'", cache)
    assert mini.folder.parents[1].name == "outputs"
    again = elmo_bench.train(*SMALL, "encoder=mini", "seed=2", cache, "resume=true")
    assert (again.folder, again.finished) == (mini.folder, mini.finished)
    assert sum(mini.mix["input"]["shares"]) == pytest.approx(1)
    assert (none.folder.name, none.mix) == ("none's, too", {})
    command = yaml.safe_load((none.folder / ".hydra" / "overrides.yaml").read_text())
    assert command[-3:] == ["encoder=none", "run_dir='none\\'s, too'", cache]

    answers = elmo_bench.predict(
        none.folder / "best.ckpt", ["Ann left .", {"tokens": ["a b", "c"]}], cache
    )
    assert [answer["tokens"] for answer in answers] == [["Ann", "left", "."], ["a b", "c"]]
    assert [len(answer["tags"]) for answer in answers] == [3, 2]
    odd = [{"tokens": ["a\u2028b", "c\x85"]}]  # characters that str.splitlines takes for line ends
    (answer,) = elmo_bench.predict(none.folder / "best.ckpt", odd, cache)
    assert answer["tokens"] == odd[0]["tokens"]
    assert elmo_bench.predict(none.folder / "best.ckpt", [], cache) == []

    first, second = elmo_bench.read_runs([none.folder, "outputs"])
    assert [first["encoder.name"], second["encoder.name"]] == ["none", "mini"]
    assert (second["test/f1"], second["seed"]) == (mini.metrics["test/f1"], 2)
    share = mini.mix["input"]["shares"][0]
    assert (second["elmo.at"], second["elmo/input/s0"]) == ("[input]", share)
    assert second["seconds.training"] < second["seconds.total"]

    tables = elmo_bench.compare([none.folder, "outputs"], columns="encoder", baseline="none")
    assert [record["encoder.name"] for record in tables.records()] == ["none", "mini"]
    assert tables.records()[1]["difference"] == pytest.approx(
        mini.metrics["test/f1"] - none.metrics["test/f1"]
    )
    both = {"columns": ["encoder", "task"], "baseline": ("none", "ner")}
    (_, ours) = elmo_bench.compare([none.folder, "outputs"], **both).records()
    assert ours["difference"] == tables.records()[1]["difference"]
    assert "difference to no encoder" in repr(tables)
    assert "difference to no encoder" in tables._repr_html_()

    # Hydra is as it was.
    assert (notebook.hello, compose("app", return_hydra_config=True).hello) == ("mine", "mine")
    assert str(VersionBase.instance().getbase()) == OTHER


def test_wrong_settings(notebook):
    with pytest.raises(ValueError, match=r"^fit.max_epochs=0, but .*\nelmo.mix=best, but "):
        elmo_bench.train("elmo.mix=best", "fit.max_epochs=0")
    with pytest.raises(ValueError, match=r"^job=pretrain: train runs job=train"):
        elmo_bench.train("job=pretrain", "text=sample", "out=here")
    with pytest.raises(ValueError, match=r"^sweep=layers: a sweep .* write a loop"):
        elmo_bench.train("sweep=layers")
    assert HydraConfig.get().job.name == "mine"


def test_a_run_that_fails_leaves_the_reason(tmp_path):
    """As the command does; that of an earlier run does not outlive its cause."""
    for name in ("a", "b"):
        with pytest.raises(FileNotFoundError):
            elmo_bench.train(
                *(*SMALL, "encoder=none", f"vocab.vectors={name}.txt", f"cache_dir={tmp_path}"),
                f"run_dir={tmp_path}/run",
            )
        said = (tmp_path / "run" / "error.txt").read_text()
        assert said.startswith("Traceback")
        assert said.endswith(f"vocab.vectors={name}.txt: no such file\n")


def test_an_interrupt_ends_the_cell_and_not_python(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(EpochLines, "on_train_epoch_start", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        elmo_bench.train(*SMALL, "encoder=none", f"run_dir={tmp_path}/run", f"cache_dir={tmp_path}")
    assert signal.getsignal(signal.SIGINT) is before is not signal.SIG_IGN
    assert not (tmp_path / "run" / "error.txt").exists()


@pytest.mark.parametrize("name", elmo_bench.__all__)
def test_docstrings_of_exported_names(name):
    """Each argument, also of methods with arguments, and what comes back."""
    thing = getattr(elmo_bench, name)
    if name == "Encoder":
        parts = [thing.prepare, thing.forward, thing.misread]
    else:
        parts = [thing, thing.forward] if name == "Elmo" else [thing]
    for part in parts:
        said = inspect.getdoc(part).split("\nArgs:\n")[1]
        names = [each for each in inspect.signature(part).parameters if each != "self"]
        assert re.findall(r"^    (\w+): ", said.partition("\n\n")[0], re.M) == names
        assert inspect.isclass(part) or "\nReturns:\n    " in said
