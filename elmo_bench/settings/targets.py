"""Which classes and functions a config may call: ours, those of the libraries that we build on, and
those that the command itself names, on its command line or in YAML that Hydra composed for it.

A config in a file from elsewhere, such as a checkpoint, cannot add to them.
"""

import sys
from collections.abc import Iterator
from typing import Any

import hydra.utils
from hydra.errors import InstantiationException
from omegaconf import OmegaConf

from .hydra_private import HAS_WHITELIST

ALWAYS = (  # packages, and not all of torch: torch.hub.load runs code from an address
    *("elmo_bench", "hydra_plugins", "tasks"),
    *("pytorch_lightning", "torch.nn", "torch.optim", "torchmetrics"),
)
# For hydra.main: which classes may write the log.
OF_LOGGING: dict[str, Any] = {}
if HAS_WHITELIST:
    OF_LOGGING["execution_whitelist"] = [f"{package}.*" for package in ALWAYS]

_named: set[str] = set()


def allow(config: Any) -> None:
    """Have `instantiate` accept each `_target_` of a config that the user has composed.

    Those of Python's standard library stay refused: some of its functions run any command.
    """
    for target in _targets(config):
        if not _is_always(target) and not _is_python(target):
            _named.add(target)


def instantiate(node: Any, **more: Any) -> Any:
    """Call Hydra's `instantiate`, and re-raise what a constructor raises, with its own message; but
    a TypeError as InstantiationException.

    Raises ValueError for a `_target_`, at any depth, that no config may call.
    """
    for target in _targets(node):
        if not _is_always(target) and target not in _named:
            raise ValueError(
                f"_target_={target}: a config may only call {', '.join(ALWAYS)}, and what the "
                "command line or a YAML of --config-dir names, if it is not of Python's standard "
                "library"
            )
    if HAS_WHITELIST:
        more["_execution_whitelist_"] = _whitelist()
    try:
        return hydra.utils.instantiate(node, **more)
    except InstantiationException as error:
        if error.__cause__ is None or isinstance(error.__cause__, TypeError):
            raise
        raise error.__cause__ from None
    except TypeError as error:  # mostly a wrong argument; Hydra 1.4 raises it as it is
        raise InstantiationException(f"Error in call to {node['_target_']}: {error}") from error


def _targets(node: Any) -> Iterator[str]:
    """Yield each `_target_` that is a text, at any depth."""
    if OmegaConf.is_config(node):
        node = OmegaConf.to_container(node, resolve=True)
    if isinstance(node, dict):
        target = node.get("_target_")
        if isinstance(target, str):
            yield target
        for value in node.values():
            yield from _targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from _targets(value)


def _whitelist() -> list[str]:
    """Return Hydra's form: names, and packages; what a user's function returns may be a class of
    another module of its package.
    """
    allowed = sorted(_named)
    packages = list(ALWAYS)
    packages += [_package(target) for target in allowed]
    allowed += [f"{package}.*" for package in dict.fromkeys(packages)]
    return allowed


def _package(target: str) -> str:
    return target.partition(".")[0]


def _is_always(target: str) -> bool:
    return target.startswith(tuple(f"{package}." for package in ALWAYS))


def _is_python(target: str) -> bool:
    return _package(target) in sys.stdlib_module_names
