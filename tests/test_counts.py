"""Each figure of `python -m benchmarks counts` keeps within what it may be."""

import pytest

from benchmarks.counts import COUNTS


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: count.what)
def test_count(count):
    assert count.figure() <= count.most
