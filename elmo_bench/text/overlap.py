"""Which examples also stand in another text: a score on them says what a model remembers.

Sentences are equal word by word, with their capitals. They are held as hashes of 64 bits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

Sentences = Sequence[Sequence[str]]
Counts = dict[str, list[int]]  # split -> the examples that are counted, and all
WORDS = 13  # of the n-grams by which Brown et al. (2020, appendix C) compare texts


def in_training(splits: Mapping[str, Sequence[Sentences]]) -> Counts:
    """Count the examples of the other splits that have all their sentences in common with one of
    "train".
    """
    seen = {*map(_key, splits["train"])}
    others = {split: examples for split, examples in splits.items() if split != "train"}
    return {split: _counted(_key(each) in seen for each in others[split]) for split in others}


def in_text(
    splits: Mapping[str, Sequence[Sentences]], text: Iterable[Sequence[str]]
) -> tuple[Counts, Counts]:
    """Count the examples whose sentences are all among those of a text, and the examples of which a
    sentence has `WORDS` words in a row that a sentence of the text has. The text is read once, and
    memory is for the examples alone.
    """
    own = [each for examples in splits.values() for example in examples for each in example]
    sentences, grams = (
        {hash(tuple(each)) for each in own},
        {g for each in own for g in _grams(each)},
    )
    whole, parts = set[int](), set[int]()
    for sentence in text:
        if (key := hash(tuple(sentence))) in sentences:
            whole.add(key)
        parts |= grams.intersection(_grams(sentence))

    def stands(example: Sentences) -> bool:
        return all(hash(tuple(each)) in whole for each in example)

    def shares(example: Sentences) -> bool:
        return any(gram in parts for each in example for gram in _grams(each))

    return (
        {split: _counted(map(stands, examples)) for split, examples in splits.items()},
        {split: _counted(map(shares, examples)) for split, examples in splits.items()},
    )


def _counted(hits: Iterable[bool]) -> list[int]:
    found = [*hits]
    return [sum(found), len(found)]


def _key(example: Sentences) -> int:
    return hash(tuple(map(tuple, example)))


def _grams(sentence: Sequence[str]) -> Iterator[int]:
    words = tuple(sentence)
    return (hash(words[start : start + WORDS]) for start in range(len(words) - WORDS + 1))
