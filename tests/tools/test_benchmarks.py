"""`python -m benchmarks --quick`: that it runs and what it leaves; never how fast anything is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import rich

from benchmarks import kills
from benchmarks.__main__ import GROUPS, main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_group(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rich, "reconfigure", lambda **_: None)  # it would last
    text = tmp_path / "text.txt"
    text.write_text("The old brewery opened in May .\nNobody came .\n" * 10)
    groups = [group for group in GROUPS if group != "starting"]  # whose sweeps take half a minute
    options = ["--quick", "--text", str(text), "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *groups, *options])
    main()
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["machine"]["batch_size"] == 8
    works = dict.fromkeys(row["work"] for row in found["rows"])
    # 4 of the biLM, 2 of the store, 2 of transformers, 3 of growth, 2 of the sweep, 9 tasks, 3 heads, start-up, memory
    assert len(works) == 27
    for work in works:
        rows = [row for row in found["rows"] if row["work"] == work]
        assert len(rows) > 1
        assert rows[0]["ratio"] == 1
        assert all(row["median"] > 0 for row in rows)
        assert work in printed


@pytest.mark.slow
def test_kills(tmp_path):
    """The tool kills, gives the command again, and sees where it left something else."""
    command = [sys.executable, "-m", "benchmarks.kills", "--kills", "1", "--folder", str(tmp_path)]
    done = subprocess.run(
        [*command, "--stages", "embed"], capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert done.returncode == 0, done.stderr
    counts = {
        line.split("\u2502")[1].strip(): line.split() for line in done.stdout.splitlines()[3:-1]
    }
    assert counts.keys() == {"embed", "all"}
    assert counts["all"][-6:] == ["1", "\u2502", "1", "\u2502", "0", "\u2502"]
    path = tmp_path / "embed" / "undisturbed" / "out" / "v.hdf5"
    path.write_bytes(path.read_bytes() + b" ")
    assert kills.different(kills.of_files(path.parents[1]), {"v.hdf5": []}) == ["v.hdf5"]
