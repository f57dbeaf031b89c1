"""The formats of NER files: comments, schemes of tags, CoNLL-2012."""

import logging

import pytest

from tasks.ner.data import read
from tests.tasks.small_files import FILES


def entities(folder, text, **settings):
    (folder / "gold").write_text(text)
    return [
        (" ".join(each.words), [tuple(span) for span in each.entities])
        for each in read(folder / "gold", **settings)
    ]


def test_a_comment_stands_before_a_sentence_and_has_no_tag(tmp_path):
    """A word that begins with # has as many columns as the others, and a tag."""
    text = (
        "# id 5\tdomain=en\n# text = So _ O\n#1 _ B-X\n# _ I-X\n\n\n"
        "# _ O\nleft _ O\n\n#\n# id = 6 O\n# B-X O\n#\tO\n"
    )
    with pytest.raises(ValueError, match="gold:1: tag 'B', but"):
        entities(tmp_path, "#tag B\nleft O\n")  # and is no comment
    with pytest.raises(ValueError, match="gold:13: 2 columns, but the lines before have 3"):
        entities(tmp_path, text)
    found = entities(tmp_path, text.removesuffix("#\tO\n"))
    assert found == [("#1 #", [("X", 0, 1)]), ("# left", []), ("#", [])]


@pytest.mark.parametrize("scheme", ["BIESS", "BILUU", "BMESS", "BIIBB", "IIIII"])
def test_the_scheme_is_seen_in_the_tags(tmp_path, scheme):
    begin, inside, end, single, other = scheme
    tags = [f"{begin}-X", f"{inside}-X", f"{end}-X", f"{single}-Y", "O", f"{other}-X"]
    text = "".join(f"w {tag}\n" for tag in tags)
    expected = [("X", 0, 2), ("Y", 3, 3), ("X", 5, 5)]
    assert entities(tmp_path, text) == [("w w w w O w".replace("O", "w"), expected)]


def test_conll2012(tmp_path, caplog):
    named = FILES["srl"].replace("- - * (ARG0*)", "- - (PERSON) (ARG0*)")
    named = named.replace("- - * (V*)     *) ", "- - (X* (V*)     *) ")
    bare = FILES["srl"].replace("nw/clock", "nw/clocks")
    with pytest.raises(ValueError, match=r"gold:3: \(X\* in column 11 is not closed"):
        entities(tmp_path, named + bare)
    named = named.replace("(X*", "(X)")
    every = entities(tmp_path, named + bare)
    assert [spans for _, spans in every] == [[("PERSON", 0, 0), ("X", 1, 1)]] + 5 * [[]]
    with caplog.at_level(logging.INFO):
        assert entities(tmp_path, named + bare, annotated=True) == every[:3]
    assert "gold: leaves out 1 document without a name (annotated=true)" in caplog.text
