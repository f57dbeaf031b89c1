"""What the readers of the tasks refuse, by file and line: gold files, predictions, records."""

import gzip

import pytest

from tasks.squad.data import Answer
from tests.tasks.small_files import FILES, format_module


def changed(text, old, new):
    """A file with a change; with the new text alone if the old one is None."""
    assert old is None or old in text
    return new if old is None else text.replace(old, new, 1)


@pytest.mark.parametrize("task", FILES)
def test_packed_with_a_mark_and_with_other_ends_of_lines(tmp_path, task):
    whole, other = tmp_path / "whole", tmp_path / "other.gz"
    whole.write_text(FILES[task])
    text = "\ufeff" + FILES[task].replace("\n", "\r\n")
    other.write_bytes(gzip.compress(text.encode()))
    ours, theirs = ([*format_module(task).read(path)] for path in (whole, other))
    assert [(one.sentences, one.gold) for one in ours] == [
        (two.sentences, two.gold) for two in theirs
    ]


QUESTION = FILES["squad"].partition('"qas": [')[2].removesuffix("]}]}]}")
EMPTY = 8 * "\t_"  # cells of a multiword token
WRONG = [
    ("ner", "runs\tO", "runs\tB", ":2", "tag 'B', but a tag must be O, B-TYPE or I-TYPE"),
    ("ner", "runs\tO", "runs\tI-work of art", ":2", "tag 'I-work of art', but"),
    ("ner", "runs\tO", "\tO", ":2", "word '', but a word must not be empty or contain spaces"),
    ("ner", "runs\tO", "run s\tO", ":2", "word 'run s', but a word"),
    ("ner", "Bo\tB-PER", "Bo\tB-PER\u200b", ":4", r"tag 'B-PER\\u200b'"),  # it would be another
    ("srl", "(ARG0* *", "(ARG0*) *", ":3", r"'\*\)' in column 13, .* none is open"),
    ("srl", "(ARG1*) -", "(ARG1* -", ":15", r"\(ARG1\* in column \d+ is not closed"),
    ("srl", "*)       -", "(ARG1*)  -", ":5", r"'\(ARG1\*\)' .* R-ARG0 is open since line 4"),
    ("srl", "(R-ARG0*", "((ARG2*", ":4", r"'\(\(ARG2\*' in column 14, but a cell must be"),
    ("srl", "(V*)     -\n", "*        -\n", ":2", r"column 14, the arguments .*, has no \(V\*"),
    ("srl", "(R-ARG0* -", "(R-ARG0* * -", ":4", "16 columns, but .* 15, as line 2"),
    ("srl", "#end document\n", "", ":1", "has no #end document"),
    ("coref", "3)", "-", ":2", r"\(3 begins a mention that does not end in its sentence"),
    ("coref", "* 0)", "* 9)", ":3", r"9\) ends a mention that does not begin in this sentence"),
    ("coref", "(7)", "7", ":9", "coreference '7', but it must be"),
    ("coref", "(7)", "(7)|", ":9", r"coreference '\(7\)\|', but"),
    ("coref", "(7)", "(x)", ":9", r"coreference '\(x\)', but"),
    # Without waiting for hours, and with the beginning of the cell only.
    ("coref", "(7)", "(12)|" * 60, ":9", r"coreference '\(12\).{20,30}', but"),
    ("coref", "(7)", "1" * 1_000_000, ":9", r"coreference '1{5,}\.\.\.1{5,}', but"),
    ("coref", "nw/owls 1 0 It NN * - - - - * (7)\n", "", "", "nw/owls part 1 has no sentences"),
    ("coref", None, "#begin document (x)\nx (1)\n#end document\n", ":2", "2 columns, .* 12 or "),
    ("squad", None, "{", "", "not JSON, from character 2: Expecting property name"),
    ("squad", '"data"', '"date"', "", r"expected an object with 'data', but got \{'date'"),
    ("squad", None, '{"data": 3}', "", "'data' must be a list, but it is 3"),
    ("ner", None, "1 Anna B-PER\n2 left O\n", ":1", "column 1 numbers the words"),
    ("ner", None, "0 Go O\n\n0 Ann O\n1 ran O\n", ":3", "column 1 numbers the words"),
    ("ner", None, "1-2 du O\n1 de O\n2 le O\n", ":1", "column 1 numbers the words"),
    ("squad", "paragraphs", "p", r": data\[0\]", "expected an object with 'paragraphs'"),
    ("squad", "context", "c", r": data\[0\].paragraphs\[0\]", "expected an object with 'context'"),
    ("squad", '"id"', '"ID"', r": data\[0\].paragraphs\[0\].qas\[0\]", "an object with 'id'"),
    ("squad", '"What?"', "5", ": question x7", "'question' must be text, but it is 5"),
    ("squad", "What?", " ", ": question x7", "the question has no words: ' '"),
    ("squad", "The old mill burned.", " ", r": data\[0\].paragraphs\[0\]", "context has no words"),
    ("squad", '"answers"', '"x"', ": question x7", "expected an object with 'answers'"),
    ("squad", '{"text": "mill", "answer_start": 8}', "", ": question x7", "no answers, but in SQu"),
    ("squad", '{"text": "mill", "answer_start": 8}', '"a"', ": question x7", "with 'text', but"),
    ("squad", ', "answer_start": 8', "", ": question x7", "expected an object with 'answer_start'"),
    ("squad", "8}", '"8"}', ": question x7", "'answer_start' must be a whole number, .*'8'"),
    ("squad", "8}", "true}", ": question x7", "'answer_start' must be a whole number"),
    ("squad", "8}", "17}", ": question x7", "the answer 'mill' at 17 ends at 21, but .* 20 ch"),
    ("squad", QUESTION, f"{QUESTION}, {QUESTION}", ": question x7", "this id occurs twice"),
    ("squad", "8}", "-2}", ": question x7", "the answer 'mill' at -2"),
    ("squad", '"mill"', '""', ": question x7", "the answer '' at 8"),
    ("squad", '"mill", "answer_start": 8', '" ", "answer_start": 7', ": question x7", "answer ' '"),
    ("snli", None, "premise\thypothesis", ":1", "not JSON, from character 1"),
    ("snli", None, "[1, 2]", ":1", r"'\[1, 2\]', but each line must be a JSON object"),
    ("snli", '"neutral"', '"maybe"', ":1", r"gold_label 'maybe', .* \['contradiction', .*'-'\]"),
    ("snli", '"gold_label": "neutral"', '"x": 1', ":1", "gold_label None"),
    ("snli", ', "sentence2": "Snow"', "", ":1", "'sentence2' must be a string or a list .* None"),
    ("snli", '"Rain"', '["a", 2]', ":1", r"'sentence1' .* \['a', 2\]"),
    ("snli", '"Rain"', r'["a\n"]', ":1", "'sentence1' .* without tabs or ends of lines, and"),
    ("snli", '"( Two boats )"', "[]", ":2", r"'sentence1' .* its parse a string, .* and \[\]"),
    ("snli", "( Two boats )", "( ( Two boats )", ":2", "the binary parse .* as many"),
    ("snli", "( Two boats )", "(Two boats)", ":2", r"parse '\(Two boats\)', .* spaces around it"),
    ("sst5", "queue))", "queue)", ":2", "1 bracket not closed; the line ends"),
    ("sst5", "queue))", "queue)) (2 a)", ":2", r"'\(2 a\)' at character 22"),
    ("sst5", None, "This soup\n", ":1", "'This' at character 1"),
    ("sst5", None, ")", ":1", r"'\)' at character 1"),
    ("sst5", None, "(3 This soup)", ":1", "'This' at character 4"),
    ("sst5", None, "(3 (2 This) soup)", ":1", "'soup' at character 13"),
    ("sst5", None, "(3 (2 This) ())", ":1", r"'\(' at character 13"),
    ("sst5", None, "(3 (2 This) (2 ))", ":1", r"'\)' at character 16"),
    ("sst5", None, "(5 Bravo)", ":1", r"'\(' at character 1, .* labels 0 to 4"),
    ("sst5", "(2 No)", "(2 N\to)", ":2", r"'N\\to' at character 7, .* without tabs"),
    ("pos", "\tPRON", "\t_", ":3", "column 4, to be learnt, is empty"),
    *(
        ("pos", "\n3\ta\t", f"\n3\t{form}\t", ":5", "the form .column 2. is empty, or only white")
        for form in ("", " ", "\u00a0")
    ),
    ("pos", "1-2", "1-5", ":2", "the multiword token 1-5 ends at word 5, but its sentence has 4 w"),
    (
        "pos",
        "\n2\t's",
        f"\n2-3\tsa{EMPTY}\n2\t's",
        ":4",
        "2-3 overlaps 1-2 in line 2, but each",
    ),
    ("pos", "\n4\t", f"\n4-3\ta{EMPTY}\n4\t", ":6", "the multiword token 4-3 ends before it"),
    ("pos", "\n3\ta\t", "\n3 a\t", ":5", "9 columns, but CoNLL-U has 10, separated by tabs"),
    ("pos", "\n3\ta\t", "\n4\ta\t", ":5", "ID '4', but 3 must come next"),
    ("parse", "DET\t_\t_\t4", "DET\t_\t_\t-1", ":3", ", 4 4 -1 0, are no tree"),
    ("parse", "DET\t_\t_\t4", "DET\t_\t_\t", ":5", "column 7, to be learnt, is empty"),
    ("parse", "DET\t_\t_\t4", "DET\t_\t_\t3", ":3", "are no tree: one word must have"),
    *((task, None, "", "", "the file is empty") for task in FILES),
]


@pytest.mark.parametrize(("task", "old", "new", "where", "message"), WRONG)
def test_wrong_gold_files(tmp_path, task, old, new, where, message):
    path = tmp_path / "gold"
    path.write_text(changed(FILES[task], old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{path}{where}: .*{message}"):
        list(format_module(task).read(path))


# Predictions, written by the task as its gold


@pytest.fixture
def written(tmp_path):
    def written(task):
        """The examples of a task's file, and the file of their gold answers."""
        (tmp_path / "gold").write_text(FILES[task])
        examples, path = list(format_module(task).read(tmp_path / "gold")), tmp_path / "predicted"
        answers = [Answer(one.gold[0]) if task == "squad" else one.gold for one in examples]
        format_module(task).write(examples, answers, path)
        assert format_module(task).read_predictions(path, examples) == answers
        return examples, path

    return written


MISFITS = [
    ("ner", "\nBo B-PER B-PER\n", "", "", "1 prediction, but the gold file has 2 examples"),
    ("ner", "runs O O\n", "", ":1", "the sentence 'Ann', but .*gold:1 has 'Ann runs'"),
    ("ner", "runs O O", "runs O B", ":2", "tag 'B', but a tag must be"),
    ("srl", "- * *\nleave", "leave", ":1", "a sentence of 5 words .*, but .*:2 has 6"),
    ("srl", "leave * (V*)", "leave *", ":1", r"\[2, 3\] columns, but .*:2 .* so 3 columns"),
    ("srl", "wind (V*) *)\n- ", "- (V*) *)\nwind ", ":1", r"at \[2, 5\] .*, but .*:2 .* \[1, 5\]"),
    ("srl", "(ARG1*) *\n", "ARG1 *\n", ":3", r"'ARG1' in column 2"),
    ("srl", "- (ARG1*)\n\n", "- (ARG1*)\n\n- *\n", "", "6 predictions, but the gold file has 5 ex"),
    ("srl", "\nx (V*)\n- *\n- *\n- (ARG1*)\n", "", "", "4 predictions, but the gold file has 5"),
    ("coref", "nw/owls\t0\t2\tleft\t-\t*\t-\t-\t-\tAnn\t*\t1)\n", "", ":2", r"\(1 begins"),
    ("squad", '"x7": "mill"', "", "", "no answer to 1 of 1 question, such as 'x7'$"),
    (
        "squad",
        '"x7"',
        '"b": "", "x7"',
        "",
        "1 answer to no question of the gold file, such as 'b'$",
    ),
    ("squad", '"mill"', "null", "", "'x7' must be text, but it is None"),
    ("squad", None, '["a"]', "", r"'\[\"a\"\]', but this file must contain a JSON object"),
    ("snli", "\tSnow", "\tRain", ":1", "Rain', but .* and the words of .*gold:1"),
    ("snli", "neutral\tRain", "1\tRain", ":1", "one of contradiction, entailment, neutral, and"),
    ("sst5", "\n1\t1\tNo queue", "", "", "1 prediction, but the gold file has 2 examples"),
    ("sst5", "3\t3", "3\tpositive", ":1", "one of 0, 1, 2, 3, 4, and .*; check that task.classes"),
    ("sst5", "3\t3", "positive\t3", ":1", "columns: 3, one of"),
    ("sst5", "1\t1\tNo queue", "1\t1", ":2", "these columns"),
    ("sst5", "No queue", "No queue\tmore", ":2", "these columns"),
    ("pos", "mill pond", "millpond", ":3", 'a millpond", but .*gold:3 has "It \'s a mill pond'),
    ("parse", "\tpunct", "\t_", ":10", "column 8, to be learnt, is empty"),
    *((task, None, "", "", "the file is empty") for task in FILES),
]


@pytest.mark.parametrize(("task", "old", "new", "where", "message"), MISFITS)
def test_predictions_that_do_not_fit(written, task, old, new, where, message):
    examples, path = written(task)
    path.write_text(changed(path.read_text(), old, new))
    with pytest.raises(ValueError, match=f"^{path}{where}: .*{message}"):
        format_module(task).read_predictions(path, examples)


def test_predictions_of_more_examples(written):
    examples, path = written("coref")
    with pytest.raises(ValueError, match=f"^{path}: 2 predictions, but the gold file has 1 ex"):
        format_module("coref").read_predictions(path, examples[:1])
    said = r"are \('nw/owls', 0, \[3, 1\]\), but .*:9 has \('nw/owls', 1, \[1\]\)"
    with pytest.raises(ValueError, match=f"^{path}:2: .*{said}"):
        format_module("coref").read_predictions(path, examples[::-1])


# Records without labels


RECORDS = [
    *(
        ("sst5", record, "a record must have 'tokens'")
        for record in ({}, {"tokens": None}, {"tokens": [1]}, {"tokens": []}, {"text": " "})
    ),
    *((task, {"tokens": ""}, "a record must have 'tokens'") for task in ("ner", "pos", "parse")),
    ("srl", {"tokens": ["a", "b"]}, "predicate None of .* must be a position, 0 to 1"),
    *(
        ("srl", {"tokens": ["a", "b", "a"], "predicate": wrong}, "predicate .* a list of positions")
        for wrong in (3, -1, True, [], "a", "c")
    ),
    ("snli", {"premise": "a", "hypothesis": "b"}, "'sentence1'"),
    ("squad", {"question": "Who?"}, "expected an object with 'context'"),
    ("squad", {"context": "Ann.", "question": ["Who", "?"]}, "'question' must be text"),
    ("squad", {"context": "", "question": "Who?"}, "the context has no words: ''"),
    ("squad", {"context": "Ann.", "question": ""}, "the question has no words: ''"),
    *(
        ("coref", record, "a record must have sentences, a list of non-empty lists of words, or")
        for record in (
            *({}, {"sentences": [["a"]], "text": "a"}, {"sentences": [["a"]], "speaker": ["b"]}),
            *({"sentences": wrong} for wrong in ([], [["a"], []], ["a b"], [["a", 1]], None, 3)),
            *({"text": wrong} for wrong in (" \n", ["a"])),
            *({"sentences": [["a"]], "speakers": wrong} for wrong in (["b", "c"], [1])),
        )
    ),
]


@pytest.mark.parametrize(("task", "record", "message"), RECORDS)
def test_wrong_records(task, record, message):
    with pytest.raises(ValueError, match=rf"^in\.jsonl:9: .*{message}"):
        format_module(task).parse(record, "in.jsonl:9")
