"""Durations as text."""

UNITS = ((120, 1, "s"), (7200, 60, "minutes"), (72 * 3600, 3600, "hours"))  # up to so many seconds


def duration(seconds: float) -> str:
    """Return a duration with the digits that an estimate has.

    >>> duration(0.04), duration(95.2), duration(110.0), duration(400.0), duration(7000.0)
    ('0.04 s', '95 s', '110 s', '6.7 minutes', '117 minutes')
    >>> duration(9000.0), duration(50 * 3600.0), duration(31 * 86400.0)
    ('2.5 hours', '50 hours', '31 days')
    """
    for most, unit, name in UNITS:
        if seconds < most:
            return f"{_rounded(seconds / unit)} {name}"
    return f"{_rounded(seconds / 86400)} days"


def _rounded(value: float) -> str:
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"  # .2g gives 1e+02 for 100
