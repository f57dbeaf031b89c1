"""The sentences of a text: one tokenised sentence a line, or raw text."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .lines import read_lines
from .tokenize import tokenize

_ENDS = frozenset(".!?")
_CLOSING = frozenset("\"'”’)]}") | {"''"}
_STRAIGHT = frozenset("\"'")


def text_files(pattern: str | Path) -> list[Path]:
    """The files that a path, a folder (all files below it, but hidden ones) or a glob names, in
    order of their names.

    Raises FileNotFoundError where there is none.
    """
    path = Path(pattern).expanduser()
    if path.is_dir():
        inside = ((file, file.relative_to(path).parts) for file in path.rglob("*"))
        found = [
            file
            for file, parts in inside
            if file.is_file() and not any(part.startswith(".") for part in parts)
        ]
        found = [
            file for file in found if file.stat().st_size
        ]  # an empty one marks that a job is done
    else:
        matching = Path(path.anchor).glob(str(path.relative_to(path.anchor))) if path.name else ()
        found = [path] if path.is_file() else [file for file in matching if file.is_file()]
    if not found:
        raise FileNotFoundError(
            f"{pattern}: no such file, no file in such a folder, and no file that matches it"
        )
    return sorted(found)


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """Yield the tokens of every line; a blank line of a text has none.

    A file with `.jsonl` in its name (`.jsonl.gz` too) has a JSON list of strings a line, where any
    string is a token, the empty one too. Any other file is text. Raises as `read_lines`, and
    ValueError with file and line for a line that is no such list.
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
        raise ValueError(
            f'{source}: {line[:50]!r}, but a line is a JSON list of strings, such as ["a", "b"]'
        )
    return tokens


def read_text(files: Iterable[str | Path], *, raw: bool = False) -> Iterator[Sequence[str]]:
    """The sentences that are not empty, file after file, as `read_sentences`; `raw` lines are
    tokenised and parted instead.
    """
    for path in files:
        lines = (
            (part_sentences(tokenize(line)) for _, line in read_lines(path))
            if raw
            else [read_sentences(path)]
        )
        yield from (sentence for line in lines for sentence in line if sentence)


def part_sentences(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """Part a line's tokens after . ! ? and the quotes and brackets that close the sentence.

    >>> list(part_sentences(tokenize('He said "no." Dr. Ada left!')))
    [['He', 'said', '"', 'no', '.', '"'], ['Dr.', 'Ada', 'left', '!']]
    """
    start = 0
    for place, token in enumerate(tokens):
        ended = token in _ENDS or (
            _closes(tokens, start, place)
            and any(t in _ENDS for t in tokens[max(start, place - 2) : place])
        )
        if ended and not (
            place + 1 < len(tokens)
            and (tokens[place + 1] in _ENDS or _closes(tokens, start, place + 1))
        ):
            yield tokens[start : place + 1]
            start = place + 1
    if start < len(tokens):
        yield tokens[start:]


def _closes(tokens: Sequence[str], start: int, place: int) -> bool:
    """Whether a token closes a quote or bracket of its sentence; a straight quote does where one is
    open.
    """
    token = tokens[place]
    return token in _CLOSING and (
        token not in _STRAIGHT or tokens[start:place].count(token) % 2 == 1
    )


def chunks(sentences: Iterable[Sequence[str]], tokens: int) -> Iterator[list[Sequence[str]]]:
    """Consecutive sentences, so many at a time that they have about so many tokens.

    >>> [len(chunk) for chunk in chunks([["a"]] * 5, tokens=6)]
    [2, 2, 1]
    """
    chunk: list[Sequence[str]] = []
    count = 0
    for sentence in sentences:
        chunk.append(sentence)
        count += len(sentence) + 2
        if count >= tokens:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk
