"""Escape users' text (run names, config values) for CSV, Markdown and LaTeX."""

import re

from elmo_bench.terminal import plain

# Text that a spreadsheet would run as a formula; numbers and a single - are safe.
_FORMULA = re.compile(r"(?!-$|[+-][\d.]+$)[=+@-]")
# Characters that mark up text in GitHub's Markdown: everywhere, at the edge of a word, in a link,
# at the start of a line.
_MARKDOWN = re.compile(r"[\\`*<&|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|^[#>]")
_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "γ": r"$\gamma$",
    "λ": r"$\lambda$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "−": "$-$",
    "…": r"\ldots{}",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
}


def csv(text: str) -> str:
    """Escape a field of CSV, so that a spreadsheet does not run it as a formula.

    >>> csv("=HYPERLINK(1)"), csv("-0.5"), csv("-")
    ("'=HYPERLINK(1)", '-0.5', '-')
    """
    field = plain(text)
    return f"'{field}" if _FORMULA.match(field) else field


def markdown(text: str) -> str:
    r"""Escape text for GitHub's Markdown, within a table or a line.

    >>> markdown("<script> elmo.mix=[0,1] a|b")
    '\\<script> elmo.mix=[0,1] a\\|b'
    """
    return _MARKDOWN.sub(lambda match: f"\\{match[0]}", plain(text))


def latex(text: str) -> str:
    r"""Escape text for LaTeX's text mode.

    >>> latex("50%\n")
    '50\\%\\textbackslash{}n'
    """
    return "".join(_TEX.get(character, character) for character in plain(text))
