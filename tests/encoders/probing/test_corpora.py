"""Which labels a file's format gives, and what is said of a cell that is wrong."""

import pytest

from elmo_bench.encoders.probing import properties, read

CONLLU = [
    "# text = I can't swim .",
    "1\tI\t_\tPRON\t_\t_\t4\t_\t_\t_",
    "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_",
    "2\tca\t_\tAUX\t_\t_\t4\t_\t_\t_",
    "3\tn't\t_\t_\t_\t_\t4\t_\t_\t_",
    "3.1\tx\t_\tX\t_\t_\t_\t_\t_\t_",
    "4\tswim\t_\tVERB\t_\t_\t0\t_\t_\t_",
    "5\t.\t_\tPUNCT\t_\t_\t4\t_\t_\t_",
]


def written(path, lines):
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_conllu(tmp_path):
    """Punctuation has no head of its own, a word that no UPOS names no part of speech."""
    (sentence,) = read(written(tmp_path / "a.conllu", CONLLU))
    assert sentence.words == ["I", "ca", "n't", "swim", "."]
    assert sentence.labels == {
        "pos": ["PRON", "AUX", None, "VERB", "PUNCT"],
        "head": [4, 4, 4, 0, None],
    }
    bare = [line.replace("\t4\t", "\t_\t").replace("\t0\t", "\t_\t") for line in CONLLU]
    (sentence,) = read(written(tmp_path / "b.conllu", bare))
    assert sentence.labels["head"] == [None] * 5
    assert properties([sentence], [sentence]) == ["pos"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "VERB\t_\t_\t0",
            "VERB\t_\t_\t4",
            r"a.conllu:7: HEAD '4', but a head must be the number of ",
        ),
        ("AUX\t_\t_\t4", "AUX\t_\t_\t6", r"a.conllu:4: HEAD '6', but .* 1 to 5, or 0 for the root"),
        ("AUX\t_\t_\t4", "AUX\t_\t_\t_", r"a.conllu:4: HEAD '_', but"),
        ("AUX\t_\t_\t4", f"AUX\t_\t_\t{'9' * 5000}", r"a.conllu:4: HEAD '99"),
        ("2\tca\t", "3\tca\t", r"a.conllu:4: ID 3, but 2 must come next"),
        ("3.1\tx", "4.1\tx", r"a.conllu:6: ID 4.1, but 3 must come next"),
        ("2\tca\t", "2\tca\tx\t", r"a.conllu:4: 11 columns, but CoNLL-U has 10"),
    ],
)
def test_a_wrong_head(tmp_path, old, new, said):
    lines = [line.replace(old, new) for line in CONLLU]
    with pytest.raises(ValueError, match=said):
        [*read(written(tmp_path / "a.conllu", lines))]


def test_columns(tmp_path):
    """Four as in CoNLL-2003, two with the word and its entity; IOB1 is IOB2 then."""
    rows = ["-DOCSTART- -X- O O", "", "Ann NNP I-NP I-PER", "Bo NNP I-NP B-PER", "saw VBD I-VP O"]
    (sentence,) = read(written(tmp_path / "a.txt", rows))
    assert sentence.words == ["Ann", "Bo", "saw"]
    assert sentence.labels == {
        "entity": ["B-PER", "B-PER", "O"],
        "pos": ["NNP", "NNP", "VBD"],
        "chunk": ["B-NP", "I-NP", "B-VP"],
    }
    (sentence,) = read(written(tmp_path / "b.txt", ["# O", "it I-LOC"]))
    assert sentence == (["#", "it"], {"entity": ["O", "B-LOC"]})
    (sentence,) = read(written(tmp_path / "c.txt", ["a _ O O", "b _ O I-LOC"]))
    assert properties([sentence], [sentence]) == ["entity"]  # the others say nothing
    with pytest.raises(
        ValueError, match=r"d.txt:2: tag 'LOC', but a tag must be O, B-TYPE or I-TYPE"
    ):
        [*read(written(tmp_path / "d.txt", ["a O", "b LOC"]))]
    with pytest.raises(ValueError, match=r"e.txt:2: tag 'NP', but"):
        [*read(written(tmp_path / "e.txt", ["a DT B-NP O", "b NN NP O"]))]


def test_conll2012(tmp_path):
    rows = [
        "d 0 0 Ann NNP * - - - - (PERSON) (ARG0*) -",
        "d 0 1 saw VBD * see 01 - - * (V*) -",
        "d 0 2 - : * - - - - * * -",
    ]
    lines = ["", "#begin document (d); part 000", *rows, "", "#end document"]
    (sentence,) = read(written(tmp_path / "a", lines))
    assert sentence.labels == {
        "pos": ["NNP", "VBD", ":"],
        "entity": ["B-PERSON", "O", "O"],
        "sense": [None, ("see", "01"), None],
    }
    with pytest.raises(ValueError, match=r"b:3: \(PERSON\* in column \d+ is not closed"):
        [*read(written(tmp_path / "b", [line.replace("(PERSON)", "(PERSON*") for line in lines]))]
