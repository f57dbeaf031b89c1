"""Contrasts between tasks: their level, their figures, and what is one text in two corpora."""

import math
from dataclasses import replace

import numpy as np
import pytest

from elmo_bench.report import corrected, report
from elmo_bench.report.between_tasks import contrasts
from elmo_bench.report.build import NO_CONTRAST, SETTINGS, build_tables
from elmo_bench.report.contrast import joint_clusters, scales_of
from elmo_bench.report.grids import tables
from elmo_bench.report.significance import largest_p, unpaired_scales
from elmo_bench.runs import MIX, Counts, collect, figure
from tests.runs.made_runs import SEEDS, scored_run


def counts_of(right, sentences, groups):
    rows = np.stack([right, np.ones_like(right)] * 2, -1)[:, None].astype(float)
    return Counts(rows, np.asarray(sentences, np.uint64), np.asarray(groups))


def cell(rng, chance, sentences, groups, taste):
    """Five runs that find each example with this chance, moved by the example's taste."""
    logits = math.log(chance / (1 - chance)) + taste + 0.3 * rng.normal(size=(5, 1))
    right = rng.random((5, len(sentences))) < 1 / (1 + np.exp(-logits))
    return [counts_of(of_run, sentences, groups) for of_run in right.astype(int)]


def difference(cells):
    means = [np.mean([figure(run.rows.sum(0)) for run in runs]) for runs in cells]
    return means[0] - means[1] - means[2] + means[3]


def test_two_corpora_without_common_texts_add_their_variances():
    rng = np.random.default_rng(1)
    ours = [
        cell(rng, 0.7, range(40), np.arange(40), 0),
        cell(rng, 0.6, range(40), np.arange(40), 0),
    ]
    other = range(100, 160)
    theirs = [cell(rng, 0.8, other, np.arange(60), 0), cell(rng, 0.5, other, np.arange(60), 0)]
    scales = scales_of(ours + theirs)
    of_both = []
    for sides in (ours, theirs):
        rows = [np.stack([run.rows for run in runs]) for runs in sides]
        of_both.append(unpaired_scales(*rows))
    for scale, *parts in zip(scales, *of_both, strict=True):
        errors = [part.error for part in parts]
        assert scale.error == pytest.approx(math.hypot(*errors), rel=0.01)  # of 100 clusters


def test_the_same_text_in_both_corpora_is_one_choice():
    """A step that an example's taste moves alike on both tasks: the contrast does not move."""
    rng = np.random.default_rng(2)
    errors = {}
    for name, sentences in (("same", np.arange(80)), ("other", np.arange(80) + 500)):
        taste = 2 * np.random.default_rng(3).normal(size=80)
        cells = []
        for of_corpus in (np.arange(80), sentences):
            cells.append(cell(rng, 0.6, of_corpus, np.arange(80), taste))
            cells.append(cell(rng, 0.6, of_corpus, np.arange(80), -taste))
        errors[name] = scales_of(cells)[0].error
    assert errors["same"] < 0.6 * errors["other"]


@pytest.mark.parametrize("shared", [False, True])
def test_level(shared):
    """Of equal steps on two tasks, p is below 0.05 in some 5 % of cases at most."""
    rng = np.random.default_rng(4)
    sentences = np.arange(60)
    ps = []
    for _ in range(300):
        tastes = rng.normal(size=(4, 60))
        cells = []
        for number, taste in enumerate(tastes):
            of_corpus = sentences if shared or number < 2 else sentences + 1000
            cells.append(cell(rng, 0.6, of_corpus, sentences, taste))
        ps.append(largest_p(difference(cells), scales_of(cells)))
    assert np.mean(np.array(ps) <= 0.05) < 0.08


def test_which_clusters_are_one():
    """Documents match where most sentences are common, whatever a short one has in common."""
    ours = counts_of(np.ones(6, int), [1, 2, 3, 4, 5, 9], [0, 0, 0, 1, 1, 2])
    theirs = counts_of(np.ones(7, int), [4, 5, 9, 1, 2, 7, 9], [0, 0, 0, 1, 1, 2, 3])
    first, second = joint_clusters(ours, theirs)
    assert second[0] == first[3]  # 4 and 5
    assert second[3] == first[0]  # 1 and 2
    assert second[5] not in first  # 7
    assert second[6] == first[5]  # 9 alone; the document of 4 and 5 has it, too, but more of others


def of_layer(layer):
    return {"mix": {"input": {"layers": [layer], "shares": [1.0], "gamma": 1.0, "norms": [1.0]}}}


@pytest.fixture
def made(tmp_path):
    """The report of two tasks, of which one prefers layer 0 and the other layer 1."""
    rng = np.random.default_rng(5)
    chances = {("ner", 0): 0.8, ("ner", 1): 0.5, ("srl", 0): 0.4, ("srl", 1): 0.75}
    for number, ((task, layer), chance) in enumerate(chances.items()):
        for seed in SEEDS:
            right = (rng.random(100) < chance).astype(int)
            sentences = np.arange(100) + 1000 * (number // 2)
            settings = {"task_name": task, "elmo_mix": layer}
            folder = tmp_path / f"{task}{layer}{seed}"
            scored_run(
                folder, right.mean(), seed, right, sentences, more=of_layer(layer), **settings
            )
    return report(collect([tmp_path]), ["task.name"], [MIX])


def test_tasks_that_prefer_different_layers(made):
    asked = contrasts(made, [(1, 0)])
    with_p = corrected([replace(made, contrasts=asked)])[0]
    grid = tables(with_p)["contrasts"]
    [row] = grid.rows
    by_head = dict(zip(grid.heads, row, strict=True))
    means = {cell.key: cell.mean for cell in made.cells}
    on_ner = 100 * (means["ner", 1] - means["ner", 0])
    on_srl = 100 * (means["srl", 1] - means["srl", 0])
    assert by_head["step"] == "layer 1 − layer 0"
    assert [by_head["first row"], by_head["second row"]] == ["ner", "srl"]
    assert by_head["on the first"] == f"{on_ner:+.2f}".replace("-", "−")
    assert by_head["difference"] == f"{on_ner - on_srl:+.2f}".replace("-", "−")
    assert by_head["p (Holm)"].endswith("*")
    assert by_head["prefer different ones"] == "yes"


def test_a_column_that_is_not_there(made):
    with pytest.raises(ValueError, match=r"contrasts: 7 is no column .* of elmo.mix, are 0 and 1"):
        contrasts(made, [(7, 0)])


def test_no_two_rows_have_the_pair(tmp_path):
    """It is said, not passed in silence."""
    right = np.ones(10, int)
    for seed in (1, 2):
        for layer in (0, 1):
            folder = tmp_path / f"{layer}{seed}"
            scored_run(folder, 1.0, seed, right, more=of_layer(layer), elmo_mix=layer)
    settings = dict.fromkeys((*SETTINGS, "tables")) | {"runs": str(tmp_path), "cache_dir": ""}
    table, _ = build_tables(settings | {"columns": "elmo.mix", "contrasts": [[1, 0]]})
    assert NO_CONTRAST in table.notes
    assert "contrasts" not in tables(table)
