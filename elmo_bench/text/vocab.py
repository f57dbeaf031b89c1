"""A model's vocabulary: numbers of words and labels."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

PADDING = 0
UNKNOWN = 1
# Whether words are looked up in lower case; "fallback": only those without a vector.
Case = bool | Literal["fallback"]


def forms(word: str, lowercase: Case) -> tuple[str, ...]:
    """Return the forms of a word in the order of lookup.

    >>> forms("Us", True), forms("Us", False), forms("Us", "fallback")
    (('us',), ('Us',), ('Us', 'us'))
    """
    if lowercase == "fallback":
        return word, word.lower()
    return (word.lower() if lowercase else word,)


class Vocab:
    """Words (0 is padding, 1 every unknown word) and labels, in a fixed order."""

    def __init__(
        self, words: Sequence[str], labels: Sequence[str], *, lowercase: Case = True
    ) -> None:
        self.words = list(words)
        self.labels = list(labels)
        self.lowercase = lowercase
        self._word_ids = {word: number for number, word in enumerate(self.words, 2)}
        self._label_ids = {label: number for number, label in enumerate(self.labels)}

    @classmethod
    def build(
        cls,
        sentences: Iterable[Sequence[str]],
        labels: Iterable[str],
        *,
        min_count: int = 1,
        keep: Collection[str] = (),
        lowercase: Case = True,
    ) -> "Vocab":
        """Build from the words that occur `min_count` times or are in `keep`, and sorted labels.

        The label O comes first.
        """

        def form(word: str) -> str:
            choices = forms(word, lowercase)
            for choice in choices:
                if choice in keep:
                    return choice
            return choices[-1]

        counts = Counter[str]()
        for sentence in sentences:
            counts.update(map(form, sentence))
        frequent = {word for word, count in counts.items() if count >= min_count}
        words = sorted(frequent | set(keep), key=lambda word: (-counts[word], word))
        ordered = sorted(set(labels), key=lambda label: (label != "O", label))
        return cls(words, ordered, lowercase=lowercase)

    @property
    def num_words(self) -> int:
        """The number of rows of a word embedding: all words, padding and the unknown word."""
        return len(self.words) + 2

    def word_id(self, word: str) -> int:
        """Return the number of a word, or of the unknown word."""
        for form in forms(word, self.lowercase):
            if form in self._word_ids:
                return self._word_ids[form]
        return UNKNOWN

    def extend(self, words: Iterable[str]) -> None:
        """Append words, which must be in the form of lookup."""
        for word in words:
            self._word_ids[word] = self.num_words
            self.words.append(word)

    def label_id(self, label: str) -> int:
        """Return the number of a label; raises ValueError for a label not seen in training."""
        if label not in self._label_ids:
            raise ValueError(
                f"label {label!r} does not occur in the training data, which has {self.labels}"
            )
        return self._label_ids[label]

    def state(self) -> dict[str, Any]:
        """Return plain data, from which `Vocab(**state)` rebuilds the vocabulary."""
        return {"words": self.words, "labels": self.labels, "lowercase": self.lowercase}
