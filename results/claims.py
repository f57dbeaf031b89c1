"""Check the paper's claims against runs: confirmed or not on each corpus.

A claim compares two groups of runs on each corpus, with the test of the report. `verdict` defines
the decision rule.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeVar

from pydantic import BaseModel, NonNegativeInt, ValidationError, model_validator

from elmo_bench.bounds import Positive
from elmo_bench.report.comparison import Comparison, Correction, compared, families
from elmo_bench.report.grids import ABOUT_SMALLEST, ABOUT_TESTS, TESTED, tested
from elmo_bench.report.names import name, task_titles
from elmo_bench.report.remarks import unlike
from elmo_bench.report.significance import FEWEST, LEVEL, PRELIMINARY, Test, reach
from elmo_bench.report.table import order
from elmo_bench.report.tabulate import grouped, measured_on
from elmo_bench.report.writers import Grid
from elmo_bench.runs import (
    Key,
    Run,
    check_files,
    distinguishing,
    full_keys,
    where,
)

log = logging.getLogger(__name__)
CONFIRMED, NOT_REPRODUCED, UNDECIDED = "confirmed", "not reproduced", "undecided"
VERDICTS = (CONFIRMED, NOT_REPRODUCED, UNDECIDED, PRELIMINARY)
CORPUS = ["task.name", "data.name"]
ABOUT_PRIMARY = "Primary claims, on all planned corpora, are a family of their own. "
MISSING = object()  # equals no setting
Model = TypeVar("Model", bound=BaseModel)


class Claim(BaseModel, extra="forbid", strict=True):
    """A claim that our runs are better than, not worse than, or equal to their runs in each row.

    Args:
        source: the table or section of the paper.
        ours, theirs: settings of the runs of each side.
        where: settings of the runs of both.
        equal_within: the margin of "equal" and "not worse", in points.
        primary: whether p is corrected for primary claims only.
        corpora: of a primary claim, the number of corpora planned; one without FEWEST runs a side
            counts as p = 1.

    """

    title: str
    source: str
    ours: dict[str, Any]
    theirs: dict[str, Any]
    where: dict[str, Any] = {}
    expect: Literal["better", "not worse", "equal"] = "better"
    equal_within: Positive | None = None
    primary: bool = False
    corpora: NonNegativeInt = 0

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.corpora and not self.primary:
            raise ValueError("corpora is for a primary claim: give primary, too")
        if self.expect != "better" and self.equal_within is None:
            raise ValueError(f"expect={self.expect} requires equal_within, in points")
        return self

    @property
    def region(self) -> float:
        """The margin as a fraction of 1; 0 without one."""
        return (self.equal_within or 0) / 100

    @property
    def compared_keys(self) -> list[str]:
        """The keys (with all keys below) that may differ between ours and theirs; an encoder also
        has its own settings.
        """
        keys = (*self.ours, *self.theirs)
        return sorted({"encoder" if key.startswith("encoder.") else key for key in keys})


class Finding(NamedTuple):
    """The verdict on a claim in a row, with the runs of both sides.

    `flaw` says why the comparison has no test, or which other settings may explain the difference.
    """

    claim: Claim
    row: Key
    ours: list[Run]
    theirs: list[Run]
    comparison: Comparison
    flaw: str
    verdict: str = UNDECIDED


def read(claims: Mapping[str, Any], equal_within: float | None) -> list[Claim]:
    """Return claims given by title; raises ValueError, with the claim's key, for an invalid one."""
    usual = {"equal_within": equal_within}
    return [
        checked(Claim, {"title": title} | usual | (about or {}), f"claims.{title}")
        for title, about in claims.items()
    ]


def checked(model: type[Model], values: Mapping[str, Any], place: str = "") -> Model:
    """Return the model of these values; raises ValueError, with its key, for a wrong one."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(filter(None, [place, *map(str, fault["loc"][:1])]))
        came = f"={fault['input']}" if fault["loc"] and fault["type"] != "missing" else ""
        raise ValueError(f"{key}{came}: {fault['msg']}") from error


def findings(
    runs: Sequence[Run], claims: Sequence[Claim], usual: Mapping[str, Any]
) -> list[Finding]:
    """Return a finding for each claim and row that has runs of both sides; `decided` corrects p and
    gives the verdicts.

    `usual` selects the runs of all claims. Raises ValueError, with the claim's key, if a claim's
    runs are ambiguous or were trained or tested on different files.
    """
    results = []
    for claim in claims:
        of_claim = [*_of_rows(runs, claim, usual)]
        if not of_claim:
            log.warning("claims.%s: no corpus has runs of both sides", claim.title)
        results += of_claim
    return results


def _of_rows(runs: Sequence[Run], claim: Claim, usual: Mapping[str, Any]) -> Iterator[Finding]:
    common, key = {**usual, **claim.where}, f"claims.{claim.title}"
    ours = _runs(runs, common | claim.ours, f"{key}.ours")
    theirs = _runs(runs, common | claim.theirs, f"{key}.theirs")
    for row in sorted(ours.keys() & theirs.keys(), key=order):
        runs = [*ours[row], *theirs[row]]
        # A run is on both sides where a task has by default what the claim varies.
        if len({run.folder for run in runs}) < len(runs):
            continue
        try:
            check_files(runs, CORPUS)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error
        comparison = compared(ours[row], theirs[row], None, "test")
        untested = [f"no test, since {comparison.flaw[0]}"] if comparison.flaw else []
        said = "; ".join([*untested, *unlike([runs], [], claim.compared_keys)])
        yield Finding(claim, row, ours[row], theirs[row], comparison, said)


def conditions_on(run: Run, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are asked of a run.

    A value may differ by corpus, {wikigold: 1, sst: 0.5}; a corpus that is missing there has no
    runs.
    """
    asked = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = value.get(run.settings.get("data.name"), MISSING)
        asked[key] = value
    return asked


def _has(run: Run, values: Mapping[str, Any]) -> bool:
    """Whether a run has these values; a key that it lacks, or that has no effect, has any value."""
    known = {key for key in run.settings if key not in run.without_effect}
    asked = conditions_on(run, values).items()
    return bool(where([run], {k: v for k, v in asked if {k, f"{k}.name"} & known}))


def _runs(runs: Sequence[Run], values: Mapping[str, Any], key: str) -> dict[Key, list[Run]]:
    """Return the runs that have these values, by row, one for each seed."""
    full_keys(runs, [*values], key)
    chosen = [run for run in measured_on(runs, "test") if _has(run, values)]
    if hidden := distinguishing(chosen, CORPUS):
        raise ValueError(
            f"{key}: runs of the same {' and '.join(CORPUS)} differ in {hidden}: select some "
            f"of them; the values are {dict(values)}"
        )
    return {row: group for (row, _), group in grouped(chosen, CORPUS).items()}


def correction(
    results: Sequence[Finding], claims: Sequence[Claim], others: Sequence[Comparison]
) -> Correction:
    """Return the correction of p for the findings and the comparisons of tables: one family of the
    primary claims, in which a planned corpus without FEWEST runs a side counts as p = 1, and one
    of all others of each split.
    """
    first = [finding.comparison for finding in results if finding.claim.primary]
    tests = [(each.claim.title, each.comparison.test) for each in results]
    counts = Counter(title for title, test in tests if test and not test.is_preliminary)
    lost = Test(0.0, (), 1.0, (-1.0, 1.0), 0, 0, (FEWEST, FEWEST))
    for claim in claims:
        for number in range(claim.corpora - counts[claim.title]):
            sides = frozenset({frozenset({claim.title}), frozenset({f"{number}"})})
            first.append(Comparison(0.0, None, lost, question=(sides, "", "test")))
    every = [*others, *first, *(finding.comparison for finding in results)]
    return families(every, {each.question for each in first if each.question})


def decided(results: Sequence[Finding], correct: Correction) -> list[Finding]:
    """Return the findings with corrected p and their verdicts."""
    with_verdicts = []
    for finding in results:
        comparison, claim = correct(finding.comparison), finding.claim
        decision = verdict(claim.expect, comparison, claim.region)
        with_verdicts.append(finding._replace(comparison=comparison, verdict=decision))
    return with_verdicts


def verdict(expect: str, comparison: Comparison, region: float) -> str:
    """Return whether a comparison confirms the expectation, does not reproduce it, or leaves it
    undecided; with fewer than FEWEST runs a side it is preliminary.

    A difference is significant if its p, with Holm's correction for its family, is below 5 %. A
    difference is within the region (a fraction of 1, 0 for none) if two one-sided tests at 5 %
    show it (Schuirmann 1987).

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
    is_sure, half = p < LEVEL, reach(test.scales, 2 * LEVEL)  # of one-sided 95 % bounds
    is_equal = abs(test.difference) + half < region
    if expect == "equal":
        low, high = test.interval
        is_outside = is_sure and (low > region or high < -region)
        return CONFIRMED if is_equal else NOT_REPRODUCED if is_outside else UNDECIDED
    if expect == "not worse" and ((is_sure and gain) or test.difference - half > -region):
        return CONFIRMED
    if expect == "better" and is_equal:
        return NOT_REPRODUCED
    if not is_sure:
        return UNDECIDED
    return CONFIRMED if gain else NOT_REPRODUCED


def summary(results: Sequence[Finding]) -> Grid:
    """Return a table of the claims, with the number of corpora by verdict."""
    claims = [*{finding.claim.title: finding.claim for finding in results}.values()]
    counts = Counter((finding.claim.title, finding.verdict) for finding in results)
    shown = [each for each in VERDICTS if any(verdict == each for _, verdict in counts)]
    rows = [
        [claim.title, claim.source, _expected(claim)]
        + [str(counts[claim.title, each] or "") for each in shown]
        for claim in claims
    ]
    return Grid(
        "claims: on how many corpora these runs confirm them",
        ["claim", "source", "expected", *shown],
        rows,
        3,
        caption=(
            "Confirmed and not reproduced: by a significant difference (p (Holm) below "
            f"{LEVEL}) or, where a region is named, by a difference shown to lie within it; with "
            f"fewer than {FEWEST} runs a side {PRELIMINARY}, else undecided. A claim is of each "
            "corpus by itself: nothing is averaged over them."
        ),
    )


def _expected(claim: Claim) -> str:
    margin = f" (region ±{claim.equal_within:g})" if claim.equal_within else ""
    primary = f", primary{f' on {claim.corpora} corpora' * bool(claim.corpora)}" * claim.primary
    return f"{claim.expect}{margin}{primary}"


def details(results: Sequence[Finding]) -> Grid:
    """Return a table of the comparisons."""
    titles = task_titles(run for each in results for run in (*each.ours, *each.theirs))
    rows, notes = [], []
    for finding in results:
        row_name, scores = name(CORPUS, finding.row, titles), tested(finding.comparison)
        runs = f"{len(finding.ours)} + {len(finding.theirs)}"
        rows.append([finding.claim.title, row_name, *scores, runs, finding.verdict])
        notes += [f"{finding.claim.title}, {row_name}: {finding.flaw}"] if finding.flaw else []
    return Grid(
        "claims: each comparison",
        ["claim", "corpus", *TESTED, "runs", "verdict"],
        rows,
        2,
        caption=(
            f"Points. {ABOUT_TESTS} {ABOUT_PRIMARY * any(each.claim.primary for each in results)}"
            f"{ABOUT_SMALLEST} The interval is not corrected."
            f"{''.join(f' {note}.' for note in notes)}"
        ),
    )
