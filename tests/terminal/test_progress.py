"""Where there is no terminal, the log says how far long work is."""

import logging

import pytest

from elmo_bench.terminal import Bars, Lines, counted, progress, watched


@pytest.fixture
def clock(monkeypatch):
    """What the time is, in seconds: a list of one number."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_a_minute(clock, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    lines = Lines()
    for step in range(11, 14):  # of a run that was resumed after 10 steps
        lines.at("training", step, 20)
        clock[0] += 50
    assert caplog.messages == ["training: 13 of 20, about 0:05:50 left"]
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    clock[0] += 90
    lines.at("training", 14, 20)
    assert len(caplog.messages) == 1


def test_bars_without_a_terminal(clock, caplog):
    caplog.set_level(logging.INFO)
    with Bars(auto_refresh=False) as bars:
        number = bars.add_task("reading", total=None)
        for _ in range(2):
            clock[0] += 61
            bars.advance(number, 1000)
            bars.refresh()
    assert caplog.messages == ["reading: 1,000 so far", "reading: 2,000 so far"]
    assert [*watched("abc", "letters")] == [*counted("abc", "letters")] == ["a", "b", "c"]
