"""`job=card`: one command trains an encoder's layers on tasks and leaves a folder to share."""

import multiprocessing
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

from elmo_bench.runs import as_baseline, begin, collect, is_baseline, write_result
from elmo_bench.settings import earlier
from elmo_bench.sweeps import card, launcher
from tests import conftest

ROOT = Path(__file__).parents[2]
MIXES = [f"elmo.mix={mix}" for mix in ("none", "all", 0, 1, "top")]
TASK = ["task=ner", "encoder=mini"]


class Ended(multiprocessing.Process):
    """A process of the test, which is over before it began."""

    exitcode = 0


def composed(*overrides):
    cfg = conftest.composed(*overrides, whole=True)
    OmegaConf.set_struct(cfg, False)
    return cfg


def train(cfg, folder):
    """A run that is done at once: what it leaves, among that what a card has no use for."""
    del cfg.hydra
    cfg.run_dir = str(folder)
    if is_baseline(cfg):
        as_baseline(cfg)
    right = np.arange(50) % 10 < {"none": 5, "all": 8}.get(cfg.elmo.mix, 6)
    begin(cfg, {})
    figures = {f"{split}/{cfg.task.monitor}": float(right.mean()) for split in ("dev", "test")}
    write_result(cfg, conftest.COSTS | {"metrics": figures})
    rows = np.stack([right, np.ones_like(right)] * 2, 1)[:, None].astype(float)
    (folder / "counts").mkdir()
    examples = {"sentences": np.arange(50, dtype=np.uint64), "groups": np.arange(50)}
    for split in ("dev", "test"):
        np.savez(folder / "counts" / f"{split}.npz", **{cfg.task.monitor: rows}, **examples)
    (folder / "best.ckpt").write_text("weights")


@pytest.fixture
def run_card(tmp_path, monkeypatch):
    """`python run.py job=card` with these overrides for each of its jobs, which returns those that
    each run had beside them. Runs with an override in `fails` raise.
    """
    for module in (launcher, card):
        monkeypatch.setattr(module, "configure_log", lambda *_: None)
    monkeypatch.setattr(earlier, "files", lambda _: {})
    monkeypatch.setattr("sys.argv", [str(ROOT / "run.py"), "job=card"])
    folders = [f"outputs_dir={tmp_path}/outputs", f"cache_dir={tmp_path}"]
    sweeps = iter(range(9))

    def config(_, overrides):
        return composed(*overrides, *folders)

    def start(*jobs, fails=()):
        trained, ended, made = [], [], card.CardLauncher(1, fork=False)

        def run(command, *_):
            overrides, run_dir = command
            trained.append(overrides[-1])
            if overrides[-1] in fails:
                (run_dir / "error.txt").write_text("Traceback\nMemoryError: there is none\n")
            else:
                train(config(None, overrides), run_dir)
            ended.append(Ended())
            ended[-1].exitcode = int(overrides[-1] in fails)
            return ended[-1]

        made.command = lambda overrides, run_dir: (overrides, run_dir)
        made.processes.start, made.processes.ended = run, lambda: [ended.pop()]
        loader = SimpleNamespace(load_sweep_config=config)
        made.hydra_context = SimpleNamespace(config_loader=loader)
        made.config = composed("job=card", *folders)
        made.config.hydra.sweep.dir = f"{tmp_path}/outputs/sweep{next(sweeps)}"
        for returned in made.launch([["job=card", *job] for job in jobs], 0):
            assert returned.return_value is not None
        return trained

    return start


def test_a_folder_to_share(run_card, tmp_path):
    """Every layer alone, the mix, the baseline; of files of this machine nothing."""
    out = tmp_path / "outputs" / "card" / "mini"
    assert run_card(TASK) == MIXES
    assert {path.name for path in out.iterdir()} == {*card.OWN}
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in out.iterdir())
    assert "80.00" in (out / "README.md").read_text()


def test_one_that_fails_leaves_the_others(run_card, tmp_path, monkeypatch, caplog):
    """The same command runs it again, and no other."""
    jobs = []

    def fake(launched, part, job, **settings):
        jobs.append(job)
        if job == "archive":
            assert collect(re.findall("'(.+?)'", settings["runs"]))  # raises for one without a run
        for name in card.OWN:
            (part / name).touch()

    monkeypatch.setattr(card.CardLauncher, "_run_job", fake)
    own = [*TASK, f"out={tmp_path}/shared"]
    with pytest.raises(ValueError, match="1 of 5 runs did not finish"):
        run_card(own, fails=["elmo.mix=1"])
    assert run_card(own) == ["elmo.mix=1"]
    assert jobs == ["archive", "report"] * 2
    assert run_card([*own, "elmo.mix=uniform"]) == ["elmo.mix=uniform"]
    assert "smoke" not in caplog.text
    assert run_card([*own, "elmo.mix=uniform", "trainer=smoke"]) == ["trainer=smoke"]
    assert "shared, but of smoke runs of 2 batches, whose scores mean nothing" in caplog.text
    (tmp_path / "shared" / "mine.txt").touch()
    with pytest.raises(ValueError, match=r"contains mine.txt, which job=card did"):
        run_card(own)
    with pytest.raises(ValueError, match="encoder=none has no layers"):
        run_card(["task=ner", "encoder=none"])
    with pytest.raises(ValueError, match="a card is of one encoder"):
        run_card(TASK, ["task=ner", "encoder=wiki"])
