"""Which layers may be the best: with the confidence that is said, and what follows for tasks."""

from pathlib import Path

import numpy as np
import pytest

from elmo_bench.report import depth, report
from elmo_bench.report.comparison import Comparison
from elmo_bench.report.depth import depths
from elmo_bench.report.grids import tables
from elmo_bench.report.page import as_page
from elmo_bench.report.plots.curves import _by_value
from elmo_bench.report.significance import Test as Outcome
from elmo_bench.report.significance import compare
from elmo_bench.report.table import Cell, Report
from elmo_bench.runs import MIX, collect
from tests.runs.made_runs import SEEDS, a_run, scored_run

EXAMPLES = 100


def of_layer(layer):
    return {"mix": {"input": {"layers": [layer], "shares": [1.0], "gamma": 1.0, "norms": [1.0]}}}


@pytest.fixture
def made(tmp_path):
    """The report of a task and the share of right answers of each layer, with five seeds."""

    def make(chances, num_seeds=5):
        rng = np.random.default_rng(0)
        for (task, mix, layer), chance in chances.items():
            for seed in SEEDS[:num_seeds]:
                right = (rng.random(EXAMPLES) < chance).astype(int)
                settings = {"task_name": task, "elmo_mix": mix}
                folder = tmp_path / f"{task}{mix}{seed}"
                more = of_layer(layer)
                scored_run(folder, right.mean(), seed, right, more=more, **settings)
        return report(collect([tmp_path]), ["task.name"], [MIX])

    return make


def test_tasks_that_differ_in_depth(made):
    high = {("srl", 0, 0): 0.5, ("srl", 1, 1): 0.8, ("srl", "top", 2): 0.8}
    low = {("ner", 0, 0): 0.8, ("ner", 1, 1): 0.5, ("ner", "top", 2): 0.5}
    found = made(high | low | {("sst5", 0, 0): 0.6, ("sst5", "top", 2): 0.6})
    grid = tables(found)["depth"]
    assert grid.title == "Which layers may be the best on test"
    assert grid.heads == ["task", "layer with the highest mean", "may be the best", "deeper than"]
    by_task = {task: rest for task, *rest in grid.rows}
    assert by_task["ner"] == ["0", "0", ""]
    assert by_task["srl"][1:] == ["1 and 2", "ner"]
    assert by_task["sst5"][1:] == ["0 and 2", ""]
    assert "may be the best" in as_page([found], None, "")
    assert "Deeper than" in grid.caption


def test_the_top_layer_by_its_name_and_by_its_number(made, tmp_path):
    """The one with more runs stands for the layer, in the table and in the plot."""
    made({("ner", 0, 0): 0.6, ("ner", "top", 2): 0.7})
    for seed in range(10, 16):
        scored_run(tmp_path / f"two{seed}", 0.5, seed, elmo_mix=2, more=of_layer(2))
    found = report(collect([tmp_path]), ["task.name"], [MIX])
    assert depths(found)["ner",].highest == 0
    ((lines,),) = (by_line.values() for by_line in _by_value(found, MIX).values())
    assert [len(lines[layer].runs) for layer in (0, 2)] == [5, 6]


def test_the_level_is_shared_by_rows_and_layers(made, monkeypatch):
    """Of two rows with four layers each: 5 % / 2 / 3, one-sided."""
    found = made({(task, n, n): 0.5 for task in ("ner", "srl") for n in range(4)})
    for p, number in ((0.016, 1), (0.017, 4)):
        test = Outcome(0.0, (), p, (0.0, 0.0), EXAMPLES, EXAMPLES, (5, 5))
        monkeypatch.setattr(depth, "compared", lambda *_, of=test: Comparison(0.0, None, of))
        depths.cache_clear()
        assert [len(row.candidates) for row in depths(found).values()] == [number, number]


def test_another_encoder_has_other_layers(made):
    found = made({("ner", 0, 0): 0.8, ("ner", "top", 2): 0.5})
    grid = tables(found)["depth"]
    assert "deeper than" not in " ".join([*grid.heads, grid.caption.lower()])
    below, above = (depths(found)["ner",]._replace(candidates=[layer]) for layer in (0, 2))
    assert below.is_below(above)
    assert not above.is_below(below)
    assert not below.is_below(above._replace(encoder={"name": "another"}))


def test_few_runs_or_one_layer_say_nothing(made):
    assert "depth" not in tables(made({("ner", 0, 0): 0.8, ("ner", "top", 2): 0.5}, num_seeds=4))
    assert "depth" not in tables(made({("ner", "all", 1): 0.8}))


def test_the_best_layer_is_among_the_candidates(monkeypatch):
    """In 95 % of simulations or more; here seeds and examples vary, and two rows are tested."""
    rng, simulations, missed = np.random.default_rng(1), 150, 0
    counts, means = {}, [0.5, 0.56, 0.56, 0.56]  # the highest and two that are as good

    def in_memory(ours, theirs, *_):
        sides = (np.stack([counts[run.folder] for run in side]) for side in (ours, theirs))
        return Comparison(0.0, None, compare(*sides))

    monkeypatch.setattr(depth, "compared", in_memory)
    for _ in range(simulations):
        cells = []
        for row in ("a", "b"):
            hard = rng.normal(0, 0.2, (1, EXAMPLES))
            for layer, mean in enumerate(means):
                chances = mean + rng.normal(0, 0.02, (len(SEEDS), 1)) + hard
                right = (rng.random((len(SEEDS), EXAMPLES)) < chances).astype(float)
                about = of_layer(layer) | {"config": {"encoder": {}}}
                runs = [a_run(folder=Path(f"{row}{layer}{seed}"), **about) for seed in SEEDS]
                for run, each in zip(runs, right, strict=True):
                    counts[run.folder] = np.stack([each, np.ones(EXAMPLES)] * 2, 1)[:, None]
                cells.append(Cell((row,), (layer,), runs, tuple(right.mean(1))))
        found = depths(Report(["data.name"], [MIX], None, "dev", None, cells, []))
        missed += any(1 not in each.candidates for each in found.values())
    assert missed / simulations < 0.05 + 3 * np.sqrt(0.05 * 0.95 / simulations)
