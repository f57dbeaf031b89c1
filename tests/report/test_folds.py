"""Runs on folds are tested by the folds' differences, with Nadeau and Bengio's correction."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import folds as simulated
from elmo_bench.report import report
from elmo_bench.report.grids import tables
from elmo_bench.report.methods import methods
from elmo_bench.runs import collect
from tests.runs.made_runs import change, scored_run

EXAMPLES = 40


def fold_run(folder, encoder, seed, right, *, folds=5, fold=None, sentences=None):
    """A run of the fold of its seed, with so many right of 40 examples in 20 documents."""
    number = fold or (seed - 1) % folds + 1
    marks = np.arange(EXAMPLES) < right
    texts = 1000 * number + np.arange(EXAMPLES) if sentences is None else sentences
    documents = np.arange(EXAMPLES) // 2
    settings = {"encoder_name": encoder, "data_folds": folds, "data_fold": fold}
    scored_run(folder, marks.mean(), seed, marks, texts, documents, **settings)


def fold_runs(folder, ours, theirs, **settings):
    """The report of runs with so many right, by seed from 1."""
    for encoder, numbers in (("mini", ours), ("none", theirs)):
        for seed, right in enumerate(numbers, 1):
            fold_run(folder / f"{encoder}{seed}", encoder, seed, right, **settings)
    return report(collect([folder]), None, ["encoder"], baseline=("none",))


def comparison_of(shown):
    """The comparison of the side that is not the baseline."""
    (comparison,) = [cell.comparison for cell in shown.cells if cell.comparison]
    return comparison


def test_the_test_is_nadeau_and_bengios(tmp_path):
    """By hand: differences .1 .2 .15 .25 .05 have mean .15 and deviation .0791."""
    shown = fold_runs(tmp_path, (24, 28, 26, 30, 22), (20,) * 5)
    test = comparison_of(shown).test
    error = np.sqrt((1 / 5 + 1 / 3) * 0.00625)
    assert test.difference == pytest.approx(0.15)
    assert test.scales == (pytest.approx((error, 4)),)
    assert test.p == pytest.approx(2 * stats.t.sf(0.15 / error, 4))
    reach = error * stats.t.ppf(0.975, 4)
    assert test.interval == pytest.approx((0.15 - reach, 0.15 + reach))
    assert (test.examples, test.clusters, test.unit, test.runs) == (200, 100, "document", (5, 5))
    assert (test.folds, test.is_preliminary) == (5, False)
    assert test.detectable > 2 * error


def test_two_runs_of_each_fold(tmp_path):
    """The mean of a fold's runs counts, and the mean shown is the one tested."""
    shown = fold_runs(tmp_path, (24, 28, 26, 30, 22, 20, 24, 30, 26, 18), (20,) * 10)
    test = comparison_of(shown).test
    differences = [0.05, 0.15, 0.2, 0.2, 0.0]
    assert test.difference == pytest.approx(np.mean(differences))
    assert test.scales[0].error == pytest.approx(np.sqrt(8 / 15 * np.var(differences, ddof=1)))
    assert test.runs == (10, 10)
    assert comparison_of(shown).difference == pytest.approx(test.difference)


def test_fewer_than_five_folds_decide_nothing(tmp_path):
    """However many runs they have."""
    ours = (30, 31, 30, 31) * 3
    comparison = comparison_of(fold_runs(tmp_path, ours, (10, 11, 10, 10) * 3, folds=4))
    assert comparison.test.is_preliminary
    assert comparison.test.p < 0.01
    assert comparison.p_holm is None


def lose(folder):
    """The last run of one side is missing."""
    (folder / "mini5" / "result.json").unlink()


def repeat(folder):
    """One side has a second run of the first fold."""
    fold_run(folder / "mini6", "mini", 6, 20)


def leave_out_folds(folder):
    """One side was run on the files."""
    for seed in range(1, 6):
        change(folder / f"none{seed}", lambda it: it["config"]["data"].pop("folds"))


def change_examples(folder):
    """A fold has other examples on one side."""
    path = folder / "mini3" / "counts" / "test.npz"
    arrays = dict(np.load(path))
    arrays["sentences"] = arrays["sentences"] + np.uint64(1)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose, "no test, since the sides have different folds"),
        (leave_out_folds, "no test, since the sides have different folds"),
        (repeat, "no test, since a side has more runs of one fold than of another"),
        (change_examples, "no test, since the runs' test examples are different"),
    ],
)
def test_folds_that_cannot_be_compared(tmp_path, spoil, said):
    fold_runs(tmp_path, (24, 28, 26, 30, 22), (20,) * 5)
    spoil(tmp_path)
    shown = report(collect([tmp_path]), None, ["encoder"], baseline=("none",))
    assert comparison_of(shown).test is None
    (note,) = [note for note in shown.notes if "no test" in note]
    assert said in note


def test_one_fold_with_several_seeds_is_one_split(tmp_path):
    """It is tested as always, with runs and examples at random."""
    for seed in range(1, 6):
        fold_run(tmp_path / f"mini{seed}", "mini", seed, 24 + seed % 2, fold=3)
        fold_run(tmp_path / f"none{seed}", "none", seed, 20 - seed % 2, fold=3)
    shown = report(collect([tmp_path]), None, ["encoder"], baseline=("none",))
    test = comparison_of(shown).test
    assert (test.folds, test.examples, len(test.scales)) == (None, 40, 3)


def test_seeds_of_one_number_on_all_folds_are_all_counted(tmp_path):
    """data.fold=1,2,3,4,5 with one seed."""
    for fold in range(1, 6):
        fold_run(tmp_path / f"mini{fold}", "mini", 1, 24 + fold, fold=fold)
        fold_run(tmp_path / f"none{fold}", "none", 1, 20 - fold % 2, fold=fold)
    shown = report(collect([tmp_path]), None, ["encoder"], baseline=("none",))
    assert comparison_of(shown).test.folds == 5


def test_the_row_of_a_report(tmp_path):
    shown = fold_runs(tmp_path, (24, 28, 26, 30, 22), (20,) * 5)
    grid = tables(shown)["differences"]
    assert ", 5 folds, " in grid.title
    assert "Nadeau and Bengio's (2003) correction" in grid.caption
    assert "Test examples: 200 in 100 documents, 5 folds." in grid.caption
    (row,) = [row for row in grid.rows if row[0] == "mini"]
    assert row[1:4] == ["65.00 ± 7.91 (5)", "+15.00", "−1.03 to +31.03"]
    assert "Nadeau and Bengio 2003" in methods([shown])
    assert "dealt into 5 folds" in methods([shown])


def test_simulated_p_are_of_three_tests():
    """The correction makes p larger, whatever the learner; sides that differ much are found."""
    for setting in (simulated.Setting(folds=5), simulated.Setting("f1", 200, "unstable", True)):
        paired, corrected, one_split = simulated.ps_of(setting, 3)
        assert paired <= corrected <= 1
        assert 0 <= one_split <= 1
    found = simulated.rejections(simulated.Setting(examples=1000, gain=5.0), 2)
    assert found[1][0] == 1.0
