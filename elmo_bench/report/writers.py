"""A grid of texts, and what writes it for the terminal, Markdown, HTML and LaTeX, which escapes."""

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from elmo_bench.terminal import plain

from . import escape

SENTENCE = 60  # characters; longer cells are sentences, not figures
# Shrinks a table of LaTeX that is wider than the line to its width.
SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


class Grid(NamedTuple):
    """A table of texts."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    left: int  # the number of leading columns that hold names; the others hold figures
    caption: str = ""  # explains the rows and marks
    bold: Collection[tuple[int, int]] = ()  # row and column of each bold cell
    bold_is: str = ""  # the meaning of bold
    spare: tuple[str, ...] = ()  # heads of the columns that a narrow terminal omits, in this order

    @property
    def about(self) -> str:
        """The caption for formats with bold text, including the meaning of bold."""
        if not self.bold or not self.bold_is:
            return self.caption
        bold = f"Bold: {self.bold_is}."
        return f"{self.caption} {bold}" if self.caption else bold


def without(grid: Grid, columns: Collection[int]) -> Grid:
    """Return the grid without these columns."""
    remaining = [column for column in range(len(grid.heads)) if column not in columns]
    heads = [grid.heads[column] for column in remaining]
    rows: list[list[str]] = []
    for row in grid.rows:
        rows.append([row[column] for column in remaining])
    bold = set[tuple[int, int]]()
    for row_number, column in grid.bold:
        if column in remaining:
            bold.add((row_number, remaining.index(column)))
    return grid._replace(heads=heads, rows=rows, bold=bold)


def is_prose(grid: Grid) -> bool:
    """Whether cells of the grid hold sentences."""
    return _has_long(grid.rows)


def _has_long(rows: Iterable[Iterable[str]]) -> bool:
    return any(len(text) > SENTENCE for text in chain.from_iterable(rows))


def repeated_left_out(grid: Grid) -> list[list[str]]:
    """Return the rows without leading names that repeat the row above; the last name is kept."""
    rows: list[list[str]] = []
    above = [""] * grid.left
    for row in grid.rows:
        repeated = 0
        while repeated < grid.left - 1 and row[repeated] == above[repeated]:
            repeated += 1
        rows.append([""] * repeated + list(row[repeated:]))
        above = row
    return rows


class Terminal(NamedTuple):
    """A grid that rich prints at any width, without cutting a figure.

    Names are wrapped; where that is not enough, spare columns are left out. If the grid is still
    too wide, or cells hold sentences, each row is a list.
    """

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid = self.grid
        width = options.max_width
        unlimited = options.update(width=100_000)

        def is_too_wide() -> bool:
            return console.measure(_table(grid), options=unlimited).minimum > width

        for head in grid.spare:
            if head in grid.heads and is_too_wide():
                grid = without(grid, {grid.heads.index(head)})
        is_list = is_prose(grid) or is_too_wide()
        yield Text(plain(grid.title), style="table.title")
        if is_list:
            yield from _lists(self.grid, width // 3)
        else:
            yield _table(grid)
        # Files and pipes show no bold text, so the caption must not explain it.
        caption = grid.about if console.color_system else grid.caption
        left_out = [head for head in self.grid.heads if head not in grid.heads]
        if left_out and not is_list:
            caption += f" Left out of {width} columns: {', '.join(left_out)}."
        if caption:
            yield Text(plain(caption), style="table.caption")
        yield Text()


def _table(grid: Grid) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for c, head in enumerate(grid.heads):
        if c < grid.left:
            table.add_column(Text(plain(head)), overflow="fold")
        else:  # as wide as its figures: its head is wrapped
            texts = head.split()
            texts += [row[c] for row in grid.rows]
            widest = max(map(cell_len, map(plain, texts)), default=1)
            table.add_column(Text(plain(head)), justify="right", width=widest)
    for r, row in enumerate(repeated_left_out(grid)):
        cells = [_cell(grid, r, c, text) for c, text in enumerate(row)]
        table.add_row(*cells)
    return table


def _cell(grid: Grid, row: int, column: int, text: str) -> Text:
    return Text(plain(text), "bold" if (row, column) in grid.bold else "")


def _lists(grid: Grid, width: int) -> Iterator[Table]:
    """Yield each row as lines of heads, of at most this width, and cells, below an empty line."""
    for r, row in enumerate(grid.rows):
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(max_width=width)
        table.add_column(overflow="fold")
        table.add_row("", "")
        for c, text in enumerate(row):
            if text:
                table.add_row(Text(plain(grid.heads[c])), _cell(grid, r, c, text))
        yield table


def markdown_table(grid: Grid) -> str:
    """Return a grid's title, table and caption as Markdown."""
    rows: list[list[str]] = []
    figures: list[list[str]] = []
    for row in grid.rows:
        rows.append(list(map(escape.markdown, row)))
        figures.append(row[grid.left :])
    for r, c in grid.bold:
        rows[r][c] = f"**{rows[r][c]}**"
    num_figures = len(grid.heads) - grid.left
    rule_of_figures = "---" if _has_long(figures) else "--:"
    rule = ["---"] * grid.left + [rule_of_figures] * num_figures
    lines = [
        escape.markdown(grid.title),
        "",
        _markdown_line(map(escape.markdown, grid.heads)),
        _markdown_line(rule),
    ]
    lines += map(_markdown_line, rows)
    if grid.about:
        lines += ["", escape.markdown(grid.about)]
    return "\n".join(lines)


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


@cache
def _macros() -> Any:
    """Return the macros of page.html."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    def shown(value: object) -> str:
        return value if isinstance(value, Markup) else plain(str(value))

    here = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=here, autoescape=True, finalize=shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").module


def as_html(macro: str, *values: Any) -> str:
    """Return what a macro of page.html makes of these values."""
    return str(getattr(_macros(), macro)(*values)).strip()


def html_table(grid: Grid) -> str:
    """Return a scrollable table with its title and caption."""
    return as_html("table", grid, repeated_left_out(grid), is_prose(grid))


def latex_table(grid: Grid, label: str) -> str:
    """Return a booktabs table with a caption, over both columns where a page has two."""
    caption = f"{grid.title}. {grid.about}".strip()
    rows = [list(map(_latex, row)) for row in repeated_left_out(grid)]
    for r, c in grid.bold:
        rows[r][c] = rf"\textbf{{{rows[r][c]}}}"
    columns = "l" * grid.left + "r" * (len(grid.heads) - grid.left)
    parts = [
        f"% {plain(grid.title)}",
        r"\begin{table*}\centering\small",
        rf"\caption{{{escape.latex(caption[:1].upper() + caption[1:])}}}",
        rf"\label{{tab:{label}}}\medskip",
        SHRINK,
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_line(map(_latex, grid.heads)),
        r"\midrule",
    ]
    parts += map(_latex_line, rows)
    parts += [r"\bottomrule", r"\end{tabular}", "}", r"\end{table*}"]
    return "\n".join(parts)


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(text: str) -> str:
    # Otherwise the \\ or rule before it reads [ or * as its own argument.
    start = "{}" if text.startswith(("[", "*")) else ""
    return start + escape.latex(text)
