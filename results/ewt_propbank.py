"""Make the files of EWT (SRL), byte by byte those of all runs of results/, from public ones.

git clone https://github.com/propbank/propbank-release
git -C propbank-release checkout 4abade0b53ce4a181e1d98b3518101c1a44d395a
python results/ewt_propbank.py propbank-release data     # reads data/ud, writes data/srl

The release has all columns but the words, which are those of Universal Dependencies' English EWT:
the three files that experiment=ewt_parse downloads. Both are under CC BY-SA 4.0, and so is what is
written. results/ewt_propbank.txt has what differs between the two: a line has a document, a
position among its words, how many words stand there, and the words in their place; or a sentence of
the release that is left out, since its words could not be found.
"""

import argparse
import hashlib
import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmo_bench.files import write_text
from elmo_bench.text import read_lines

log = logging.getLogger(__name__)
DIFFERENT = Path(__file__).with_suffix(".txt")
SHA256 = {
    "train": "95d279fea19ab81788c10bb27d5fb751c7406da0c8513bdd3a7fe39793b1f4fd",
    "dev": "5a94ebc0115f306509575d899c4b7f4a8a31afb64882e6eb32f2e28252e3ad59",
    "test": "a6cabf9ceb8f20b2b1fbc92b8448f074c95f2570af3f8ec160619732258a20f8",
}
BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
NONE = "-"
# Columns of a row of the release; the arguments follow.
TAG, TREE, LEMMA, ROLESET, ARGUMENTS = 4, 5, 6, 7, 8


class Difference(NamedTuple):
    """Words of a document in the place of others; or a sentence that is left out."""

    position: int
    count: int
    words: list[str]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", type=Path, help="the clone of propbank-release")
    parser.add_argument("data_dir", type=Path, help="data_dir of the runs")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    words = words_of_documents(options.data_dir)
    for split, wanted in SHA256.items():
        documents = documents_of(options.release, split)
        text = "".join(f"{line}\n" for line in lines(options.release, documents, words))
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest != wanted:
            raise ValueError(
                f"{options.release}, {split}: gives a text with sha256 {digest[:12]}, but must "
                f"give {wanted[:12]}: check out the commit that this script names"
            )
        path = options.data_dir / "srl" / f"ewt.{split}.gold_conll"
        path.parent.mkdir(exist_ok=True)
        write_text(path, text)
        log.info("written: %s", path)


def words_of_documents(data_dir: Path) -> dict[str, list[str]]:
    """Return the words of each document of the treebank, by its name there."""
    words: dict[str, list[str]] = defaultdict(list)
    document = ""
    for split in SHA256:
        path = data_dir / "ud" / f"en_ewt-ud-{split}.conllu"
        if not path.is_file():
            path = path.with_name(f"{path.name}.gz")
        for _, line in read_lines(path):
            if line.startswith("# sent_id = "):
                document = line.partition(" = ")[2].strip().rpartition("-")[0]
            elif line.partition("\t")[0].isdigit():
                word = line.split("\t")[1]
                words[document].append(re.sub(r"[][(){}]", _bracket, word))
    return words


def _bracket(match: re.Match[str]) -> str:
    return BRACKETS[match[0]]


def documents_of(release: Path, split: str) -> list[str]:
    """Return the documents of a split, such as "answers/00/2007_ans", sorted; the list of a split
    names some that the release does not have.
    """
    documents: list[str] = []
    for name in (release / "docs" / "evaluation" / f"ewt.{split}.txt").read_text().split():
        document = name.partition(".xml")[0]
        if skeleton_of(release, document).is_file():
            documents.append(document)
    return sorted(documents)


def skeleton_of(release: Path, document: str) -> Path:
    """Return the file of a document, which has all columns but the words."""
    return release / "data" / "google" / "ewt" / f"{document}.xml.gold_skel"


def differences() -> tuple[dict[str, list[Difference]], set[tuple[str, int]]]:
    """Return the words that differ, by document, and the sentences that are left out."""
    replaced: dict[str, list[Difference]] = defaultdict(list)
    left_out: set[tuple[str, int]] = set()
    for line in DIFFERENT.read_text(encoding="utf-8").splitlines():
        document, position, count, *words = line.split(" ")
        if position == "sentence":
            left_out.add((document, int(count)))
        else:
            replaced[document].append(Difference(int(position), int(count), words))
    return replaced, left_out


def lines(release: Path, documents: Sequence[str], words: dict[str, list[str]]) -> Iterator[str]:
    """Yield the lines of documents, in the columns of CoNLL-2012."""
    replaced, left_out = differences()
    for document in documents:
        name = f"ewt/{document}"
        genre, _, rest = document.partition("/")
        stream = list(words[f"{genre}-{rest.rpartition('/')[2]}"])
        for position, count, others in reversed(replaced[name]):
            stream[position : position + count] = others
        remaining = iter(stream)
        skeleton = skeleton_of(release, document).read_text(encoding="utf-8")
        sentences = re.split(r"\n\s*\n", skeleton.strip())
        yield f"#begin document ({name}); part 000"
        for number, sentence in enumerate(sentences):
            if (name, number) in left_out:
                continue
            for place, row in enumerate(sentence.splitlines()):
                cells = row.split()
                sense = cells[ROLESET].rpartition(".")[2]
                columns = [name, "0", str(place), next(remaining), cells[TAG], cells[TREE]]
                columns += [cells[LEMMA], sense, NONE, NONE, "*", *cells[ARGUMENTS:], NONE]
                yield "   ".join(columns)
            yield ""
        yield "#end document"


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, StopIteration) as error:
        sys.exit(f"{error}")
