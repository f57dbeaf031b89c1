"""W&B offline, for real; and what happens where there is no key, or no service."""

import re

import pytest
import wandb
from pytorch_lightning.utilities import rank_zero_only

from elmo_bench.settings.check import faults
from elmo_bench.training import wandb_logger
from tests.conftest import composed


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


LONG = "corpora/" + 12 * "news/" + "train.txt"


def test_what_is_too_long_is_cut_and_nothing_else(tmp_path):
    """Tags have at most 64 characters; a corpus is called by its path if it has no name."""
    given = {"tags": ["ner", LONG, None, ""], "group": LONG * 3, "job_type": "ner", "project": "p"}
    assert not [*wandb_logger.refused(given)]
    cut = wandb_logger.shortened(given)
    assert cut["tags"][0] == cut["job_type"] == "ner"
    (tag,) = cut["tags"][1:]
    assert (len(tag), tag[:8], tag[-9:]) == (64, "corpora/", "train.txt")
    assert len(cut["group"]) == 128
    run = wandb_logger.logger(save_dir=str(tmp_path), init_timeout=5, **given).experiment
    assert run.settings.run_tags == ("ner", tag)
    assert run.settings.run_group == cut["group"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"project": "a/b"},
            "logger.wandb.project=a/b: Invalid project name 'a/b': cannot contain",
        ),
        ({"project": "p" * 129}, "logger.wandb.project=ppp.*: .* exceeded 128 characters"),
        ({"id": "a:b"}, "logger.wandb.id=a:b: Run ID cannot contain the characters"),
        ({"tag": ["a"]}, "logger.wandb.tag=.'a'., but wandb.init has no such argument"),
        ({"mode": "sometimes"}, "logger.wandb.mode=sometimes: Input should be 'online'"),
    ],
)
def test_what_is_refused_is_known_before(settings, said):
    (line,) = wandb_logger.refused({"_target_": "x", "save_dir": "y", "init_timeout": 5} | settings)
    assert re.match(said, line)


def test_the_check_of_settings_asks():
    (line,) = faults(composed("logger=wandb", "logger.wandb.project=a/b"))
    assert line.startswith("logger.wandb.project=a/b: Invalid project name")
    assert not faults(composed("logger=wandb", f"data.name={LONG}"))


def test_variables_that_are_refused_are_known_before(monkeypatch):
    monkeypatch.setenv("WANDB_TAGS", LONG)
    monkeypatch.setenv("WANDB_RUN_GROUP", LONG)
    (line,) = wandb_logger.refused({})
    assert line.startswith(
        f"the environment variable WANDB_TAGS={LONG}: Tag 'corpora/news/news/ne..."
    )


@pytest.mark.parametrize("error", [wandb.Error("no"), wandb.errors.UsageError("no"), OSError("no")])
def test_a_run_is_not_lost_if_it_fails_offline_too(tmp_path, monkeypatch, caplog, error):
    def fails(**_):
        raise error

    monkeypatch.setattr(wandb, "init", fails)
    build(tmp_path).log_metrics({"dev/f1": 0.5})
    assert "wandb: this run is not logged to it, since it fails offline, too: no" in caplog.text
    with pytest.raises(ValueError, match="64 characters") as refused:
        wandb.Settings(run_tags=[LONG])
    error = refused.value  # pydantic's
    build(tmp_path).log_metrics({"dev/f1": 0.5})
    assert "fails offline, too: Tag 'corpora/" in caplog.text


def test_of_several_processes_the_first_has_a_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rank_zero_only, "rank", 1)
        build(tmp_path).log_metrics({"dev/f1": 0.5})
    # The second node's first process, until it knows of the others.
    monkeypatch.setenv("NODE_RANK", "1")
    build(tmp_path).log_metrics({"dev/f1": 0.5})
    assert not [*tmp_path.rglob("wandb")]


def test_a_key_that_is_refused_is_not_printed(monkeypatch):
    secret = 40 * "s"
    monkeypatch.setenv("WANDB_API_KEY", f" {secret}")
    (line,) = wandb_logger.refused({})
    assert line.startswith("the environment variable WANDB_API_KEY=...: ")
    assert secret not in line
