"""Bands of tuning curves cover as often as they say, whatever the scores; a report parts the draws
of `sweep=tune` from the runs of what was chosen, and says where its sides were not tuned alike.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from omegaconf import OmegaConf

from elmo_bench import compare
from elmo_bench.jobs.archive import archive
from elmo_bench.report.grids import tables
from elmo_bench.report.methods import methods
from elmo_bench.report.page import as_page
from elmo_bench.report.plots import picture, style, tuning
from elmo_bench.report.tuning import lines, side
from elmo_bench.report.tuning_curve import (
    CONFIDENCE,
    Curve,
    curve,
    limits,
    probability,
    verdict,
)
from elmo_bench.report.write import markdown
from tests.report.panels import panels
from tests.runs.made_runs import a_run, write_failed, write_run

SIMULATIONS = 4000
SPACE = {
    "task.optimizer.lr": "tag(log, interval(1e-4, 1e-2))",
    "elmo.dropout": "interval(0.0, 0.6)",
}
# The scores of the draws of each side on dev; None: it failed.
SIDES = {"none": [0.5, None, 0.7, 0.6], "mini": [0.75, 0.8, 0.7, 0.72]}


def within(count, confidence):
    """Whether so many simulations of SIMULATIONS are what chance does (four standard errors)."""
    error = math.sqrt(confidence * (1 - confidence) / SIMULATIONS)
    return abs(count / SIMULATIONS - confidence) < 4 * error


@pytest.mark.parametrize("confidence", [0.5, CONFIDENCE])
@pytest.mark.parametrize("draws", [1, 5, 16, 48, 200])
def test_all_limits_hold_together_as_often_as_they_say(draws, confidence):
    least, most = limits(draws, confidence)
    numbers = np.sort(np.random.default_rng(draws).random((SIMULATIONS, draws)), axis=1)
    assert within(((least <= numbers) & (numbers <= most)).all(1).sum(), confidence)


@pytest.mark.parametrize("draws", [1, 2, 7, 12])
def test_the_probability_is_that_of_stecks_determinant(draws):
    """(1971): N! det[max(b_i - a_j, 0)^(j - i + 1) / (j - i + 1)!]; also for other limits."""
    sides = np.sort(np.random.default_rng(draws).random((2, draws)) ** 2 * 0.3, axis=1)
    for least, most in (limits(draws, 0.9), (sides[0], 1 - sides[1][::-1])):
        matrix = [
            [
                max(b - a, 0) ** power / math.factorial(power) if (power := j - i + 1) >= 0 else 0
                for j, a in enumerate(least)
            ]
            for i, b in enumerate(most)
        ]
        exact = math.factorial(draws) * np.linalg.det(matrix)
        assert probability(least, most) == pytest.approx(exact, abs=1e-9)
    assert probability(*limits(draws, 0.9)) == pytest.approx(0.9)


@pytest.mark.parametrize("draws", [5, 16, 48])
@pytest.mark.parametrize("steps", [None, 1, 3, 20])  # a continuous score, and few different ones
def test_the_band_covers_the_true_curve(draws, steps):
    """Everywhere at once; with equal scores at least as often."""
    rng, budgets = np.random.default_rng(draws), np.arange(1, draws + 1)
    shares = 0.5 ** (1 / budgets)
    # The score of a draw is that share of the draws which are worse, rounded up to a step.
    rounded = (lambda x: x) if steps is None else (lambda x: np.ceil(x * steps) / steps)
    covered = 0
    for _ in range(SIMULATIONS // 4):
        _, low, high = curve(rounded(rng.random(draws)), 0.0)
        covered += bool(((low <= rounded(shares)) & (rounded(shares) <= high)).all())
    assert covered / (SIMULATIONS // 4) > CONFIDENCE - 0.015


def test_a_curve():
    """It rises, begins at the median, and where the draws say nothing it has the bounds of the score;
    equal scores in any order are the same curve.
    """
    scores = np.array([0.5, 0.2, 0.9, 0.0, 0.5])
    found = curve(scores, -1.0)
    assert [*found.median] == [0.5, 0.5, 0.5, 0.9, 0.9]
    assert found.low[0] == -1.0
    assert found.high[-1] == 1.0
    for ends in found:
        assert (np.diff(ends) >= 0).all()
    assert (found.low <= found.median).all()
    assert (found.median <= found.high).all()
    assert all(map(np.array_equal, found, curve(np.sort(scores), -1.0)))
    many = curve(np.linspace(0, 1, 201)[:-1], 0.0)
    assert 0.3 < many.low[0] < many.median[0] == 0.495 < many.high[0] < 0.7


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (
            ([0.7, 0.7, 0.7], [0.6, 0.65, 0.7], [0.8, 0.9, 1.0]),
            ([0.4, 0.68, 0.7], [0.3, 0.5, 0.6], [0.5, 0.7, 1.0]),
            "better with 1, undecided with 2, not to be decided with 3 draws of each; "
            "the medians differ by +30.00 with 1, +2.00 with 2 and 0.00 with 3",
        ),
        (
            ([0.1] * 3, [0.0] * 3, [0.2] * 3),
            ([0.1, 0.4, 0.5], [0.0, 0.3, 0.4], [0.2, 0.5, 1.0]),
            "undecided with 1, worse with 2 to 3 draws of each; "
            "the medians differ by 0.00 with 1, −30.00 with 2 and −40.00 with 3",
        ),
    ],
)
def test_the_verdict_changes_with_the_budget(ours, theirs, said):
    """As far as both were drawn."""
    assert verdict(*(Curve(*map(np.array, each)) for each in (ours, theirs))) == said


@pytest.mark.parametrize(("score", "lowest"), [(0.2, 0.0), (-0.2, -1.0)])
def test_a_draw_that_failed_has_the_lowest_score(score, lowest):
    """Of a correlation -1."""
    failed, scored = (a_run(config={"trial": n, "budget": 2, "tune": SPACE}) for n in range(2))
    draws = [replace(scored, metrics={"dev/f1": score}), replace(failed, reason="MemoryError")]
    found = side(draws)
    assert [*found.scores] == [lowest, score]
    assert found.best == draws[:1]


def test_an_end_of_the_band_without_a_bound():
    """Only the upper one, even where the lower one is as high as a score can be."""
    draws = [
        a_run(config={"trial": n, "tune": SPACE}, metrics={"dev/f1": 1.0}, seconds={"total": 1.0})
        for n in range(8)
    ]
    shown = [lines(side(draws[:n]), n) for n in (1, 8)]
    assert shown[0]["best of 1"] == "100.00 (no bound)"
    assert shown[1]["best of 4"] == "100.00 (100.00 to no bound)"


def run(folder, encoder, seed, trial=None, dev=None, lr=0.001, **more):
    """A run of a tuned side as job=train leaves it; without a score one that failed."""
    config = {
        "task": {"name": "ner", "monitor": "f1", "optimizer": {"lr": lr}},
        "data": {"name": "sample"},
        "encoder": {"name": encoder} | ({} if encoder == "none" else {"_target_": "load"}),
        "elmo": {"mix": "none" if encoder == "none" else "all", "dropout": 100 * lr},
        "finetune": {"name": "none", "lr": lr},  # as an experiment that interpolates it
        "seed": seed,
        "trial": trial,
        "budget": None,  # that of the command is not compared here
        "tune": SPACE,
    } | more
    if not dev:
        write_failed(folder, config, identity=folder.name)
        return
    figures = {"dev/f1": dev} | ({"test/f1": dev - 0.1} if trial is None else {})
    about = {"identity": folder.name, "finished": f"2026-01-0{seed}", "inputs": {}}
    write_run(folder, figures, config, seconds={"training": 50.0, "total": 60.0}, **about)


def sweep(root, sides=SIDES, **more):
    """The draws of both sides, and two runs of the best of each."""
    for encoder, scores in sides.items():
        for trial, score in enumerate(scores):
            run(root / f"{encoder}{trial}", encoder, 1, trial, score, 0.001 * (trial + 1), **more)
        best = max(range(len(scores)), key=lambda trial: scores[trial] or 0)
        for seed in (2, 3):
            folder = root / f"{encoder}-chosen{seed}"
            run(folder, encoder, seed, None, scores[best] + 0.01, 0.001 * (best + 1), **more)
    return root


def compared(root, **settings):
    (found,) = compare(root, columns="encoder", baseline="none", **settings).reports
    return found


def test_the_draws_of_a_sweep(tmp_path):
    """They have a table of their own, which stays the same in an archive, and a sentence and their
    spaces on how it was made; runs of the choice are one row although their settings differ.
    """
    found = compared(sweep(tmp_path / "runs"))
    assert found.rows == ["task.name"]
    assert [(len(cell.runs), round(cell.mean, 2)) for cell in found.cells] == [(2, 0.61), (2, 0.71)]
    (note,) = found.notes[:1]
    assert note == "1 of 12 runs failed or did not finish: runs/none1 (MemoryError)"
    assert not [note for note in found.notes if "draw" in note or "budget" in note]
    grid = tables(found)["tuning"]
    assert grid.heads == ["", "no encoder", "mini"]
    assert grid.rows == [
        ["draws", "4 (1 failed)", "4"],
        ["time", "0:03:00 (without failed draws)", "0:04:00"],
        ["best on dev", "70.00", "80.00"],
        ["with task.optimizer.lr", "0.003", "0.002"],
        ["with dropout of ELMo's vectors", "–", "0.2"],
        ["best of 1", "50.00 (no bound)", "72.00 (no bound)"],
        ["best of 2", "60.00 (no bound)", "75.00 (no bound)"],
        ["best of 4", "70.00 (no bound)", "80.00 (70.00 to no bound)"],
    ]
    assert "mini against no encoder: not to be decided with 1 to 4 draws of each" in grid.caption
    text = markdown([found])
    assert "best on dev of 4 random draws, each trained with one seed (8 draws in all" in text
    assert "elmo.dropout from interval(0.0, 0.6)" in text
    output = tmp_path / "kept.tar.xz"
    paths = {"runs": f"{tmp_path}/runs", "output": str(output), "cache_dir": f"{tmp_path}/c"}
    archive(OmegaConf.create(paths))
    assert tables(compared(output))["tuning"] == grid


def test_a_plot_of_tuning(tmp_path):
    """The curves, and the gain of the best of all draws over the baseline's best of k."""
    found = compared(sweep(tmp_path))
    curves, gains = panels(tuning(found))
    drawn = {line.get_label(): [*line.get_ydata()] for line in curves.lines}
    assert drawn["no encoder"] == pytest.approx([50, 60, 70, 70])
    assert drawn["mini"] == pytest.approx([72, 75, 80, 80])
    (gain,) = (line for line in gains.lines if line.get_label() == "mini")
    assert [*gain.get_ydata()] == pytest.approx([30, 20, 10, 10])
    assert gains.get_ylim()[0] <= 0
    assert "Tuning" in as_page([found])
    assert style.svg([tuning(found)]).count("no encoder") > 1
    assert b"tuning curves" in picture([found], "svg").lower()


@pytest.mark.parametrize(
    ("sides", "change", "said"),
    [
        (
            SIDES | {"none": [0.5, 0.6, 0.7]},
            {},
            "unequal budgets: ner, no encoder 3 draws and ner, mini 4 draws",
        ),
        (SIDES, {"rnn": {"layers": 2}}, "its draws differ in ['rnn.layers'], which were not drawn"),
        (SIDES, {"tune": SPACE | {"elmo.dropout": "choice(0)"}}, "differ in ['tune.elmo.dropout']"),
        (SIDES, {"dev": 0.9, "lr": 0.005}, "do not have the settings of its best draw, number 0"),
    ],
)
def test_sides_that_were_not_tuned_alike(sides, change, said, tmp_path):
    """The number of draws, a draw with other settings or of another space, a choice that dev did not
    make.
    """
    sweep(tmp_path, sides)
    if change:
        run(tmp_path / "mini0", "mini", 1, 0, **{"dev": 0.75, "lr": 0.002} | change)
    (note,) = (note for note in compared(tmp_path).notes if "draw" in note)
    assert said in note


@pytest.mark.parametrize("seed", [2, 9])
def test_runs_of_two_choices_are_not_averaged(tmp_path, seed):
    """Those of an earlier one, before more draws, have the same seeds."""
    sweep(tmp_path)
    run(tmp_path / "earlier", "mini", seed, None, 0.7, lr=0.005)
    said = "ner, mini: .* have the settings of different draws of sweep=tune"
    with pytest.raises(ValueError, match=said):
        compared(tmp_path)
    for path in tmp_path.glob("*[0-9]"):  # also if no draws are left to compare them with
        if "chosen" not in path.name:
            path.rename(tmp_path.parent / f"{seed}{path.name}")
    with pytest.raises(ValueError, match=said):
        compared(tmp_path)


def test_one_side_was_tuned(tmp_path):
    sweep(tmp_path, {"mini": [0.7, 0.8]})
    for seed in (2, 3):
        run(tmp_path / f"none{seed}", "none", seed, None, 0.5, tune={})
    found = compared(tmp_path)
    said = "Only the settings of ner, mini are the best on dev of 2 random draws"
    assert said in methods([found])
    assert "tuning curves" not in methods([found])


def test_a_side_that_was_tuned_twice(tmp_path):
    """A draw has the same settings with any seed, so that these would count twice."""
    sweep(tmp_path)
    run(tmp_path / "again", "mini", 20, 0, 0.7)
    with pytest.raises(ValueError, match="mini: its draws have the seeds 1 and 20"):
        compared(tmp_path)


def test_draws_without_a_baseline_are_told(tmp_path):
    run(tmp_path / "mini0", "mini", 1, 0, 0.7)
    with pytest.raises(ValueError, match="all 1 runs are draws of sweep=tune, none of a choice"):
        compared(tmp_path)
    (tmp_path / "mini0").rename(tmp_path / "copy")
    sweep(tmp_path, {"mini": [0.7, 0.8]})
    found = compare(tmp_path, columns="encoder").reports[0]
    assert "tuning" not in tables(found)
    assert found.notes == ["not shown: 2 draws of rows without a tuned baseline or side"]


def test_tuned_runs_are_not_averaged_with_others(tmp_path):
    """Nor are those of another space."""
    sweep(tmp_path)
    run(tmp_path / "by hand", "mini", 2, None, 0.9, tune={})
    run(tmp_path / "other", "mini", 2, None, 0.9, tune=SPACE | {"elmo.dropout": "choice(0, 1)"})
    with pytest.raises(ValueError, match=r"runs of one cell differ in tune.elmo.dropout;"):
        compared(tmp_path, rows="task")
