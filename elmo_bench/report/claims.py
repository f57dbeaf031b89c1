"""Check claims, such as a paper's, against runs: confirmed or not on each corpus.

A claim compares two groups of runs on each corpus, with the test of the report. `verdict` defines
the decision rule.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from elmo_bench.checks import Positive, of_type, one_of
from elmo_bench.runs import WITHIN, Run, below, full_keys, other_files, varies, where

from .grid import Grid
from .grids import corrected_p, correction, p_value, points
from .names import NONE, name, task_titles
from .significance import FEWEST, LEVEL, PRELIMINARY, Test
from .table import (
    SPLITS,
    Asked,
    Comparison,
    Correction,
    Key,
    Question,
    compared,
    hidden_keys,
    limits,
    of_rows,
)

EXPECTED = ("better", "not worse", "equal")
CONFIRMED, NOT_REPRODUCED, UNDECIDED, _, NOT_RUN = VERDICTS = (
    "confirmed",
    "not reproduced",
    "undecided",
    PRELIMINARY,
    "not run",
)
SETTINGS = (
    *("source", "where", "ours", "theirs", "expect", "primary"),
    *("rows", "split", "metric", "equal_within"),
)
KINDS = {  # of the values of a claim
    "ours": dict | None,
    "theirs": dict | None,
    "where": dict | None,
    "equal_within": Positive | None,
    "primary": bool,
}
CORPUS = ["task.name", "data.name"]
SIDES = ("ours", "theirs")
TITLE = "claims"


class Claim(NamedTuple):
    """A claim that our runs are better than, not worse than, or equal to their runs in each row."""

    title: str
    source: str  # table or section of the paper
    expect: str
    rows: list[str]
    named: tuple[str, ...]  # keys (with all keys below) that may differ between ours and theirs
    ours: dict[Key, list[Run]]  # by row
    theirs: dict[Key, list[Run]]
    asked: Asked
    primary: bool = False  # whether p is corrected for this claim's comparisons alone


class Finding(NamedTuple):
    """The verdict on a claim in a row.

    `flaw` says why the comparison has no test, or which other settings may explain the difference.
    """

    claim: Claim
    row: Key
    verdict: str
    comparison: Comparison | None = None
    flaw: str = ""


def claims(
    runs: Sequence[Run], asked: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]
) -> list[Claim]:
    """Return the claims with their runs.

    `settings` gives the defaults of the keys that a claim omits; its key `usual` selects the runs
    of all claims. Where the same run would be on both sides, a claim has no row.

    Raises ValueError, with the claim's key, if a claim's runs are ambiguous or were trained or
    tested on different files, and as `check_claims`.
    """
    check_claims(asked, settings)
    return [_claim(runs, title, about, settings) for title, about in asked.items()]


def check_claims(asked: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
    """Raise ValueError, with its key, for an invalid claim; this needs no runs."""
    for title, about in asked.items():
        _check_claim(f"claims.{title}", about or {}, settings)


def _check_claim(key: str, about: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    if unknown := about.keys() - {*SETTINGS}:
        raise ValueError(
            f"{key}: unknown keys {sorted(unknown)}; it may have {', '.join(SETTINGS)}"
        )
    if missing := [side for side in (*SIDES, "source") if side not in about]:
        values = "the paper's table or section" if missing == ["source"] else "the settings of runs"
        raise ValueError(f"{key}.{missing[0]} is missing: give {values}")
    for setting in KINDS.keys() & about.keys():
        of_type(f"{key}.{setting}", about[setting], KINDS[setting])
    one_of(f"{key}.expect", expect := about.get("expect", EXPECTED[0]), EXPECTED)
    if expect != EXPECTED[0] and about.get("equal_within", settings["equal_within"]) is None:
        raise ValueError(f"{key}: expect={expect} requires equal_within, in points")
    one_of(f"{key}.split", about.get("split", settings["split"]) or "test", SPLITS)


def _claim(
    runs: Sequence[Run], title: str, about: Mapping[str, Any], settings: Mapping[str, Any]
) -> Claim:
    key, region = f"claims.{title}", about.get("equal_within", settings["equal_within"])
    split = about.get("split", settings["split"]) or "test"
    rows = full_keys(runs, _list(about.get("rows")) or CORPUS, f"{key}.rows")
    common = (settings["usual"] or {}) | (about.get("where") or {})
    chosen = {
        side: _runs(runs, common | (about[side] or {}), rows, split, f"{key}.{side}")
        for side in SIDES
    }
    ours, theirs = chosen.values()
    for row in ours.keys() & theirs.keys():
        # The same runs are on both sides where a task has by default what the claim varies.
        if {run["folder"] for run in ours[row]} & {run["folder"] for run in theirs[row]}:
            del ours[row], theirs[row]
        elif why := other_files([*ours[row], *theirs[row]], rows):
            raise ValueError(f"{key}: {why}")
    return Claim(
        title=title,
        source=str(about["source"]),
        expect=about.get("expect", EXPECTED[0]),
        rows=rows,
        named=_named(key for side in SIDES for key in about[side] or {}),
        ours=ours,
        theirs=theirs,
        asked=Asked(
            metric=about.get("metric", settings["metric"]),
            split=split,
            equal_within=None if region is None else region / 100,
        ),
        primary=about.get("primary", False),
    )


def _named(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys that may differ: an encoder also has its own settings and files."""
    named = {key.partition(".")[0] if below(key, ("encoder",)) else key for key in keys}
    return (*sorted(named), *(["inputs.encoder"] if "encoder" in named else []))


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def _runs(
    runs: Sequence[Run], values: Mapping[str, Any], rows: Sequence[str], split: str, key: str
) -> dict[Key, list[Run]]:
    """Return the runs that have these values, by row, one for each seed."""
    full_keys(runs, [*values], key)
    measured = f"{SPLITS[split]}/"
    chosen = [
        run
        for run in where(runs, values, strict=False)
        if any(each.startswith(measured) for each in run["metrics"])
    ]
    if hidden := hidden_keys(chosen, rows):
        raise ValueError(
            f"{key}: runs of the same {' and '.join(rows)} differ in {hidden}: select some "
            f"of them; the values are {dict(values)}"
        )
    return of_rows(chosen, rows)


def findings(claims: Sequence[Claim]) -> list[Finding]:
    """Return a finding for each claim and row; `decided` corrects p and gives the verdicts."""
    results = []
    for claim in claims:
        for row in sorted({*claim.ours, *claim.theirs}) or [()]:
            if row not in claim.ours or row not in claim.theirs:
                results.append(Finding(claim, row, NOT_RUN))
                continue
            result, flaws = compared(claim.ours[row], claim.theirs[row], claim.asked)
            said = [*(flaw.why for flaw in flaws), *_differing_settings(claim, row)]
            results.append(Finding(claim, row, UNDECIDED, result, flaw="; ".join(said)))
    return results


def primary(results: Iterable[Finding]) -> set[Question]:
    """Return the questions of primary claims, which are a family of their own."""
    return {
        finding.comparison.question
        for finding in results
        if finding.claim.primary and finding.comparison and finding.comparison.question
    }


def decided(results: Iterable[Finding], correct: Correction) -> list[Finding]:
    """Return the findings with corrected p and their verdicts."""
    with_verdicts = []
    for finding in results:
        if finding.comparison is None:
            with_verdicts.append(finding)
            continue
        comparison, asked = correct(finding.comparison), finding.claim.asked
        decision = verdict(finding.claim.expect, comparison, asked.equal_within)
        with_verdicts.append(finding._replace(comparison=comparison, verdict=decision))
    return with_verdicts


def _differing_settings(claim: Claim, row: Key) -> Iterator[str]:
    """Yield a note if ours and theirs differ in settings that the claim does not name."""
    runs = [*claim.ours[row], *claim.theirs[row]]
    keys = {key for run in runs for key in run["acting"] if not below(key, (*WITHIN, *claim.named))}
    if more := [key for key in sorted(keys) if varies(runs, claim.rows, key)]:
        yield f"the two sides differ in {', '.join(more)}, too"


def verdict(expect: str, comparison: Comparison, region: float | None) -> str:
    """Return whether a comparison confirms the expectation, does not reproduce it, or leaves it
    undecided; with fewer than FEWEST runs a side it is preliminary.

    A difference is significant if its p, with Holm's correction for its family, is below 5 %. A
    difference is within the region if two one-sided tests at 5 % show it.

    - better: confirmed by a significant gain; not reproduced by a significant loss or by a
      difference within the region, even a significant one.
    - not worse: confirmed by a significant gain, or if one one-sided test shows that any loss is
      smaller than the region; not reproduced by any other significant loss.
    - equal: confirmed by a difference within the region; not reproduced by a significant difference
      whose 95 % interval lies outside the region.
    """
    test, p, gain = comparison.test, comparison.p_holm, comparison.difference > 0
    if test is not None and test.is_preliminary:
        return PRELIMINARY
    if test is None or p is None:
        return UNDECIDED
    is_sure, is_equal = p < LEVEL, bool(comparison.equal)
    if expect == "equal":
        low, high = test.interval
        is_outside = is_sure and (low > (region or 0) or high < -(region or 0))
        return CONFIRMED if is_equal else NOT_REPRODUCED if is_outside else UNDECIDED
    if expect == "not worse" and ((is_sure and gain) or _least(test) > -(region or 0)):
        return CONFIRMED
    if expect == "better" and is_equal:
        return NOT_REPRODUCED
    if not is_sure:
        return UNDECIDED
    return CONFIRMED if gain else NOT_REPRODUCED


def _least(test: Test) -> float:
    """Return the lower one-sided 95 % confidence bound of the difference."""
    return test.difference - test.reach(2 * LEVEL)


def verdicts(results: Sequence[Finding]) -> list[Grid]:
    """Return two tables: counts of verdicts by claim, and the comparisons that were run."""
    return [
        summary(results),
        details([finding for finding in results if finding.verdict != NOT_RUN]),
    ]


def summary(results: Sequence[Finding]) -> Grid:
    counts = {
        claim.title: Counter(
            finding.verdict for finding in results if finding.claim.title == claim.title
        )
        for claim in _claims(results)
    }
    shown = [each for each in VERDICTS if any(count[each] for count in counts.values())]
    rows = [
        [claim.title, claim.source, _expected(claim)]
        + [str(counts[claim.title][each] or "") for each in shown]
        for claim in _claims(results)
    ]
    return Grid(
        f"{TITLE}: on how many corpora these runs confirm them",
        ["claim", "source", "expected", *shown],
        rows,
        set(),
        3,
        caption=(
            "Confirmed and not reproduced: by a significant difference (p (Holm) below "
            f"{LEVEL}) or, where a region is named, by a difference shown to lie within it; with "
            f"fewer than {FEWEST} runs a side {PRELIMINARY}, else undecided. A claim is of each "
            "corpus by itself: nothing is averaged over them."
        ),
    )


def details(results: Sequence[Finding]) -> Grid:
    titles = task_titles(
        run
        for finding in results
        for side in (finding.claim.ours, finding.claim.theirs)
        for runs in side.values()
        for run in runs
    )
    heads = ["difference", "95 % interval", "p", "p (Holm)", "smallest found", "runs", "verdict"]
    rows, notes = [], []
    for finding in results:
        row_name = name(finding.claim.rows, finding.row, titles) if finding.row else NONE
        rows.append([finding.claim.title, row_name, *_figures(finding), finding.verdict])
        notes += [f"{finding.claim.title}, {row_name}: {finding.flaw}"] if finding.flaw else []
    comparisons = [finding.comparison for finding in results if finding.comparison]
    notes += limits(comparisons)
    return Grid(
        f"{TITLE}: each comparison",
        ["claim", "corpus", *heads],
        rows,
        set(),
        2,
        caption=(
            f"Points. {correction(comparisons)} The interval is not corrected. Smallest found: the "
            "smallest true difference that the design finds after the correction in 80 % of cases."
            f"{''.join(f' {note}.' for note in notes)}"
        ),
    )


def _figures(finding: Finding) -> list[str]:
    if finding.comparison is None:
        return [""] * 6
    test, difference = finding.comparison.test, points(finding.comparison.difference, signed=True)
    runs = f"{len(finding.claim.ours[finding.row])} + {len(finding.claim.theirs[finding.row])}"
    if test is None:
        return [difference, *[""] * 4, runs]
    interval = " to ".join(points(end, signed=True) for end in test.interval)
    p, holm = p_value(test.p), corrected_p(finding.comparison)
    return [difference, interval, p, holm, points(test.detectable), runs]


def _claims(results: Sequence[Finding]) -> list[Claim]:
    return [*{finding.claim.title: finding.claim for finding in results}.values()]


def _expected(claim: Claim) -> str:
    region = claim.asked.equal_within
    return (
        claim.expect
        + ("" if region is None else f" (region ±{100 * region:g})")
        + ", the primary claim" * claim.primary
    )
