"""What the simulations of tests have in common: their options, and how their tables say shares."""

import argparse
from collections.abc import Sequence

LEVELS = (0.05, 0.0025)


def options(description: str | None, repeats: int) -> argparse.ArgumentParser:
    """Return a parser of what every simulation can be told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=repeats, help="simulations a cell")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="rows with this in their name")
    return parser


def heading(repeats: int) -> str:
    """Return the title of a table of shares of p, with what chance moves them by."""
    halves = [f"{196 * (level * (1 - level) / repeats) ** 0.5:.2g}" for level in LEVELS]
    told = " / ".join(f"p <= {level:g}" for level in LEVELS)
    return f"{told}, percent; {repeats} simulations a cell, by chance ± {' / '.join(halves)}"


def percent(shares: Sequence[float]) -> str:
    """Return how often p was at most each of LEVELS.

    >>> percent([0.05, 0.0025])
    '5.0 / 0.25'
    """
    usual, low = shares
    return f"{100 * usual:.1f} / {100 * low:.2f}"
