"""What the archived runs say of each other."""

import numpy as np
import pytest
from agreement import repeated, replicated, shared_seeds, shift

from elmo_bench.report import report
from elmo_bench.runs import collect
from tests.runs.made_runs import scored_run


def answers(rng, skills, tastes):
    """Counts of accuracy of runs with these skills on examples that suit them so well, in logits."""
    chances = 1 / (1 + np.exp(-(skills[:, None] + tastes)))
    right = (rng.random(chances.shape) < chances).astype(float)
    return np.stack([right, np.ones_like(right)] * 2, -1)[:, :, None]


def test_the_error_of_a_shift():
    """If gains on dev and on test are equal but for chance, the shift is as large as its error."""
    rng, ratios = np.random.default_rng(1), []
    for _ in range(300):
        sides = []
        skills = rng.normal(0, 0.3, (2, 5))
        for size in (80, 120):
            tastes = rng.normal(0, 1, (2, 1, size))
            sides.append(tuple(map(answers, (rng, rng), skills, tastes)))
        moved, error = shift(*sides)
        ratios.append(moved / error)
    assert np.mean(ratios) == pytest.approx(0, abs=0.15)
    assert np.sqrt(np.mean(np.square(ratios))) == pytest.approx(1, abs=0.1)


def test_equal_examples():
    """Of one file as dev and as test, the difference is equal."""
    rng = np.random.default_rng(2)
    sides = answers(rng, np.full(3, 1.0), np.zeros(50)), answers(rng, np.zeros(4), np.zeros(50))
    moved, error = shift(sides, sides)
    assert moved == 0
    assert error > 0


SCORES = {  # by corpus and encoder, of seeds 1, 2, 3, 11, 12 and 13
    ("conll2003", "none"): (0.5, 0.6, 0.7, 0.4, 0.5, 0.6),
    ("conll2003", "mini"): (0.7, 0.6, 0.5, 0.8, 0.9, 1.0),
    ("other", "none"): (0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    ("other", "mini"): (0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
}


TITLES = {"conll2003": "CoNLL", "other": "Other"}


@pytest.fixture
def of_two_series(tmp_path):
    for (corpus, encoder), figures in SCORES.items():
        for seed, score in zip((1, 2, 3, 11, 12, 13), figures, strict=True):
            right, folder = np.arange(100) < 100 * score, tmp_path / f"{corpus}-{encoder}{seed}"
            scored_run(folder, score, seed, right, data_name=corpus, encoder_name=encoder)
    return report(collect([tmp_path]), ["data"], ["encoder"], baseline=("none",))


def test_one_side_in_both_series(of_two_series):
    rows = repeated(of_two_series, TITLES).rows
    scores = ["60.00 ± 10.00 (3, CPU)", "50.00 ± 10.00 (3, CPU)"]
    assert rows[0][:4] == ["CoNLL", "no encoder", *scores]
    differences = [row[4].partition(" ")[0] for row in rows]
    assert differences == ["−10.00", "+30.00", "+30.00", "+30.00"]


def test_sides_that_share_seeds(of_two_series):
    """Those of one corpus rise and fall together, those of the other do not quite."""
    first = np.corrcoef(SCORES["conll2003", "none"], SCORES["conll2003", "mini"])[0, 1]
    figures = (first + 1) / 2, (1 - first) / 2, first, 1
    expected = [f"{value:.2f}".replace("-", "−") for value in figures]
    rows = shared_seeds(of_two_series).rows
    assert rows == [["test", "2", *expected], ["dev", "2", *expected]]


def test_gains_of_both_series(of_two_series):
    """Of one series twice, each gain lies in its own interval; the largest comes first."""
    rows = replicated(of_two_series, of_two_series, TITLES).rows
    assert [[row[0], row[-1]] for row in rows] == [["CoNLL", "yes"], ["Other", "yes"]]
    assert rows[0][1] == rows[0][2]
    assert rows[1][1].startswith("+20.00 (")
