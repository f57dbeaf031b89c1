"""Texts with labels or scores in columns: by tabs, commas, JSON or a regular expression."""

import csv
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from elmo_bench.bounds import Count, Text
from elmo_bench.files import LINE_BYTES
from elmo_bench.terminal import counted_noun, listed
from elmo_bench.text import are_words, read_lines, read_objects, tokenize

from .examples import UNWRITABLE, Example, finite, is_label
from .examples import collate as collate
from .examples import read_predictions as read_predictions
from .examples import write as write

log = logging.getLogger(__name__)
csv.field_size_limit(LINE_BYTES)  # by default, Python reads no cell of more than 131,072 characters
Column = Text | Count  # a name in the file's first line, or a number from 1 in a file without names
Row = Mapping[Any, Any]
SIDES = ("text", "text2")  # the keys of a first and a second text
KINDS = "FILE.csv has commas and quotes, FILE.jsonl JSON, any other file tabs"
JSON = (".jsonl", ".json")
FEW_ROWS = 2  # of so many, the first may well have a label of its own
# Converts a table of semicolons, with its quotes.
SEMICOLONS = (
    "python -c 'import csv, sys; csv.writer(sys.stdout).writerows(csv.reader(sys.stdin, "
    """delimiter=";"))' < OLD > NEW.csv"""
)


def read(
    path: Path,
    *,
    text: Column | list[Column] | None = None,
    text2: Column | list[Column] | None = None,
    label: Column | None = None,
    score: Column | None = None,
    group: Column | None = None,
    pattern: Text | None = None,
    encoding: Text | None = None,
    tokenized: bool | None = None,
    labels: list[str | int] | None = None,
    leave_out: list[str | int] | None = None,
    joint: bool = False,
) -> Iterator[Example]:
    """Yield the examples of a file; the arguments are `data.columns`, which `docs/formats.md`
    explains. Several columns of a text are joined by blanks.

    Raises ValueError, with file and line, for a row of another width than the first or without a
    column, a text without a character that can be seen, a label of characters that cannot be seen
    or outside `labels`, a score that is not a finite number, an empty group, and two columns of one
    name; and the errors of `read_lines`.
    """
    if label and score:
        raise ValueError(f"data.columns: an example has label={label} or score={score}, not both")
    kind = "score" if score else "label"
    gold_column = score or label or "label"
    columns = _given(text=text or "text", text2=text2, group=group, **{kind: gold_column})
    _check_types(columns)
    known = tuple(map(_written, labels or ()))
    left_out = list(map(_written, leave_out or ()))
    sides = _sides(columns)
    unit = _unit(columns)
    num_skipped = 0
    counts = Counter[str | float]()  # of each gold value, in the order of the file
    for number, row in _rows(path, columns, pattern, encoding or "utf-8"):
        source = f"{path}:{number}"
        cells = _cells(row, columns, source)
        if _written(cells[kind]) in left_out:
            num_skipped += 1
            continue
        texts = tuple(_words(cells[side], source, side, tokenized) for side in sides)
        gold = _gold(cells[kind], source, kind, known)
        counts[gold] += 1
        cluster = _group(cells["group"], source) if group else " ".join(texts[0])
        yield Example(texts, gold, source, (cluster,), (unit,), joint=joint, known=known)
    if num_skipped:
        log.info("%s: skipped %s (leave_out)", path, counted_noun(num_skipped, "row"))
    if isinstance(gold_column, int):
        _warn_of_names(path, kind, counts)


def _given(**columns: Any) -> dict[str, Any]:
    """Return the columns that are set, by what they hold."""
    return {key: column for key, column in columns.items() if column}


def _check_types(columns: Mapping[str, Any]) -> None:
    """Raise ValueError if some columns are names and others numbers."""
    types = set(map(type, _flat(columns)))
    if int in types and str in types:
        raise ValueError(
            f"data.columns={columns}, but all must be names, or all numbers in a file without names"
        )


def _sides(columns: Mapping[str, Any]) -> list[str]:
    """Return which texts have columns."""
    return [side for side in SIDES if side in columns]


def _unit(columns: Mapping[str, Any]) -> str:
    """Name what examples are grouped by."""
    if "group" in columns:
        return "group"
    return "first text" if "text2" in columns else "text"


def _group(cell: Any, source: str) -> str:
    """Return the group of a row; raises ValueError if it is empty."""
    if cell in (None, ""):
        raise ValueError(f"{source}: no group, but each row must have one (data.columns.group)")
    return str(cell)


def _warn_of_names(path: Path, kind: str, counts: Counter[str | float]) -> None:
    """Warn if the first line of a file without names may have names: no other has its label."""
    first = next(iter(counts), "")
    if counts[first] == 1 and counts.total() > FEW_ROWS:
        log.warning(
            "%s: no other line has the label %s of the first: if that line has the names of the "
            "columns, give names, such as data.columns.%s=%s, not numbers",
            path,
            shown(first),
            kind,
            first,
        )


def read_texts(
    path: Path,
    *,
    text: Column | list[Column] | None = None,
    text2: Column | list[Column] | None = None,
    pattern: Text | None = None,
    encoding: Text | None = None,
) -> list[tuple[int, dict[str, Any]]] | None:
    """Return the texts of a table as records for `parse`, with their lines; the arguments are those
    of `read`. No label is read. None if the file is no table, but has an example a line.

    Raises ValueError, with file and line, for a table without these columns, and the errors of
    `read_lines`.
    """
    columns = _given(text=text or "text", text2=text2)
    if not _is_table(path, columns, pattern, encoding or "utf-8"):
        return None
    wanted = set(_flat(columns))
    have_own_names = all(key == column for key, column in columns.items())
    is_json = _suffix(path) in JSON
    records = []
    for number, row in _rows(path, columns, pattern, encoding or "utf-8"):
        if is_json and (have_own_names or not wanted <= row.keys()):
            record = dict(row)  # as `parse` reads it
        else:
            record = _cells(row, columns, f"{path}:{number}")
            if "id" in row:
                record["id"] = row["id"]
        records.append((number, record))
    return records


def _is_table(path: Path, columns: Mapping[str, Any], pattern: str | None, encoding: str) -> bool:
    """Whether a file without labels has columns: it is JSON or a .csv, all of its lines match the
    pattern, or its first line has the names, or as many columns as the numbers say.
    """
    suffix = _suffix(path)
    if pattern:
        form = _compiled(pattern)
        lines = read_lines(path, encoding)
        return all(form.fullmatch(line) for _, line in lines if line.strip())
    if suffix in JSON or suffix == ".csv":
        return True
    first = next((line for _, line in read_lines(path, encoding) if line.strip(" ")), "")
    cells = list(map(str.strip, first.split("\t")))
    if suffix == ".tsv" and len(cells) > len(columns):
        return True
    wanted = _flat(columns)
    if isinstance(wanted[0], int):
        return len(cells) > 1 and len(cells) >= max(wanted)
    return (len(cells) > 1 or suffix == ".tsv") and set(wanted) <= set(cells)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _flat(columns: Mapping[str, Any]) -> list[Any]:
    """Return all columns; those of a text may be several.

    >>> _flat({"text": ["title", "body"], "label": "stars"})
    ['title', 'body', 'stars']
    """
    flat: list[Any] = []
    for column in columns.values():
        if isinstance(column, list | tuple):
            flat.extend(column)
        else:
            flat.append(column)
    return flat


def _rows(
    path: Path, columns: Mapping[str, Any], pattern: str | None, encoding: str
) -> Iterator[tuple[int, Row]]:
    """Yield each row, by the names or numbers of its columns, with the number of its line."""
    if pattern:
        yield from _matched(path, pattern, encoding)
    elif _suffix(path) in JSON:
        yield from read_objects(path, encoding)
    elif _suffix(path) == ".csv":
        yield from _named(_of_commas(path, encoding), path, columns)
    else:
        yield from _named(_of_tabs(path, encoding), path, columns)


def _named(
    rows: Iterator[tuple[int, list[str]]], path: Path, columns: Mapping[str, Any]
) -> Iterator[tuple[int, Row]]:
    """Yield each row by the names in the first one, or by numbers from 1 if columns have numbers.

    Raises ValueError, with file and line, for names that are wrong, and another number of columns.
    """
    have_names = any(isinstance(column, str) for column in _flat(columns))
    names: Sequence[Any] = ()
    for number, row in rows:
        if not names and have_names:
            names = list(map(str.strip, row))
            _check_names(names, columns, f"{path}:{number}")
            continue
        if not names:
            names = range(1, len(row) + 1)
        if len(row) != len(names):
            raise ValueError(
                f"{path}:{number}: {counted_noun(len(row), 'column')}, but the first line has "
                f"{len(names)}; {KINDS}"
            )
        yield number, dict(zip(names, row, strict=True))


def _check_names(names: Sequence[str], columns: Mapping[str, Any], source: str) -> None:
    """Raise ValueError if a table's first line has a name twice, or lacks one of the columns."""
    for name in names:
        if name and names.count(name) > 1:
            raise ValueError(
                f"{source}: {names.count(name)} columns of the name {name!r}, "
                "but each needs its own; columns without names are numbers: data.columns.text=1"
            )
    for key, column in columns.items():
        for name in _flat({key: column}):
            if name not in names:
                advice = _advice(names, columns, f"data.columns.{key}=COLUMN")
                raise ValueError(
                    f"{source}: no column {name}, only {listed(map(shown, names))}: {advice}"
                )


def _advice(names: Sequence[str], columns: Mapping[str, Any], setting: str) -> str:
    """Say what to do if the first line of a table lacks some columns; `setting` is how the first of
    them is set, such as data.columns.text=COLUMN.
    """
    wanted = _flat(columns)
    missing = {name for name in wanted if name not in names}
    for mark, kind, advice in (
        (";", "semicolons", f"{SEMICOLONS} makes them commas"),
        (",", "commas", "name it FILE.csv"),
        ("\t", "tabs", "name it FILE.tsv"),
    ):
        if len(names) == 1 and missing <= {part.strip(' "') for part in names[0].split(mark)}:
            return f"{kind} separate its columns: {advice}"
    spelling = {name.lower(): name for name in names}
    if all(name.lower() in spelling for name in wanted):
        settings = []
        for key, column in columns.items():
            settings.append(f"data.columns.{key}={_respelt(column, spelling)}")
        return f"set {' '.join(settings)}"
    if len(names) < len(columns):
        return f"set {setting}; {KINDS}"
    return (
        f"set {setting}; if this line is an example, not names, give numbers, such as "
        f"{_numbers(names, columns)}"
    )


def _respelt(column: Any, spelling: Mapping[str, str]) -> str:
    """Return a column, or several, in the file's spelling of names in lower case."""
    if isinstance(column, list | tuple):
        return f"[{','.join(spelling[name.lower()] for name in column)}]"
    return spelling[column.lower()]


def _numbers(cells: Sequence[str], columns: Mapping[str, Any]) -> str:
    """Return the settings of a table without names: the longest cells are texts, the shortest the
    label and the group.

    >>> _numbers(["It rains.", "3", "news"], {"text": "text", "group": "topic", "label": "label"})
    'data.columns.text=1 data.columns.label=2 data.columns.group=3'
    """
    by_length = sorted(range(len(cells)), key=lambda number: -len(cells[number]))
    sides = _sides(columns)
    others = [key for key in columns if key not in sides]
    longest = sorted(by_length[: len(sides)])
    shortest = by_length[len(sides) :]
    others.reverse()  # the label before the group
    shortest.reverse()
    keys_and_cells = zip(sides + others, longest + shortest, strict=False)
    return " ".join(f"data.columns.{key}={number + 1}" for key, number in keys_and_cells)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"data.columns.pattern={pattern}: {error}") from error


def _matched(path: Path, pattern: str, encoding: str) -> Iterator[tuple[int, Row]]:
    """Yield the groups of the pattern in each line."""
    form = _compiled(pattern)
    for number, line in read_lines(path, encoding):
        if not line.strip():
            continue
        match = form.fullmatch(line)
        if not match:
            raise ValueError(
                f"{path}:{number}: {shown(line)}, but a line must match {pattern} as a whole, "
                "which is data.columns.pattern"
            )
        yield number, match.groupdict("")


def _of_tabs(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in read_lines(path, encoding):
        if line.strip(" "):
            yield number, line.split("\t")


def _of_commas(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the numbers of their first lines: a cell in quotes may have several."""
    lines = (f"{line}\n" for _, line in read_lines(path, encoding))
    rows = csv.reader(lines, strict=True)
    number = 1
    try:
        for row in rows:
            if row:
                yield number, row
            number = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}:{number}: {error}; a cell with commas or quotes stands in quotes, and has "
            '"" for a quote'
        ) from error


def _cells(row: Row, columns: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return what a row has in each column."""
    return {key: _cell(row, key, column, source) for key, column in columns.items()}


def _cell(row: Row, key: str, column: Any, source: str) -> Any:
    """Return what a row has in a column, or in several, joined."""
    if isinstance(column, list | tuple):
        cells = [_cell(row, key, name, source) for name in column]
        for cell in cells:
            if not isinstance(cell, str):
                raise ValueError(
                    f"{source}: {key} {shown(cell)}, but columns that are joined must be texts"
                )
        return " ".join(cells)
    if column not in row:
        names = listed(map(str, row)) or "groups without a name"
        raise ValueError(
            f"{source}: this row has no column {column}, only {names}: add it, or set "
            f"data.columns.{key}=COLUMN"
        )
    return row[column]


def _words(value: Any, source: str, column: str, tokenized: Any = False) -> tuple[str, ...]:
    """Return the words of a text, or of a list of words; raises ValueError for any other."""
    words: list[str] = []
    if isinstance(value, str):
        words = value.split() if tokenized else tokenize(value)
    elif are_words(value) and all(word.split() == [word] for word in value):
        words = value
    can_be_seen = any(char.isprintable() for char in "".join(words))
    if not can_be_seen or UNWRITABLE.search(" ".join(words)):
        raise ValueError(
            f"{source}: {column} {shown(value)}, but it must be a text, or in JSON a list of "
            "words, with a character that can be seen"
        )
    return tuple(words)


def _written(value: Any) -> str:
    """Return a label as text; one that is not, as JSON writes it: true."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.strip()


def _gold(value: Any, source: str, kind: str, known: Sequence[str]) -> str | float:
    """Return a label as text, or a score; raises ValueError for a value that is neither, and for a
    label that is not known, if some are.
    """
    gold: str | float | None = None
    if kind == "score":
        gold = finite(value)
    elif isinstance(value, str | int) and is_label(_written(value)):
        gold = _written(value)
    if gold is None:
        raise ValueError(
            f"{source}: {kind} {shown(value)}, but a score must be a finite number, and a label "
            "an integer or characters that can be seen; data.columns.leave_out=[LABEL] leaves rows "
            "out"
        )
    if known and gold not in known:
        raise ValueError(
            f"{source}: {kind} {shown(gold)}, but data.columns.labels has {', '.join(known)}"
        )
    return gold


def parse(
    record: Mapping[str, Any],
    source: str,
    *,
    pair: Any = None,
    tokenized: bool | None = None,
    joint: bool = False,
) -> Example:
    """Read an unlabelled example: `{"text": ...}`, with a `pair` also `"text2"`, each a text or a
    list of words. A tab separates two texts in one. Raises ValueError, with `source`, for another.
    """
    if pair:
        sides = list(SIDES)
        wanted = "two texts, 'text' and 'text2', or a line with one tab between"
    else:
        sides = ["text"]
        wanted = "one"
    texts = record
    line = record.get("text")
    if pair and isinstance(line, str) and line.count("\t") == 1 and "text2" not in record:
        texts = dict(zip(sides, line.split("\t"), strict=True))
    if texts.keys() & set(SIDES) != set(sides):
        raise ValueError(f"{source}: {shown(dict(record))}, but the model reads {wanted}")
    words = tuple(_words(texts[side], source, side, tokenized) for side in sides)
    return Example(words, None, source, (), (), joint=joint)


def render(example: Example, prediction: str | float) -> dict[str, Any]:
    """Return a prediction as `{"text": list, "text2": list, "label": ...}`, or `"score"`."""
    record: dict[str, Any] = {}
    for side, words in zip(SIDES, example.texts, strict=False):
        record[side] = list(words)
    kind = "label" if isinstance(prediction, str) else "score"
    record[kind] = prediction
    return record
