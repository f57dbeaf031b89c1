"""The workflow runs what `.ci/run` runs, and nothing that can change under its name."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
JOB = yaml.safe_load((ROOT / ".github" / "workflows" / "gate.yml").read_text())["jobs"]["gate"]
STEPS = JOB["steps"]
MATRIX = JOB["strategy"]["matrix"]
TARGETS = [*MATRIX["target"], *(each["target"] for each in MATRIX["include"])]


def test_it_makes_what_the_gate_makes():
    gate = re.findall(r"^make ([\w-]+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    assert gate
    assert set(gate) <= set(TARGETS)
    assert [step["run"] for step in STEPS if "run" in step] == ["make ${{ matrix.target }}"]


def test_every_target_exists():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(TARGETS) <= set(targets)


def test_actions_are_pinned_to_a_commit():
    actions = [step["uses"] for step in STEPS if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in actions)


def test_the_first_python_is_the_oldest_that_the_package_allows():
    project = (ROOT / "pyproject.toml").read_text()
    oldest = re.search(r'requires-python = ">=([\d.]+)"', project)
    assert oldest is not None
    assert MATRIX["python"][0] == oldest[1]
