"""Tables in a text that somebody writes."""

import pytest

from elmo_bench.report import differences, refreshed

TEXT = """# Mine

<!-- table: One -->
old
lines
<!-- end -->
prose stays, | even | a | table
<!-- table: Two: a part -->
<!-- end -->
end
"""
TABLES = {"One": "a\n\nb", "Two: a part": "c"}


def test_tables_go_into_their_blocks():
    text = refreshed(TEXT, TABLES, "x.md")
    assert text == TEXT.replace("old\nlines", "a\n\nb").replace("part -->", "part -->\nc")
    assert refreshed(text, TABLES, "x.md") == text
    assert differences(text, TABLES, "x.md") == []


def test_line_ends_of_windows_stay():
    text = TEXT.replace("\n", "\r\n")
    written = refreshed(text, TABLES, "a.md")
    assert written == refreshed(TEXT, TABLES, "a.md").replace("\n", "\r\n")
    assert differences(written, TABLES, "a.md") == []


def test_what_is_not_so_is_named_by_its_line():
    text = refreshed(TEXT, TABLES, "x.md").replace("\nb\n", "\nB\n")
    assert differences(text, TABLES, "x.md") == ["x.md:6: One: not what the runs give\n- B\n+ b"]
    assert [line.split(":")[1] for line in differences(TEXT, TABLES, "x.md")] == ["4", "9"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TEXT.replace("One", "Oen"),
            r"x.md:3: unknown table 'Oen'; the tables are One, Two: a part",
        ),
        (TEXT.replace("Two: a part", "One"), r"x.md:8: the block 'One' is also in line 3"),
        (TEXT.replace("lines\n<!-- end -->", ""), r"x.md:7: the block 'One' above has no <!-- end"),
        (TEXT.replace("-->\n<!-- end -->\nend", "-->"), r"x.md:8: the block 'Two: a part' has no"),
        (
            f"<!-- end -->\n{TEXT}",
            r"x.md:1: <!-- end --> without a preceding <!-- table: TITLE -->",
        ),
        (TEXT.partition("prose")[0], r"x.md: no block for the table 'Two: a part': write <!--"),
    ],
)
def test_a_block_and_a_table_belong_together(text, message):
    for function in (refreshed, differences):
        with pytest.raises(ValueError, match=message):
            function(text, TABLES, "x.md")
