"""W&B offline, for real; and what happens where there is no key, or no service."""

import logging
import time

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
    wandb_logger.finish()


def build(tmp_path):
    return wandb_logger.logger(
        save_dir=str(tmp_path), init_timeout=5, project="p", group="g", tags=["t"]
    )


def test_without_a_key_it_goes_offline_and_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    logger = build(tmp_path)
    logger.log_hyperparams({"elmo": {"mix": "all"}})
    logger.log_metrics({"dev/f1": 0.5}, step=1)
    assert "wandb: offline (no key is configured)" in caplog.text
    assert logger.experiment.settings.mode == "offline"
    wandb_logger.finish()
    assert list(tmp_path.rglob("*.wandb"))


def test_a_run_that_goes_on_is_the_same_run(tmp_path):
    """Its id follows from the run's folder; one that is begun anew has another."""
    ids = []
    for content in ("begun today", "begun today", "begun tomorrow"):
        (tmp_path / "run.json").write_text(content)
        ids.append(build(tmp_path).experiment.id)
        wandb_logger.finish()
    assert ids[0] == ids[1] != ids[2]


def test_the_environment_decides(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    build(tmp_path)
    assert "wandb: disabled (WANDB_MODE says so)" in caplog.text


def test_a_service_that_does_not_answer(tmp_path, monkeypatch, caplog):
    """Online is tried, fails as the library fails, and the run goes on offline."""
    caplog.set_level(logging.INFO)
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
    assert "wandb: offline (online failed: connection refused)" in caplog.text


def test_a_key_that_is_none(tmp_path, monkeypatch, caplog):
    """As the library says so, without asking the service."""
    caplog.set_level(logging.INFO)
    wandb.teardown()  # what it remembers of the environment, of other tests
    monkeypatch.setenv("WANDB_API_KEY", "abc")
    build(tmp_path)
    assert "wandb: offline (online failed: " in caplog.text


def test_of_several_processes_the_first_has_a_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rank_zero_only, "rank", 1)
        build(tmp_path).log_metrics({"dev/f1": 0.5})
    monkeypatch.setenv(
        "NODE_RANK", "1"
    )  # the second node's first process, until it knows of the others
    build(tmp_path).log_metrics({"dev/f1": 0.5})
    assert not [*tmp_path.rglob("wandb")]


def test_a_run_that_failed_is_not_finished_well(monkeypatch):
    codes = []
    with monkeypatch.context() as patch:
        patch.setattr(wandb, "finish", lambda exit_code: codes.append(exit_code))
        wandb_logger.finish(1)
        wandb_logger.finish()
    assert codes == [1, 0]


def test_two_runs_are_two(tmp_path):
    first = build(tmp_path).experiment.id
    wandb_logger.finish()
    assert build(tmp_path).experiment.id != first


def test_a_report_is_kept(tmp_path):
    """Its files are an artifact, its page is a panel; offline, both wait in the run's folder to be
    sent.
    """
    page, table = tmp_path / "report.html", tmp_path / "report.csv"
    page.write_text("<p>all of it</p>")
    table.write_text("mean\n0.5\n")
    wandb_logger.keep(
        [page, table], save_dir=str(tmp_path), init_timeout=5, project="p", job_type="report"
    )
    (shown,) = tmp_path.glob("wandb/offline-run-*/files/media/html/*.html")
    assert shown.read_text() == page.read_text()
    (stored,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + 30  # W&B's own process writes it, a little later
    while not (
        is_there := all(name in stored.read_bytes() for name in (b"report.html", b"report.csv"))
    ):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert is_there
    assert wandb.run is None
