"""Dev and test together, as one set of examples."""

import numpy as np
import pytest

from elmo_bench.report import report
from elmo_bench.report.comparison import examples_of, figure_of
from elmo_bench.report.grids import tables
from elmo_bench.report.significance import compare
from elmo_bench.runs import MIX, collect
from tests.runs.made_runs import SEEDS, change, scored_run


@pytest.fixture
def runs(tmp_path):
    """Five runs of each of two mixes; dev has 40 examples in 8 documents, test 60 in 12."""
    rng = np.random.default_rng(3)
    for mix, chance in (("top", 0.5), ("all", 0.7)):
        for seed in SEEDS:
            folder = tmp_path / f"{mix}{seed}"
            right = (rng.random(60) < chance).astype(int)
            scored_run(folder, right.mean(), seed, right, None, np.arange(60) // 5, elmo_mix=mix)
            add_dev(folder, (rng.random(40) < chance).astype(int))
    return collect([tmp_path])


def add_dev(folder, right):
    """Let a run have these examples of dev right, in documents of five."""
    rows = np.stack([right, np.ones_like(right)] * 2, 1)[:, None].astype(float)
    numbers = np.arange(len(right))
    arrays = {"sentences": (1000 + numbers).astype(np.uint64), "f1": rows}
    unit = np.frombuffer(b"document", np.uint8)
    np.savez(folder / "counts" / "dev.npz", groups=numbers // 5, unit=unit, **arrays)
    change(folder, lambda content: content["metrics"].update({"dev/f1": right.mean()}))


def test_one_set_of_examples(runs):
    """The score is that of all examples; the test knows both splits' documents."""
    table = report(runs, ["task.name"], [MIX], split="both", baseline=("top",))
    ours = [run for run in runs if run.config["elmo"]["mix"] == "all"]
    for cell in table.cells:
        for run, figure in zip(cell.runs, cell.figures, strict=True):
            dev, test = run.metrics["dev/f1"], run.metrics["test/f1"]
            assert figure == pytest.approx((40 * dev + 60 * test) / 100)
    test = table.cells[1].comparison.test
    assert (test.examples, test.clusters, test.unit) == (100, 20, "document")
    assert figure_of(ours[0], None, "both") == table.cells[1].figures[0]
    sides = []
    for cell in table.cells:
        sides.append([examples_of(run, None, "both") for run in cell.runs])
    rows = [np.stack([counts.rows for counts in side]) for side in sides]
    assert test.p == compare(rows[1], rows[0], sides[0][0].groups).p
    caption = tables(table)["differences"].caption
    assert "Dev and test examples: 100 in 20 documents. Of each run dev chose the epoch" in caption


def test_without_counts(runs):
    (runs[0].folder / "counts/dev.npz").unlink()
    with pytest.raises(ValueError, match=r"split=both: .* lacks the counts of f1 on dev or test"):
        report(runs, ["task.name"], [MIX], split="both", baseline=("top",))


def test_runs_that_were_not_evaluated_on_both(runs):
    change(runs[0].folder, lambda content: content["metrics"].pop("dev/f1"))
    table = report(collect([runs[0].folder.parent]), ["task.name"], [MIX], split="both")
    assert table.notes[0] == "left out: 1 run not evaluated on dev and test"


def test_folds(runs):
    """Dev of one fold is test of another."""
    for run in runs:
        fold = {"folds": 5, "fold": run.seed}
        change(run.folder, lambda content, of=fold: content["config"]["data"].update(of))
    on_folds = collect([runs[0].folder.parent])
    with pytest.raises(ValueError, match=r"split=both: runs with data\.folds have .* split=test"):
        report(on_folds, ["task.name"], [MIX], split="both")
