"""Tables, figures and lists of terms as HTML; every text in them is escaped."""

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

_MINUS = re.compile(r"^\u2212(?=[\d.]+$)")  # of a number alone
_FIGURE, _GROUP, _NAME = ' class="figure"', ' class="group"', ' class="name"'


def figure(plot: "Plot | None") -> str:
    """A plot with its caption; "" for None."""
    from .plots.rendering import inline  # matplotlib is paid for where something is drawn

    if plot is None:
        return ""
    return (
        f'<figure class="plot">{inline(plot)}'
        f"<figcaption><b>{xml(plot.title)}</b> {xml(plot.caption)}</figcaption></figure>"
    )


def terms(pairs: Iterable[Sequence[str]], mark: str = "") -> str:
    """Terms and what they mean, each of the latter in an element of its own, such as `code`; equal
    terms that follow each other stand once.
    """
    opened, closed = (f"<{mark}>", f"</{mark}>") if mark else ("", "")
    listed = []
    for term, group in itertools.groupby(pairs, lambda pair: pair[0]):
        meanings = "".join(f"<dd>{opened}{xml(meaning)}{closed}</dd>" for _, meaning in group)
        listed.append(f"<dt>{xml(term)}</dt>{meanings}")
    return f'<dl class="terms">{"".join(listed)}</dl>'


def settings(grids: Iterable[Grid]) -> str:
    """The config keys behind the names in some tables, for who cannot point at these; "" where
    there are none.
    """
    behind = {
        text: keys
        for grid in grids
        for (r, c), keys in grid.hover.items()
        if (text := grid.heads[c] if r < 0 else grid.rows[r][c]) and keys != text
    }
    if not behind:
        return ""
    summary = "<summary>The config keys behind these names</summary>"
    return f"<details>{summary}{terms(behind.items(), 'code')}</details>"


def table(grid: Grid, shares: int = 0) -> str:
    """A grid that scrolls in a narrow window, with what it says of itself and a link to its CSV;
    the first `shares` columns of figures are shaded.
    """
    label = f'aria-label="{xml(grid.title)}"'
    return (
        f'<figure class="table"><figcaption>{about(grid)} {_csv(grid)}'
        f'</figcaption><div class="scroll" role="region" tabindex="0" {label}>'
        f"{cells(grid, shares)}</div></figure>"
    )


def about(grid: Grid) -> str:
    """Its title and its caption."""
    title = grid.title[:1].upper() + grid.title[1:]
    caption = f". {xml(grid.about)}" if grid.about else ""
    return f"<b>{xml(title)}</b>{caption}"


def cells(grid: Grid, shares: int = 0) -> str:
    """The table by itself. Rows that begin with the same name share it."""
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
    """A cell's text, with the config keys behind it for who points at it."""
    text = xml(grid.heads[column] if row < 0 else grid.rows[row][column])
    keys = grid.hover.get((row, column))
    shown = f'<abbr title="{xml(keys)}">{text}</abbr>' if keys and text else text
    return f"<b>{shown}</b>" if (row, column) in grid.bold else shown


def _head(text: str, span: int, stays: bool) -> str:
    """A row's name; one `stays` in sight while the table moves on a phone."""
    if span == 1:
        return f'<th scope="row"{_NAME if stays else ""}>{text}</th>'
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
