"""Each figure of `python -m benchmarks counts` keeps within what it may be."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.counts import COUNTS


def test_every_count(tmp_path):
    """By the command, whose process has no type checks that hold on to tensors."""
    path = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "counts", "--json", str(path)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
    rows = json.loads(path.read_text())["counts"]
    assert [row["what"] for row in rows] == [count.what for count in COUNTS]
    assert [row for row in rows if row["figure"] > row["most"]] == []
