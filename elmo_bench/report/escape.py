"""A user's text (a name of a run, a value of its config) in each format of a report, so that it is
shown and nothing else.
"""

import html
import logging
import re

# Control characters, line breaks, what turns text around, and what XML and UTF-8 cannot hold.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# What a spreadsheet takes for a formula; a number and a lone - are none.
_FORMULA = re.compile(r"(?!-$|[+-][\d.]+$)[=+@-]")
# Characters that mark up text in GitHub's Markdown: everywhere, at the edge of a word, in a link,
# at the start of a line.
_MARKDOWN = re.compile(r"[\\`*<&|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|^[#>]")
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"γ": r"$\gamma$", "×": r"$\times$", "…": r"\ldots{}", "–": "--"}
_TEX |= {"±": r"$\pm$", "<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$", "λ": r"$\lambda$"}
_TEX |= {c: f"\\{c}" for c in "_%&#${}"}


def plain(text: str) -> str:
    r"""On one line: control characters are shown as Python writes them.

    >>> plain("a\nb\x1b[0m")
    'a\\nb\\x1b[0m'
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def lines(text: str) -> str:
    """As `plain`, of a text whose line breaks and tabs stay."""
    return re.sub(r"[^\n\t]+", lambda match: plain(match[0]), text)


class PlainLines(logging.Formatter):
    """Log lines as `lines` shows them: a name in them does nothing to the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return lines(super().format(record))


def csv(text: str) -> str:
    """For a field of CSV, which a spreadsheet may open.

    >>> csv("=HYPERLINK(1)"), csv("-0.5"), csv("-")
    ("'=HYPERLINK(1)", '-0.5', '-')
    """
    text = plain(text)
    return f"'{text}" if _FORMULA.match(text) else text


def markdown(text: str) -> str:
    r"""For GitHub's Markdown, within a table or a line.

    >>> markdown("<script> elmo.mix=[0,1] a|b")
    '\\<script> elmo.mix=[0,1] a\\|b'
    """
    return _MARKDOWN.sub(lambda match: f"\\{match[0]}", plain(text))


def latex(text: str) -> str:
    r"""For LaTeX's text mode.

    >>> latex("50%\n")
    '50\\%\\textbackslash{}n'
    """
    return "".join(_TEX.get(c, c) for c in plain(text))


def xml(text: str) -> str:
    r"""For HTML and SVG.

    >>> xml("a\x00<b>")
    'a\\x00&lt;b&gt;'
    """
    return html.escape(plain(text))
