"""Damaged files, the same ones each time: every reader reads them right or refuses them by name."""

from random import Random

import pytest

from .judge import BAD, case_of, damaged, expected, judged, limited, write
from .rows import ROWS
from .shown import damage


@pytest.mark.xdist_group("hostile")  # which share the good files
@pytest.mark.parametrize("name", ROWS)
def test_read_right_or_refused_by_name(name, tmp_path):
    row = ROWS[name]
    expected(row)
    for place, seed in enumerate(row.seeds()):
        assert not damage(name, seed.file, seed.content)
        for how, change in seed.damages.items():
            for number in range(row.repeats):
                rng = Random(f"{name} {how} {number}")
                case = damaged(row, place, how, change, rng)
                (folder := tmp_path / f"{place} {how} {number}").mkdir()
                with limited():
                    verdict = judged(row, case, write(case, folder))
                assert verdict.outcome not in BAD, (how, number, verdict)


def test_a_case_is_always_the_same():
    first, again = ([case_of(ROWS["ner"], 0, number).data for number in range(20)] for _ in "ab")
    assert first == again
    assert len({*first}) > 10


def test_a_comment_before_a_sentence_has_any_width():
    """As docs/formats.md has it, also if its last word looks like a tag; elsewhere it is a row."""
    comment, sentence = b"# blood group O\n", b"It O\nis O\n"
    assert not damage("ner", "x.txt", comment + sentence + b"\n" + comment + sentence)
    for content in (sentence + comment, sentence + b"wet x O\n"):
        assert damage("ner", "x.txt", content) == "rows of different width"
