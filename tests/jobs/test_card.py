"""`job=card`: one command trains an encoder's layers on tasks and leaves a folder to share."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf

from elmo_bench.config import inputs
from elmo_bench.jobs.report import report
from elmo_bench.report.plots import rendering
from elmo_bench.runs import Result, as_baseline, begin, is_baseline, write_result
from hydra_plugins import cards, processes

CONF = str(Path(__file__).parents[2] / "conf")
OWN = {"README.md", "card.json", "index.html", "runs"} | {
    f"tables.{suffix}" for suffix in ("md", "tex", "csv", "json")
}


@cache
def once(*overrides):
    with initialize_config_dir(CONF, version_base="1.3"):
        return compose("config", list(overrides), return_hydra_config=True)


def composed(*overrides, **settings):
    """The config of a command; some settings are written into it, which is ten times as fast."""
    cfg = once(*overrides).copy()
    OmegaConf.set_struct(cfg, False)
    for key, value in settings.items():
        OmegaConf.update(cfg, key.replace("__", "."), value)
    return cfg


def reported(**settings):
    cfg = composed("job=report", **settings)
    del cfg.hydra
    report(cfg)


def train(cfg, folder):
    """A run that is done at once: what it leaves, among that what a card has no use for."""
    del cfg.hydra
    cfg.run_dir = str(folder)
    if is_baseline(cfg):
        as_baseline(cfg)
    right = np.arange(50) % 10 < {"none": 5, "all": 8}.get(cfg.elmo.mix, 6)
    begin(cfg, {})
    figures = {f"{split}/{cfg.task.monitor}": float(right.mean()) for split in ("val", "test")}
    sizes, seconds = {"trainable": 1, "frozen": 1}, {"training": 1.0, "total": 1.0}
    if cfg.seed == 1:  # a label that this run alone predicts
        figures["test/f1/PER"] = 0.5
    one = {"input": {"layers": [0], "shares": [1.0], "gamma": 1.0, "norms": []}}
    mix = {} if cfg.elmo.mix == "none" else one
    result = Result(cfg.task.name, cfg.seed, figures, mix, sizes, seconds, 1, 1.0, "cpu")
    write_result(result, cfg)
    rows = np.stack([right, np.ones_like(right)] * 2, 1)[:, None].astype(float)
    (folder / "counts").mkdir()
    counts = {cfg.task.monitor: rows, "sentences": np.arange(50, dtype=np.uint64)}
    for split in ("dev", "test"):
        np.savez(folder / "counts" / f"{split}.npz", **counts)
    (folder / "best.ckpt").write_text("weights")
    (folder / "metrics.csv").write_text("epoch,val/f1\n0,0.5\n")


def refuse(*_, **__):
    raise ValueError("no such table")


@pytest.fixture
def card(tmp_path, monkeypatch):
    """`python run.py job=card` with these overrides for each of its jobs; those that each run had
    beside them.
    """
    monkeypatch.setattr(rendering, "inline", lambda plot: "<svg><title>drawn</title></svg>")
    for module in (processes, cards):
        monkeypatch.setattr(module, "configure_log", lambda *_: None)
    monkeypatch.setattr(inputs, "files", lambda _: {})
    monkeypatch.setattr("sys.argv", ["run.py", "job=card", f"data_dir={tmp_path}/corpora"])
    outputs = {"outputs_dir": f"{tmp_path}/outputs", "cache_dir": str(tmp_path)}

    def config(overrides):
        mixes = [each for each in overrides if each.startswith("elmo.mix=")]
        cfg = composed(*(each for each in overrides if each not in mixes), **outputs)
        for mix in mixes:
            cfg.elmo.mix = int(value) if (value := mix.partition("=")[2]).isdigit() else value
            cfg.hydra.overrides.task.append(mix)
        return cfg

    def launched(*jobs, fails=()):
        trained, launcher = [], cards.Cards(1)
        loader = SimpleNamespace(
            load_sweep_config=lambda _, overrides: config(overrides),
            load_configuration=lambda name, overrides, mode: composed(*overrides),
        )
        number = len([*tmp_path.glob("outputs/sweep*")])
        whole = composed(
            "job=card", hydra__sweep__dir=f"{tmp_path}/outputs/sweep{number}", **outputs
        )

        def run(command, *_):
            overrides, run_dir = command
            trained.append(overrides[-1])
            if overrides[-1] in fails:
                cfg = config(overrides)
                del cfg.hydra
                cfg.run_dir = str(run_dir)
                begin(cfg, {})
                traceback = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
                error = f"MemoryError: there is none:\n{tmp_path}\n"
                (run_dir / "error.txt").write_text(traceback + error)
                return 1
            train(config(overrides), run_dir)
            return 0

        launcher.command = lambda overrides, run_dir: (overrides, run_dir)
        launcher.environment = lambda gpu: {}
        launcher.children.run = run
        context = SimpleNamespace(config_loader=loader)
        launcher.setup(hydra_context=context, task_function=None, config=whole)
        for returned in launcher.launch([["job=card", *job] for job in jobs], 0):
            assert returned.return_value is not None
        return trained

    return launched


def test_a_folder_to_share(card, tmp_path):
    """Every layer alone, the mix, the baseline; the same command again trains nothing."""
    out = tmp_path / "outputs" / "card" / "mini"
    own = ["task=ner", "encoder=mini"]
    mixes = [f"elmo.mix={mix}" for mix in ("none", "all", 0, 1, "top")]
    for runs in (mixes, []):
        assert card(own) == runs
        assert {path.name for path in out.iterdir()} == OWN
        assert len([*out.glob("runs/*/counts/test.npz")]) == 5
        files = [path for path in out.rglob("*") if path.is_file()]
        assert not any(str(tmp_path).encode() in path.read_bytes() for path in files)
        assert not any(path.suffix == ".ckpt" for path in files)
    about = json.loads((out / "card.json").read_text())
    assert about["command"] == "python run.py job=card data_dir=corpora"
    cells = {cell["elmo.mix"]: cell for cell in about["cells"]}
    assert [*cells] == ["none", "all", 0, 1, "top"]
    assert cells["all"]["mean"]["test/f1"] == 0.8
    assert [run["seed"] for run in cells["all"]["runs"]] == [1]
    assert cells["none"]["fingerprints"]["encoder"] is None
    assert cells[0]["fingerprints"]["encoder"] == about["encoders"][0]["fingerprint"]
    (out / "mine.txt").touch()
    with pytest.raises(
        CompactHydraException, match=r"out=.*card/mini contains mine.txt, which job=ca"
    ):
        card(own)


def test_cards_side_by_side(card, tmp_path, capsys):
    """One baseline serves both; a run that is in both counts once; other test data are refused."""
    for name in ("first", "second"):
        card(
            ["task=ner", "encoder=mini", f"encoder.name={name}", "elmo.mix=all"],
            ["task=ner", "encoder=mini", f"encoder.name={name}", "elmo.mix=none"],
        )
    both = {"runs": [f"{tmp_path}/outputs/card/{name}" for name in ("first", "second")]}
    both |= {"columns": ["encoder", "elmo.mix"], "baseline": ["none", "none"], "split": "test"}
    both["output"] = f"{tmp_path}/both.json"
    reported(**both)
    cells = json.loads((tmp_path / "both.json").read_text())["cells"]
    assert [(cell["encoder.name"], cell["runs"]) for cell in cells] == [
        ("none", 1),
        ("first", 1),
        ("second", 1),
    ]
    assert "only the last finished run counts" not in capsys.readouterr().out
    for path in tmp_path.glob("outputs/card/*/runs/*/result.json"):
        content = json.loads(path.read_text())
        inputs = {"data.test": "a" * 64 if "first" in str(path) else "b" * 64}
        path.write_text(json.dumps(content | {"inputs": inputs}))
    with pytest.raises(
        ValueError, match=r"cell differ in \['inputs.data.test'\]; add it to rows or columns"
    ):
        reported(**both, rows="task")
    reported(**both)  # parted
    parted = json.loads((tmp_path / "both.json").read_text())
    assert [len(parted["cells"]), parted["rows"]] == [4, ["task.name", "inputs.data.test"]]
    (base,) = tmp_path.glob("outputs/card/second/runs/*none*/result.json")
    base.unlink()
    other = (
        r"^ner: runs on other data cannot be compared, but inputs.data.test is a{12} in .* b{12}"
    )
    with pytest.raises(ValueError, match=other):
        reported(**both)
    reported(**both, where={"inputs.data.test": "a" * 12})


def test_one_that_fails_leaves_the_others(card, tmp_path, monkeypatch):
    own = ["task=ner", "encoder=mini", f"out={tmp_path}/shared"]
    with pytest.raises(CompactHydraException, match="1 of 5 runs did not finish"):
        card(own, fails=["elmo.mix=1"])
    assert "1 of 5 runs failed or did not finish: ner mini 1 seed 1 (MemoryError)" in " ".join(
        (tmp_path / "shared" / "tables.md").read_text().split()
    )
    about = json.loads((tmp_path / "shared" / "card.json").read_text())
    assert [command.split()[-1] for command in about["failed"]] == ["elmo.mix=1"]
    assert card(own) == ["elmo.mix=1"]
    assert not json.loads((tmp_path / "shared" / "card.json").read_text())["failed"]
    uniform = [[*own, f"seed={seed}", "elmo.mix=uniform"] for seed in (1, 2)]
    assert card(*uniform) == ["elmo.mix=uniform"] * 2
    (cell,) = json.loads((tmp_path / "shared" / "card.json").read_text())["cells"]
    assert {*cell["mean"]} == {"val/f1", "test/f1"}  # what both have
    assert [run["seed"] for run in cell["runs"]] == [1, 2]
    with monkeypatch.context() as patch:
        patch.setattr(cards.Cards, "report", refuse)
        with pytest.raises(CompactHydraException, match="no such table"):
            card(*uniform)
    assert [path.name for path in tmp_path.glob(".shared*")] == [".shared.lock"]
    assert {path.name for path in (tmp_path / "shared").iterdir()} == OWN
    with pytest.raises(CompactHydraException, match="encoder=none has no layers: choose an encod"):
        card(["task=ner", "encoder=none"])
