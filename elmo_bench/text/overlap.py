"""Which examples also stand in another text: a score on them says what a model remembers.

Sentences are equal word by word, with their capitals. They are held as hashes of 64 bits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .sentences import Sentences

Splits = Mapping[str, Sequence[Sentences]]
Counts = dict[str, list[int]]  # split, but for "train" -> the examples that are counted, and all
WORDS = 13  # of the n-grams by which Brown et al. (2020, appendix C) compare texts


def in_training(splits: Splits) -> Counts:
    """Count the examples that have all their sentences in common with one of "train"."""
    seen = {hash(tuple(map(tuple, each))) for each in splits["train"]}
    return _counts(splits, lambda example: hash(tuple(map(tuple, example))) in seen)


def in_text(splits: Splits, text: Iterable[Sequence[str]]) -> tuple[Counts, Counts]:
    """Count the examples whose sentences are all among those of a text, and the examples of which a
    sentence has `WORDS` words in a row that a sentence of the text has. The text is read once, and
    only the examples are in memory.
    """
    others = [part for split, part in splits.items() if split != "train"]
    own = {tuple(each) for part in others for example in part for each in example}
    sentences, grams = {*map(hash, own)}, {gram for each in own for gram in _grams(each)}
    whole, parts = set[int](), set[int]()
    for sentence in map(tuple, text):
        whole |= sentences & {hash(sentence)}
        parts |= grams.intersection(_grams(sentence))
    return (
        _counts(splits, lambda example: all(hash(tuple(each)) in whole for each in example)),
        _counts(
            splits, lambda example: not parts.isdisjoint(g for s in example for g in _grams(s))
        ),
    )


def _counts(splits: Splits, stands: Callable[[Sentences], bool]) -> Counts:
    others = {split: part for split, part in splits.items() if split != "train"}
    return {split: [sum(map(stands, part)), len(part)] for split, part in others.items()}


def _grams(sentence: Sequence[str]) -> Iterator[int]:
    words = tuple(sentence)
    return (hash(words[start : start + WORDS]) for start in range(len(words) - WORDS + 1))
