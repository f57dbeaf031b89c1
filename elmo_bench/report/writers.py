"""Write a grid of texts for the terminal, in Markdown, HTML or LaTeX; all texts are escaped."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from elmo_bench.files import plain

from . import escape
from .escape import xml
from .grid import Grid, without

NAME = 12  # characters; a column of names is at least so wide, or as wide as its longest text
GAP = 2  # characters between the terminal's columns
LONG = 60  # characters; longer cells are sentences, not figures
# Shrinks a table of LaTeX that is wider than the line to its width.
SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def is_prose(grid: Grid) -> bool:
    """Whether cells of the grid hold sentences."""
    return any(len(text) > LONG for row in grid.rows for text in row)


def repeated_left_out(grid: Grid) -> list[list[str]]:
    """Return the rows without leading names that repeat the row above; the last name is kept."""
    rows = []
    for above, row in zip([None, *grid.rows], grid.rows, strict=False):
        repeated = 0
        while above is not None and repeated < grid.left - 1 and above[repeated] == row[repeated]:
            repeated += 1
        rows.append([*([""] * repeated), *row[repeated:]])
    return rows


def group_begins(grid: Grid) -> set[int]:
    """Return the rows, but the first, that begin a group of the same first name; none if each row
    has its own.
    """
    names = [row[0] for row in grid.rows] if grid.left > 1 else []
    begins = {r for r in range(1, len(names)) if names[r] != names[r - 1]}
    return begins if len(begins) < len(names) - 1 else set()


def head_lines(head: str, texts: Iterable[str]) -> list[str]:
    """Wrap a head to the width of its column's texts, or of its longest word."""
    width = max(map(cell_len, [*texts, *head.split()]), default=0)
    lines: list[str] = []
    for word in filter(None, head.split(" ")):
        if lines and cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


class Terminal(NamedTuple):
    """A grid that rich prints at any width, without cutting a figure.

    Names are wrapped; where that is not enough, spare columns are left out and the names share a
    column. If the grid is still too wide, or cells hold sentences, each row is a list.
    """

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid, is_list = self.grid, is_prose(self.grid)
        if not is_list:
            grid = _narrowed(grid, options.max_width)
            is_list = _least_width(grid) > options.max_width
        yield Text(plain(grid.title), style="table.title")
        if is_list:
            yield from (_listed(row, options.max_width // 3) for row in _texts(self.grid))
        else:
            yield _table(grid)
        # Files and pipes show no bold text, so the caption must not explain it.
        caption = grid.about if console.color_system else grid.caption
        left_out = [] if is_list else [head for head in grid.spare if head not in grid.heads]
        if left_out:
            caption += f" Left out of {options.max_width} columns: {', '.join(left_out)}."
        if caption:
            yield Text(plain(caption), style="table.caption")
        yield Text()


def _narrowed(grid: Grid, width: int) -> Grid:
    """Leave out spare columns while the grid is too wide, then join its names."""
    for head in grid.spare:
        if _least_width(grid) > width and head in grid.heads:
            grid = without(grid, {grid.heads.index(head)})
    too_wide = grid.left > 1 and _least_width(grid) > width
    return _joined(grid) if too_wide else grid


def _joined(grid: Grid) -> Grid:
    """Join the names of each row in one column, without repetitions."""
    moved = grid.left - 1
    return grid._replace(
        heads=[", ".join(filter(None, grid.heads[: grid.left])), *grid.heads[grid.left :]],
        rows=[[", ".join(dict.fromkeys(r[: grid.left])), *r[grid.left :]] for r in grid.rows],
        bold={(r, c - moved) for r, c in grid.bold},
        left=1,
    )


def _texts(grid: Grid) -> Iterator[list[tuple[str, Text]]]:
    """Yield the heads and cells of each row, without empty cells."""
    for r, row in enumerate(grid.rows):
        cells = zip(grid.heads, row, strict=True)
        yield [
            (plain(head), Text(plain(text), "bold" if (r, c) in grid.bold else ""))
            for c, (head, text) in enumerate(cells)
            if text
        ]


def _least_width(grid: Grid) -> int:
    columns = zip(grid.heads, *grid.rows, strict=True)
    widths = [max([1, *map(cell_len, column)]) for column in columns]
    heads = [max(map(cell_len, head.split()), default=0) for head in grid.heads]
    figures = [
        max([head, *(cell_len(row[c]) for row in grid.rows)]) for c, head in enumerate(heads)
    ]
    names = [min(width, NAME) for width in widths[: grid.left]]
    return sum(names) + sum(figures[grid.left :]) + GAP * (len(widths) - 1)


def _table(grid: Grid) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for c, (head, *texts) in enumerate(zip(grid.heads, *grid.rows, strict=True)):
        is_name = c < grid.left
        justify: Literal["left", "right"] = "left" if is_name else "right"
        title = head if is_name else "\n".join(map(plain, head_lines(head, texts)))
        table.add_column(Text(title), justify=justify, no_wrap=not is_name, overflow="fold")
    for r, row in enumerate(repeated_left_out(grid)):
        styles = ("bold" if (r, c) in grid.bold else "" for c in range(len(row)))
        table.add_row(*(Text(plain(text), style) for text, style in zip(row, styles, strict=True)))
    return table


def _listed(row: Sequence[tuple[str, Text]], width: int) -> Table:
    """Return a row as lines of heads, of at most this width, and cells, below an empty line."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(max_width=width)
    table.add_column(overflow="fold")
    table.add_row("", "")
    for head, text in row:
        table.add_row(Text(head), text)
    return table


def markdown_table(grid: Grid) -> str:
    """Return a grid's title, table and caption as Markdown."""
    heads, *rows = ([escape.markdown(text) for text in row] for row in (grid.heads, *grid.rows))
    shown = [
        [f"**{text}**" if (r, c) in grid.bold else text for c, text in enumerate(row)]
        for r, row in enumerate(rows)
    ]
    figures = "---" if any(len(t) > LONG for row in grid.rows for t in row[grid.left :]) else "--:"
    rule = ["---"] * grid.left + [figures] * (len(heads) - grid.left)
    lines = (f"| {' | '.join(row)} |" for row in (heads, rule, *shown))
    caption = f"\n\n{escape.markdown(grid.about)}" if grid.about else ""
    return "\n".join([f"{escape.markdown(grid.title)}\n", *lines]) + caption


def html_table(grid: Grid, shares: int = 0) -> str:
    """Return a scrollable table with its title and caption.

    The first `shares` columns of figures are shaded by value, and the caption says so.
    """
    label = f'aria-label="{xml(grid.title)}"'
    shading = " The stronger a cell's colour, the larger its share." if shares else ""
    prose = " prose" if is_prose(grid) else ""
    return (
        f'<figure class="table"><figcaption>{html_title(grid)}{shading}</figcaption>'
        f'<div class="scroll{prose}" role="region" tabindex="0" {label}>'
        f"{html_cells(grid, shares)}</div></figure>"
    )


def html_title(grid: Grid) -> str:
    """Return the grid's title and caption."""
    title = grid.title[:1].upper() + grid.title[1:]
    caption = f". {xml(grid.about)}" if grid.about else ""
    return f"<b>{xml(title)}</b>{caption}"


def html_cells(grid: Grid, shares: int = 0) -> str:
    """Return the table element; names that repeat the row above are of the class `again`."""
    heads = "".join(
        f'<th scope="col"{"" if c < grid.left else _FIGURE}>{_html(grid, -1, c)}</th>'
        if head
        else "<td></td>"
        for c, head in enumerate(grid.heads)
    )
    rows, begins = [], group_begins(grid)
    for r, shown in enumerate(repeated_left_out(grid)):
        texts = []
        for c, name in enumerate(shown[: grid.left]):
            # The second name, else the first, stays while the table scrolls.
            classes = ["name"] * (c == min(1, grid.left - 1)) + ["again"] * (not name)
            kind = f' class="{" ".join(classes)}"' if classes else ""
            texts.append(f'<th scope="row"{kind}>{_html(grid, r, c)}</th>')
        for c in range(grid.left, len(shown)):
            shaded = shown[c] and c < grid.left + shares
            shade = f' class="share" style="--s:{shown[c]}"' if shaded else ""
            texts.append(f"<td{shade}>{_html(grid, r, c)}</td>")
        group = ' class="group"' if r in begins else ""
        rows.append(f"<tr{group}>{''.join(texts)}</tr>")
    return (
        f'<table aria-label="{xml(grid.title)}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


_FIGURE = ' class="figure"'


def _html(grid: Grid, row: int, column: int) -> str:
    """Return a cell's text, with its config keys as a tooltip."""
    text = xml(grid.heads[column] if row < 0 else grid.rows[row][column])
    keys = grid.hover.get((row, column))
    shown = f'<abbr title="{xml(keys)}">{text}</abbr>' if keys and text else text
    return f"<b>{shown}</b>" if (row, column) in grid.bold else shown


def latex_table(grid: Grid, label: str) -> str:
    """Return a booktabs table with a caption, over both columns where a page has two."""
    caption = f"{grid.title}. {grid.about}".strip()
    kinds = "l" * grid.left + "r" * (len(grid.heads) - grid.left)
    return "\n".join(
        [
            f"% {plain(grid.title)}",
            r"\begin{table*}",
            r"\centering",
            r"\small",
            rf"\caption{{{escape.latex(caption[:1].upper() + caption[1:])}}}",
            rf"\label{{tab:{label}}}",
            r"\medskip",
            SHRINK,
            rf"\begin{{tabular}}{{{kinds}}}",
            *_latex_rows(grid),
            "}",
            r"\end{table*}",
        ]
    )


def _latex_rows(grid: Grid) -> list[str]:
    columns = zip(grid.heads, *grid.rows, strict=True)
    heads = (
        _latex_head(*column, side="l" if c < grid.left else "r") for c, column in enumerate(columns)
    )
    lines = [r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    begins = group_begins(grid)
    for r, row in enumerate(repeated_left_out(grid)):
        if r in begins:
            lines.append(r"\addlinespace")
        cells = (
            rf"\textbf{{{_latex(text)}}}" if (r, c) in grid.bold else _latex(text)
            for c, text in enumerate(row)
        )
        lines.append(" & ".join(cells) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _latex_head(head: str, *texts: str, side: str) -> str:
    lines = head_lines(head, texts)
    if len(lines) == 1:
        return _latex(head)
    stacked = r"\\".join(map(_latex, lines))
    return rf"\shortstack[{side}]{{{stacked}}}"


def _latex(text: str) -> str:
    # Otherwise the \\ or rule before it reads [ or * as its own argument.
    start = "{}" if text.startswith(("[", "*")) else ""
    return start + escape.latex(text)
