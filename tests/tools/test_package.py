"""The wheel and the source distribution: what is in them, and the command `elmo-bench` from the wheel
in an environment without the clone.

Its dependencies are those of this environment; `make wheel-check` installs them anew.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import elmo_bench

pytestmark = pytest.mark.xdist_group("package")  # which share what is built
ROOT = Path(__file__).parents[2]
SOURCES = ("conf", "elmo_bench", "hydra_plugins", "tasks")
BUILD = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"
OWN = {
    "conf/task/mine.yaml": "defaults: [ner, _self_]\nmodel: {_target_: tasks.mine.model.Mine, size: 3}\n",
    "tasks/mine/model.py": "from my_layers import Mine\n",
    "my_layers.py": "class Mine:\n    def __init__(self, size: int, **others): ...\n",
}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The folder of a wheel and a source distribution, built from a copy of the tree."""
    copy = tmp_path_factory.mktemp("package") / "clone"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc")
    for path in ROOT.iterdir():
        if path.name in (*SOURCES, "benchmarks", "tests"):
            shutil.copytree(path, copy / path.name, ignore=ignored)
        elif path.is_file() and path.name != ".git":  # a file in a worktree
            shutil.copy(path, copy)
    subprocess.run([sys.executable, "-c", BUILD], cwd=copy, check=True, capture_output=True)
    return copy / "dist"


@pytest.fixture(scope="module")
def command(distributions):
    """`elmo-bench`, installed from the wheel."""
    prefix = distributions.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    paths = sysconfig.get_paths(vars={"base": str(prefix), "platbase": str(prefix)})
    # Packages of this environment, but not an editable elmo-bench: that is in a .pth file there.
    Path(paths["purelib"], "parent.pth").write_text(sysconfig.get_paths()["purelib"])
    [wheel] = distributions.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "install", "-q"]
    subprocess.run([*pip, "--ignore-installed", "--no-deps", "--no-index", wheel], check=True)
    return prefix / "bin" / "elmo-bench"


def run(command, *arguments, cwd):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["ELMO_BENCH_CACHE"] = f"{cwd}/cache"
    return subprocess.run(
        [command, *arguments], cwd=cwd, env=variables, capture_output=True, text=True, timeout=600
    )


def files_of(folder):
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }


def test_what_the_wheel_holds(distributions):
    [path] = distributions.glob("*.whl")
    assert path.name.startswith(f"elmo_bench-{elmo_bench.__version__}-")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith(".so")}
    about = {name for name in names if ".dist-info/" in name}
    expected = set().union(*map(files_of, SOURCES[1:])) | {
        f"elmo_bench/{name}" for name in files_of("conf")
    }
    assert names - about == expected


def test_what_the_source_distribution_holds(distributions):
    [path] = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= set().union(*map(files_of, (*SOURCES, "benchmarks", "tests")))
    assert names >= {"setup.py", "pyproject.toml", "run.py", "constraints.txt", "Makefile"}
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


@pytest.mark.slow
def test_the_installed_command_runs(command, tmp_path):
    done = run(command, "task=ner", "data.size=4", "fit.max_epochs=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [result] = tmp_path.glob("outputs/*/*/result.json")
    about = json.loads(result.read_text())
    assert about["versions"]["elmo-bench"] == elmo_bench.__version__
    assert about["commit"] is None


def test_a_task_outside_the_tree(command, tmp_path):
    """Its configs are in a folder, its code in the working folder; that is on Python's path only
    with such a folder.
    """
    for name, content in OWN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    wrong = ["--config-dir", "conf", "task=mine", "task.model.size=x", "--dry-run"]
    assert "it must be an integer" in run(command, *wrong, cwd=tmp_path).stderr
    wrong = ["task.model._target_=tasks.mine.model.Mine", "--dry-run"]
    assert "it cannot be imported" in run(command, *wrong, cwd=tmp_path).stderr


def test_the_command_says_what_it_is(command, tmp_path):
    assert (
        run(command, "--version", cwd=tmp_path).stdout == f"elmo-bench {elmo_bench.__version__}\n"
    )
    helped = run(command, "--help", cwd=tmp_path).stdout
    assert "elmo-bench sweep=layers" in helped
    assert "run.py" not in helped
