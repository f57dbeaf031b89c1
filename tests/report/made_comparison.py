"""A made-up comparison of two settings."""

from elmo_bench.report import significance
from elmo_bench.report.comparison import Comparison


def made_comparison(by, reach, p=0.2):
    """One that differs by so much, with an interval that reaches so far on either side."""
    scales, interval = (significance.Scale(reach / 3, 4.0),), (by - reach, by + reach)
    test = significance.Test(by, scales, p, interval, 100, 100, (5, 5), detectable=0.1)
    return Comparison(by, None, test, p, family=1)
