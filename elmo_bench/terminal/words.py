"""Small words of messages and tables: durations, sizes, lists, text that controls no terminal."""

import logging
import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

# Control characters, line breaks, bidirectional marks, and code points invalid in XML or UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def duration(seconds: float) -> str:
    """Return a duration to the second.

    >>> duration(400.2), duration(31 * 86400.0)
    ('0:06:40', '31 days, 0:00:00')
    """
    return str(timedelta(seconds=round(seconds)))


def two_digits(value: float) -> str:
    """Return a number with two significant digits, or as an integer from 10.

    >>> two_digits(0.0456), two_digits(9.96), two_digits(1234.5)
    ('0.046', '10', '1,234')
    """
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"  # .2g gives 1e+02 for 100


def listed(texts: Iterable[str], word: str = "and") -> str:
    """Return texts as a list in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], "or"), listed([])
    ('a, b and c', 'a or b', '')
    """
    parts = list(texts)
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def counted_noun(number: int, noun: str) -> str:
    """Return a number and its noun, with an s unless the number is 1.

    >>> counted_noun(1, "run"), counted_noun(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def pip_install(extra: str) -> str:
    """Return the command that installs an extra of this package, as it is installed itself."""
    is_wheel = (Path(__file__).parents[1] / "conf").is_dir()  # which a clone has beside the package
    return f"pip install 'elmo-bench[{extra}]'" if is_wheel else f"pip install -e '.[{extra}]'"


def not_a_file(path: str | Path) -> str:
    """Return why a path that must be a file is none."""
    if Path(path).expanduser().is_dir():
        return "is a folder, but it must be a file"
    return "no such file"


def not_a_folder(path: str | Path) -> str:
    """Return why a path that must be a folder is none."""
    if Path(path).expanduser().is_file():
        return "is a file, but it must be a folder"
    return "no such folder"


def plain(text: str) -> str:
    r"""Return the text on one line, with control characters as Python escapes.

    >>> plain("a\nb\x1b[0m")
    'a\\nb\\x1b[0m'
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain_lines(text: str) -> str:
    """Escape like `plain`, but keep line breaks and tabs."""
    return re.sub(r"[^\n\t]+", lambda match: plain(match[0]), text)


class PlainLines(logging.Formatter):
    """Format log records escaped by `plain_lines`, so that a name cannot control the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return plain_lines(super().format(record))
