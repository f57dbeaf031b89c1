"""`import torchmetrics` takes twice as long as torch: it imports metrics of sound and images, scipy
and transformers. Lightning and our tasks need its class `Metric`.
"""

import importlib
import logging
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# Modules of the names that every run uses.
PARTS = {"Metric": "metric", "MetricCollection": "collections", "__version__": "__about__"}


class _Package(ModuleType):
    """The package before its `__init__` has run, as it does when another name is asked for."""

    def __getattr__(self, name: str) -> Any:
        if part := PARTS.get(name):
            return getattr(importlib.import_module(f"{self.__name__}.{part}"), name)
        if name.startswith("__"):  # queried by code that inspects all modules
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert isinstance(self.__loader__, _InParts)
        self.__loader__.whole.exec_module(self)
        return getattr(self, name)


class _InParts(Loader):
    """Loads only the package's `utilities`, which its other parts need; `whole` loads all."""

    def __init__(self, whole: Loader) -> None:
        self.whole = whole

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Package
        module.__dict__["_logger"] = logging.getLogger(module.__name__)
        try:
            importlib.import_module(f"{module.__name__}.utilities")
        except (ImportError, AttributeError):  # another version with a different structure
            for name in [*sys.modules]:
                if name.startswith(f"{module.__name__}."):
                    del sys.modules[name]
            module.__class__ = ModuleType
            self.whole.exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != "torchmetrics" or not (spec := PathFinder.find_spec(fullname, path)):
            return None
        assert spec.loader
        spec.loader = _InParts(spec.loader)
        return spec


def torchmetrics_in_parts() -> None:
    """Make later imports of torchmetrics fast: its parts are imported on first use."""
    sys.meta_path.insert(0, _Finder())
