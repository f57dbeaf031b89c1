"""Reports as one page of HTML, or one picture: tables and plots, without scripts."""

import csv
import io
import itertools
import logging
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from elmo_bench.runs import Run, number

from . import escape, names
from .escape import xml
from .grid import Grid
from .grids import grids, heads, score
from .guide import compared, lead, reading
from .names import as_written as settings
from .plot import KINDS, Point, Series, arrange, chart, dashes
from .table import Cell, Key, Report
from .write import footnotes

log = logging.getLogger(__name__)

# The keys that make a curve: what the axis is called, and where a value stands on it; None: one
# after the other.
CURVES: dict[str, tuple[str, str, Callable[[float], float] | None]] = {
    "fraction": (
        "Sample efficiency (the paper's Figure 1)",
        "share of the training set",
        math.log10,
    ),
    "elmo.l2": ("The penalty on the mix", "λ (elmo.l2)", None),
    "elmo.dropout": ("Dropout on ELMo's vectors", "elmo.dropout", float),
}
RESULTS = "Results"  # the chapter of a report without a title
Sections = dict[str, tuple[str, str]]
STYLE = Path(__file__).with_name("page.css")
GENERATOR = "elmo-bench report"  # the mark by which job=report knows its own pages
# Nothing is fetched and nothing runs: what a run calls itself does neither.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
_MINUS = re.compile(r"^\u2212(?=[\d.]+$)")  # of a number alone


def page(reports: Sequence[Report], title: str | None = None) -> str:
    """The whole page, a chapter for each report; without a title it says what is compared."""
    title = title or compared(reports)
    chapters = [(f"s{k}", report, _sections(f"s{k}", report)) for k, report in enumerate(reports)]
    links = "".join(_links(*chapter) for chapter in chapters)
    bodies = "".join(_chapter(*chapter) for chapter in chapters)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"/>'
        f'<meta name="generator" content="{GENERATOR}"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f'<title>{xml(title)}</title><link rel="icon" href="data:,"/>'
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head>\n"
        '<body><a class="skip" href="#results">Skip to the results</a>'
        f'<header><p class="kind">A report of elmo-bench</p><h1>{xml(title)}</h1>'
        f'<p class="lead">{xml(lead(reports))}</p>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n'
        f'<main id="results">{_reading(reports)}{bodies}</main></body>\n</html>\n'
    )


def _reading(reports: Sequence[Report]) -> str:
    terms = "".join(f"<dt>{xml(a)}</dt><dd>{xml(b)}</dd>" for a, b in reading(reports))
    return (
        '<aside aria-labelledby="reading"><h2 id="reading">How to read this page</h2>'
        f'<dl class="terms">{terms}</dl></aside>\n'
    )


def behind(grids: Sequence[Grid]) -> str:
    """The config keys behind the names of a chapter, for who cannot point at them."""
    settings = {
        text: keys
        for grid in grids
        for (r, c), keys in grid.hover.items()
        if (text := grid.heads[c] if r < 0 else grid.rows[r][c]) and keys != text
    }
    if not settings:
        return ""
    terms = "".join(f"<dt>{xml(a)}</dt><dd><code>{xml(b)}</code></dd>" for a, b in settings.items())
    return (
        "<details><summary>The settings behind the names</summary>"
        f'<dl class="terms">{terms}</dl></details>'
    )


def _sections(anchor: str, report: Report) -> Sections:
    """Titles and bodies after a chapter's tables, by anchor; those without data are left out."""
    sections = {
        "Layer weights (the paper's Figure 2)": weights(report),
        **{title: curves(report, key) for key, (title, _, _) in CURVES.items()},
        "Learning curves": learning(report),
        "Cost": table(costs) if (costs := cost(report)).rows else "",
    }
    return {
        f"{anchor}-{k}": (title, body) for k, (title, body) in enumerate(sections.items()) if body
    }


def _links(anchor: str, report: Report, sections: Sections) -> str:
    inner = (f'<li><a href="#{k}">{xml(title)}</a></li>' for k, (title, _) in sections.items())
    lists = f"<ul>{''.join(inner)}</ul>" if sections else ""
    return f'<li><a href="#{anchor}">{xml(report.title or RESULTS)}</a>{lists}</li>'


def _chapter(anchor: str, report: Report, sections: Sections) -> str:
    shown = grids(report)
    tables = "".join(table(grid) for grid in shown)
    if len(report.rows) == 1:
        tables += figure(f"{report.split} figure, percent", *by_row(report))
    notes = "".join(f"<p>{xml(note)}</p>" for note in footnotes([report]))
    inner = "".join(
        f'<section id="{k}"><h3>{xml(title)}</h3>{body}</section>\n'
        for k, (title, body) in sections.items()
    )
    title = xml(report.title or RESULTS)
    tables += behind(shown)
    return f'<section id="{anchor}"><h2>{title}</h2>{tables}{notes}{inner}</section>\n'


def table(grid: Grid, shares: int = 0) -> str:
    """A grid that scrolls in a narrow window, with what it says of itself and a link to its CSV;
    the first `shares` columns of figures are shaded.

    Rows that begin with the same name share it.
    """
    heads = "".join(
        f'<th scope="col"{"" if c < grid.left else _FIGURE}>{_text(grid, -1, c)}</th>'
        if head
        else "<td></td>"
        for c, head in enumerate(grid.heads)
    )
    spans = _spans([row[0] for row in grid.rows]) if grid.left > 1 else [1] * len(grid.rows)
    rows = []
    for r, row in enumerate(grid.rows):
        cells = [
            _head(_text(grid, r, c), spans[r] if c == 0 else 1)
            for c in range(grid.left)
            if c or spans[r]
        ]
        for c in range(grid.left, len(row)):
            shaded = row[c] and c < grid.left + shares
            shade = f' class="share" style="--s:{row[c]}"' if shaded else ""
            cells.append(f"<td{shade}>{_text(grid, r, c)}</td>")
        rows.append(
            f"<tr{_GROUP if r and spans[r] and max(spans) > 1 else ''}>{''.join(cells)}</tr>"
        )
    label = f'aria-label="{xml(grid.title)}"'
    title = grid.title[:1].upper() + grid.title[1:]
    caption = f". {xml(grid.caption)}" if grid.caption else ""
    return (
        f'<figure class="table"><figcaption><b>{xml(title)}</b>{caption} {_csv(grid)}'
        f'</figcaption><div class="scroll" role="region" tabindex="0" {label}>'
        f"<table {label}><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        "</div></figure>"
    )


_FIGURE, _GROUP = ' class="figure"', ' class="group"'


def _text(grid: Grid, row: int, column: int) -> str:
    """A cell's text, with the config keys behind it for who points at it."""
    text = xml(grid.heads[column] if row < 0 else grid.rows[row][column])
    keys = grid.hover.get((row, column))
    shown = f'<abbr title="{xml(keys)}">{text}</abbr>' if keys and text else text
    return f"<b>{shown}</b>" if (row, column) in grid.bold else shown


def _head(text: str, span: int) -> str:
    if span == 1:
        return f'<th scope="row">{text}</th>'
    return f'<th scope="rowgroup" rowspan="{span}">{text}</th>'


def _spans(texts: Sequence[str]) -> list[int]:
    """How many rows each text stands for: itself and its equals below it; 0 for these."""
    spans: list[int] = []
    for _, equals in itertools.groupby(texts):
        count = sum(1 for _ in equals)
        spans += [count] + [0] * (count - 1)
    return spans


def _csv(grid: Grid) -> str:
    """A link that saves a table as CSV; a byte order mark tells a spreadsheet that it is UTF-8."""
    file = io.StringIO()
    texts = (
        [escape.csv(_MINUS.sub("-", text)) for text in row] for row in (grid.heads, *grid.rows)
    )
    csv.writer(file, lineterminator="\n").writerows(texts)
    name = re.sub(r"[^a-z0-9]+", "-", grid.title.lower()).strip("-")[:60] or "table"
    return (
        f'<a class="csv" download="{name}.csv" '
        f'href="data:text/csv;charset=utf-8,%EF%BB%BF{quote(file.getvalue())}">CSV'
        f'<span class="aloud"> of the table: {xml(grid.title)}</span></a>'
    )


def by_row(report: Report) -> tuple[str, list[Series]]:
    """A plot of the overview: rows along the x axis, a mark and deviation for each column."""
    rows = list(dict.fromkeys(cell.row for cell in report.cells))
    columns = heads(report)
    step = 0.5 / len(columns)  # side by side
    series = []
    for k, column in enumerate(columns):
        shift = step * (k - (len(columns) - 1) / 2)
        points = [
            _point(rows.index(cell.row) + shift, cell)
            for cell in report.cells
            if cell.column == column
        ]
        series.append(Series(settings(report.columns, column), [[point] for point in points]))
    marks = [(float(k), " ".join(row)) for k, row in enumerate(rows)]
    return chart(
        series,
        x=" ".join(map(names.axis, report.rows)),
        y=f"{report.split} figure, percent",
        marks=marks,
    ), series


def picture(reports: Sequence[Report]) -> str:
    """A plot of each report, two side by side, as an SVG for a document: a curve where a row is a
    quantity, else the rows.

    A report without columns to compare, among others, is left out. ValueError where none has
    anything to draw.
    """
    plots = []
    for report in reports:
        curve = next(
            (
                (key, lines)
                for key in CURVES
                if key in report.rows and (lines := _lines(report, key))
            ),
            None,
        )
        if curve:
            plots.append((report.title, *_curve(report, *curve)))
        elif len(report.rows) == 1 and (len(heads(report)) > 1 or len(reports) == 1):
            plots.append((report.title, *by_row(report)))
        else:
            log.info("not in the picture, only in tables: %s", report.title or RESULTS)
    if not plots:
        raise ValueError(
            "output=FILE.svg: a picture has a single config key along its x axis: rows=task"
        )
    return arrange(plots, STYLE.read_text(encoding="utf-8"))


def weights(report: Report) -> str:
    """The softmax-normalised weights of each mix, mean over seeds, and its γ; a darker cell is a
    larger share. Beside them each weight times the mean norm of its layer on dev, where a run has
    it: how much of the mix's length comes from there.
    """
    mixes: dict[tuple[str, ...], dict[str, float]] = {}
    for cell in report.cells:
        by_place: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in cell.runs:
            for name, value in run["mix"].items():
                start, place, weight = name.split("/")
                if weight.startswith("norm"):
                    value *= run["mix"][f"{start}/{place}/s{weight.removeprefix('norm')}"]
                by_place[place][weight].append(value)
        for place, lists in by_place.items():
            mixes[(*cell.row, *cell.column, place)] = {
                name: statistics.fmean(values) for name, values in lists.items()
            }
    if not mixes:
        return ""
    weighed = {name for mix in mixes.values() for name in mix}
    layers = sorted(int(name[1:]) for name in weighed if name.startswith("s"))
    scaled = [layer for layer in layers if f"norm{layer}" in weighed]
    columns = [*(f"s{layer}" for layer in layers), "gamma", *(f"norm{layer}" for layer in scaled)]
    rows = [
        [*key, *(f"{mix[name]:.3f}" if name in mix else "" for name in columns)]
        for key, mix in mixes.items()
    ]
    keys = [*map(names.axis, [*report.rows, *report.columns]), "place"]
    heads = [*keys, *(f"layer {layer}" for layer in layers), "γ"]
    heads += [f"layer {layer} × its norm" for layer in scaled]
    return table(
        Grid(
            "share of each layer in ELMo's vector, mean over seeds", heads, rows, set(), len(keys)
        ),
        shares=len(layers),
    )


def curves(report: Report, key: str) -> str:
    """The figure by the values of a config key, as chart and table; "" where it does not vary."""
    lines = _lines(report, key)
    if not lines:
        return ""
    texts = _values(lines)
    rows = [
        [setting, *(score(cells[text]) if text in cells else "" for text in texts)]
        for setting, cells in lines.items()
    ]
    grid = Grid(
        "mean ± standard deviation (runs)",
        ["", *(f"{names.axis(key)}={text}" for text in texts)],
        rows,
        set(),
        1,
    )
    return figure(f"{report.split} figure, percent", *_curve(report, key, lines)) + table(grid)


def _lines(report: Report, key: str) -> dict[str, dict[str, Cell]]:
    """For each setting of the other keys, the cells by the value of one; settings that have a
    single value are left out.
    """
    keys = [*report.rows, *report.columns]
    lines: dict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in report.cells if key in keys else ():
        values = dict(zip(keys, [*cell.row, *cell.column], strict=True))
        value = values.pop(key)
        if number(value) is not None:
            lines[settings([*values], [*values.values()])][value] = cell
    return {setting: cells for setting, cells in lines.items() if len(cells) > 1}


def _values(lines: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    return sorted({text for cells in lines.values() for text in cells}, key=float)


def _curve(
    report: Report, key: str, lines: Mapping[str, Mapping[str, Cell]]
) -> tuple[str, list[Series]]:
    _, axis, scale = CURVES[key]
    texts = _values(lines)
    xs = {text: scale(float(text)) if scale else float(rank) for rank, text in enumerate(texts)}
    series = [
        Series(name, [[_point(xs[text], cells[text]) for text in texts if text in cells]])
        for name, cells in lines.items()
    ]
    marks = [(x, text) for text, x in xs.items()]
    return chart(series, x=axis, y=f"{report.split} figure, percent", marks=marks), series


def _point(x: float, cell: Cell) -> Point:
    return Point(x, 100 * cell.mean, 100 * (cell.deviation or 0))


def learning(report: Report) -> str:
    """The figure on dev after each epoch: a chart for each row, a line for each run."""
    rows: dict[Key, list[Series]] = defaultdict(list)
    for cell in report.cells:
        lines = [line for run in cell.runs if (line := _epochs(run, report.metric))]
        if lines:
            rows[cell.row].append(Series(settings(report.columns, cell.column), lines))
    figures = []
    for row, series in rows.items():
        last = max(int(line[-1].x) for each in series for line in each.lines)
        marks = [(float(epoch), str(epoch)) for epoch in range(1, last + 1, -(-last // 8))]
        caption = f"{settings(report.rows, row)}: dev figure, percent"
        figures.append(figure(caption, chart(series, x="epoch", y=caption, marks=marks), series))
    return f'<div class="plots">{"".join(figures)}</div>' if rows else ""


def _epochs(run: Run, metric: str | None) -> list[Point]:
    path = Path(run["folder"], "metrics.csv")
    if not path.is_file():
        return []
    name = f"val/{metric or run['config']['task']['monitor']}"
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in reader:
                if row.get("epoch") and row.get(name):
                    rows.append((int(row["epoch"]), float(row[name])))
                    if rows[-1][0] < 0 or not math.isfinite(rows[-1][1]):
                        raise ValueError(f"epoch {row['epoch']}, {name} {row[name]}")
        except (ValueError, csv.Error) as error:
            line = f"{path}:{reader.line_num}"
            raise ValueError(f"{line}: not the figures of an epoch: {error}") from error
    # What stands beyond the last epoch is the best one, measured once more.
    return [Point(epoch + 1.0, 100 * value) for epoch, value in rows if epoch < run["epochs"]]


def figure(caption: str, drawn: str, series: Sequence[Series]) -> str:
    """A chart with its caption and legend."""
    legend = "".join(
        '<li><svg viewBox="0 0 36 10" aria-hidden="true">'
        f'<path class="line{k % KINDS}" d="M0 5H36" stroke-dasharray="{dashes(k)}"/></svg>'
        f"{xml(each.name)}</li>"
        for k, each in enumerate(series)
    )
    legend = f'<ul class="legend">{legend}</ul>'
    return f'<figure class="plot">{drawn}{legend}<figcaption>{xml(caption)}</figcaption></figure>'


def cost(report: Report) -> Grid:
    """What each cell took: means over its runs, without those of job=evaluate."""
    keys = [*map(names.axis, [*report.rows, *report.columns])]
    heads = [
        *keys,
        "training, s",
        "in all, s",
        "epochs",
        "examples/s",
        "trained parameters",
        "frozen",
        "device",
    ]
    rows = []
    for cell in report.cells:
        if not (runs := [run for run in cell.runs if run["epochs"]]):
            continue
        seconds = [[run["seconds"][part] for run in runs] for part in ("training", "total")]
        speed = [[run[part] for run in runs] for part in ("epochs", "examples_per_second")]
        means = [statistics.fmean(values) for values in (*seconds, *speed)]
        figures = [f"{mean:,.1f}" if mean >= 1 or not mean else f"{mean:.2g}" for mean in means]
        sizes = [f"{runs[0]['parameters'][kind]:,}" for kind in ("trainable", "frozen")]
        rows.append(
            [
                *cell.row,
                *cell.column,
                *figures,
                *sizes,
                ", ".join(sorted({run["device"] for run in runs})),
            ]
        )
    return Grid("means over the runs of a cell", heads, rows, set(), len(keys))
