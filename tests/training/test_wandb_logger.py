"""W&B offline, for real; and what happens where there is no key, or no service."""

import pytest
from pytorch_lightning.utilities import rank_zero_only

from elmo_bench.training import wandb_logger

wandb = pytest.importorskip("wandb")


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    yield
    wandb.finish()


def build(tmp_path):
    return wandb_logger.logger(
        save_dir=str(tmp_path), init_timeout=5, project="p", group="g", tags=["t"]
    )


def test_without_a_key_it_goes_offline(tmp_path):
    logger = build(tmp_path)
    logger.log_hyperparams({"elmo": {"mix": "all"}})
    logger.log_metrics({"dev/f1": 0.5}, step=1)
    assert logger.experiment.settings.mode == "offline"
    wandb.finish()
    assert list(tmp_path.rglob("*.wandb"))


def test_a_run_that_goes_on_is_the_same_run(tmp_path):
    """Its id follows from the run's folder; one that is begun anew has another."""
    ids = []
    for content in ("begun today", "begun today", "begun tomorrow"):
        (tmp_path / "run.json").write_text(content)
        with wandb_logger.ending(True):
            ids.append(build(tmp_path).experiment.id)
        assert wandb.run is None
    assert ids[0] == ids[1] != ids[2]


def test_the_environment_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert build(tmp_path).experiment.settings.mode == "disabled"


def test_a_service_that_does_not_answer(tmp_path, monkeypatch, caplog):
    """Online is tried, fails as the library fails, and the run goes on offline."""
    monkeypatch.setattr(wandb, "login", lambda **_: True)
    init, modes = wandb.init, []

    def no_network(*, mode, **settings):
        modes.append(mode)
        if mode == "online":
            raise wandb.errors.CommError("connection refused")
        return init(mode=mode, **settings)

    monkeypatch.setattr(wandb, "init", no_network)
    build(tmp_path)
    assert modes == ["online", "offline"]
    assert "wandb: offline, since online failed: connection refused" in caplog.text


def test_of_several_processes_the_first_has_a_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rank_zero_only, "rank", 1)
        build(tmp_path).log_metrics({"dev/f1": 0.5})
    # The second node's first process, until it knows of the others.
    monkeypatch.setenv("NODE_RANK", "1")
    build(tmp_path).log_metrics({"dev/f1": 0.5})
    assert not [*tmp_path.rglob("wandb")]
