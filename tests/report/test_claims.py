"""What runs say of a paper's claims."""

import numpy as np
import pytest

from elmo_bench.report import claims, collect, findings, verdicts
from elmo_bench.report.claims import CONFIRMED, NOT_RUN, REFUTED, UNDECIDED, verdict
from elmo_bench.report.significance import Test as Outcome
from elmo_bench.report.significance import equal_within, two_sided
from elmo_bench.report.table import Comparison

from .test_report import result

SETTINGS = {
    "usual": {"encoder": "mini", "elmo.mix": "all", "fraction": {"one": 1, "two": 0.5}},
    **dict.fromkeys(("where", "split", "metric", "equal_within")),
    "paired": False,
}
NONE = {"encoder": "none", "elmo.mix": "none"}


def comparison(difference, error, region):
    """One of ten runs, in fractions of 1."""
    reach, p = 2.101 * error, two_sided(difference, error, 18.0)
    test = Outcome(
        *(difference, error, 18.0, p, (difference - reach, difference + reach), 0.1, 5, None),
        *(p, p, None, 100, 100, (5, 5)),
    )
    is_equal = None if region is None else equal_within(test, region)
    return Comparison(difference, None, test, p, is_equal)


@pytest.mark.parametrize(
    ("expect", "difference", "error", "region", "decided"),
    [
        ("better", 0.05, 0.01, None, CONFIRMED),
        ("better", -0.05, 0.01, None, REFUTED),
        ("better", 0.01, 0.01, None, UNDECIDED),
        ("better", 0.001, 0.001, 0.01, REFUTED),  # no difference to speak of
        ("better", 0.004, 0.001, 0.01, REFUTED),  # a sure one, and too small
        ("better", 0.03, 0.01, 0.01, CONFIRMED),
        ("not worse", 0.03, 0.01, 0.01, CONFIRMED),
        ("not worse", 0.0, 0.001, 0.01, CONFIRMED),
        ("not worse", -0.005, 0.001, 0.01, CONFIRMED),
        ("not worse", 0.0, 0.01, 0.01, UNDECIDED),
        ("not worse", -0.05, 0.01, 0.01, REFUTED),
        ("equal", 0.0, 0.001, 0.01, CONFIRMED),
        ("equal", 0.0, 0.01, 0.01, UNDECIDED),
        ("equal", 0.02, 0.008, 0.01, UNDECIDED),  # sure, but perhaps within the region
        ("equal", -0.05, 0.01, 0.01, REFUTED),
    ],
)
def test_the_rule(expect, difference, error, region, decided):
    assert verdict(expect, comparison(difference, error, region), region) == decided


def test_without_a_test_nothing_is_decided():
    assert verdict("better", Comparison(0.5, None), None) == UNDECIDED
    lone = comparison(0.5, 0.01, None)._replace(p_holm=None)
    assert verdict("better", lone, None) == UNDECIDED


@pytest.fixture
def runs(tmp_path):
    """On corpus `one` the mix is good, and the top layer as good; on `two` the mix is bad."""
    rng, number = np.random.default_rng(0), 0
    for corpus, mixes in (
        ("one", {"none": 0.5, "all": 0.8, "top": 0.8}),
        ("two", {"none": 0.6, "all": 0.3}),
    ):
        for mix, chance in mixes.items():
            for seed in (1, 2, 3, 4, 5):
                number += 1
                right = rng.random(400) < chance
                weights = {"elmo/input/s0": 0.2, "elmo/input/s1": 0.5, "elmo/input/s2": 0.3}
                if corpus == "two" and seed == 1:
                    weights |= {"elmo/input/s0": 0.55, "elmo/input/s1": 0.15}
                result(
                    tmp_path / f"{number}",
                    right.mean(),
                    seed,
                    right,
                    more={"mix": weights} if mix == "all" else {},
                    data_name=corpus,
                    elmo_name="none" if mix == "none" else "mini",
                    elmo_mix=mix,
                    elmo_l2=0.1 if mix == "all" else 9,
                    task_elmo={"l2": 0.1},
                )
    runs = collect([tmp_path])
    for run in runs:  # a share of the training set
        run["choices"]["fraction"] = "1" if run["choices"]["data.name"] == "one" else "0.5"
    return runs


def decided(runs, **asked):
    """The verdict of each claim and corpus."""
    found = findings(claims(runs, asked, SETTINGS))
    return {(one.claim.title, *one.row[1:]): one for one in found}


def test_each_corpus_has_its_own_verdict(runs):
    asked = {
        "helps": {"source": "Table 1", "ours": {"elmo.l2": "task"}, "theirs": NONE},
        "top": {"source": "Table 2", "ours": {}, "theirs": {"elmo.mix": "top"}},
        "harms": {"source": "-", "ours": NONE, "theirs": {}, "where": {"data": "two"}},
        "saves": {"source": "-", "ours": {"fraction": 0.1}, "theirs": NONE},
        "first": {"source": "Figure 2", "ours": {}, "layer": 1},
        "last": {"source": "Figure 2", "ours": {}, "layer": 2},
        "output": {"source": "Figure 2", "ours": {}, "layer": 1, "place": "output"},
    }
    found = decided(runs, **asked)
    assert {key: one.verdict for key, one in found.items()} == {
        ("helps", "one"): CONFIRMED,
        ("helps", "two"): REFUTED,
        ("top", "one"): UNDECIDED,
        ("top", "two"): NOT_RUN,
        ("harms", "two"): CONFIRMED,
        **{("saves", corpus): NOT_RUN for corpus in ("one", "two")},
        ("first", "one"): CONFIRMED,
        ("first", "two"): UNDECIDED,
        ("last", "one"): REFUTED,
        ("last", "two"): REFUTED,
        **{("output", corpus): NOT_RUN for corpus in ("one", "two")},
    }
    assert found["first", "one"].effect == "+20.00 ± 0.00 (5)"
    tested = [one.comparison for one in found.values() if one.comparison]
    ps = sorted(one.test.p for one in tested)
    assert len(ps) == 4
    assert min(one.p_holm for one in tested) == pytest.approx(4 * ps[0])
    together, each = verdicts([*found.values()])
    assert together.heads[3:] == ["confirmed", "refuted", "undecided", "not run"]
    assert together.rows[0] == ["helps", "Table 1", "better", "1", "1", "", ""]
    assert [row[0] for row in each.rows] == [
        *("helps", "helps", "top", "harms"),
        *("first", "first", "last", "last"),
    ]
    assert each.rows[0][1] == "ner, one"
    assert each.rows[0][7:] == ["5 + 5", "confirmed"]


def test_what_is_the_default_of_a_task_is_not_compared_with_itself(runs):
    """Such as dropout on ELMo's vectors, which SNLI has set to zero."""
    found = decided(runs, same={"ours": {}, "theirs": {"elmo.mix": "all"}, "source": "Table 2"})
    assert [one.verdict for one in found.values()] == [NOT_RUN]


def test_a_difference_without_a_test_says_why(runs):
    for run in runs:
        (run["folder"] / "counts" / "test.npz").unlink()
    about = {"source": "Table 1", "ours": {}, "theirs": NONE, "where": {"data": "one"}}
    found = findings(claims(runs, {"helps": about}, SETTINGS))
    assert [one.verdict for one in found] == [UNDECIDED]
    assert "helps, ner, one: no test, since counts/test.npz" in verdicts(found)[1].caption


def test_what_else_two_sides_differ_in_is_said(runs):
    about = {"source": "Table 2", "ours": {}, "theirs": {"elmo.mix": "top"}}
    for run in runs:
        run["acting"] |= {"fit.max_epochs"}
        run["choices"]["fit.max_epochs"] = "5" if run["choices"]["elmo.mix"] == "top" else "20"
    (found,) = (one for one in findings(claims(runs, {"top": about}, SETTINGS)) if one.comparison)
    assert found.flaw == "the two sides differ in fit.max_epochs, too"
    assert found.flaw in verdicts([found])[1].caption
    about = about | {"ours": {"fit.max_epochs": 20}}
    (found,) = (one for one in findings(claims(runs, {"top": about}, SETTINGS)) if one.comparison)
    assert not found.flaw


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"theirs": NONE}, r"claims.x.ours is missing"),
        ({"ours": {}}, r"claims.x.theirs is missing"),
        (
            {"ours": {}, "theirs": NONE, "expects": 1},
            r"claims.x: unknown keys \['expects'\]; it may",
        ),
        ({"ours": {}, "layer": "1"}, r"claims.x.layer=1, but it must be an integer, 0 or more"),
        ({"ours": {}, "layer": 1, "place": "inptu"}, r"claims.x.place=inptu, but it must be input"),
        ({"ours": {}, "layer": 1, "theirs": NONE}, r"claims.x.theirs: a claim about a layer has"),
        (
            {"ours": {}, "theirs": NONE, "equal_within": "a"},
            r"claims.x.equal_within=a, but it must",
        ),
        ({"ours": {}, "theirs": NONE, "expect": "worse"}, r"claims.x.expect=worse, but it must be"),
        (
            {"ours": {}, "theirs": NONE, "expect": "equal"},
            r"claims.x: expect=equal requires equal_w",
        ),
        ({"ours": {"elmo.mxi": 1}, "theirs": NONE}, r"claims.x.ours=.* no run has"),
        (
            {"ours": {}, "theirs": {"elmo.mix": "top", "encoder": "mini"}, "rows": "task"},
            r"claims.x.ours: runs of the same task.name differ in \['data.name'.*select some of them",
        ),
    ],
)
def test_what_is_no_claim(runs, about, message):
    with pytest.raises(ValueError, match=message):
        claims(runs, {"x": {"source": "Table 1"} | about}, SETTINGS)
