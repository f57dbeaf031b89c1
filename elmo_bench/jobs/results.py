"""`job=results`: refresh tables and claims in a hand-written document, from the results of runs."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from elmo_bench import report as reports
from elmo_bench.files import atomic, begins, check_output

from .report import OWN, Answers, all_reports, answered, as_list, checked_outputs, corrected, write

log = logging.getLogger(__name__)
SHOWN = ("means", "differences")
KINDS = (*SHOWN, "power", "paper", "layers", "course", "cost")
CLAIMS, PROBES = "claims", "probes"
NO_RUN = "no run"
OPTIONAL: dict[str, Any] = dict.fromkeys(("check", "pictures", "probes", "claims", "usual"))
OF_A_BLOCK = ("show", "command", "document")  # keys of a table that job=report lacks


def results(cfg: DictConfig) -> None:
    """Write the tables into `document` (or the file that a table names), the page and the pictures.

    With `check`, compare the tables in the files with the runs instead, and write only the page.
    Raises ValueError for a block without a table, a table without a block and, with `check`, a
    table that disagrees with the runs.
    """
    settings, outputs, pictures, answers, blocks, verdicts = check(cfg)
    if settings["check"]:
        _compare(blocks)
    else:
        _refresh(blocks)
        for picture, title in pictures.items():
            if title in answers.reports:
                write([picture], answers.reports[title], answers.origin, title)
    written = all_reports(answers)
    write(outputs, written, answers.origin, settings["title"], verdicts)


class Results(NamedTuple):
    """What `results` writes."""

    settings: dict[str, Any]
    outputs: list[Path]  # of the page
    pictures: dict[Path, str]  # the title of each one's table
    answers: Answers
    blocks: dict[Path, dict[str, str]]  # by file and title
    verdicts: list[reports.Grid]  # on the claims


def check(cfg: DictConfig) -> Results:
    """Return what the job writes; raises ValueError for a block without a place."""
    content: Any = OmegaConf.to_container(cfg, resolve=True)
    settings = OPTIONAL | content
    shown = {
        title: _shown_and_command(title, table or {})
        for title, table in (settings["tables"] or {}).items()
    }
    document, outputs = Path(settings["document"]), checked_outputs(settings)
    pictures = {Path(file): title for file, title in (settings["pictures"] or {}).items()}
    for picture, title in pictures.items():
        if picture.suffix not in (".svg", ".pdf") or title not in shown:
            raise ValueError(
                f"pictures.{picture}={title}, but it must be FILE.svg or FILE.pdf: TITLE of a table"
            )
        check_output("pictures", picture, {}, begins(OWN[picture.suffix]))
    tables = {
        title: _report_settings(table or {}, settings)
        for title, table in (settings["tables"] or {}).items()
    }
    reports.check_claims(settings["claims"] or {}, settings)
    answers = answered(settings | {"tables": tables}, only_compared=True)
    claims = reports.claims(answers.runs, settings["claims"] or {}, settings)
    findings = reports.findings(claims)
    tested = [finding.comparison for finding in findings if finding.comparison]
    tested += reports.comparisons_of(all_reports(answers))
    correct = reports.families(tested, reports.primary(findings))
    answers, findings = corrected(answers, correct), reports.decided(findings, correct)
    blocks: dict[Path, dict[str, str]] = {document: {}}  # by the file that they stand in
    for title, (show, command) in shown.items():
        path = document.parent / (settings["tables"][title].get("document") or document.name)
        corpora = _corpora(tables[title]["where"])
        blocks.setdefault(path, {})[title] = _block(title, show, command, corpora, answers)
    grids = reports.verdicts(findings) if claims else []
    if grids:
        blocks[document][CLAIMS] = reports.block(grids, [])
    if probes := [*map(reports.read_probe, _probe_files(settings["probes"]))]:
        commands = [f"{probe.title}, {probe.corpus}: {probe.command}" for probe in probes]
        blocks[document][PROBES] = reports.block([reports.probes_grid(probes)], commands)
    for path, its_blocks in () if settings["check"] else blocks.items():
        reports.refreshed(_text(path), its_blocks, path)
    return Results(settings, outputs, pictures, answers, blocks, grids)


def _compare(blocks: Mapping[Path, Mapping[str, str]]) -> None:
    """Raise ValueError if a file has other blocks than these, by file and title."""
    messages = [
        line
        for path, its_blocks in blocks.items()
        for line in reports.differences(_text(path), its_blocks, path)
    ]
    if messages:
        raise ValueError("\n".join([*messages, "python run.py job=results writes it anew"]))
    log.info("up to date: %s", ", ".join(map(str, blocks)))


def _refresh(blocks: Mapping[Path, Mapping[str, str]]) -> None:
    """Write these blocks, by file and title, into their files, once all of them have a place."""
    texts = {
        path: reports.refreshed(_text(path), its_blocks, path)
        for path, its_blocks in blocks.items()
    }
    for path, text in texts.items():
        with atomic(path) as part:
            part.write_text(text, encoding="utf-8")
        log.info("written: %s", path)


def _text(path: Path) -> str:
    """Return a document with its line ends; raises ValueError, with the file, for other text."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error


def _probe_files(folder: str | None) -> list[Path]:
    """Return the kept files of `job=probe`, sorted by name."""
    return sorted(Path(folder).glob("*.json")) if folder else []


def _report_settings(table: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's settings for job=report.

    `where` is completed by the `usual` values of all keys that are not rows or columns.
    """
    compared = [
        *as_list(table.get("rows", settings["rows"])),
        *as_list(table.get("columns", settings["columns"])),
    ]
    usual = {key: value for key, value in (settings["usual"] or {}).items() if key not in compared}
    options = {key: value for key, value in table.items() if key not in OF_A_BLOCK}
    return options | {"where": usual | (table.get("where") or {})}


def _shown_and_command(title: str, table: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the kinds of grids that a table shows, and the command of its runs."""
    if title in (CLAIMS, PROBES):
        raise ValueError(f"tables.{title}: this is the block of the {title}: give another title")
    show = as_list(table.get("show", [*SHOWN]))
    if unknown := [kind for kind in show if kind not in KINDS]:
        raise ValueError(
            f"tables.{title}.show: unknown {unknown[0]}; it may have {', '.join(KINDS)}"
        )
    if not isinstance(command := table.get("command"), str):
        raise ValueError(
            f"tables.{title}.command is missing: give the command that repeats its "
            "runs, in one line"
        )
    return show, command


def _corpora(conditions: Mapping[str, Any]) -> list[str]:
    """Return the corpora that a table is about: those with a value in every condition."""
    by_corpus = [value for value in conditions.values() if isinstance(value, Mapping)]
    corpora = by_corpus[0] if by_corpus else []
    return [corpus for corpus in corpora if all(corpus in each for each in by_corpus)]


def _block(title: str, show: list[str], command: str, corpora: list[str], answers: Answers) -> str:
    """Return a table's block: grids, notes, numbers of runs and failures, and the command."""
    if title not in answers.reports:
        return f"Not run. The command: `{command}`"
    table_reports, failed = answers.reports[title], answers.failed[title]
    grids = [*_grids(table_reports[0], show)]
    # The report on test has the runs that dev chose: their mixes and epochs stand in the first.
    of_figures = [kind for kind in show if kind not in ("layers", "course", "cost")]
    grids += [grid for report in table_reports[1:] for grid in _grids(report, of_figures)]
    notes = [note for report in table_reports for note in report.remarks]
    runs = [run for each in table_reports for cell in each.cells for run in cell.runs]
    ran = {run["choices"].get("data.name") for run in runs}
    missing = ", ".join(corpus for corpus in corpora if corpus not in ran)
    return (
        f"{reports.block(grids, notes)}\n\n{len({run['folder'] for run in runs}):,} runs, "
        f"{failed or 'none'} failed. {f'No rows: {missing}. ' * bool(missing)}"
        f"The command: `{command}`"
    )


def _grids(report: reports.Report, show: list[str]) -> Iterator[reports.Grid]:
    """Yield the grids of these kinds, if not empty."""
    grids: dict[str, reports.Grid | None] = {**reports.tables(report)}
    if means := grids.get("means"):  # an empty cell would look like an oversight
        rows = [[text or NO_RUN for text in row] for row in means.rows]
        grids["means"] = means._replace(rows=rows)
    shares = reports.weights(report)
    grids |= {"layers": shares and shares[0]}
    grids |= {"course": reports.course(report), "cost": reports.cost(report)}
    yield from (grid for kind in show if (grid := grids.get(kind)))
