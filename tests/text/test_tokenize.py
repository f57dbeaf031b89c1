"""Tokens of plain text: the Treebank's rules, and places that are exact whatever the text is."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo_bench.text import token_offsets, tokenize

TRICKY = "\"'`“”‘’„«».,;:!?-–—−/~()[]{}<>$£€%&*@#_ \t\n\u00a0\u2009\u200b\x1c\x85aBnt0é字🙂"
PIECES = ["can't", "cannot", "''", "``", '"', "'", "'tis", "gonna"]
PIECES += ["U.S.", "Mr.", "a.", "...", "--"]
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=TRICKY, max_size=40),
    st.lists(st.sampled_from([*PIECES, " "])).map("".join),
)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.booleans())
@example("''\"``\"'''", True)
@example("\"'", False)
def test_every_token_stands_where_it_says(text: str, fine: bool) -> None:
    offsets = token_offsets(text, fine=fine)
    tokens = [text[start:end] for start, end in offsets]
    assert all(token and not any(c.isspace() for c in token) for token in tokens)
    assert all(before[1] <= after[0] for before, after in pairwise(offsets))
    assert "".join(tokens) == "".join(text.split())


@settings(max_examples=100, deadline=None)
@given(TEXTS)
@example("/A.:")
def test_fine_tokens_only_part_the_others_further(text: str) -> None:
    ends = {end for _, end in token_offsets(text, fine=True)}
    assert {end for _, end in token_offsets(text)} <= ends


@pytest.mark.parametrize(
    ("text", "fine", "tokens"),
    [
        ("", False, ""),
        (" \n ", False, ""),
        ('She didn\'t say: "Go!"', False, 'She|did|n\'t|say|:|"|Go|!|"'),
        ("It rained. Mr. J. Fox left.", False, "It|rained|.|Mr.|J.|Fox|left|."),
        ("the U.S. Navy, left.", False, "the|U.S.|Navy|,|left|."),
        ("Ann’s “dog” (old) cost $3.50...", False, "Ann|’s|“|dog|”|(|old|)|cost|$|3.50|..."),
        ("1,200 at 10:30; 5% of well-kept A/B", False, "1,200|at|10:30|;|5|%|of|well-kept|A/B"),
        ("a well-kept A/B", True, "a|well|-|kept|A|/|B"),
        ("1914–1918, 3−2 and ~5", True, "1914|–|1918|,|3|−|2|and|~|5"),
        ("worth £5m or €6", True, "worth|£|5m|or|€|6"),
        ("called ‘old man’. Then", True, "called|‘|old|man|’|.|Then"),
        ("the U.S.-led '90s", True, "the|U.S.|-|led|'|90s"),
    ],
)
def test_tokens(text: str, fine: bool, tokens: str) -> None:
    found = [text[start:end] for start, end in token_offsets(text, fine=fine)]
    assert "|".join(found) == tokens
    assert fine or found == tokenize(text)
