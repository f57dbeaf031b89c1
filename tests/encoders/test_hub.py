"""The hub: one question and an answer at once, what its cache has, and what a folder is instead."""

import json
import logging

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import RepositoryNotFoundError

from elmo_bench.encoders.transformer import Transformer, hub
from elmo_bench.files.download import offline


@pytest.fixture
def questions(monkeypatch):
    """How often the hub is asked; nobody answers."""
    asked = []

    def ask(model, revision):
        asked.append(model)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_ask", ask)
    return asked


def test_a_hub_out_of_reach_is_asked_once(questions):
    with pytest.raises(OSError, match=r"the hub cannot be reached \(ConnectionError: no") as raised:
        Transformer(model="someone/nothing")
    assert questions == ["someone/nothing"]
    assert str(raised.value).startswith("encoder.model=someone/nothing: the hub cannot")
    assert "encoder.model=FOLDER" in str(raised.value)
    assert "HF_HUB_OFFLINE=1" in str(raised.value)


def test_a_copy_in_the_cache_is_used(questions, monkeypatch, caplog):
    monkeypatch.setattr(hub, "is_cached", lambda *_: True)
    with caplog.at_level(logging.WARNING):
        assert hub.is_out_of_reach("a/b", None)
    assert "the copy in its cache is used" in caplog.text
    with offline():  # a dry run
        assert hub.is_out_of_reach("a/b", None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not hub.is_out_of_reach("a/b", None)
    assert len(questions) == 1


def test_an_answer_is_left_to_transformers(questions, monkeypatch):
    def refuse(model, revision):
        raise RepositoryNotFoundError.__new__(RepositoryNotFoundError)

    monkeypatch.setattr(hub, "_ask", refuse)
    assert not hub.is_out_of_reach("a/b", None)


def test_what_the_cache_has(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert not hub.is_cached("a/b", None)
    folder = tmp_path / "models--a--b"
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40) / "config.json").touch()
    assert not hub.is_cached("a/b", None)
    (folder / "snapshots" / ("0" * 40) / "model.safetensors").touch()
    assert hub.is_cached("a/b", None)
    assert hub.is_cached("a/b", "0" * 40)
    assert not hub.is_cached("a/b", "1" * 40)
    assert not hub.is_cached("no name of a model", None)


def test_a_folder_that_is_no_models_names_what_to_give(tmp_path):
    adapter, sentence = tmp_path / "adapter", tmp_path / "sentence"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "a/b"}))
    with pytest.raises(ValueError, match=f"give encoder.model=a/b encoder.adapter={adapter}$"):
        Transformer(model=adapter)
    for name in ("0_Transformer", "2_Dense"):
        (sentence / name).mkdir(parents=True)
        (sentence / name / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=f"encoder.model={sentence}/0_Transformer$"):
        Transformer(model=sentence)
