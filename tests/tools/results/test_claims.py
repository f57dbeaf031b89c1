"""What runs say of a paper's claims."""

import numpy as np
import pytest
from claims import (
    CONFIRMED,
    NOT_REPRODUCED,
    PRELIMINARY,
    UNDECIDED,
    correction,
    decided,
    details,
    findings,
    read,
    summary,
    verdict,
)
from scipy import stats

from benchmarks.significance import Setting, pair
from elmo_bench.report.comparison import Comparison
from elmo_bench.report.significance import Scale, compare, largest_p
from elmo_bench.report.significance import Test as Outcome
from elmo_bench.runs import collect
from tests.runs.made_runs import scored_run

USUAL = {"encoder": "mini", "elmo.mix": "all", "fraction": {"one": 1, "two": 0.5}}
NONE = {"encoder": "none", "elmo.mix": "none"}


def comparison(difference, error, runs=(10, 10)):
    """One of ten runs a side, in fractions of 1."""
    reach, scales = 2.101 * error, (Scale(error, 18.0),)
    p, interval = largest_p(difference, scales), (difference - reach, difference + reach)
    test = Outcome(difference, scales, p, interval, 100, 100, runs)
    return Comparison(difference, None, test, p)


@pytest.mark.parametrize(
    ("expect", "difference", "error", "region", "decided"),
    [
        ("better", 0.05, 0.01, 0, CONFIRMED),
        ("better", -0.05, 0.01, 0, NOT_REPRODUCED),
        ("better", 0.01, 0.01, 0, UNDECIDED),
        ("better", 0.001, 0.001, 0.01, NOT_REPRODUCED),  # no difference to speak of
        ("better", 0.004, 0.001, 0.01, NOT_REPRODUCED),  # a sure one, and too small
        ("better", 0.03, 0.01, 0.01, CONFIRMED),
        ("not worse", 0.03, 0.01, 0.01, CONFIRMED),
        ("not worse", 0.0, 0.001, 0.01, CONFIRMED),
        ("not worse", -0.005, 0.001, 0.01, CONFIRMED),
        ("not worse", -0.005, 0.0027, 0.01, CONFIRMED),  # one-sided at 5 %: -0.0097
        ("not worse", -0.005, 0.003, 0.01, UNDECIDED),  # -0.0102
        ("not worse", 0.0, 0.01, 0.01, UNDECIDED),
        ("not worse", -0.05, 0.01, 0.01, NOT_REPRODUCED),
        ("equal", 0.0, 0.001, 0.01, CONFIRMED),
        ("equal", 0.0, 0.01, 0.01, UNDECIDED),
        ("equal", 0.02, 0.008, 0.01, UNDECIDED),  # sure, but perhaps within the region
        ("equal", -0.05, 0.01, 0.01, NOT_REPRODUCED),
    ],
)
def test_the_rule(expect, difference, error, region, decided):
    assert verdict(expect, comparison(difference, error), region) == decided


def test_equal():
    """Two one-sided tests at 5 %: the 90 % interval lies within the region."""
    ours, theirs = pair(Setting("accuracy", runs=(5, 5), skill=0.1), seed=4)
    test = compare(ours, theirs)
    ends = [scale.error * stats.t.ppf(0.95, scale.freedom) for scale in test.scales]
    reach = abs(test.difference) + max(ends)
    found = Comparison(test.difference, None, test, 0.5)
    assert verdict("equal", found, 1.001 * reach) == CONFIRMED
    assert verdict("equal", found, 0.999 * reach) == UNDECIDED


def test_without_a_test_nothing_is_decided():
    assert verdict("better", Comparison(0.5, None), 0) == UNDECIDED
    for runs in ((4, 10), (10, 4)):
        few = comparison(0.5, 0.01, runs)
        assert verdict("better", few, 0) == verdict("equal", few, 0.01) == PRELIMINARY


@pytest.fixture
def runs(tmp_path):
    """On corpus `one` the mix is good, and the top layer as good; on `two` the mix is bad."""
    rng = np.random.default_rng(0)
    chances = {("one", "none"): 0.5, ("one", "all"): 0.8, ("one", "top"): 0.8}
    chances |= {("two", "none"): 0.6, ("two", "all"): 0.3}
    for (corpus, mix), chance in chances.items():
        settings = {"data_name": corpus, "elmo_mix": mix, "elmo_l2": 0.1 if mix == "all" else 9}
        settings |= {"encoder_name": "none" if mix == "none" else "mini"}
        for seed in (1, 2, 3, 4, 5):
            right = rng.random(400) < chance
            folder = tmp_path / f"{corpus}-{list(chances).index((corpus, mix))}{seed}"
            scored_run(folder, right.mean(), seed, right, **settings)
    runs = collect([tmp_path])
    for run in runs:  # a share of the training set
        run.settings["fraction"] = 1 if run.settings["data.name"] == "one" else 0.5
    return runs


def decide(runs, **asked):
    """The finding on each claim and corpus."""
    claims = read(asked, None)
    results = findings(runs, claims, USUAL)
    results = decided(results, correction(results, claims, []))
    return {(one.claim.title, *one.row[1:]): one for one in results}


def test_each_corpus_has_its_own_verdict(runs):
    asked = {
        "helps": {"source": "Table 1", "ours": {"elmo.l2": 0.1}, "theirs": NONE},
        "top": {"source": "Table 2", "ours": {}, "theirs": {"elmo.mix": "top"}},
        "harms": {"source": "-", "ours": NONE, "theirs": {}, "where": {"data": "two"}},
        "saves": {"source": "-", "ours": {"fraction": 0.1}, "theirs": NONE},
    }
    found = decide(runs, **asked)
    assert {key: one.verdict for key, one in found.items()} == {
        ("helps", "one"): CONFIRMED,
        ("helps", "two"): NOT_REPRODUCED,
        ("top", "one"): UNDECIDED,
        ("harms", "two"): CONFIRMED,
    }
    tested = [one.comparison for one in found.values()]
    assert {one.family for one in tested} == {3}  # `harms` asks again what `helps` asks of `two`
    assert found["harms", "two"].comparison.p_holm == found["helps", "two"].comparison.p_holm
    assert min(one.p_holm for one in tested) == pytest.approx(3 * min(one.test.p for one in tested))
    together, each = summary([*found.values()]), details([*found.values()])
    assert together.heads[3:] == ["confirmed", "not reproduced", "undecided"]
    assert together.rows[0] == ["helps", "Table 1", "better", "1", "1", ""]
    assert [row[0] for row in each.rows] == ["helps", "helps", "top", "harms"]
    assert each.rows[0][1] == "ner, one"
    assert each.rows[0][7:] == ["5 + 5", "confirmed"]
    assert "Primary" not in each.caption


def test_a_primary_claim_is_a_family_of_its_own(runs):
    """Whatever else is asked; its comparisons have the same p where another claim has them, too."""
    about = {"source": "Table 1", "ours": {"elmo.l2": 0.1}, "theirs": NONE}
    asked = {
        "helps": about | {"primary": True},
        "again": about,
        "top": {"source": "Table 2", "ours": {}, "theirs": {"elmo.mix": "top"}},
    }
    found = decide(runs, **asked)
    sizes = {title: one.comparison.family for (title, _), one in found.items()}
    assert sizes == {"helps": 2, "again": 2, "top": 1}
    assert summary([*found.values()]).rows[0][2] == "better, primary"
    assert "Primary claims, on all planned corpora, are a family" in details(found.values()).caption


def test_a_planned_corpus_without_runs_counts(runs):
    """As p = 1, also one with too few runs, and all those of a claim that has none."""
    about = {"source": "plan", "ours": {}, "theirs": NONE, "primary": True, "corpora": 3}
    none = about | {"theirs": {"elmo.l2": 7}, "corpora": 4}
    of_two = [run for run in runs if run.settings["data.name"] == "two"]
    few = [run for run in runs if run not in of_two or run.seed < 5]
    for some, tests in ((runs, 2), (few, 1)):
        found = decide(some, helps=about, none=none)
        ps = [one.comparison.test.p for one in found.values() if one.comparison.p_holm]
        assert len(ps) == tests
        assert {one.comparison.family for one in found.values()} - {None} == {7}
        best = min(found.values(), key=lambda one: one.comparison.p_holm or 1)
        assert best.comparison.p_holm == pytest.approx(7 * min(ps))
    assert summary([*found.values()]).rows[0][2] == "better, primary on 3 corpora"


def test_runs_on_other_test_files_are_no_claim(runs):
    """As in a table: the figures of two corpora of one name cannot be compared."""
    about = {"source": "Table 1", "ours": {}, "theirs": NONE, "where": {"data": "one"}}
    for run in runs:
        run.settings["inputs.data.test"] = run.settings["elmo.mix"]
    with pytest.raises(ValueError, match=r"claims.helps: .* but inputs.data.test is"):
        decide(runs, helps=about)


def test_what_is_the_default_of_a_task_is_not_compared_with_itself(runs):
    """Such as dropout on ELMo's vectors, which SNLI has set to zero."""
    found = decide(runs, same={"ours": {}, "theirs": {"elmo.mix": "all"}, "source": "Table 2"})
    assert not found


def test_what_weakens_a_verdict_is_said(runs):
    """Another setting in which the two sides differ, and why there is no test."""
    about = {"source": "Table 2", "ours": {}, "theirs": {"elmo.mix": "top"}}
    for run in runs:
        run.acting.add("fit.max_epochs")
        run.settings["fit.max_epochs"] = 5 if run.settings["elmo.mix"] == "top" else 20
    (found,) = decide(runs, top=about).values()
    assert found.flaw == "the sides differ in fit.max_epochs, too"
    assert found.flaw in details([found]).caption
    for run in runs:  # tuned with as many draws, of which dev has chosen this setting
        run.config.update(budget=16, tune={"fit.max_epochs": "range(1, 30)"})
    (found,) = decide(runs, top=about).values()
    assert found.flaw == "each side with its own choice of 16 draws"
    for run in runs:
        run.config["budget"] = 4 if run.settings["elmo.mix"] == "top" else 16
    (found,) = decide(runs, top=about).values()
    assert found.flaw == "the sides differ in fit.max_epochs, too"
    for run in runs:
        (run.folder / "counts" / "test.npz").unlink()
    about = about | {"ours": {"fit.max_epochs": 20}}
    (found,) = decide(runs, top=about).values()
    assert found.verdict == UNDECIDED
    assert found.flaw.startswith("no test, since counts/test.npz")
    assert f"top, ner, one: {found.flaw}" in details([found]).caption


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"theirs": NONE}, "claims.x.ours: Field required"),
        ({"ours": {}, "theirs": NONE, "expects": 1}, "claims.x.expects=1: Extra inputs"),
        ({"ours": {}, "theirs": NONE, "expect": "worse"}, "claims.x.expect=worse: Input should be"),
        ({"ours": {}, "theirs": NONE, "expect": "equal"}, "claims.x: .*requires equal_within"),
        ({"ours": {}, "theirs": NONE, "equal_within": -1}, "claims.x.equal_within=-1: .* than 0"),
        ({"ours": {}, "theirs": NONE, "primary": "yes"}, "claims.x.primary=yes: .* boolean"),
        ({"ours": {}, "theirs": NONE, "corpora": 11}, "claims.x: .*corpora is for a primary claim"),
        ({"ours": {"elmo.mxi": 1}, "theirs": NONE}, r"claims.x.ours=.* no run has"),
    ],
)
def test_what_is_no_claim(runs, about, message):
    with pytest.raises(ValueError, match=message):
        decide(runs, x={"source": "Table 1"} | about)


def test_runs_of_a_side_that_differ(runs):
    for run in runs[5:10]:
        run.acting.add("fit.max_epochs")
        run.settings["fit.max_epochs"] = str(run.seed)
    about = {"source": "Table 1", "ours": {}, "theirs": NONE}
    with pytest.raises(ValueError, match=r"claims.x.\w+: runs of the same .* differ in .*select"):
        decide(runs, x=about)
