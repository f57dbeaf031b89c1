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
    seen = set(map(_hash, splits["train"]))
    return _counts(splits, lambda example: _hash(example) in seen)


def in_text(splits: Splits, text: Iterable[Sequence[str]]) -> tuple[Counts, Counts]:
    """Count the examples whose sentences are all among those of a text, and the examples of which a
    sentence has `WORDS` words in a row that a sentence of the text has. The text is read once, and
    only the examples are in memory.
    """
    own: set[tuple[str, ...]] = set()  # sentences of the examples
    for split, examples in splits.items():
        if split != "train":
            for example in examples:
                own.update(map(tuple, example))
    own_hashes = set(map(hash, own))
    own_grams: set[int] = set()
    for sentence in own:
        own_grams.update(_grams(sentence))
    shared_sentences: set[int] = set()  # hashes of own ones that the text has, too
    shared_grams: set[int] = set()
    for sentence in map(tuple, text):
        if hash(sentence) in own_hashes:
            shared_sentences.add(hash(sentence))
        shared_grams |= own_grams.intersection(_grams(sentence))

    def has_all_sentences(example: Sentences) -> bool:
        return all(hash(tuple(sentence)) in shared_sentences for sentence in example)

    def has_a_gram(example: Sentences) -> bool:
        return any(not shared_grams.isdisjoint(_grams(sentence)) for sentence in example)

    return _counts(splits, has_all_sentences), _counts(splits, has_a_gram)


def _counts(splits: Splits, stands: Callable[[Sentences], bool]) -> Counts:
    """Count the examples of which `stands` is true, and all, in each split but "train"."""
    counts = {}
    for split, examples in splits.items():
        if split != "train":
            counts[split] = [sum(map(stands, examples)), len(examples)]
    return counts


def _hash(sentences: Sentences) -> int:
    return hash(tuple(map(tuple, sentences)))


def _grams(sentence: Sequence[str]) -> Iterator[int]:
    words = tuple(sentence)
    return (hash(words[start : start + WORDS]) for start in range(len(words) - WORDS + 1))
