"""A grid of texts, and its writers for the terminal, Markdown, HTML and LaTeX, which escape."""

from collections.abc import Collection, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from elmo_bench.terminal import plain

from . import escape

LONG = 60  # characters; longer cells are sentences, not figures
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
        bold = f"Bold: {self.bold_is}." if self.bold and self.bold_is else ""
        return " ".join(filter(None, (self.caption, bold)))


def without(grid: Grid, columns: Collection[int]) -> Grid:
    """Return the grid without these columns."""
    remaining = [c for c in range(len(grid.heads)) if c not in columns]
    positions = {c: place for place, c in enumerate(remaining)}
    return grid._replace(
        heads=[grid.heads[c] for c in remaining],
        rows=[[row[c] for c in remaining] for row in grid.rows],
        bold={(r, positions[c]) for r, c in grid.bold if c in positions},
    )


def is_prose(grid: Grid) -> bool:
    """Whether cells of the grid hold sentences."""
    return any(len(text) > LONG for row in grid.rows for text in row)


def repeated_left_out(grid: Grid) -> list[list[str]]:
    """Return the rows without leading names that repeat the row above; the last name is kept."""
    rows, above = [], [""] * grid.left
    for row in grid.rows:
        pairs = zip(above[: grid.left - 1], row, strict=False)
        repeated = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        rows.append([*[""] * repeated, *row[repeated:]])
        above = row
    return rows


class Terminal(NamedTuple):
    """A grid that rich prints at any width, without cutting a figure.

    Names are wrapped; where that is not enough, spare columns are left out. If the grid is still
    too wide, or cells hold sentences, each row is a list.
    """

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid, width = self.grid, options.max_width
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
    for c, (head, *texts) in enumerate(zip(grid.heads, *grid.rows, strict=True)):
        if c < grid.left:
            table.add_column(Text(plain(head)), overflow="fold")
        else:  # as wide as its figures: its head is wrapped
            widest = max(map(cell_len, map(plain, [*texts, *head.split()])), default=1)
            table.add_column(Text(plain(head)), justify="right", width=widest)
    for r, row in enumerate(repeated_left_out(grid)):
        table.add_row(*(_cell(grid, r, c, text) for c, text in enumerate(row)))
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
    heads, *rows = ([*map(escape.markdown, row)] for row in (grid.heads, *grid.rows))
    for r, c in grid.bold:
        rows[r][c] = f"**{rows[r][c]}**"
    figures = "---" if any(len(t) > LONG for row in grid.rows for t in row[grid.left :]) else "--:"
    rule = ["---"] * grid.left + [figures] * (len(heads) - grid.left)
    lines = (f"| {' | '.join(row)} |" for row in (heads, rule, *rows))
    caption = f"\n\n{escape.markdown(grid.about)}" if grid.about else ""
    return "\n".join([f"{escape.markdown(grid.title)}\n", *lines]) + caption


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
    heads, *rows = ([*map(_latex, row)] for row in (grid.heads, *repeated_left_out(grid)))
    for r, c in grid.bold:
        rows[r][c] = rf"\textbf{{{rows[r][c]}}}"
    head, *lines = (" & ".join(row) + r" \\" for row in (heads, *rows))
    parts = [
        f"% {plain(grid.title)}",
        r"\begin{table*}\centering\small",
        rf"\caption{{{escape.latex(caption[:1].upper() + caption[1:])}}}",
        rf"\label{{tab:{label}}}\medskip",
        SHRINK,
        rf"\begin{{tabular}}{{{'l' * grid.left}{'r' * (len(grid.heads) - grid.left)}}}",
        *(r"\toprule", head, r"\midrule", *lines, r"\bottomrule"),
        *(r"\end{tabular}", "}", r"\end{table*}"),
    ]
    return "\n".join(parts)


def _latex(text: str) -> str:
    # Otherwise the \\ or rule before it reads [ or * as its own argument.
    start = "{}" if text.startswith(("[", "*")) else ""
    return start + escape.latex(text)
