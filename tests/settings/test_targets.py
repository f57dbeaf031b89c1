"""Which classes and functions a config may call."""

import pytest
from hydra.errors import InstantiationException
from omegaconf import OmegaConf

from elmo_bench.settings import targets
from elmo_bench.settings.targets import allow, instantiate


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    monkeypatch.setattr(targets, "_named", set())


@pytest.mark.parametrize(
    "node",
    [
        {"_target_": "os.getcwd"},
        {"_target_": "mine.own.Encoder"},
        {"_target_": "torch.nn.Identity", "kept": {"_target_": "os.getcwd"}},
        {"_target_": "torch.nn.Sequential", "_args_": [{"_target_": "os.getcwd"}]},
        OmegaConf.create({"name": "os", "_target_": "${name}.getcwd"}),
        {"_target_": "torchvision.models.resnet18"},
        {"_target_": "torch.hub.load", "repo_or_dir": "someone/repository", "model": "model"},
    ],
)
def test_what_nobody_named_is_refused(node):
    with pytest.raises(ValueError, match=r"^_target_=\S+: a config may only call elmo_bench, "):
        instantiate(node)


def test_ours_and_the_libraries():
    linear = instantiate({"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 1})
    vocab = instantiate({"_target_": "elmo_bench.text.Vocab", "words": ["a"], "labels": ["X"]})
    assert vocab.labels == ["X"]
    optimizer = instantiate({"_target_": "torch.optim.Adam", "_partial_": True, "lr": 1})
    assert optimizer(linear.parameters()).defaults["lr"] == 1


def test_what_a_constructor_raises():
    """The same with Hydra 1.3 and 1.4."""
    with pytest.raises(InstantiationException, match="got an unexpected keyword") as raised:
        instantiate({"_target_": "torch.nn.Linear", "size": 1})
    assert isinstance(raised.value.__cause__, TypeError)
    with pytest.raises(ValueError, match=r"^Invalid beta"):
        instantiate({"_target_": "torch.optim.Adam", "params": [], "betas": [2.0, 2.0]})


def test_a_users_own(tmp_path, monkeypatch):
    """What a function of a user's returns may be an object of another module of the same package,
    which can itself be called.
    """
    (tmp_path / "own_code").mkdir()
    (tmp_path / "own_code" / "__init__.py").touch()
    (tmp_path / "own_code" / "model.py").write_text(
        "class Model:\n    def __call__(self):\n        return 1\n"
    )
    (tmp_path / "own_code" / "load.py").write_text(
        "from own_code.model import Model\n\n\ndef load(size):\n    return Model()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    node = {"_target_": "own_code.load.load", "size": 3}
    with pytest.raises(ValueError, match="_target_=own_code"):
        instantiate(node)
    allow(OmegaConf.create({"encoder": {"kept": [node]}}))
    assert instantiate(node)() == 1
    with pytest.raises(ValueError, match=r"_target_=own_code\.model\.Model"):  # named nowhere
        instantiate({"_target_": "own_code.model.Model"})


def test_a_name_of_ours_for_something_of_pythons():
    """Hydra sees what a name stands for."""
    with pytest.raises(InstantiationException, match="system"):
        instantiate({"_target_": "elmo_bench.cli.os.system", "_args_": ["exit 0"]})


def test_never_pythons_own():
    allow({"_target_": "os.getcwd"})
    with pytest.raises(ValueError, match="if it is not of Python's standard library"):
        instantiate({"_target_": "os.getcwd"})
