"""Texts with labels or scores in columns: by tabs, commas, JSON or a regular expression."""

import csv
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from elmo_bench.bounds import Count, Text
from elmo_bench.files import LINE_BYTES
from elmo_bench.terminal import counted_noun, listed
from elmo_bench.text import are_words, read_lines, read_objects, tokenize

from .examples import UNWRITABLE, Example, finite
from .examples import collate as collate
from .examples import read_predictions as read_predictions
from .examples import write as write

log = logging.getLogger(__name__)
csv.field_size_limit(LINE_BYTES)  # by default, Python reads no cell of more than 131,072 characters
Column = Text | Count  # a name in the file's first line, or a number from 1 in a file without names
Row = Mapping[Any, Any]
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
    kind, gold = ("score", score) if score else ("label", label or "label")
    given = {"text": text or "text", "text2": text2, "group": group, kind: gold}
    columns = {key: column for key, column in given.items() if column}
    if {int, str} <= {*map(type, _flat(columns))}:
        raise ValueError(
            f"data.columns={columns}, but all must be names, or all numbers in a file without names"
        )
    known, left_out = tuple(map(_written, labels or ())), [*map(_written, leave_out or ())]
    skipped, counts = 0, Counter[str | float]()  # of each gold value, in the order of the file
    for number, row in _rows(path, columns, pattern, encoding or "utf-8"):
        source = f"{path}:{number}"
        cells = {key: _cell(row, key, column, source) for key, column in columns.items()}
        if _written(cells[kind]) in left_out:
            skipped += 1
            continue
        sides = [key for key in ("text", "text2") if key in cells]
        texts = tuple(_words(cells[key], source, key, tokenized) for key in sides)
        found = _gold(cells[kind], source, kind, known)
        if group and cells["group"] in (None, ""):
            raise ValueError(f"{source}: no group, but each row must have one (data.columns.group)")
        counts[found] += 1
        unit = "group" if group else "first text" if text2 else "text"
        cluster = str(cells["group"]) if group else " ".join(texts[0])
        yield Example(texts, found, source, (cluster,), (unit,), joint=joint, known=known)
    if skipped:
        log.info("%s: skipped %s (leave_out)", path, counted_noun(skipped, "row"))
    first = next(iter(counts), "")
    if isinstance(columns[kind], int) and counts[first] == 1 and counts.total() > FEW_ROWS:
        log.warning(
            "%s: no other line has the label %s of the first: if that line has the names of the "
            "columns, give names, such as data.columns.%s=%s, not numbers",
            *(path, shown(first), kind, first),
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
    given = {"text": text or "text", "text2": text2}
    columns = {key: column for key, column in given.items() if column}
    if not _is_table(path, columns, pattern, encoding or "utf-8"):
        return None
    records = []
    have_own_names = all(key == column for key, column in columns.items())
    for number, row in _rows(path, columns, pattern, encoding or "utf-8"):
        if _suffix(path) in JSON and (have_own_names or not {*_flat(columns)} <= row.keys()):
            record = dict(row)  # as `parse` reads it
        else:
            source = f"{path}:{number}"
            record = {key: _cell(row, key, column, source) for key, column in columns.items()}
            record |= {"id": row["id"]} if "id" in row else {}
        records.append((number, record))
    return records


def _is_table(path: Path, columns: Mapping[str, Any], pattern: str | None, encoding: str) -> bool:
    """Whether a file without labels has columns: it is JSON or a .csv, all of its lines match the
    pattern, or its first line has the names, or as many columns as the numbers say.
    """
    if pattern:
        form, lines = _compiled(pattern), read_lines(path, encoding)
        return all(form.fullmatch(line) for _, line in lines if line.strip())
    if _suffix(path) in (*JSON, ".csv"):
        return True
    first = next((line for _, line in read_lines(path, encoding) if line.strip(" ")), "")
    cells = [cell.strip() for cell in first.split("\t")]
    if _suffix(path) == ".tsv" and len(cells) > len(columns):
        return True
    wanted = _flat(columns)
    if isinstance(wanted[0], int):
        return len(cells) > 1 and len(cells) >= max(wanted)
    return (len(cells) > 1 or _suffix(path) == ".tsv") and {*wanted} <= {*cells}


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _flat(columns: Mapping[str, Any]) -> list[Any]:
    """Return all columns; those of a text may be several."""
    lists = (each if isinstance(each, list | tuple) else [each] for each in columns.values())
    return [*chain.from_iterable(lists)]


def _rows(
    path: Path, columns: Mapping[str, Any], pattern: str | None, encoding: str
) -> Iterator[tuple[int, Row]]:
    """Yield each row, by the names or numbers of its columns, with the number of its line."""
    if pattern:
        yield from _matched(path, pattern, encoding)
    elif _suffix(path) in JSON:
        yield from read_objects(path, encoding)
    else:
        lines = read_lines(path, encoding)
        by_tabs = ((number, line.split("\t")) for number, line in lines if line.strip(" "))
        rows = _of_commas(path, encoding) if _suffix(path) == ".csv" else by_tabs
        yield from _named(rows, path, columns)


def _named(
    rows: Iterator[tuple[int, list[str]]], path: Path, columns: Mapping[str, Any]
) -> Iterator[tuple[int, Row]]:
    names: Sequence[Any] = ()
    by_name = any(isinstance(each, str) for each in _flat(columns))
    for number, row in rows:
        if not names:
            names = [cell.strip() for cell in row] if by_name else range(1, len(row) + 1)
            if twice := [name for name in names if name and names.count(name) > 1]:
                raise ValueError(
                    f"{path}:{number}: {names.count(twice[0])} columns of the name {twice[0]!r}, "
                    "but each needs its own; columns without names are numbers: data.columns.text=1"
                )
            if by_name:
                if wrong := _wrong_names([*map(str, names)], columns):
                    raise ValueError(f"{path}:{number}: {wrong}")
                continue
        if len(row) != len(names):
            raise ValueError(
                f"{path}:{number}: {counted_noun(len(row), 'column')}, but the first line has "
                f"{len(names)}; {KINDS}"
            )
        yield number, dict(zip(names, row, strict=True))


def _wrong_names(names: Sequence[str], columns: Mapping[str, Any]) -> str:
    """Say what is wrong with the first line of a table, if a column is not there; else ""."""
    wanted = _flat(columns)
    missing = [name for name in wanted if name not in names]
    if not missing:
        return ""
    said = f"no column {missing[0]}, only {listed(map(shown, names))}"
    for mark, kind, advice in (
        (";", "semicolons", f"{SEMICOLONS} makes them commas"),
        (",", "commas", "name it FILE.csv"),
        ("\t", "tabs", "name it FILE.tsv"),
    ):
        if len(names) == 1 and {*missing} <= {each.strip(' "') for each in names[0].split(mark)}:
            return f"{said}: {kind} separate its columns: {advice}"
    alike = {name.lower(): name for name in names}
    if all(name.lower() in alike for name in wanted):
        settings = (f"data.columns.{key}={_respelt(each, alike)}" for key, each in columns.items())
        return f"{said}: set {' '.join(settings)}"
    key = next(key for key, each in columns.items() if missing[0] in _flat({key: each}))
    said += f": set data.columns.{key}=COLUMN"
    if len(names) < len(columns):
        return f"{said}; {KINDS}"
    numbers = _numbers(names, columns)
    return f"{said}; if this line is an example, not names, give numbers, such as {numbers}"


def _respelt(column: Any, alike: Mapping[str, str]) -> str:
    if isinstance(column, list | tuple):
        return f"[{','.join(alike[each.lower()] for each in column)}]"
    return alike[column.lower()]


def _numbers(cells: Sequence[str], columns: Mapping[str, Any]) -> str:
    """Return the settings of a table without names: the longest cells are texts."""
    by_length = sorted(range(len(cells)), key=lambda number: -len(cells[number]))
    sides = [key for key in ("text", "text2") if key in columns]
    longest, shortest = sorted(by_length[: len(sides)]), by_length[: len(sides) - 1 : -1]
    others = [key for key in columns if key not in sides][::-1]  # the label before the group
    chosen = [*zip(sides, longest, strict=True), *zip(others, shortest, strict=False)]
    return " ".join(f"data.columns.{key}={number + 1}" for key, number in chosen)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"data.columns.pattern={pattern}: {error}") from error


def _matched(path: Path, pattern: str, encoding: str) -> Iterator[tuple[int, Row]]:
    form = _compiled(pattern)
    for number, line in read_lines(path, encoding):
        if line.strip():
            if not (match := form.fullmatch(line)):
                raise ValueError(
                    f"{path}:{number}: {shown(line)}, but a line must match {pattern} as a whole, "
                    "which is data.columns.pattern"
                )
            yield number, match.groupdict("")


def _of_commas(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the numbers of their first lines: a cell in quotes may have several."""
    rows = csv.reader((f"{line}\n" for _, line in read_lines(path, encoding)), strict=True)
    number = 1
    try:
        for row in rows:
            if row:
                yield number, row
            number = rows.line_num + 1
    except csv.Error as error:
        wrong = f'{error}; a cell with commas or quotes stands in quotes, and has "" for a quote'
        raise ValueError(f"{path}:{number}: {wrong}") from error


def _cell(row: Row, key: str, column: Any, source: str) -> Any:
    """Return what a row has in a column, or in several, joined."""
    if isinstance(column, list | tuple):
        cells = [_cell(row, key, each, source) for each in column]
        if wrong := [cell for cell in cells if not isinstance(cell, str)]:
            raise ValueError(
                f"{source}: {key} {shown(wrong[0])}, but columns that are joined must be texts"
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
    if isinstance(value, str):
        words = value.split() if tokenized else tokenize(value)
    else:
        words = value if are_words(value) and all(w.split() == [w] for w in value) else []
    seen = any(char.isprintable() for word in words for char in word)
    if not seen or UNWRITABLE.search(" ".join(words)):
        raise ValueError(
            f"{source}: {column} {shown(value)}, but it must be a text, or in JSON a list of "
            "words, with a character that can be seen"
        )
    return tuple(words)


def _written(value: Any) -> str:
    """Return a label as text; one that is not, as JSON writes it: true."""
    return (value if isinstance(value, str) else json.dumps(value)).strip()


def _gold(value: Any, source: str, kind: str, known: Sequence[str]) -> str | float:
    """Return a label as text, or a score; raises ValueError for a value that is neither, and for a
    label that is not known, if some are.
    """
    text = _written(value)
    is_label = isinstance(value, str | int) and text and text.isprintable()
    found = finite(value) if kind == "score" else text if is_label else None
    if found is None:
        raise ValueError(
            f"{source}: {kind} {shown(value)}, but a score must be a finite number, and a label "
            "an integer or characters that can be seen; data.columns.leave_out=[LABEL] leaves rows "
            "out"
        )
    if known and found not in known:
        raise ValueError(
            f"{source}: {kind} {shown(found)}, but data.columns.labels has {', '.join(known)}"
        )
    return found


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
    text, sides = record.get("text"), ["text", "text2"] if pair else ["text"]
    if pair and isinstance(text, str) and text.count("\t") == 1 and "text2" not in record:
        record = dict(zip(sides, text.split("\t"), strict=True))
    if len(sides) != len(record.keys() & {"text", "text2"}):
        wanted = "two texts, 'text' and 'text2', or a line with one tab between" if pair else "one"
        raise ValueError(f"{source}: {shown(dict(record))}, but the model reads {wanted}")
    parts = tuple(_words(record[key], source, key, tokenized) for key in sides)
    return Example(parts, None, source, (), (), joint=joint)


def render(example: Example, prediction: str | float) -> dict[str, Any]:
    """Return a prediction as `{"text": list, "text2": list, "label": ...}`, or `"score"`."""
    texts = zip(("text", "text2"), map(list, example.texts), strict=False)
    return dict(texts) | {"label" if isinstance(prediction, str) else "score": prediction}
