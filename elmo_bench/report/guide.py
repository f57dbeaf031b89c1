"""Explanatory texts of a page: its subject, a glossary and a summary of the results."""

from collections.abc import Iterator, Sequence

from elmo_bench.runs import ENCODER, MIX

from . import names
from .grids import (
    Words,
    after_correction,
    capital,
    corrections,
    heads,
    is_preliminary,
    points,
    score,
    tests,
)
from .methods import NOWHERE, Origin, runs_of
from .significance import FEWEST, LEVEL, PRELIMINARY
from .table import Cell, Comparison, Report

L2 = "elmo.l2"
BASELINE = {"none"}
NAMED = 3  # a title names up to this many settings, and counts them otherwise


def compared(reports: Sequence[Report]) -> str:
    """Return the compared tasks and settings, such as "NER, SRL: books against no encoder"."""
    runs = runs_of(reports)
    titles = names.task_titles(runs)
    tasks = ", ".join(dict.fromkeys(titles[run.task] for run in runs))
    first = reports[0]
    if any((each.columns, each.baseline) != (first.columns, first.baseline) for each in reports):
        return f"{tasks}: {len(reports)} comparisons"
    settings = [names.name(first.columns, column, titles) for column in heads(first)]
    if first.baseline is None or len(settings) == 1:
        return f"{tasks}: {_listed(settings)}"
    return f"{tasks}: {_listed(settings[1:])} against {settings[0]}"


def _listed(texts: Sequence[str]) -> str:
    if len(texts) > NAMED:
        return f"{len(texts)} settings"
    *leading, last = texts
    comma = "; " if any("," in text for text in texts) else ", "
    return f"{comma.join(leading)} and {last}" if leading else last


def lead(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    """Return two sentences that introduce the page."""
    runs = runs_of(reports)
    count = "One run" if len(runs) == 1 else f"{len(runs):,} runs"
    failed = f" ({origin.failed:,} more failed)" if origin.failed else ""
    return (
        f"{count}{failed} of models that were trained alike in everything but what the tables "
        "name. "
        "The page says how well each way to train does on text that it has not seen, whether "
        "differences are larger than chance would have them, and what each way costs."
    )


def reading(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """Return the terms of the tables with their explanations."""
    cells = [cell for report in reports for cell in report.cells]
    with_p = [test.p is not None for report in reports for _, test in tests(report)]
    example = next((cell for cell in cells if cell.deviation is not None), None)
    terms = [
        (
            "A run",
            "one model, trained with one random seed on the training examples and measured on "
            "others. The runs of a cell differ in their seeds alone.",
        ),
        *_glossary(reports),
    ]
    if example:
        terms.append(
            (
                score(example),
                f"the mean of {len(example.runs)} runs in percent ± their standard deviation "
                "(how many they are). Higher is better.",
            )
        )
    if with_p:
        terms.append(("95 % interval", _interval(with_p)))
    if any(with_p):
        terms.append(
            (
                "p and *",
                "how often chance alone would give a difference as large as this one. The interval "
                "goes with p: it is without 0 where p is below 0.05. p (Holm) makes up for several "
                f"comparisons, among which chance finds more. * marks p (Holm) below {LEVEL:g}; no "
                "star means that no difference is shown, not that there is none. "
                f"{capital(PRELIMINARY)}: with fewer than {FEWEST} runs a side there is no star.",
            )
        )
    return terms


def _interval(with_p: Sequence[bool]) -> str:
    """Return the explanation of the 95 % interval, for comparisons with and without a p value."""
    single = (
        "where the difference of these very models may lie on new examples; of models trained with "
        "other seeds a single run says nothing"
    )
    if not any(with_p):
        return f"{single[:1].upper()}{single[1:]}."
    return (
        "where the true difference may lie: of 100 such experiments with new examples and new "
        "seeds, about 95 have it in theirs. With 0 inside, either may be the better."
        + f" Without a p it is {single}."
        * (not all(with_p))
    )


def _glossary(reports: Sequence[Report]) -> Iterator[tuple[str, str]]:
    """Yield explanations of the ELMo settings that these reports compare."""
    keys = {key for report in reports for key in (*report.rows, *report.columns)}
    values = {value for report in reports for cell in report.cells for value in cell.column}
    if keys & {ENCODER, MIX}:
        yield (
            "Encoder",
            "a network that was trained on plain text. A task's model reads its vectors of each "
            "word in its sentence beside what it learns of words itself"
            + ("; “no encoder” is the model without them." if BASELINE & values else "."),
        )
    if MIX in keys:
        yield (
            "Layers",
            "an encoder has several, 0 the lowest. “All layers” is a weighted mean of them whose "
            "weights are learned with the task; other settings read what they name.",
        )
    if L2 in keys:
        yield (
            names.axis(L2),
            "how strongly the weights of layers are drawn towards equal ones; 0 is not at all.",
        )


def findings(report: Report) -> str:
    """Summarise the comparisons with the baseline in two or three sentences; "" without tests."""
    words = Words.of(report)
    base = words.columns.get(report.baseline or (), "")
    compared_cells = [
        (cell, comparison)
        for cell in report.cells
        if (comparison := cell.comparison) and comparison.test
    ]
    single = [pair for pair in compared_cells if pair[1].test and pair[1].test.p is None]
    few = [pair for pair in compared_cells if is_preliminary(pair[1])]
    tested = [pair for pair in compared_cells if pair not in single and pair not in few]
    sentences = [_tested(report, words, tested)] if tested else []
    if few:
        sentences.append(
            f"{capital(PRELIMINARY)}, since fewer than {FEWEST} runs a side decide nothing: "
            f"{_several(words, few)}, against {base}."
        )
    if single:
        sentences.append(
            "Without a p, since a single run says nothing of other seeds: "
            f"{_several(words, single)}, against {base}."
        )
    return " ".join(sentences)


def _tested(report: Report, words: Words, tested: Sequence[tuple[Cell, Comparison]]) -> str:
    """Summarise the comparisons that have a p value."""
    shown = [
        (cell, comparison)
        for cell, comparison in tested
        if comparison.p_holm is not None and comparison.p_holm < LEVEL
    ]
    groups = {
        "show{} a gain": [
            (cell, comparison) for cell, comparison in shown if comparison.difference > 0
        ],
        "show{} a loss": [
            (cell, comparison) for cell, comparison in shown if comparison.difference < 0
        ],
        f"stay{{}} within ±{points(report.equal_within)} points, practically equal": [
            (cell, comparison)
            for cell, comparison in tested
            if comparison.equal and (cell, comparison) not in shown
        ],
    }
    base = words.columns[report.baseline or ()]
    if len(tested) == 1:
        phrases = [
            f"{_several(words, g)} {phrase.format('s')}" for phrase, g in groups.items() if g
        ]
        summary = f"Against {base}, {(phrases or ['no difference is shown'])[0]}."
    else:
        phrases = [
            f"{len(group)} {phrase.format('s' * (len(group) == 1))}: {_several(words, group)}"
            for phrase, group in groups.items()
            if group
        ]
        summary = f"Of {len(tested)} comparisons with {base}, "
        summary += f"{'; '.join(phrases) or 'none shows a difference'}."
    uncorrected = [
        (cell, comparison)
        for cell, comparison in tested
        if (cell, comparison) not in shown
        and comparison.test
        and comparison.test.p is not None
        and comparison.test.p < LEVEL
    ]
    if uncorrected:
        more = "more " * bool(shown)
        summary += (
            f" Only before the correction for {corrections(each for _, each in tested)} "
            f"comparisons {len(uncorrected)} {more}would: {_several(words, uncorrected)}."
        )
    smallest = [
        comparison.test.detectable
        for _, comparison in tested
        if comparison.test and comparison.test.detectable
    ]
    if sum(map(len, groups.values())) == len(tested) or not smallest:
        return summary
    ends = dict.fromkeys((points(min(smallest)), points(max(smallest))))
    return (
        f"{summary} That no difference is shown does not prove that there is none: so many runs "
        f"and examples find a true one{after_correction(each for _, each in tested)} in 80 % of "
        f"cases if it is {' to '.join(ends)} points or more"
        + (", depending on the comparison." if len(ends) > 1 else ".")
    )


def _several(words: Words, group: Sequence[tuple[Cell, Comparison]]) -> str:
    """List each difference with its setting; of many, only the smallest and the largest."""
    ordered = sorted(group, key=lambda pair: abs(pair[1].difference), reverse=True)
    many = len(ordered) > NAMED
    texts = [
        f"{', '.join(filter(None, (words.row(cell.row), words.columns[cell.column])))} "
        f"({points(comparison.difference, signed=True)})"
        for cell, comparison in (ordered[:: len(ordered) - 1] if many else ordered)
    ]
    return f"from {texts[1]} to {texts[0]}" if many else "; ".join(texts)
