"""The generated corpora: official formats, nothing given away, and the same bytes from the same
seed.
"""

import json
import re
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from elmo_bench.sample import files
from elmo_bench.sample.write import iob1

TASKS = ("ner", "srl", "coref", "snli", "squad", "sst5", "lm")
SIZE, LARGE = 16, 48


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders of corpora: one written job by job, one by processes that write the same files at
    once.

    The writers are fresh processes, free of the type checks pytest adds to every call in this one.
    """
    alone, together = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("together")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [(task, root, SIZE, 1) for task in TASKS for root in (together, together)]
        jobs += [
            (task, alone, size, seed)
            for task in TASKS
            for size, seed in ((SIZE, 1), (SIZE, 2), (LARGE, 1), (1, 1))
        ]
        for run in [
            pool.submit(files, task=task, root=root, size=size, seed=seed)
            for task, root, size, seed in jobs
        ]:
            run.result()
    return alone, together


@pytest.fixture(scope="module")
def root(roots: tuple[Path, Path]) -> Path:
    return roots[0]


def written(root: Path, task: str, *, size: int = SIZE, seed: int = 1) -> dict[str, str]:
    return {
        split: path.read_text()
        for split, path in files(task=task, root=root, size=size, seed=seed).items()
    }


def documents(text: str) -> list[list[list[list[str]]]]:
    """Documents of a CoNLL-2012 file as sentences of rows."""
    bodies = re.findall(
        r"#begin document \(\S+\); part 000\n(.*?)#end document\n", text, flags=re.DOTALL
    )
    return [
        [[row.split() for row in block.splitlines()] for block in body.strip().split("\n\n")]
        for body in bodies
    ]


def entities(text: str) -> list[tuple[tuple[str, ...], str]]:
    """Names and types of a CoNLL-2003 file."""
    found: list[tuple[tuple[str, ...], str]] = []
    before = "O"
    for line in text.splitlines():
        word, tag = (line.split()[0], line.split()[-1]) if line else ("", "O")
        if tag != "O" and before != "O" and tag.startswith("I-") and before[2:] == tag[2:]:
            found[-1] = ((*found[-1][0], word), tag[2:])
        elif tag != "O":
            found.append(((word,), tag[2:]))
        before = tag
    return found


@pytest.mark.parametrize("task", TASKS)
def test_same_seed_same_bytes_even_if_written_at_once(task: str, roots: tuple[Path, Path]) -> None:
    alone, together = roots
    assert written(alone, task) == written(together, task)
    assert written(alone, task)["train"] != written(alone, task, seed=2)["train"]
    assert len(set(written(alone, task).values())) == 3


def test_nothing_is_left_behind(roots: tuple[Path, Path]) -> None:
    for folder in roots[1].iterdir():
        assert {path.name for path in folder.iterdir()} == set(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_size_scales(task: str, root: Path) -> None:
    small, large = (len(written(root, task, size=size)["train"]) for size in (SIZE, LARGE))
    assert 2 < large / small < 4
    assert len(written(root, task, size=1)["dev"]) > 0


def test_errors_name_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pos.*coref, lm, ner, snli, squad, srl, sst5"):
        files(task="pos", root=tmp_path, size=1, seed=1)
    with pytest.raises(ValueError, match=r"data\.size"):
        files(task="ner", root=tmp_path, size=0, seed=1)
    with pytest.raises(ValueError, match=r"data\.files\.root=, but it must be a folder"):
        files(task="ner", root="", size=1, seed=0)


def test_ner_columns_and_iob1(root: Path) -> None:
    for text in written(root, "ner").values():
        rows = [line.split(" ") for line in text.splitlines()]
        assert {len(row) for row in rows if row != [""]} == {4}
        for before, row in zip([[""], *rows], rows, strict=False):
            if row[-1].startswith("B-"):
                assert before[-1][1:] == row[-1][1:]
        assert {row[-1][2:] for row in rows if row[-1].startswith(("I-", "B-"))} == {
            "PER",
            "ORG",
            "LOC",
            "MISC",
        }


def test_iob1_begins_only_beside_its_like() -> None:
    assert iob1(["PER", "PER", "ORG", "O"], {0, 1, 2}) == ["I-PER", "B-PER", "I-ORG", "O"]


def test_names_are_unseen(root: Path) -> None:
    tokens = {
        split: {word for name, _ in entities(text) for word in name}
        for split, text in written(root, "ner").items()
    }
    raw = {
        word
        for text in written(root, "lm").values()
        for line in text.splitlines()
        for word in line.split()
    }
    for split in ("dev", "test"):
        assert len(tokens[split] - tokens["train"]) >= 0.9 * len(tokens[split])
        assert len(tokens[split] - raw) >= 0.9 * len(tokens[split])


def test_names_are_ambiguous(root: Path) -> None:
    types: dict[str, Counter[str]] = defaultdict(Counter)
    for document in written(root, "ner", size=LARGE)["train"].split("-DOCSTART- -X- -X- O\n"):
        for name, label in set(entities(document)):
            types[name[-1]][label] += 1
    common = {name: seen for name, seen in types.items() if seen.total() > 2}
    assert sum(len(seen) > 1 for seen in common.values()) > 0.9 * len(common)
    assert sum(max(seen.values()) for seen in common.values()) < 0.6 * sum(
        seen.total() for seen in common.values()
    )


@pytest.mark.parametrize("task", ["srl", "coref"])
def test_conll_2012(task: str, root: Path) -> None:
    for text in written(root, task).values():
        assert text.count("#begin document") == text.count("#end document") == len(documents(text))
        for document in documents(text):
            for rows in document:
                columns = list(zip(*rows, strict=True))
                assert columns[2] == tuple(map(str, range(len(rows))))
                assert "".join(columns[5]).count("(") == "".join(columns[5]).count(")")
                predicates = columns[11:-1]
                assert len(predicates) == sum(lemma != "-" for lemma in columns[6])
                for column in (columns[10], *predicates):
                    assert all(
                        re.fullmatch(r"(\([A-Z0-9_-]+)?\*\)?", cell) for cell in column
                    )  # flat: no nesting
                    assert re.fullmatch(r"(\*|\([^()*]+\**\*\))*", "".join(column))
                for column in predicates:
                    heads = [i for i, cell in enumerate(column) if cell == "(V*)"]
                    assert [columns[6][i] != "-" for i in heads] == [True]


def test_coreference_clusters_have_two_mentions(root: Path) -> None:
    for document in documents(written(root, "coref")["train"]):
        opened, closed = Counter[str](), Counter[str]()
        for rows in document:
            for cell in (row[-1] for row in rows):
                opened.update(re.findall(r"\((\d+)", cell))
                closed.update(re.findall(r"(\d+)\)", cell))
                assert opened.keys() >= closed.keys()
            assert opened == closed
        assert all(times > 1 for times in opened.values())


def test_speakers_are_who_says_i(root: Path) -> None:
    said = Counter[int]()
    for i, document in enumerate(documents(written(root, "coref", size=LARGE)["train"])):
        clusters = defaultdict(set)
        for row in (row for rows in document for row in rows):
            if row[3] in ("I", "me") and row[9] != "-":
                clusters[row[9]].add(row[-1])
                said[i] += 1
        assert all(len(own) == 1 for own in clusters.values())
        assert len(set.union(set(), *clusters.values()) - {"-"}) == len(
            [own for own in clusters.values() if own != {"-"}]
        )
    assert len(said) > 3


def test_srl_has_continued_and_relative_arguments(root: Path) -> None:
    text = written(root, "srl", size=LARGE)["train"]
    for label in (
        "ARG0",
        "ARG1",
        "ARG2",
        "ARGM-TMP",
        "ARGM-LOC",
        "ARGM-MNR",
        "ARGM-NEG",
        "R-ARG0",
        "C-ARG1",
    ):
        assert f"({label}*" in text


def _sst(text: str) -> tuple[int, list[str], list[int]]:
    """Label, words and all labels of a bracketed tree."""
    words: list[str] = []
    labels: list[int] = []

    def parse(tokens: list[str]) -> int:
        assert tokens.pop(0) == "("
        label = int(tokens.pop(0))
        labels.append(label)
        if tokens[0] == "(":
            parse(tokens), parse(tokens)
        else:
            words.append(tokens.pop(0))
        assert tokens.pop(0) == ")"
        return label

    tokens = re.findall(r"[()]|[^\s()]+", text)
    root = parse(tokens)
    assert not tokens
    return root, words, labels


def test_sst_trees(root: Path) -> None:
    lines = written(root, "sst5")["train"].splitlines()
    roots, words, labels = zip(*map(_sst, lines), strict=True)
    assert {label for node in labels for label in node} == {0, 1, 2, 3, 4}
    assert max(Counter(roots).values()) < 0.3 * len(roots)
    assert all(len(sentence) >= 3 for sentence in words)


def test_snli_labels_balance_even_given_negation(root: Path) -> None:
    pairs = [json.loads(line) for line in written(root, "snli", size=LARGE)["train"].splitlines()]
    labels = Counter(pair["gold_label"] for pair in pairs)
    assert 0 < labels.pop("-") < 0.1 * len(pairs)
    assert max(labels.values()) < 1.15 * min(labels.values())
    negated = [pair for pair in pairs if re.search(r"\bnot\b|n't|\bnever\b", pair["sentence2"])]
    for some in (negated, [pair for pair in pairs if pair not in negated]):
        assert max(Counter(pair["gold_label"] for pair in some).values()) < 0.45 * len(some)
    for pair in pairs:
        for i in "12":
            leaves = re.findall(r"[^\s()]+", pair[f"sentence{i}_binary_parse"])
            assert leaves == re.findall(r" ([^\s()]+)\)", pair[f"sentence{i}_parse"])
            assert "".join(leaves) == pair[f"sentence{i}"].replace(" ", "")
        assert pair["sentence1"] != pair["sentence2"]


def test_squad_offsets(root: Path) -> None:
    several = 0
    for split, text in written(root, "squad", size=LARGE).items():
        corpus = json.loads(text)
        assert corpus["version"] == "1.1"
        paragraphs = [
            paragraph for article in corpus["data"] for paragraph in article["paragraphs"]
        ]
        identities = [qa["id"] for paragraph in paragraphs for qa in paragraph["qas"]]
        assert len(identities) == len(set(identities)) > 3 * len(paragraphs)
        for paragraph in paragraphs:
            context = paragraph["context"]
            for qa in paragraph["qas"]:
                assert qa["question"].endswith("?")
                several += split != "train" and len(qa["answers"]) > 1
                assert split != "train" or len(qa["answers"]) == 1
                for answer in qa["answers"]:
                    start, end = (
                        answer["answer_start"],
                        answer["answer_start"] + len(answer["text"]),
                    )
                    assert context[start:end] == answer["text"] != ""
                    assert not context[start - 1 : start].isalnum()
                    assert not context[end : end + 1].isalnum()
    assert several > 5


def test_raw_text_is_tokenised_sentences(root: Path) -> None:
    lines = written(root, "lm")["train"].splitlines()
    assert all(line.split()[-1] in (".", "?", '"') for line in lines)
    assert 8 < sum(len(line.split()) for line in lines) / len(lines) < 14
