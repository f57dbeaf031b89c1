"""Which examples of each format belong together: the clusters of tests of differences."""

import json

import pytest

from elmo_bench.text import read_conllu
from elmo_bench.training.outputs import clusters
from tests.tasks.small_files import TREES, format_module

BEGIN, END = "#begin document ({}); part 00{}\n", "#end document\n"
SPOKEN = "{} {} 0 Hi UH * - - - - * -\n\n"
QUESTION = {"question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]}


def spoken(*documents):
    return "".join(
        BEGIN.format(name, part) + SPOKEN.format(name, part) * sentences + END
        for name, part, sentences in documents
    )


def articles(*articles):
    ids = iter("abcdefg")
    texts = [
        [{"context": "Ann", "qas": [QUESTION | {"id": next(ids)} for _ in range(n)]} for n in each]
        for each in articles
    ]
    return json.dumps({"data": [{"paragraphs": each} for each in texts]})


def pairs(*premises):
    keys = {"sentence2": "b", "gold_label": "neutral"}
    return "\n".join(json.dumps(keys | {"sentence1": each}) for each in premises)


HEAD, SENTENCE = "-DOCSTART- -X- O O\n\n", "Ann NNP O I-PER\n\n"


@pytest.mark.parametrize(
    ("task", "text", "numbers", "unit"),
    [
        ("ner", HEAD + 2 * SENTENCE + HEAD + SENTENCE, [0, 0, 1], "document"),
        ("ner", 2 * SENTENCE + HEAD + SENTENCE + HEAD, [0, 0, 1], "document"),
        ("ner", HEAD + 2 * SENTENCE, [0, 1], "sentence"),
        ("ner", 2 * SENTENCE, [0, 1], "sentence"),
        ("srl", spoken(("a", 0, 2), ("a", 1, 1), ("b", 0, 1)), [0, 0, 0, 1], "document"),
        ("srl", spoken(("a", 0, 2)), [0, 1], "sentence"),
        ("coref", spoken(("a", 0, 2), ("a", 1, 1), ("b", 0, 1)), [0, 0, 1], "document"),
        ("squad", articles((2, 1), (1,)), [0, 0, 0, 1], "article"),
        ("squad", articles((2, 1)), [0, 0, 1], "paragraph"),
        ("snli", pairs("a", "b", "a"), [0, 1, 0], "premise"),
        ("sst5", "(0 (1 a) (2 b))\n(3 c)\n", [0, 1], "tree"),
        ("pos", TREES + "\n#newdoc id = b\n" + TREES[9:], [0, 0, 1, 1], "document"),
        ("parse", TREES, [0, 1], "sentence"),
    ],
)
def test_the_clusters_of_a_file(tmp_path, task, text, numbers, unit):
    path = tmp_path / "some.txt"
    path.write_text(text)
    assert clusters(list(format_module(task).read(path))) == (numbers, unit)


def test_documents_of_conllu(tmp_path):
    path, word = tmp_path / "some.conllu", "1\ta" + 8 * "\t_" + "\n\n"
    path.write_text(f"# newdoc id = x\n# sent_id = 1\n{word}{word}#newdoc\n{word}# newdocs\n{word}")
    assert [each.rows[0].document for each in read_conllu(path)] == [1, 1, 2, 2]
