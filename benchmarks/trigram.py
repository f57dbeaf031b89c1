"""An interpolated Kneser-Ney trigram, the baseline that a biLM's perplexity is held against.

    python -m benchmarks.trigram --train lm.train.txt.gz --vocabulary vocabulary.txt lm.test.txt.gz
    ...

It reads what the biLM read and predicts what its forward direction predicts: the words of a
vocabulary, <UNK> for all others, and </S>; each sentence by itself. So its figure and
`job=perplexity`'s "forward" of the same vocabulary measure one thing. Kneser and Ney (1995),
interpolated, with one discount for each order as in Chen and Goodman (1999), section 2.7.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from elmo_bench.text import read_text, text_files

BITS = 21  # of a word in a key of three
WORD = (1 << BITS) - 1


class Trigram:
    """P(w | u v) from counts; words are numbers, `begin` stands twice before each sentence, `end`
    behind it.
    """

    def __init__(self, sentences: Iterable[np.ndarray], size: int, *, begin: int, end: int) -> None:
        self.size, self.begin, self.end = size, begin, end
        keys, counts = np.unique(self._keys(sentences), return_counts=True)
        self.tables = [_Table(keys, counts)]
        for _ in range(2):  # of a lower order, a word counts once for each word that it follows
            keys, counts = np.unique(
                keys & (1 << BITS * (2 - len(self.tables) + 1)) - 1, return_counts=True
            )
            self.tables.append(_Table(keys, counts))

    def _keys(self, sentences: Iterable[np.ndarray]) -> np.ndarray:
        """The trigrams of all sentences, each as one number."""
        rows = [
            part
            for sentence in sentences
            for part in ([self.begin, self.begin], sentence, [self.end])
        ]
        flat = np.concatenate(rows).astype(np.int64)
        keys = flat[:-2] << 2 * BITS | flat[1:-1] << BITS | flat[2:]
        return keys[flat[2:] != self.begin]  # nothing predicts the beginning of the next sentence

    def probabilities(self, keys: np.ndarray) -> np.ndarray:
        """P of the last word of each trigram, given the others."""
        words = self.size - 1  # all but `begin`
        values = np.full(len(keys), 1 / words)
        for order, table in reversed(list(enumerate(self.tables))):
            values = table.interpolate(keys & (1 << BITS * (3 - order)) - 1, values)
        return values

    def perplexity(self, sentences: Iterable[np.ndarray]) -> float:
        """Exp of the mean negative log probability of the words and the ends of sentences."""
        return float(np.exp(-np.log(self.probabilities(self._keys(sentences))).mean()))


class _Table:
    """The counts of one order: of n-grams, and of the histories that they begin with."""

    def __init__(self, keys: np.ndarray, counts: np.ndarray) -> None:
        self.keys, self.counts = keys, counts
        once, twice = (counts == 1).sum(), (counts == 2).sum()
        self.discount = once / (once + 2 * twice) if once and twice else 0.5
        self.histories, starts, self.types = np.unique(
            keys >> BITS, return_index=True, return_counts=True
        )
        self.totals = np.add.reduceat(counts, starts)

    def interpolate(self, keys: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """Discounted probability plus the lower order's; for new histories only the latter."""
        counts = _find(self.keys, self.counts, keys)
        totals, types = (
            _find(self.histories, values, keys >> BITS) for values in (self.totals, self.types)
        )
        mass = np.maximum(counts - self.discount, 0) + self.discount * types * lower
        return np.where(totals > 0, mass / np.maximum(totals, 1), lower)


def _find(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The values that stand beside some keys, 0 for keys that are not there."""
    rows = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[rows] == wanted, values[rows], 0)


def numbered(path: str, numbers: dict[str, int]) -> Iterable[np.ndarray]:
    """The sentences of a text as numbers of the vocabulary's words."""
    unknown = numbers["<UNK>"]
    for sentence in read_text(text_files(path)):
        yield np.array([numbers.get(word, unknown) for word in sentence])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON object: each text's perplexity."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trigram", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--train", required=True, help="text, a tokenised sentence a line, plain or .gz"
    )
    parser.add_argument(
        "--vocabulary", required=True, type=Path, help="vocabulary.txt, as job=pretrain leaves it"
    )
    parser.add_argument("texts", nargs="+", help="texts to be predicted")
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
