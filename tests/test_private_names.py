"""Names of other packages that these do not promise to keep. CONTRIBUTING.md lists them, with why;
here a test fails when one of them goes, and when the code uses one that is not listed.
"""

import argparse
import ast
import inspect
import re
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
import transformers
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.utils import JobReturn
from pytorch_lightning.strategies import DDPStrategy
from torchmetrics import Metric

from elmo_bench.settings import hydra_private

ROOT = Path(__file__).parents[1]
FOLDERS = ("elmo_bench", "hydra_plugins", "tasks")
# Of Python and of NamedTuple, and promised.
PROMISED = {"_asdict", "_exit", "_fields", "_make", "_replace"}


def trainer():
    return pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)


def tiny_bert():
    size = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 9}
    return transformers.BertModel(transformers.BertConfig(intermediate_size=4, **size))


def with_hidden_states():
    model = tiny_bert()
    model(torch.tensor([[1, 2]]), output_hidden_states=True)
    return model


def has_hooks_of_transformers(model):
    kinds = [hook for each in model.modules() for hook in each._forward_hooks.values()]
    return any(hook.__module__ == "transformers.utils.output_capturing" for hook in kinds)


# What the code names -> whether it is there.
NAMES = {
    # Hydra
    "_internal": lambda: len(hydra_private.REPORTERS) == 2,
    "_locate": lambda: hydra_private.locate("elmo_bench.nn.BiLstm").__name__ == "BiLstm",
    "_parse_config": lambda: callable(BasicSweeper._parse_config),
    "_instances": lambda: isinstance(hydra_private.singletons(), dict),
    "_return_value": lambda: "_return_value" in JobReturn.__dataclass_fields__,
    # argparse, whose parser Hydra has
    "_option_string_actions": lambda: (
        isinstance(parser := hydra_private.get_args_parser(), argparse.ArgumentParser)
        and "--multirun" in parser._option_string_actions
    ),
    # Lightning
    "_ddp_kwargs": lambda: DDPStrategy()._ddp_kwargs == {},
    "_signal_connector": lambda: callable(trainer()._signal_connector.register_signal_handlers),
    "_logger_connector": lambda: trainer()._logger_connector is not None,
    "_callback_metrics": lambda: trainer()._logger_connector._callback_metrics == {},
    "_restarting": lambda: trainer().fit_loop._restarting is False,
    "_batches_that_stepped": lambda: trainer().fit_loop.epoch_loop._batches_that_stepped == 0,
    "_trainer": lambda: pl.LightningModule()._trainer is None,
    # torchmetrics and torch
    "_apply": lambda: (
        "fn" in inspect.signature(Metric._apply).parameters
        and "fn" in inspect.signature(torch.nn.Module._apply).parameters
    ),
    "_version": lambda: isinstance(torch.zeros(1)._version, int),
    "_forward_hooks": lambda: torch.nn.Linear(1, 1)._forward_hooks == {},
    "_reorder_linear_weight": lambda: callable(torch.ops.mkldnn._reorder_linear_weight),
    "_linear_pointwise": lambda: callable(torch.ops.mkldnn._linear_pointwise),
    # transformers
    "_model_mapping": lambda: (
        transformers.BertConfig in transformers.AutoModelForTextEncoding._model_mapping
    ),
    "_attn_implementation": lambda: tiny_bert().config._attn_implementation == "sdpa",
    "_name_or_path": lambda: "_name_or_path" in vars(transformers.BertConfig()),
    "_raise_exceptions_for_missing_entries": lambda: (
        "_raise_exceptions_for_missing_entries"
        in Path(transformers.utils.hub.__file__).read_text(encoding="utf-8")
    ),
    "_output_capturing_hooks_installed": lambda: (
        has_hooks_of_transformers(model := with_hidden_states())
        and model._output_capturing_hooks_installed
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_there(name):
    assert NAMES[name]()


def is_private(name):
    return re.fullmatch(r"_[a-z]\w*[a-z0-9]", name) is not None and name not in PROMISED


def defined(tree):
    """The names that a file gives to something of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in ast.walk(node):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                    if ast.unparse(target.value) in ("self", "cls"):
                        yield target.attr
                elif isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    yield target.id


def used(tree):
    """The private names that a file asks others for: attributes, imports, and texts, as in
    getattr(x, "_name").
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from f"{node.module}.{'.'.join(each.name for each in node.names)}".split(".")
        elif isinstance(node, ast.Import):
            yield from (part for each in node.names for part in each.name.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def test_the_list_is_whole():
    """An attribute counts as ours if any file of ours defines one of its name."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    ours = {name for tree in trees for name in defined(tree)}
    found = {name for tree in trees for name in used(tree) if is_private(name)}
    of_others = found - ours - {"_offline", "_held", "_mapped", "_binary_parse", "_pretrained"}
    # Those that ours override, or set on an object of another package.
    assert of_others | {"_apply", "_output_capturing_hooks_installed"} <= {*NAMES}
    assert {*NAMES} <= found | {"_apply"}


def test_contributing_lists_them():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| package \| private name .*?\n\n", page, re.M | re.S)
    listed = {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", table)}
    assert {*NAMES} <= listed | {"_internal", "_locate"}
