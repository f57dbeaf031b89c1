"""The types of the library's functions are checked at each call where tests run."""

from pathlib import Path

from beartype import BeartypeConf
from beartype.claw import beartype_packages
from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
FOLDERS = ("elmo_bench", "tasks")


def with_shapes() -> list[str]:
    """The modules that name shapes of tensors."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    named = [path for path in files if "jaxtyping" in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in named]


def check_types() -> None:
    """Let jaxtyping check those modules, which costs time at each call, and beartype all others."""
    beartype_packages(FOLDERS, conf=BeartypeConf(claw_is_pep526=False))
    install_import_hook(with_shapes(), "beartype.beartype")
