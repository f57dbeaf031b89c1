"""The floors of the house: who may import whom, read with `ast`; and what an import does not cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import elmo_bench
from elmo_bench.elmo import Elmo

ROOT = Path(__file__).parents[1]
FILES = sorted(path for folder in ("elmo_bench", "tasks") for path in (ROOT / folder).rglob("*.py"))
TASKS = sorted(path.stem for path in (ROOT / "conf" / "task").glob("*.yaml"))

# What a room of the library may import of the library itself, besides GROUND; imports run down.
GROUND = ("files", "terminal", "bounds")
MAY = {
    "files": set(),
    "terminal": set(),
    "bounds": set(),
    "text": set(),
    "sample": set(),
    "encoders": {"text"},
    "elmo": set(),
    "nn": {"elmo", "text"},
    "lm": {"encoders", "text"},
    "probing": {"encoders", "text"},
    "runs": set(),
    "metrics": {"runs", "text"},
    "training": {"elmo", "encoders", "metrics", "nn", "runs", "text"},
    "report": {"runs"},
    "settings": {"runs", "text", "training"},
    "build": {"elmo", "encoders", "lm", "nn", "runs", "settings", "text", "training"},
    "sweeps": {"build", "runs", "settings"},
    "jobs": {
        "build",
        "elmo",
        "encoders",
        "lm",
        "probing",
        "report",
        "runs",
        "settings",
        "text",
        "training",
    },
    "callback": {"build", "runs", "settings"},
    "cli": {"build", "runs", "settings"},
    "api": {"build", "jobs", "report", "runs", "settings"},
}
CONSTANTS = ("COMMAND", "CONF", "INTERNAL", "IS_CLONE", "__version__")  # of the package
# Where in elmo_bench/ a third-party package may be imported.
ONLY = {
    "__future__": set(),  # its annotations would be strings, which no shape is read from
    "hydra": {"settings", "build", "sweeps", "jobs", "callback.py", "cli.py", "api.py"},
    "omegaconf": {
        *("settings", "build", "sweeps", "jobs", "callback.py", "cli.py", "api.py"),
        *("report", "runs"),
    },
    "pytorch_lightning": {"build", "jobs", "training"},
    "h5py": {"encoders/bilm/weights.py", "encoders/vectors_file.py"},
    "transformers": {"encoders/transformer/load.py"},
    "peft": {"encoders/lora.py"},
    "wandb": {"training/wandb_logger.py"},
    "pydantic": {"settings", "encoders/bilm/options.py", "runs/read.py"},
}


def imports(path):
    """Dotted names of everything a file imports, at any depth; relative imports made absolute."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            module = (base + (node.module or "")).rstrip(".")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_floors(path):
    """A task imports no other task, and the library knows none."""
    name = path.relative_to(ROOT)
    part = name.parts[1].removesuffix(".py")
    for imported in imports(path):
        said, (top, inside) = f"{name} imports {imported}", f"{imported}.".split(".")[:2]
        if top in ONLY:
            assert str(name).startswith(tuple(f"elmo_bench/{each}" for each in ONLY[top])), said
        if name.parts[0] == "tasks":
            assert top != "tasks" or inside in ("", part), said
            assert top != "elmo_bench" or inside in ("", "metrics", "nn", "text", *GROUND), said
        else:
            assert top != "tasks", said
            if top == "elmo_bench" and part != "__init__":
                assert inside in ("", part, *GROUND, *CONSTANTS, *MAY[part]), said


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if not {"sample", "tasks"} & {*path.relative_to(ROOT).parts}],
    ids=str,
)
def test_the_library_names_no_task(path):
    strings = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    # A property that job=probe measures, and a function of each task's format.
    others = {"corpora.py": "pos", "probes.py": "pos", "task_format.py": "parse"}
    assert not strings & set(TASKS) - {others.get(path.name)}, f"{path} names a task"


def test_files_are_written_whole():
    """Whoever writes a text or bytes at one go writes to what `files.atomic` gave."""
    for path in (ROOT / "elmo_bench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("write_text", "write_bytes"):
                assert ast.unparse(node.value).startswith(("part", "(part /")), (
                    f"{path}:{node.lineno}"
                )


def test_init_files_are_shop_windows():
    for path in FILES:
        if path.name == "__init__.py":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            kinds: tuple[type, ...] = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr)
            if path.parent == ROOT / "elmo_bench":  # its one name is imported when it is asked for
                kinds += (ast.If, ast.FunctionDef)
            assert all(isinstance(node, kinds) for node in body), path


def test_a_report_and_a_sweep_wait_neither_for_torch_nor_for_matplotlib():
    code = (
        "import sys, hydra_plugins.processes, elmo_bench; "
        "elmo_bench.compare; elmo_bench.read_runs; "
        "sys.exit(not {'torch', 'matplotlib'}.isdisjoint(sys.modules))"
    )
    assert not subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode


def test_an_import_touches_no_gpu():
    """Runs are forked after it."""
    code = (
        "import sys, torch; asks = lambda *_: sys.exit('it asks for a GPU'); "
        "torch.cuda.is_available = torch.cuda.device_count = torch.cuda._lazy_init = asks; "
        "import elmo_bench.jobs.train"
    )
    assert not subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode


def test_the_shop_window_of_all():
    assert elmo_bench.Elmo is Elmo
    with pytest.raises(AttributeError, match="no attribute 'Elmp'"):
        _ = elmo_bench.Elmp
