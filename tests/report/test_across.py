"""Tasks together: rliable's figures, and what is done where it has none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo_bench.report import across, report, significance
from elmo_bench.report.across import improvement, iqm, mean, mean_ranks

# Runs x tasks, and what rliable 1.2.0 (arch 7.2.0, numpy 2.4.6, scipy 1.17.1) says of them, from
#     rliable.metrics.aggregate_mean, aggregate_iqm, probability_of_improvement
#     rliable.library.get_interval_estimates(..., reps=50_000) after numpy.random.seed(0)
X = [[0.60, 0.66, 0.55], [0.42, 0.51, 0.40], [0.61, 0.87, 0.50], [0.48, 0.70, 0.67]]
X += [[0.62, 0.41, 0.59]]
Y = [[0.60, 0.23, 0.41], [0.12, 0.87, 0.13], [0.45, 0.25, 0.55], [0.53, 0.46, 0.02]]
MEANS = {"x": 0.5726666666666668, "y": 0.385}
IQMS = {"x": 0.5688888888888889, "y": 0.38833333333333336}
IMPROVEMENT = 0.7583333333333333
INTERVALS = {
    "x": [(0.51533333, 0.63133333), (0.49777778, 0.62555556)],
    "y": [(0.26333333, 0.51166667), (0.22, 0.51666667)],
}
IMPROVEMENT_INTERVAL = (0.54166667, 0.93333333)


def tasks(matrix):
    return [np.array(column) for column in zip(*matrix, strict=True)]


def run(task, column, seed, figure):
    """As `collect` gives it."""
    choices = {"task.name": task, "encoder.name": column}
    return {
        "task": task,
        "seed": seed,
        "metrics": {"test/f1": figure},
        "config": {"task": {"name": task, "monitor": "f1"}},
        "choices": choices,
        "acting": {*choices},
        "idle": set(),
        "mix": {},
        "epochs": 1,
        "folder": Path("nowhere"),
        "written": 0.0,
    }


def reported(cells, baseline="none"):
    """The report of {column: {task: figures}}."""
    runs = [
        run(task, column, seed, float(figure))
        for column, row in cells.items()
        for task, figures in row.items()
        for seed, figure in enumerate(figures)
    ]
    return report(runs, ["task"], ["encoder"], baseline=baseline and (baseline,))


def found(cells, **settings):
    result = across.across(reported(cells, **settings))
    return {each.column[0]: each for each in result.columns}


def test_the_figures_are_rliables():
    for name, matrix in (("x", X), ("y", Y)):
        assert mean(tasks(matrix)) == pytest.approx(MEANS[name], abs=1e-12)
        assert iqm(tasks(matrix)) == pytest.approx(IQMS[name], abs=1e-12)
    assert improvement(tasks(X), tasks(Y)) == pytest.approx(IMPROVEMENT, abs=1e-12)
    assert improvement(tasks(Y), tasks(X)) == pytest.approx(1 - IMPROVEMENT, abs=1e-12)
    assert improvement(tasks(X), tasks(X)) == 0.5


def test_the_intervals_are_rliables():
    """Other draws of the same bootstrap: an end moves by one step of a discrete distribution."""
    columns = {
        name: {f"t{k}": runs for k, runs in enumerate(tasks(matrix))}
        for name, matrix in (("x", X), ("y", Y))
    }
    plain = found(columns, baseline=None)
    for name, each in plain.items():
        assert each.iqm.interval == pytest.approx(INTERVALS[name][1], abs=0.006)
    # Shares of a gap are a linear scale in each task: undone, they are the figures.
    ends = {
        "low": {f"t{k}": [0.0, 0.0] for k in range(3)},
        "high": {f"t{k}": [1.0, 1.0] for k in range(3)},
    }
    scaled = found(ends | columns, baseline="low")
    for name in columns:
        assert scaled[name].share.value == pytest.approx(MEANS[name])
        assert scaled[name].share.interval == pytest.approx(INTERVALS[name][0], abs=0.006)
        assert scaled[name].iqm.value == pytest.approx(IQMS[name])
    against = found(columns, baseline="y")["x"].improvement
    assert against.value == pytest.approx(IMPROVEMENT)
    assert against.interval == pytest.approx(IMPROVEMENT_INTERVAL, abs=0.02)


def test_a_gap_that_is_closed_by_half():
    columns = {
        "none": {"a": [0.2, 0.4], "b": [0.5, 0.5]},
        "half": {"a": [0.4, 0.6], "b": [0.6, 0.6]},
        "best": {"a": [0.7, 0.7], "b": [0.6, 0.8]},
    }
    result = found(columns)
    assert [result[name].share.value for name in columns] == pytest.approx([0, 0.5, 1])
    assert result["none"].improvement is None
    assert result["half"].improvement.value == pytest.approx((0.875 + 1) / 2)
    # In a, a draw of twice 0.4 ties; in b, one of twice 0.6.
    assert result["half"].ranks == (1.75, 2.25)
    assert result["best"].ranks == (1, 1.25)


def test_where_the_baseline_is_the_best():
    """It has no share there, and everything else counts."""
    columns = {
        "none": {"a": [0.2, 0.2], "b": [0.9, 0.9], "c": [0.2, 0.2], "d": [0.3, 0.3]},
        "mini": {"a": [0.4, 0.4], "b": [0.1, 0.1], "c": [0.4, 0.4], "d": [0.1, 0.1]},
    }
    result = found(columns)
    assert result["mini"].share.value == 1
    assert result["mini"].improvement.value == 0.5
    assert result["mini"].ranks == (1.5, 1.5)
    grid = across.grid(reported(columns))
    assert (
        "Not in gap closed and IQM, since no setting is significantly above the baseline (p "
        "below 0.05, or a higher mean where there is no p): b; d." in grid.caption
    )
    assert "no single row decides" not in grid.caption
    # Of one row alone there is nothing together.
    alone = {name: {task: row[task] for task in "abd"} for name, row in columns.items()}
    grid = across.grid(reported(alone))
    assert grid.heads == ["", "P(better)", "mean rank"]
    assert "Without gap closed and IQM, which take two rows or more, since" in grid.caption
    assert grid.caption.endswith(": b; d.")
    assert "In brackets and for ranks: 95 % intervals" in grid.caption


def with_p(report, ps):
    """A report whose comparisons have these p, by column and row."""
    test = significance.compare(np.ones((2, 3, 1, 4)), np.ones((2, 3, 1, 4)), resamples=1)
    cells = [
        replace(cell, comparison=cell.comparison._replace(test=test._replace(p=ps[where])))
        if (where := (cell.column[0], cell.row[0])) in ps
        else cell
        for cell in report.cells
    ]
    return replace(report, cells=cells)


def test_a_gap_that_may_be_chance_is_no_scale():
    """The best of a row is surely above the baseline by the report's test, or it has no share."""
    columns = {
        "none": {"a": [0.2, 0.4], "b": [0.50, 0.51], "c": [0.2, 0.4]},
        "mini": {"a": [0.4, 0.6], "b": [0.51, 0.51], "c": [0.4, 0.6]},
        "books": {"a": [0.7, 0.7], "b": [0.1, 0.2], "c": [0.7, 0.7]},
    }
    plain = reported(columns)
    assert across.across(plain).without_gap == []
    assert across.across(plain).columns[1].share.value < -20  # of a gap of half a point in b
    result = across.across(with_p(plain, {("mini", "b"): 0.7, ("mini", "a"): 0.7}))
    assert result.without_gap == [("b",)]
    assert [each.share.value for each in result.columns] == pytest.approx([0, 1, 0.5])
    assert result.columns[0].share.interval == pytest.approx((-0.25, 0.25))
    assert across.across(with_p(plain, {("mini", "b"): 0.049})).without_gap == []
    # Of a single run nothing is known: the means say it.
    assert across.across(with_p(plain, {("mini", "b"): None})).without_gap == []
    (none, *_) = across.records(with_p(plain, {("mini", "b"): 0.05}))
    assert (none["rows"], none["rows_with_gap"]) == (3, 2)


def test_no_single_row_decides_where_there_are_five():
    for count, decides in ((4, True), (5, False)):
        rows = {f"t{k}": [0.5, 0.6] for k in range(count)}
        best = {row: [0.7, 0.7] for row in rows}
        caption = across.grid(reported({"none": rows, "mini": best})).caption
        assert ("no single row decides" not in caption) is decides


def test_tasks_with_other_numbers_of_runs_count_the_same():
    one, three = np.array([0.0]), np.array([1.0, 1.0, 1.0])
    assert mean([one, three]) == 0.5
    assert iqm([one, three]) == pytest.approx(0.5)
    few, *others = tasks(X[:4])
    assert iqm([few, *(np.repeat(runs, 3) for runs in others)]) == pytest.approx(
        iqm([few, *others])
    )


def test_single_runs_have_no_interval():
    columns = {"none": {"a": [0.2], "b": [0.5]}, "mini": {"a": [0.4, 0.5], "b": [0.6, 0.7]}}
    result = found(columns)
    assert result["none"].iqm.interval is None
    assert result["mini"].share.interval is not None
    assert result["mini"].improvement == (1, None)
    assert result["mini"].ranks is None
    grid = across.grid(reported(columns))
    assert grid.heads == ["", "gap closed", "IQM", "P(better)"]


def test_ties_share_a_rank():
    columns = [[np.array([0.5]), np.array([0.1])], [np.array([0.5]), np.array([0.3])]]
    assert mean_ranks(columns).tolist() == [1.75, 1.25]


def test_the_same_figures_twice():
    columns = {"none": {"a": X[0], "b": X[1]}, "mini": {"a": Y[0], "b": X[2]}}
    assert across.across(reported(columns)) == across.across(reported(columns))


def test_what_is_no_comparison_across_tasks():
    both = {"a": [0.5], "b": [0.5]}
    assert across.grid(reported({"none": both})) is None  # a single column
    assert across.grid(reported({"none": {"a": [0.5]}, "mini": {"a": [0.6]}})) is None
    result = across.across(reported({"none": both, "mini": both, "books": {"a": [0.7]}}))
    assert [each.column for each in result.columns] == [("none",), ("mini",)]
    assert result.incomplete == [("books",)]
    same = [run("a", column, seed, 0.5) for column in ("none", "mini") for seed in (1, 2)]
    for number, one in enumerate(same):
        one["choices"]["elmo.l2"] = str(number % 2)
        one["acting"].add("elmo.l2")
    penalties = report(same, ["elmo.l2"], ["encoder"], baseline=("none",))  # rows of one task
    assert len(penalties.cells) == 4
    assert across.grid(penalties) is None
    assert across.records(penalties) == []


def test_grid_and_records():
    columns = {
        "none": {"a": [0.2, 0.3], "b": [0.5, 0.6]},
        "mini": {"a": [0.4, 0.5], "b": [0.7, 0.6]},
    }
    grid = across.grid(reported(columns))
    assert grid.title == "All 2 tasks together, percent"
    assert grid.heads == ["", "gap closed", "IQM", "P(better)", "mean rank"]
    assert [row[0] for row in grid.rows] == ["no encoder", "mini"]
    assert grid.rows[1][3] == "93.8 (75.0 to 100.0)"
    assert grid.bold == {(1, 1), (1, 2)}
    assert grid.hover[1, 0] == "encoder=mini"
    for head in grid.heads[1:]:
        assert f"{head[0].upper()}{head[1:]}: " in grid.caption
    none, mini = across.records(reported(columns))
    assert (none["encoder.name"], none["rows"], none["p_better"]) == ("none", 2, None)
    assert mini["gap_closed"] == pytest.approx(1)
    assert mini["p_better_low"] <= mini["p_better"] <= mini["p_better_high"]
