"""Tokens of plain text: the Treebank's rules, and places that are exact whatever the text is."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("nltk")

from elmo_bench.text.tokenize import Token, tokenize, tokenize_with_offsets

TRICKY = "\"'`“”‘’„«».,;:!?-–—−/~()[]{}<>$£€%&*@#_ \t\n\u00a0\u2009\u200b\x1c\x85aBnt0é字🙂"
PIECES = [
    "can't",
    "cannot",
    "''",
    "``",
    '"',
    "'",
    "'tis",
    "gonna",
    "U.S.",
    "Mr.",
    "a.",
    "...",
    "--",
    " ",
]
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=TRICKY, max_size=40),
    st.lists(st.sampled_from(PIECES)).map("".join),
)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.booleans())
@example("''\"``\"'''", True)
@example("\"'", False)
def test_every_token_stands_where_it_says(text: str, fine: bool) -> None:
    tokens = tokenize_with_offsets(text, fine=fine)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert all(token.text and not any(c.isspace() for c in token.text) for token in tokens)
    assert all(before.end <= after.start for before, after in pairwise(tokens))
    assert "".join(token.text for token in tokens) == "".join(text.split())


@settings(max_examples=100, deadline=None)
@given(TEXTS)
@example("/A.:")
def test_fine_tokens_only_part_the_others_further(text: str) -> None:
    ends = {token.end for token in tokenize_with_offsets(text, fine=True)}
    assert {token.end for token in tokenize_with_offsets(text)} <= ends


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('She didn\'t say: "Go!"', 'She|did|n\'t|say|:|"|Go|!|"'),
        (
            "It rained. Mr. J. Fox, of the U.S. Navy, left.",
            "It|rained|.|Mr.|J.|Fox|,|of|the|U.S.|Navy|,|left|.",
        ),
        ("Ann’s “dog” (old) cost $3.50...", "Ann|’s|“|dog|”|(|old|)|cost|$|3.50|..."),
        ("1,200 at 10:30; 5% of well-kept A/B", "1,200|at|10:30|;|5|%|of|well-kept|A/B"),
    ],
)
def test_treebank_tokens(text: str, tokens: str) -> None:
    assert "|".join(tokenize(text)) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a well-kept A/B", "a|well|-|kept|A|/|B"),
        ("1914–1918, 3−2 and ~5", "1914|–|1918|,|3|−|2|and|~|5"),
        ("worth £5m or €6", "worth|£|5m|or|€|6"),
        ("called ‘old man’. Then", "called|‘|old|man|’|.|Then"),
        ("the U.S.-led '90s", "the|U.S.|-|led|'|90s"),
    ],
)
def test_fine_tokens(text: str, tokens: str) -> None:
    assert "|".join(token.text for token in tokenize_with_offsets(text, fine=True)) == tokens


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_text_without_words_has_no_tokens(text: str) -> None:
    assert tokenize(text) == []


def test_a_token_unpacks() -> None:
    assert tokenize_with_offsets(" Hi!") == [Token("Hi", 1, 3), ("!", 3, 4)]
