"""Format tables, figures and lists of terms as HTML; all texts are escaped."""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from . import escape
from .escape import xml
from .grid import Grid

if TYPE_CHECKING:
    from .plots.drawing import Plot

_MINUS = re.compile(r"^\u2212(?=[\d.]+$)")  # the minus sign of a number
_FIGURE, _GROUP, _NAME = ' class="figure"', ' class="group"', ' class="name"'


def figure(plot: "Plot | None") -> str:
    """Return a plot with its caption; "" for None."""
    from .plots.rendering import inline  # imports matplotlib, which is slow

    if plot is None:
        return ""
    return (
        f'<figure class="plot">{inline(plot)}'
        f"<figcaption><b>{xml(plot.title)}</b> {xml(plot.caption)}</figcaption></figure>"
    )


def terms(pairs: Iterable[Sequence[str]], mark: str = "") -> str:
    """Return a list of terms and their meanings.

    `mark` is an element around each meaning, such as `code`. Consecutive equal terms are merged.
    """
    opened, closed = (f"<{mark}>", f"</{mark}>") if mark else ("", "")
    items = []
    for term, group in itertools.groupby(pairs, lambda pair: pair[0]):
        meanings = "".join(f"<dd>{opened}{xml(meaning)}{closed}</dd>" for _, meaning in group)
        items.append(f"<dt>{xml(term)}</dt>{meanings}")
    return f'<dl class="terms">{"".join(items)}</dl>'


def settings(grids: Iterable[Grid]) -> str:
    """Return a list of the config keys behind the names in tables, for readers without a mouse.

    Returns "" if the tables have none.
    """
    keys_by_text = {
        text: keys
        for grid in grids
        for (r, c), keys in grid.hover.items()
        if (text := grid.heads[c] if r < 0 else grid.rows[r][c]) and keys != text
    }
    if not keys_by_text:
        return ""
    summary = "<summary>The config keys behind these names</summary>"
    return f"<details>{summary}{terms(keys_by_text.items(), 'code')}</details>"


def table(grid: Grid, shares: int = 0) -> str:
    """Return a scrollable table with its title, its caption and a link to its CSV.

    The first `shares` columns of figures are shaded by value, and the caption says so.
    """
    label = f'aria-label="{xml(grid.title)}"'
    shading = " The stronger a cell's colour, the larger its share." if shares else ""
    return (
        f'<figure class="table"><figcaption>{about(grid)}{shading} {_csv(grid)}'
        f'</figcaption><div class="scroll" role="region" tabindex="0" {label}>'
        f"{cells(grid, shares)}</div></figure>"
    )


def about(grid: Grid) -> str:
    """Return the grid's title and caption."""
    title = grid.title[:1].upper() + grid.title[1:]
    caption = f". {xml(grid.about)}" if grid.about else ""
    return f"<b>{xml(title)}</b>{caption}"


def cells(grid: Grid, shares: int = 0) -> str:
    """Return the table element. Consecutive rows with the same first name share its cell."""
    heads = "".join(
        f'<th scope="col"{"" if c < grid.left else _FIGURE}>{_text(grid, -1, c)}</th>'
        if head
        else "<td></td>"
        for c, head in enumerate(grid.heads)
    )
    spans = _spans([row[0] for row in grid.rows]) if grid.left > 1 else [1] * len(grid.rows)
    rows = []
    for r, row in enumerate(grid.rows):
        texts = [
            _head(_text(grid, r, c), spans[r] if c == 0 else 1, stays=c == min(1, grid.left - 1))
            for c in range(grid.left)
            if c or spans[r]
        ]
        for c in range(grid.left, len(row)):
            shaded = row[c] and c < grid.left + shares
            shade = f' class="share" style="--s:{row[c]}"' if shaded else ""
            texts.append(f"<td{shade}>{_text(grid, r, c)}</td>")
        rows.append(
            f"<tr{_GROUP if r and spans[r] and max(spans) > 1 else ''}>{''.join(texts)}</tr>"
        )
    return (
        f'<table aria-label="{xml(grid.title)}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _text(grid: Grid, row: int, column: int) -> str:
    """Return a cell's text, with its config keys as a tooltip."""
    text = xml(grid.heads[column] if row < 0 else grid.rows[row][column])
    keys = grid.hover.get((row, column))
    shown = f'<abbr title="{xml(keys)}">{text}</abbr>' if keys and text else text
    return f"<b>{shown}</b>" if (row, column) in grid.bold else shown


def _head(text: str, span: int, stays: bool) -> str:
    """Return a row's name; with `stays` it remains visible while the table scrolls sideways."""
    if span == 1:
        return f'<th scope="row"{_NAME if stays else ""}>{text}</th>'
    return f'<th scope="rowgroup" rowspan="{span}">{text}</th>'


def _spans(texts: Sequence[str]) -> list[int]:
    """Return each text's row span: the length of its run of equal texts, 0 inside a run."""
    spans: list[int] = []
    for _, equals in itertools.groupby(texts):
        count = sum(1 for _ in equals)
        spans += [count] + [0] * (count - 1)
    return spans


def _csv(grid: Grid) -> str:
    """Return a link to the table as CSV; the byte order mark marks it as UTF-8 for spreadsheets."""
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
