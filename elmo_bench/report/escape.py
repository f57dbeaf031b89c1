"""Escape users' text (run names, config values) for CSV, Markdown and LaTeX."""

import re

from elmo_bench.terminal import plain

# Text that a spreadsheet would run as a formula; numbers and a single - are safe.
_FORMULA = re.compile(r"(?!-$|[+-][\d.]+$)[=+@-]")
# Characters that mark up text in GitHub's Markdown: everywhere, at the edge of a word, in a link,
# at the start of a line.
_MARKDOWN = re.compile(r"[\\`*<&|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|^[#>]")
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"γ": r"$\gamma$", "×": r"$\times$", "…": r"\ldots{}", "–": "--"}
_TEX |= {"±": r"$\pm$", "<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$", "λ": r"$\lambda$"}
_TEX |= {c: f"\\{c}" for c in "_%&#${}"}


def csv(text: str) -> str:
    """Escape a field of CSV, so that a spreadsheet does not run it as a formula.

    >>> csv("=HYPERLINK(1)"), csv("-0.5"), csv("-")
    ("'=HYPERLINK(1)", '-0.5', '-')
    """
    text = plain(text)
    return f"'{text}" if _FORMULA.match(text) else text


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
    return "".join(_TEX.get(c, c) for c in plain(text))
