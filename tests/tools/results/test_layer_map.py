"""The map of layers: what is ruled out, and what the mix is compared with."""

import numpy as np
import pytest
from layer_map import layer_map, squares

from elmo_bench.report import report
from elmo_bench.runs import MIX, collect
from tests.runs.made_runs import SEEDS, scored_run


@pytest.fixture
def made(tmp_path):
    rng = np.random.default_rng(1)
    chances = {(0,): 0.5, (1,): 0.8, (2,): 0.78, (0, 1, 2): 0.82}
    for layers, chance in chances.items():
        for seed in SEEDS:
            right = (rng.random(200) < chance).astype(int)
            equal = [1 / len(layers)] * len(layers)
            mixed = {"layers": list(layers), "shares": equal, "gamma": 1.0, "norms": equal}
            more = {"mix": {"input": mixed}}
            choice = layers[0] if len(layers) == 1 else "all"
            folder = tmp_path / f"{choice}{seed}"
            scored_run(folder, right.mean(), seed, right, more=more, elmo_mix=choice)
    return report(collect([tmp_path]), ["task.name"], [MIX])


def test_squares(made):
    [row] = squares(made).values()
    by_head = {square.head: square for square in row}
    assert list(by_head) == ["0", "1", "2", "mix"]
    assert by_head["1"].is_best
    assert [square.head for square in row if square.is_ruled_out] == ["0"]
    best = by_head["1"].mean
    assert by_head["mix"].difference == pytest.approx(by_head["mix"].mean - best)
    low, high = by_head["0"].interval
    assert low < by_head["0"].mean - best < high < 0


def test_the_picture(made):
    """It has each mean as a text, and without rows of layers there is none."""
    assert layer_map(made, ".svg").startswith(b"<svg xmlns=")
    assert layer_map(made, ".pdf").startswith(b"%PDF")
    few = report([run for run in made.runs if run.seed < 3], ["task.name"], [MIX])
    with pytest.raises(ValueError, match="no row has several layers with five runs or more"):
        layer_map(few, ".svg")
