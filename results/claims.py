"""Check the paper's claims against runs: confirmed or not on each corpus.

A claim compares two groups of runs on each corpus, with the test of the report. `verdict` defines
the decision rule.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ValidationError, model_validator

from elmo_bench.files import Positive
from elmo_bench.report.comparison import Comparison, Correction, Question, compared
from elmo_bench.report.grids import ABOUT_SMALLEST, ABOUT_TESTS, TESTED, tested
from elmo_bench.report.names import NONE, name, task_titles
from elmo_bench.report.significance import FEWEST, LEVEL, PRELIMINARY, Test, reach
from elmo_bench.report.table import grouped, is_measured, order
from elmo_bench.report.writers import Grid
from elmo_bench.runs import (
    WITHIN,
    Key,
    Run,
    below,
    check_files,
    distinguishing,
    full_keys,
    varies,
    where,
)

CONFIRMED, NOT_REPRODUCED, UNDECIDED = "confirmed", "not reproduced", "undecided"
NOT_RUN = "not run"
VERDICTS = (CONFIRMED, NOT_REPRODUCED, UNDECIDED, PRELIMINARY, NOT_RUN)
CORPUS = ["task.name", "data.name"]
MISSING = object()  # equals no setting


class Claim(BaseModel, extra="forbid", strict=True):
    """A claim that our runs are better than, not worse than, or equal to their runs in each row.

    Args:
        source: the table or section of the paper.
        ours, theirs: settings of the runs of each side.
        where: settings of the runs of both.
        equal_within: the margin of "equal" and "not worse", in points.
        primary: whether p is corrected for this claim's comparisons alone.

    """

    title: str
    source: str
    ours: dict[str, Any]
    theirs: dict[str, Any]
    where: dict[str, Any] = {}
    expect: Literal["better", "not worse", "equal"] = "better"
    equal_within: Positive | None = None
    primary: bool = False

    @model_validator(mode="after")
    def _has_a_margin(self) -> Self:
        if self.expect != "better" and self.equal_within is None:
            raise ValueError(f"expect={self.expect} requires equal_within, in points")
        return self

    @property
    def region(self) -> float | None:
        """The margin as a fraction of 1."""
        return None if self.equal_within is None else self.equal_within / 100

    @property
    def compared_keys(self) -> list[str]:
        """The keys (with all keys below) that may differ between ours and theirs.

        An encoder also has its own settings and files.
        """
        keys = {
            "encoder" if key.partition(".")[0] == "encoder" else key
            for key in (*self.ours, *self.theirs)
        }
        return [*sorted(keys), *(["inputs.encoder"] if "encoder" in keys else [])]


class Finding(NamedTuple):
    """The verdict on a claim in a row, with the runs of both sides.

    `flaw` says why the comparison has no test, or which other settings may explain the difference.
    """

    claim: Claim
    row: Key
    ours: list[Run]
    theirs: list[Run]
    verdict: str = NOT_RUN
    comparison: Comparison | None = None
    flaw: str = ""


def read(claims: Mapping[str, Any], equal_within: float | None) -> list[Claim]:
    """Return claims given by title; raises ValueError, with the claim's key, for an invalid one."""
    results = []
    for title, about in claims.items():
        try:
            claim = {"title": title, "equal_within": equal_within} | (about or {})
            results.append(Claim.model_validate(claim))
        except ValidationError as error:
            fault = error.errors()[0]
            key = ".".join(map(str, ("claims", title, *fault["loc"][:1])))
            raise ValueError(f"{key}: {fault['msg']}") from error
    return results


def findings(
    runs: Sequence[Run], claims: Sequence[Claim], usual: Mapping[str, Any]
) -> list[Finding]:
    """Return a finding for each claim and row; `decided` corrects p and gives the verdicts.

    `usual` selects the runs of all claims. Raises ValueError, with the claim's key, if a claim's
    runs are ambiguous or were trained or tested on different files.
    """
    return [finding for claim in claims for finding in _of_rows(runs, claim, usual)]


def _of_rows(runs: Sequence[Run], claim: Claim, usual: Mapping[str, Any]) -> Iterator[Finding]:
    common, key = {**usual, **claim.where}, f"claims.{claim.title}"
    ours = _runs(runs, common | claim.ours, f"{key}.ours")
    theirs = _runs(runs, common | claim.theirs, f"{key}.theirs")
    # The same runs are on both sides where a task has by default what the claim varies.
    rows = [
        row
        for row in sorted({*ours, *theirs}, key=order)
        if not _folders(ours.get(row, [])) & _folders(theirs.get(row, []))
    ]
    for row in rows or [()]:
        sides = ours.get(row, []), theirs.get(row, [])
        finding = Finding(claim, row, *sides)
        if all(sides):
            try:
                check_files([*sides[0], *sides[1]], CORPUS)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
            comparison = compared(*sides, None, "test")
            untested = [f"no test, since {comparison.flaw[0]}"] if comparison.flaw else []
            said = [*untested, *_differing_settings(finding)]
            finding = finding._replace(
                verdict=UNDECIDED, comparison=comparison, flaw="; ".join(said)
            )
        yield finding


def conditions_on(run: Run, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are asked of a run.

    A value may differ by corpus, {wikigold: 1, sst: 0.5}; a corpus that is missing there has no
    runs. `task` stands for the task's own value: elmo.l2=task is task.elmo.l2.
    """
    asked = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = value.get(run.settings.get("data.name"), MISSING)
        asked[key] = run.settings.get(f"task.{key}", value) if value == "task" else value
    return asked


def _has(run: Run, values: Mapping[str, Any]) -> bool:
    """Whether a run has these values; a key that it lacks, or that has no effect, has any value."""
    known = {key for key in run.settings if key not in run.idle}
    asked = conditions_on(run, values).items()
    return bool(where([run], {k: v for k, v in asked if {k, f"{k}.name"} & known}))


def _runs(runs: Sequence[Run], values: Mapping[str, Any], key: str) -> dict[Key, list[Run]]:
    """Return the runs that have these values, by row, one for each seed."""
    full_keys(runs, [*values], key)
    chosen = [run for run in runs if is_measured(run, "test") and _has(run, values)]
    if hidden := distinguishing(chosen, CORPUS):
        raise ValueError(
            f"{key}: runs of the same {' and '.join(CORPUS)} differ in {hidden}: select some "
            f"of them; the values are {dict(values)}"
        )
    return {row: group for (row, _), group in grouped(chosen, CORPUS).items()}


def _folders(runs: Sequence[Run]) -> set[str]:
    return {str(run.folder) for run in runs}


def _differing_settings(finding: Finding) -> Iterator[str]:
    """Yield a note if ours and theirs differ in settings that the claim does not name."""
    runs = [*finding.ours, *finding.theirs]
    expected = (*WITHIN, *finding.claim.compared_keys)
    keys = {key for run in runs for key in run.acting if not below(key, expected)}
    if more := [key for key in sorted(keys) if varies(runs, CORPUS, key)]:
        yield f"the two sides differ in {', '.join(more)}, too"


def primary(results: Sequence[Finding]) -> set[Question]:
    """Return the questions of primary claims, which are a family of their own."""
    return {
        finding.comparison.question
        for finding in results
        if finding.claim.primary and finding.comparison and finding.comparison.question
    }


def decided(results: Sequence[Finding], correct: Correction) -> list[Finding]:
    """Return the findings with corrected p and their verdicts."""
    with_verdicts = []
    for finding in results:
        if finding.comparison is not None:
            comparison, region = correct(finding.comparison), finding.claim.region
            decision = verdict(finding.claim.expect, comparison, region)
            finding = finding._replace(comparison=comparison, verdict=decision)
        with_verdicts.append(finding)
    return with_verdicts


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
    is_sure, is_equal = p < LEVEL, region is not None and bool(equal_within(test, region))
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


def equal_within(test: Test, region: float) -> bool | None:
    """Whether two one-sided tests at 5 % show that the true difference is smaller than the region.

    Schuirmann (1987). Returns None if the test has no p value or is preliminary.
    """
    if test.p is None or test.is_preliminary:
        return None
    return bool(abs(test.difference) + reach(test.scales, 2 * LEVEL) < region)


def _least(test: Test) -> float:
    """Return the lower one-sided 95 % confidence bound of the difference."""
    return test.difference - reach(test.scales, 2 * LEVEL)


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
    region = claim.region
    margin = "" if region is None else f" (region ±{100 * region:g})"
    return f"{claim.expect}{margin}{', the primary claim' * claim.primary}"


def details(results: Sequence[Finding]) -> Grid:
    """Return a table of the comparisons that were run."""
    compared = [(finding, finding.comparison) for finding in results if finding.comparison]
    titles = task_titles(run for each, _ in compared for run in (*each.ours, *each.theirs))
    rows, notes = [], []
    for finding, comparison in compared:
        row_name = name(CORPUS, finding.row, titles) if finding.row else NONE
        runs = f"{len(finding.ours)} + {len(finding.theirs)}"
        rows.append([finding.claim.title, row_name, *tested(comparison), runs, finding.verdict])
        notes += [f"{finding.claim.title}, {row_name}: {finding.flaw}"] if finding.flaw else []
    return Grid(
        "claims: each comparison",
        ["claim", "corpus", *TESTED, "runs", "verdict"],
        rows,
        2,
        caption=(
            f"Points. {ABOUT_TESTS} {ABOUT_SMALLEST} The interval is not corrected."
            f"{''.join(f' {note}.' for note in notes)}"
        ),
    )
