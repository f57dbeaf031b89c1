"""An interpolated Kneser-Ney trigram model, the baseline for a biLM's perplexity.

    python -m benchmarks.trigram --train lm.train.txt.gz --vocabulary vocabulary.txt lm.test.txt.gz
    ...

It predicts the same words as the forward direction of a biLM: those of the vocabulary, <UNK> for
all others, and </S>, each sentence on its own. Its perplexity is therefore comparable with
"forward" of `job=perplexity` for the same vocabulary. Kneser and Ney (1995), interpolated, with one
discount per order as in Chen and Goodman (1999), section 2.7.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from elmo_bench.text.sentences import read_text, text_files

BITS = 21  # per word in the key of a trigram
WORD = (1 << BITS) - 1


class Trigram:
    """P(w | u v), estimated from counts.

    Words are numbers below `size`. Each sentence has `begin` twice before it and `end` after it.
    """

    def __init__(self, sentences: Iterable[np.ndarray], size: int, *, begin: int, end: int) -> None:
        self.size, self.begin, self.end = size, begin, end
        keys, counts = np.unique(self._keys(sentences), return_counts=True)
        self.tables = [_Table(keys, counts)]
        for _ in range(2):  # in lower orders, count the distinct words that precede an n-gram
            keys, counts = np.unique(
                keys & (1 << BITS * (2 - len(self.tables) + 1)) - 1, return_counts=True
            )
            self.tables.append(_Table(keys, counts))

    def _keys(self, sentences: Iterable[np.ndarray]) -> np.ndarray:
        """The trigrams of all sentences, each packed into one integer."""
        rows = [
            part
            for sentence in sentences
            for part in ([self.begin, self.begin], sentence, [self.end])
        ]
        flat = np.concatenate(rows).astype(np.int64)
        keys = flat[:-2] << 2 * BITS | flat[1:-1] << BITS | flat[2:]
        return keys[flat[2:] != self.begin]  # the start of a sentence is not predicted

    def probabilities(self, keys: np.ndarray) -> np.ndarray:
        """The probability of the last word of each trigram, given the first two."""
        words = self.size - 1  # all except `begin`
        values = np.full(len(keys), 1 / words)
        for order, table in reversed(list(enumerate(self.tables))):
            values = table.interpolate(keys & (1 << BITS * (3 - order)) - 1, values)
        return values

    def perplexity(self, sentences: Iterable[np.ndarray]) -> float:
        """The perplexity per token, where the end of a sentence counts as a token."""
        return float(np.exp(-np.log(self.probabilities(self._keys(sentences))).mean()))


class _Table:
    """The counts of one order: those of n-grams and of their histories."""

    def __init__(self, keys: np.ndarray, counts: np.ndarray) -> None:
        self.keys, self.counts = keys, counts
        once, twice = (counts == 1).sum(), (counts == 2).sum()
        self.discount = once / (once + 2 * twice) if once and twice else 0.5
        self.histories, starts, self.types = np.unique(
            keys >> BITS, return_index=True, return_counts=True
        )
        self.totals = np.add.reduceat(counts, starts)

    def interpolate(self, keys: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """Add the weighted lower order to the discounted probability; unseen histories back off."""
        counts = _find(self.keys, self.counts, keys)
        totals, types = (
            _find(self.histories, values, keys >> BITS) for values in (self.totals, self.types)
        )
        mass = np.maximum(counts - self.discount, 0) + self.discount * types * lower
        return np.where(totals > 0, mass / np.maximum(totals, 1), lower)


def _find(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The values of the wanted keys; 0 for unknown keys."""
    rows = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[rows] == wanted, values[rows], 0)


def numbered(path: str, numbers: dict[str, int]) -> Iterable[np.ndarray]:
    """Yield the sentences of a text as arrays of word numbers."""
    unknown = numbers["<UNK>"]
    for sentence in read_text(text_files(path)):
        yield np.array([numbers.get(word, unknown) for word in sentence])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a JSON object with the perplexity of each text."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trigram", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--train", required=True, help="text, a tokenised sentence a line, plain or .gz"
    )
    parser.add_argument(
        "--vocabulary", required=True, type=Path, help="vocabulary.txt as written by job=pretrain"
    )
    parser.add_argument("texts", nargs="+", help="texts to predict")
    chosen = parser.parse_args(arguments)
    words = chosen.vocabulary.read_text("utf-8").split("\n")[:-1]
    numbers = {word: number for number, word in enumerate(words)}
    model = Trigram(
        numbered(chosen.train, numbers), len(words), begin=numbers["<S>"], end=numbers["</S>"]
    )
    print(f"{len(model.tables[0].keys):,} trigrams", file=sys.stderr)
    print(json.dumps({text: model.perplexity(numbered(text, numbers)) for text in chosen.texts}))


if __name__ == "__main__":
    main()
