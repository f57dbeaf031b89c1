"""AllenNLP's biLM, from its unpacked wheel and without its dependencies.

Get the wheel by `pip download --no-deps allennlp==2.10.1` and unzip it. Modules that
elmo_bench is compared with are imported unchanged. Every other module that they import is replaced
by a stand-in whose attributes are empty classes.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from elmo_bench.encoders.bilm import BiLm, save

AS_THEY_ARE = {
    "common.checks",
    "data.token_indexers.elmo_indexer",
    "modules.augmented_lstm",
    "modules.conditional_random_field.conditional_random_field",
    "modules.elmo",
    "modules.elmo_lstm",
    "modules.encoder_base",
    "modules.highway",
    "modules.lstm_cell_with_projection",
    "modules.maxout",
    "modules.scalar_mix",
    "nn.initializers",
    "nn.util",
}


class Empty:
    """Stands in for a class or function that is imported but never used."""

    _registry: ClassVar[defaultdict[Any, dict]] = defaultdict(dict)

    @classmethod
    def register(cls, *_: Any, **__: Any) -> Callable[[Any], Any]:
        return lambda registered: registered


class StandIn(ModuleType):
    """A module whose attributes are empty classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Empty,), {})


class Finder(MetaPathFinder, Loader):
    """Imports `allennlp` from a folder, or a stand-in for modules that are not `AS_THEY_ARE`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package != "allennlp":
            return None
        if rest in AS_THEY_ARE:
            return spec_from_file_location(
                fullname, self.folder.joinpath(*fullname.split(".")).with_suffix(".py")
            )
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = StandIn(spec.name)
        if spec.name == "allennlp.common.file_utils":
            vars(module)["cached_path"] = lambda path: path
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete."""


def find(wheel: Path) -> None:
    """Make `import allennlp` find the package in a folder; later calls have no effect."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder(wheel))


def load(wheel: Path, bilm: BiLm, scratch: Path, *, train: bool = False) -> Any:
    """AllenNLP's biLM with the weights of `bilm`; `wheel` is the folder of the unpacked wheel."""
    find(wheel)
    from allennlp.modules.elmo import _ElmoBiLm

    save(bilm, scratch / "peer" / "weights.hdf5")
    module = _ElmoBiLm(
        str(scratch / "peer" / "options.json"),
        str(scratch / "peer" / "weights.hdf5"),
        requires_grad=train,
    )
    return module.train(train)
