"""Read the sentences of a text: one tokenised sentence a line, or raw text."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from elmo_bench.files import find_files, parse_json

from .lines import read_lines
from .tokenize import tokenize

Sentences = Sequence[Sequence[str]]  # of words
_ENDS = frozenset(".!?")
_CLOSING = frozenset("\"'”’)]}") | {"''"}
_STRAIGHT = frozenset("\"'")


def text_files(pattern: str | Path) -> list[Path]:
    """Return the files of a path, a folder (without hidden ones) or a glob, sorted.

    Raises FileNotFoundError if there are none.
    """
    path = Path(pattern).expanduser()
    if path.is_dir():
        below = find_files(path, "*")  # in linked folders, too
        paths = [file for file in below if "/." not in f"/{file.relative_to(path)}"]
    else:
        root = Path(path.anchor)
        paths = list(root.glob(str(path.relative_to(root))))
    files = [path] if path.is_file() else sorted(file for file in paths if file.is_file())
    if not files:
        raise FileNotFoundError(
            f"{pattern}: no such file, no files in this folder, or no file matches the pattern"
        )
    return files


def read_sentences(path: str | Path) -> Iterator[list[str]]:
    """Yield the tokens of every line; a blank line of a text has none.

    A file with `.jsonl` in its name (including `.jsonl.gz`) has one JSON list of strings a line;
    each string is a token, even an empty one. Other files are text. Raises the errors of
    `read_lines`, and ValueError, with file and line, for a line that is not such a list.
    """
    has_json = ".jsonl" in Path(path).suffixes
    for number, line in read_lines(path):
        tokens = parse_json(line, f"{path}:{number}") if has_json else line.split()
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(
                f"{path}:{number}: {line[:50]!r}, but a line is a JSON list of strings, such as "
                '["a", "b"]'
            )
        yield tokens


def read_text(files: Iterable[str | Path], *, raw: bool = False) -> Iterator[Sequence[str]]:
    """Yield the non-empty sentences of the files; `raw` text is tokenised and split."""
    for path in files:
        if not raw:
            yield from filter(None, read_sentences(path))
            continue
        for _, line in read_lines(path):
            if line.strip():  # the tokenizer takes 50 us for an empty line, too
                yield from part_sentences(tokenize(line))


def part_sentences(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split a line's tokens into sentences, after . ! ? and following closing quotes and brackets.

    >>> list(part_sentences(tokenize('He said "no." Dr. Ada left!')))
    [['He', 'said', '"', 'no', '.', '"'], ['Dr.', 'Ada', 'left', '!']]
    """
    start = 0
    open_quotes: set[str] = set()  # straight quotes of the sentence that are still open
    for k, token in enumerate(tokens):
        after_end = any(before in _ENDS for before in tokens[max(start, k - 2) : k])
        ended = token in _ENDS or (after_end and _closes(token, open_quotes))
        if token in _STRAIGHT:
            open_quotes ^= {token}
        is_last = k + 1 == len(tokens)
        goes_on = not is_last and (tokens[k + 1] in _ENDS or _closes(tokens[k + 1], open_quotes))
        if ended and not goes_on:
            yield tokens[start : k + 1]
            start = k + 1
            open_quotes = set()
    if start < len(tokens):
        yield tokens[start:]


def _closes(token: str, open_quotes: Collection[str]) -> bool:
    """Whether a token closes a quote or bracket; a straight quote closes an open one."""
    return token in _CLOSING and (token not in _STRAIGHT or token in open_quotes)


def chunks(sentences: Iterable[Sequence[str]], tokens: int) -> Iterator[list[Sequence[str]]]:
    """Yield lists of consecutive sentences with about `tokens` tokens in total.

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
            chunk = []
            count = 0
    if chunk:
        yield chunk
