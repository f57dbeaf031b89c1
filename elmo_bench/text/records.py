"""Read the labelled records that `job=predict` writes, one JSON object a line."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from elmo_bench.files import parse_json

from .lines import read_lines, read_objects

_TAG = re.compile("O|[BI]-.+")


def is_predicted(path: Path, *keys: str) -> bool:
    """Whether the first line that is not blank is a JSON object with these keys.

    Raises the errors of `read_lines`.
    """
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    try:
        record = parse_json(first, f"{path}")
    except ValueError:
        return False
    return isinstance(record, dict) and record.keys() >= set(keys)


def paired(path: Path, examples: Sequence[Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yield each record, its file and line, and its example.

    Raises ValueError if the numbers of records and examples differ.
    """
    records = list(read_objects(path))
    if len(records) != len(examples):
        raise ValueError(
            f"{path}: {len(records)} records, but the gold file has {len(examples)} examples"
        )
    for (number, record), example in zip(records, examples, strict=True):
        yield record, f"{path}:{number}", example


def check_same(
    record: dict[str, Any], key: str, wanted: Any, source: str, gold_source: str
) -> None:
    """Raise ValueError if the value of `key` in a record differs from that of its example."""
    if record.get(key) != wanted:
        raise ValueError(
            f"{source}: {key} {shown(record.get(key))}, but {gold_source} has {shown(wanted)}"
        )


def tags_of(record: dict[str, Any], count: int, source: str) -> list[str]:
    """Return a record's IOB2 tags; raises ValueError unless there is one for each word."""
    tags = record.get("tags")
    if (
        not isinstance(tags, list)
        or len(tags) != count
        or not all(_TAG.fullmatch(str(tag)) and str(tag).isprintable() for tag in tags)
    ):
        raise ValueError(
            f"{source}: tags {shown(tags)}, but there must be {count} tags, each O, B-TYPE or "
            "I-TYPE"
        )
    return tags
