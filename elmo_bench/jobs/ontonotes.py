"""`job=ontonotes`: join the LDC's words of OntoNotes 5 with the public columns of CoNLL-2012.

For English, it does what skeleton2conll does, a script of CoNLL-2012 for Python 2.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from elmo_bench.files import atomic, find_files
from elmo_bench.report.result import print_line
from elmo_bench.terminal import Bars
from elmo_bench.text import read_lines
from elmo_bench.text.conll import FIRST_PREDICATE, GAP, MIN_COLUMNS, NO_WORD, POS, WORD

log = logging.getLogger(__name__)
ANNOTATIONS = "english/annotations"
LDC = ("data/files/data", "ontonotes-release-5.0/data/files/data", "data", "")  # where they may be
# Releases by the ending of their skeletons: folder of a split -> the file that conf/data/ names.
RELEASES = {
    ".gold_skel": {
        "train": "ontonotes5/train.gold_conll",
        "development": "ontonotes5/development.gold_conll",
        "conll-2012-test": "ontonotes5/conll-2012-test.gold_conll",
    },
    ".v4_gold_skel": {
        "train": "conll2012/train.english.v4_gold_conll",
        "development": "conll2012/dev.english.v4_gold_conll",
        "test": "conll2012/test.english.v4_gold_conll",
    },
}
# The leaves and phrases of the trees that no column has.
TRACE = "-NONE-"
EDITED = "EDITED"
NOTHING = [("nullp", "XX")]  # the word and the tag of a tree that has only these
_TOKEN = re.compile(r"[()]|[^ \t()]+")  # words may contain other white space
_ROW = re.compile(r"(?!#)[ \t]*[^ \t]")

Leaves = list[tuple[str, str]]  # each word of a tree, and its part of speech


def ontonotes(cfg: DictConfig) -> dict[str, Counter[str]]:
    """Write the files of each split below `cfg.out`, all or none; print and return their counts.

    `with_coreference` counts the documents of files of which a part has a mention. Sentences whose
    parts of speech differ from those of their tree are counted in the log.

    Raises ValueError, which names the document, for a sentence that does not have as many words as
    its tree, and the errors of `prepare`.
    """
    ldc, files = prepare(cfg)
    counts: dict[str, Counter[str]] = {}
    with Bars(console=Console(stderr=True)) as bars, ExitStack() as stack:
        for name, skeletons in files.items():
            path = Path(cfg.out, name).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = stack.enter_context(atomic(path))
            counts[name] = _write(bars.track(skeletons, description=name), ldc, scratch, name)
    print_line(json.dumps(counts, indent=1))
    return counts


def prepare(cfg: DictConfig) -> tuple[Path, dict[str, list[Path]]]:
    """Return the LDC's folder of annotations, and the skeletons of each file to write.

    Raises FileNotFoundError if a folder lacks what it must have, and FileExistsError for a file
    that would be replaced.
    """
    ldc = _annotations(cfg.ldc)
    files: dict[str, list[Path]] = {}
    for ending, release in RELEASES.items():
        skeletons = find_files(Path(cfg.skeletons).expanduser(), f"*{ending}")
        if not skeletons:
            continue
        for split, name in release.items():
            inside = f"/{split}/data/{ANNOTATIONS}/"
            files[name] = [path for path in skeletons if inside in path.as_posix()]
            if not files[name]:
                raise FileNotFoundError(f"skeletons={cfg.skeletons}: no *{ending} in {inside[1:]}")
            output = Path(cfg.out, name).expanduser()
            if output.exists():
                raise FileExistsError(f"{output} exists: remove it, or choose another out")
    if not files:
        raise FileNotFoundError(f"skeletons={cfg.skeletons}: no files *{' or *'.join(RELEASES)}")
    return ldc, files


def _annotations(ldc: str) -> Path:
    """Return the folder of annotations in the LDC's release."""
    for inside in LDC:
        folder = Path(ldc, inside, ANNOTATIONS).expanduser()
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"ldc={ldc}: no data/files/data/{ANNOTATIONS} in it, which the LDC's OntoNotes release "
        "5.0 (LDC2013T19) has"
    )


def _write(skeletons: Iterable[Path], ldc: Path, path: Path, name: str) -> Counter[str]:
    """Write the files of a split, one after the other, to `path`; return its counts."""
    counts = Counter(documents=0, with_coreference=0, sentences=0, words=0, propositions=0)
    differing: list[str] = []
    with path.open("w", encoding="utf-8") as file:
        for skeleton in skeletons:
            document = skeleton.as_posix().rpartition(f"{ANNOTATIONS}/")[2].rpartition(".")[0]
            documents = 0
            has_mention = False
            for rows in _joined(skeleton, ldc / f"{document}.parse", differing):
                for row in rows:
                    file.write(f"{' '.join(row)}\n")
                if len(rows[0]) >= MIN_COLUMNS:
                    counts["sentences"] += 1
                    counts["words"] += len(rows)
                    counts["propositions"] += _num_propositions(rows)
                    has_mention = has_mention or any(row[-1] != "-" for row in rows)
                elif rows[0][:1] == ["#begin"]:  # of the lines between sentences
                    documents += 1
            counts["documents"] += documents
            if has_mention:
                counts["with_coreference"] += documents
    if differing:
        log.warning(
            "%s: %d of %d sentences have other parts of speech in the LDC's trees, first %s",
            name,
            len(differing),
            counts["sentences"],
            differing[0],
        )
    return counts


def _num_propositions(rows: Sequence[Sequence[str]]) -> int:
    """Return how many predicates of a sentence have arguments: a column each."""
    arguments = zip(*(row[FIRST_PREDICATE:-1] for row in rows), strict=True)
    return sum(1 for column in arguments if set(column) != {"*"})


def _joined(skeleton: Path, parse: Path, differing: list[str]) -> Iterator[list[list[str]]]:
    """Yield the rows of each sentence with its words, and each other line as a row of its own.

    Where the parts of speech of a sentence are not those of its tree, `differing` gets its place.
    """
    trees = _trees(parse)
    num_sentences = 0
    for is_sentence, lines in groupby(read_lines(skeleton), lambda line: bool(_ROW.match(line[1]))):
        sources = []
        rows = []
        for line, text in lines:
            sources.append(f"{skeleton}:{line}")
            rows.append(GAP.split(text.strip(" \t")))
        if not is_sentence:
            for row in rows:
                yield [row]
            continue
        num_sentences += 1
        leaves = next(trees, [])
        if len(leaves) != len(rows):
            raise ValueError(
                f"{sources[0]}: a sentence of {len(rows)} words, but tree {num_sentences} of "
                f"{parse} has {len(leaves)}"
            )
        for source, row, (word, _) in zip(sources, rows, leaves, strict=True):
            if not MIN_COLUMNS <= len(row) == len(rows[0]) or row[WORD] != NO_WORD:
                raise ValueError(
                    f"{source}: a row of a skeleton must have at least {MIN_COLUMNS} columns, as "
                    f"many as the sentence's first row, the fourth {NO_WORD}"
                )
            row[WORD] = word
        tags = [tag for _, tag in leaves]
        if [row[POS] for row in rows] != tags:
            differing.append(sources[0])
        yield rows
    has_more = next(trees, None) is not None
    if has_more:
        log.warning("%s has more trees than %s has sentences (%d)", parse, skeleton, num_sentences)


def _trees(path: Path) -> Iterator[Leaves]:
    """Yield the leaves of each tree of a .parse file, without traces and EDITED phrases.

    Lines that begin with `;`, `<` or `*` are comments. Raises ValueError, with file and line, for
    brackets that do not match.
    """
    stack: list[list[str]] = []  # what each open bracket has: its label, the word of a leaf
    leaves: Leaves = []
    for number, line in read_lines(path):
        if line.startswith((";", "<", "*")):
            continue
        for token in _TOKEN.findall(line):
            if token == "(":
                stack.append([])
                continue
            if not stack:
                raise ValueError(f"{path}:{number}: {token!r} is not within a tree")
            if token != ")":
                stack[-1].append(token)
                continue
            label, *words = stack.pop() or [""]
            if len(words) > 1:
                raise ValueError(f"{path}:{number}: {' '.join(words)!r} is not one word")
            is_edited = EDITED in [node[0] for node in stack if node]
            if label != TRACE and not is_edited:
                leaves += [(word, label) for word in words]
            if not stack:
                yield leaves or NOTHING
                leaves = []
    if stack:
        raise ValueError(f"{path}: the file ends within a tree")
