"""Write the tables of Markdown documents from the archives of their runs; all else in them stays.

python results/refresh.py                          # RESULTS.md, results/, docs/bert.md, pictures
python results/refresh.py --check                  # do they say what the runs give?
python results/refresh.py --output=page.html       # and write all tables as job=report does
python results/refresh.py --settings=FILE.yaml     # other documents; KEY=VALUE sets one setting
"""

import argparse
import difflib
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import blocks
import cells
import claims
import overview
import probed
from omegaconf import OmegaConf
from pydantic import Field

from elmo_bench import report as reports
from elmo_bench.bounds import File, Folder, Positive, Text
from elmo_bench.files import atomic, write_text
from elmo_bench.report import as_list, build, checked_outputs, escape, write_files
from elmo_bench.report.probes import encoder_title
from elmo_bench.report.table import Cell
from elmo_bench.report.tabulate import grouped
from elmo_bench.runs import NOTHING, RUNNING, Run, distinguishing, equal, full_keys, values, where
from elmo_bench.settings.schema import Files, Keys, Table

log = logging.getLogger(__name__)
SHOWN = ("means", "differences")
KINDS = (*SHOWN, "depth", "contrasts", "corpora", "tuning", "paper", "layers", "cost")
CLAIMS, PROBES = "claims", "probes"  # blocks that are no tables
OF_A_BLOCK = ("show", "command", "corpora")  # keys of a table that job=report lacks
# Settings of the repository's own documents.
EVERY = ("tables.yaml", "bert.yaml", "series.yaml", "both.yaml", "tuning.yaml")


class Settings(Table):
    """The settings: those of a report, and those of its documents."""

    runs: Files = "results"
    columns: Keys = "elmo.mix"
    title: Text | None = None
    cache_dir: Folder = os.environ.get("ELMO_BENCH_CACHE", "~/.cache/elmo-bench")
    document: File = "RESULTS.md"
    documents: dict[str, File] = Field({})
    captions: bool = True
    tables: dict[str, dict[str, Any]] = Field({})
    claims: dict[str, dict[str, Any] | None] = Field({})
    usual: dict[str, Any] = Field({})
    pictures: dict[str, Text] = Field({})
    maps: dict[str, Text] = Field({})
    probes: Folder | None = None
    equal_within: Positive | None = None
    word_vectors: Any = None  # for ${word_vectors}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settings", action="append", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--output", action="append", default=[])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    own = [Path(__file__).with_name(name) for name in EVERY]
    changes = OmegaConf.from_dotlist(options.overrides)
    paths = options.settings or own
    merged = [OmegaConf.merge(OmegaConf.load(path), changes) for path in paths]
    several: Any = [OmegaConf.to_container(each, resolve=True) for each in merged]
    refresh(several, options.output, check=options.check)
    if not options.settings:
        _cells(several[0].get("cache_dir", Settings().cache_dir), check=options.check)


def refresh(given: Sequence[Mapping[str, Any]], output: Sequence[str], *, check: bool) -> None:
    """Write the tables into their documents, the pictures, and all tables to the files `output`.

    With `check`, compare the documents with the runs instead, and write only `output`. A document
    that does not exist is made of its tables. Raises ValueError for a block without a table, a
    table without a block and, with `check`, a table that disagrees with the runs.
    """
    outputs, every = checked_outputs([*output]), list[reports.Report]()
    documents: dict[Path, dict[str, str]] = defaultdict(dict)
    several = [_checked(settings) for settings in given]
    for settings in several:
        built, findings = _built(settings)
        every += built.every
        for path, title, block in _blocks(settings, built, findings):
            if title in documents[path]:
                raise ValueError(f"{path}: two tables have the title {title!r}: rename one")
            documents[path][title] = block
        if not check:
            _draw(settings, built)
    old = {path: _text(path, tables) for path, tables in documents.items()}
    new = {path: blocks.refreshed(old[path], tables, path) for path, tables in documents.items()}
    if check:
        _compare(old, new)
    else:
        for path, text in new.items():
            write_text(path, text)
    write_files(outputs, every, "", several[0]["title"])


def table(path: Path, title: str) -> reports.Report:
    """Return the first report of a table in a file of settings, for other scripts."""
    given: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    built, _ = _built(_checked(given))
    return built.by_title[title][0]


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings; raises ValueError, with its key, for one that is unknown or wrong."""
    settings = claims.checked(Settings, given).model_dump()
    tables = settings["tables"]
    for key in ("pictures", "maps"):
        drawn = settings[key]
        checked_outputs([*drawn])
        if unknown := {*drawn.values()} - tables.keys():
            raise ValueError(f"{key}: no such tables: {sorted(unknown)}")
    if unknown := settings["documents"].keys() - {*tables, CLAIMS, PROBES}:
        raise ValueError(f"documents: no such tables: {sorted(unknown)}")
    for title, table in tables.items():
        if title in (CLAIMS, PROBES):
            raise ValueError(f"tables.{title}: this is the block of the {title}: rename the table")
        if unknown := set(as_list(table.get("show"))) - {*KINDS}:
            raise ValueError(f"tables.{title}.show: unknown {unknown}; use {', '.join(KINDS)}")
        if not isinstance(table.get("command"), str):
            raise ValueError(f"tables.{title}.command is missing: give the command of its runs")
        claims.checked(Table, _of_report(table), f"tables.{title}")
    return settings


class Built(NamedTuple):
    """The reports and the failed runs of each table that has runs, by title."""

    by_title: dict[str, list[reports.Report]]
    failed: dict[str, list[Run]]

    @property
    def every(self) -> list[reports.Report]:
        return [each for several in self.by_title.values() for each in several]


def _built(settings: Mapping[str, Any]) -> tuple[Built, list[claims.Finding]]:
    """Return the reports of all tables and the findings on claims, p corrected for both."""
    asked = claims.read(settings["claims"], settings["equal_within"])
    runs, unfinished = build.read(settings)
    built = Built({}, {})
    for title, of_title in settings["tables"].items():
        try:
            table = build.completed(settings, title, _with_usual(of_title, settings))
            _warn_of_corpora(runs, title, table["where"])
            failed = _matching(unfinished, table)
            if chosen := comparable(_matching(runs, table), table):
                built.by_title[title] = build.reports_of(chosen, failed, title, table)
                built.failed[title] = [run for run in failed if run.reason != RUNNING]
        except ValueError as error:
            raise ValueError(f"tables.{title}: {error}") from error
    if settings["tables"] and not built.by_title:
        raise ValueError(f"runs={settings['runs']}: no run matches the conditions of a table")
    findings = claims.findings(runs, asked, settings["usual"])
    correct = claims.correction(findings, asked, reports.comparisons_of(built.every))
    by_title = {key: reports.corrected(each, correct) for key, each in built.by_title.items()}
    return built._replace(by_title=by_title), claims.decided(findings, correct)


def _matching(runs: Iterable[Run], table: Mapping[str, Any]) -> list[Run]:
    """Return the runs that match the conditions of a table."""
    asked = [(run, claims.conditions_on(run, table["where"])) for run in runs]
    return [run for run, where in asked if build.matching([run], {**table, "where": where})]


def comparable(runs: Sequence[Run], table: Mapping[str, Any]) -> list[Run]:
    """Return the runs of rows that have runs of two columns or more, one of them perhaps another
    row's baseline; none without a run of the baseline.
    """
    rows, columns, baseline = (table[key] for key in ("rows", "columns", "baseline"))
    if not runs:
        return []
    columns = full_keys(runs, columns, "columns")
    heads = {values(run, columns) for run in runs}
    base = next((head for head in heads if baseline and all(map(equal, head, baseline))), None)
    if baseline and base is None:
        return []
    rows = distinguishing(runs, columns) if rows is None else full_keys(runs, rows, "rows")
    cells = [Cell(*place, several, ()) for place, several in grouped(runs, rows, columns).items()]
    by_row = reports.Report(rows, columns, None, "", base, cells, []).by_row.values()
    kept = {cell.key for cells in by_row if len(cells) > 1 for cell in cells.values()}
    return [run for run in runs if values(run, [*rows, *columns]) in kept]


def _warn_of_corpora(runs: Sequence[Run], title: str, conditions: Mapping[str, Any]) -> None:
    """Say which corpora a table leaves out because a setting has no value for them."""
    for key, value in conditions.items():
        if not isinstance(value, Mapping):
            continue
        others = {other: conditions[other] for other in conditions if other != key}
        found = (run for run in runs if where([run], claims.conditions_on(run, others)))
        corpora = {str(run.settings.get("data.name", NOTHING)) for run in found}
        if missing := sorted(corpora - value.keys()):
            shown = ", ".join(missing)
            log.warning("%s: %s has no value for %s: the table has none of it", title, key, shown)


def _with_usual(table: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's settings for job=report.

    `where` is completed by the `usual` values of all keys that are not rows or columns.
    """
    compared = [
        *as_list(table.get("rows", settings["rows"])),
        *as_list(table.get("columns", settings["columns"])),
    ]
    usual = {key: value for key, value in settings["usual"].items() if key not in compared}
    return _of_report(table) | {"where": usual | (table.get("where") or {})}


def _of_report(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's settings that job=report has, too."""
    return {key: value for key, value in table.items() if key not in OF_A_BLOCK}


def _blocks(
    settings: Mapping[str, Any], built: Built, findings: Sequence[claims.Finding]
) -> Iterator[tuple[Path, str, str]]:
    """Yield each block with its document and title, as Markdown."""

    def document(title: str) -> Path:
        return Path(settings["documents"].get(title, settings["document"]))

    for title, table in settings["tables"].items():
        yield document(title), title, _block(title, table, built, captions=settings["captions"])
    if findings:
        grids = [claims.summary(findings), claims.details(findings)]
        yield document(CLAIMS), CLAIMS, _markdown(grids, [])
    folder = settings["probes"]
    files = sorted(Path(folder).glob("*.json")) if folder else []  # kept files of job=probe
    if probes := probed.read(files):
        commands = [f"{encoder_title(one)}, {one['corpus']}: {one['command']}" for one in probes]
        yield document(PROBES), PROBES, _markdown([reports.probes_grid(probes)], commands)


def _text(path: Path, tables: Iterable[str]) -> str:
    """Return a document's text, of a missing one a heading and an empty block for each table."""
    if path.exists():
        return path.read_text(encoding="utf-8")
    return "\n".join(f"## {title}\n\n<!-- table: {title} -->\n<!-- end -->\n" for title in tables)


def _block(title: str, table: Mapping[str, Any], built: Built, *, captions: bool) -> str:
    """Return a table's block: grids, notes, numbers of runs and failures, and the command.

    Without `captions` the document explains all its tables at once.
    """
    command = table["command"]
    if title not in built.by_title:
        return f"Not run. The command: `{command}`"
    show, table_reports = as_list(table.get("show", [*SHOWN])), built.by_title[title]
    # The report on test has the runs that dev chose: their mixes stand in the first.
    of_scores = [kind for kind in show if kind not in ("layers", "cost")]
    grids = [*_grids(table_reports[0], show)]
    grids += [grid for report in table_reports[1:] for grid in _grids(report, of_scores)]
    if not captions:
        grids = [grid._replace(caption="", bold_is="") for grid in grids]
    if corpora := table.get("corpora"):
        grids = [overview.grid(table_reports[0], overview.read(corpora))]
    notes = [note for report in table_reports for note in report.notes]
    runs = {run.folder for each in table_reports for cell in each.cells for run in cell.runs}
    return (
        f"{_markdown(grids, notes)}\n\n{len(runs):,} runs, "
        f"{len(built.failed[title]) or 'none'} failed. The command: `{command}`"
    )


def _grids(report: reports.Report, show: Sequence[str]) -> Iterator[reports.Grid]:
    """Yield the grids of these kinds, if not empty."""
    grids: dict[str, reports.Grid | None] = {**reports.tables(report)}
    grids |= {"layers": reports.weights(report), "cost": reports.cost(report)}
    yield from (grid for kind in show if (grid := grids.get(kind)))


def _draw(settings: Mapping[str, Any], built: Built) -> None:
    """Write the pictures of the tables that have runs."""
    for picture, title in settings["pictures"].items():
        drawn, corpora = built.by_title.get(title), settings["tables"][title].get("corpora")
        if drawn and corpora and (kind := Path(picture).suffix) in (".svg", ".pdf"):
            from forest import forest  # imports matplotlib, which is slow

            with atomic(picture) as part:
                part.write_bytes(forest(drawn[0], overview.read(corpora), kind))
        elif drawn:
            write_files([Path(picture)], drawn, "", title)
    for picture, title in settings["maps"].items():
        drawn = built.by_title.get(title)
        if drawn:
            from layer_map import layer_map  # imports matplotlib, which is slow

            with atomic(picture) as part:
                part.write_bytes(layer_map(drawn[0], Path(picture).suffix))


def _markdown(grids: Iterable[reports.Grid], notes: Iterable[str]) -> str:
    """Return the tables and notes as Markdown."""
    shown = dict.fromkeys(map(escape.markdown, notes))
    return "\n\n".join([*map(reports.markdown_table, grids), *shown])


def _compare(old: Mapping[Path, str], new: Mapping[Path, str]) -> None:
    """Raise ValueError with the differing lines if a document is not what the runs give."""
    lines = [
        line
        for path, text in old.items()
        for line in difflib.unified_diff(
            text.split("\n"),
            new[path].split("\n"),
            f"{path}",
            "what the runs give",
            n=0,
            lineterm="",
        )
    ]
    if lines:
        raise ValueError("\n".join([*lines, "python results/refresh.py writes it anew"]))
    log.info("up to date: %s", ", ".join(map(str, old)))


def _cells(cache_dir: str, *, check: bool) -> None:
    """Write the cells of the board, or compare the file with the archives."""
    new = cells.as_csv(cells.board_runs(cache_dir))
    if check:
        _compare({cells.FILE: cells.text_of_file()}, {cells.FILE: new})
    else:
        write_text(cells.FILE, new)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"{error}")
