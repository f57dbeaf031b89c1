"""Tokenised sentences, one a line: words between white space, or a JSON list of tokens."""

import json
from collections.abc import Iterator
from pathlib import Path

from .lines import read_lines


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """Yield the tokens of every line; a blank line of a text has none.

    A file with `.jsonl` in its name (`.jsonl.gz` too) has a JSON list of strings a line, where any string is a token, the empty
    one too. Any other file is text. Raises as `read_lines`, and ValueError with file and line for a line that is no such list.
    """
    has_json = ".jsonl" in Path(path).suffixes
    for number, line in read_lines(path):
        yield _tokens(line, f"{path}:{number}") if has_json else line.split()


def _tokens(line: str, source: str) -> list[str]:
    try:
        tokens = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source}: not a JSON list of tokens: {error}") from error
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(f'{source}: {line[:50]!r}, but a line is a JSON list of strings, such as ["a", "b"]')
    return tokens
