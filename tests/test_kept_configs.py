"""What `kept_configs.py` keeps is what Hydra makes, the first and the second time."""

import pytest
from omegaconf import OmegaConf

from tests import kept_configs
from tests.conftest import composed

COMMANDS = (
    "",
    "task=ner elmo.mix=all",
    "task=classify data=mrpc recipe=finetune_bert fit.batch_size=3",
    "task=coref sweep=table1 +fit.mine=1",
    "task=squad ~recipe embed={word_dim:3} ~seed",
    "job=pretrain out=a",
)
WRONG = ("task=nre", "elmo.mx=all", "+task=ner", "recipe=finetune_bert ~trainer=gpu")


def made(command, whole):
    """All that a config holds, or the error in its place."""
    try:
        cfg = composed(*command.split(), whole=whole)
    except Exception as error:
        return repr(error)
    return OmegaConf.to_yaml(cfg), OmegaConf.is_struct(cfg), OmegaConf.is_readonly(cfg)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("command", [*COMMANDS, *WRONG])
def test_a_kept_config_is_hydras(command, whole, monkeypatch):
    first, second = made(command, whole), made(command, whole)
    loader = kept_configs.loader
    monkeypatch.setattr(loader, "create_defaults_list", kept_configs.list_files)
    monkeypatch.setattr(
        kept_configs.Loader, "_compose_config_from_defaults_list", kept_configs.merge
    )
    monkeypatch.setattr(OmegaConf, "load", staticmethod(kept_configs.load))
    assert first == second == made(command, whole)
    assert isinstance(first, str) == (command in WRONG)


def test_a_change_of_a_config_changes_no_other():
    cfg = composed("task=ner")
    cfg.task.model.hidden_size = 7
    assert composed("task=ner").task.model.hidden_size != 7
