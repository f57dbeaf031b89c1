"""Which labels a file's format gives, and what is said of a cell that is wrong."""

import pytest

from elmo_bench.probing import properties, read

CONLLU = [
    "# text = I can't swim .",
    "1\tI\t_\tPRON\t_\t_\t4\t_\t_\t_",
    "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_",
    "2\tca\t_\tAUX\t_\t_\t4\t_\t_\t_",
    "3\tn't\t_\t_\t_\t_\t4\t_\t_\t_",
]


def written(path, lines):
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_conllu(tmp_path):
    """A word that no UPOS names has no part of speech."""
    (sentence,) = read(written(tmp_path / "a.conllu", CONLLU))
    assert sentence == (["I", "ca", "n't"], {"pos": ["PRON", "AUX", None]})
    with pytest.raises(ValueError, match=r"b.conllu:3: ID '3', but 2 must come next"):
        [*read(written(tmp_path / "b.conllu", [*CONLLU[:2], CONLLU[-1]]))]


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
    # Without names, a part of the same document says that it has none, another one nothing.
    others = [line.replace("(PERSON)", "*").replace("part 000", "part 001") for line in lines]
    others = [line.replace("d 0 ", "d 1 ") for line in others]
    others += [line.replace("d 1 ", "e 1 ").replace("(d)", "(e)") for line in others]
    sentence, *more = read(written(tmp_path / "a", [*lines, *others]))
    assert [each.labels["entity"] for each in more] == [["O"] * 3, [None] * 3]
    assert sentence.labels == {
        "pos": ["NNP", "VBD", ":"],
        "entity": ["B-PERSON", "O", "O"],
        "sense": [None, ("see", "01"), None],
    }
    with pytest.raises(ValueError, match=r"b:3: \(PERSON\* in column \d+ is not closed"):
        [*read(written(tmp_path / "b", [line.replace("(PERSON)", "(PERSON*") for line in lines]))]
