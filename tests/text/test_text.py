import gzip
import itertools
import json
import time

import pytest

from elmo_bench.lm.model import _read_vocabulary
from elmo_bench.text import (
    Span,
    Vocab,
    read_blocks,
    read_conllu,
    read_lines,
    read_sentences,
    read_vectors,
    spans_to_bioul,
    spans_to_iob2,
    tags_to_spans,
    tokenize,
)
from elmo_bench.text.sentences import part_sentences, text_files


@pytest.mark.parametrize(
    ("tags", "bioul"),
    [
        ("I-A I-A B-A I-A O", "B-A L-A B-A L-A O"),
        ("I-P O I-P B-P B-P", "U-P O U-P U-P U-P"),
        ("B-P I-P O B-P B-P", "B-P L-P O U-P U-P"),
        ("I-P I-L I-L", "U-P B-L L-L"),
        ("B-creative-work I-creative-work", "B-creative-work L-creative-work"),
        ("O O", "O O"),
    ],
)
def test_schemes(tags, bioul):
    tags, bioul = tags.split(), bioul.split()
    spans = tags_to_spans(tags)
    assert spans_to_bioul(spans, len(tags)) == bioul
    assert tags_to_spans(bioul) == spans
    assert tags_to_spans(spans_to_iob2(spans, len(tags))) == spans


def test_golden_iob1_to_bioul(shared_fixtures):
    cases = json.loads((shared_fixtures / "derived" / "expected_parse.json").read_text())[
        "iob1_to_bioul"
    ]
    for case in cases:
        assert spans_to_bioul(tags_to_spans(case["iob1"]), len(case["iob1"])) == case["bioul"]


def test_golden_chunks(shared_fixtures):
    """Our own conlleval rules against seqeval's default mode, invalid sequences included."""
    for case in json.loads((shared_fixtures / "derived" / "span_f1.json").read_text())["cases"]:
        for side in ("gold", "pred"):
            assert tags_to_spans(case[side]) == [Span(*span) for span in case[f"{side}_spans"]]


def test_columns(tmp_path):
    path = tmp_path / "x.conll.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(
            "-DOCSTART- -X- O\n\na _ O\nb  c   d\n\n\n-DOCSTART-\n\ne\tf\tg h\n\t\tO\n\t\nh\ti\tj\n"
        )  # WNUT-17 ends sentences by tabs
    blocks = [[row.columns for row in block] for block in read_blocks(path)]
    assert blocks == [
        [["a", "_", "O"], ["b", "c", "d"]],
        [["e", "f", "g h"], ["", "", "O"]],
        [["h", "i", "j"]],
    ]


@pytest.mark.parametrize("blank", ["", " ", "\t", "\t \t"])
def test_a_line_of_white_space_is_empty(tmp_path, blank):
    blocks = read_blocks(write(tmp_path / "x.txt", f"a\tO\n{blank}\nb\tO\n".encode()))
    assert [[row.line for row in block] for block in blocks] == [[1], [3]]


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"alone\n", r"x.txt:1: 1 column, but there must be word and tag: 'alone'"),
        (b"a O\nb O O\n", r"x.txt:2: 3 columns, but the lines before have 2: 'b O O'"),
    ],
)
def test_bad_columns(tmp_path, content, said):
    with pytest.raises(ValueError, match=said):
        list(read_blocks(write(tmp_path / "x.txt", content)))


def by_word(path, wanted=None):
    rows, table = read_vectors(path, wanted)
    assert not table[0].any()
    return {word: table[row].tolist() for word, row in rows.items()}


READERS = {
    "x.conll": lambda path: [[row.columns for row in rows] for rows in read_blocks(path)],
    "x.conllu": lambda path: [[row.columns for row in each.rows] for each in read_conllu(path)],
    "x.txt": lambda path: list(read_sentences(path)),
    "x.jsonl": lambda path: list(read_sentences(path)),
    "x.vec": lambda path: by_word(path, {"Ann", "Bo"}),
    "x.table": lambda path: by_word(path),
    "x.vocabulary": _read_vocabulary,
}  # fmt: skip
WHOLE = {
    "x.conll": "-DOCSTART- O\n\nAnn B-X\nruns O\n\nBo B-X\n\n",
    "x.conllu": "# text\n1\tAnn{0}\n2\truns{0}\n\n1\tBo{0}\n\n".format("\t_" * 8),
    "x.txt": "Ann runs\nBo\n",
    "x.jsonl": '["Ann", "runs"]\n["Bo"]\n',
    "x.vec": "Ann 1 2\nBo 3 4\n",
    "x.table": "Ann 1 2\nBo 3 4\n",
    "x.vocabulary": "<S>\n</S>\n<UNK>\nAnn\n",
}


@pytest.mark.parametrize("name", READERS)
def test_lines_end_in_the_same_way_for_each_reader(tmp_path, name):
    """With a line feed, alone or after a carriage return: all else is said, or is no end."""
    read, whole, count = READERS[name], WHOLE[name], WHOLE[name].count("\n")
    content = read(write(tmp_path / name, whole.encode()))
    assert content

    def with_end(end, number):
        parts = whole.split("\n")
        return "\n".join(parts[:number]) + end + "\n".join(parts[number:])

    of_windows = whole.replace("\n", "\r\n")
    for other in (of_windows, of_windows[:-2], f"\ufeff{whole}", with_end("\r\n", 1)):
        assert read(write(tmp_path / name, other.encode())) == content
    for end, number in itertools.product(("\ra", "\r\r\n"), range(1, count)):
        with pytest.raises(ValueError, match=rf"{name}:{number}: a carriage return behind '"):
            read(write(tmp_path / name, with_end(end, number).encode()))
    for wrong in (whole.replace("\n", "\r"), of_windows[:-1]):
        with pytest.raises(ValueError, match=rf"{name}:\d: a carriage return behind '"):
            read(write(tmp_path / name, wrong.encode()))
    if name != "x.vocabulary":  # ours, and any string is a word
        with pytest.raises(ValueError, match=rf"{name}:{count + 1}: the line begins with a byte"):
            read(write(tmp_path / name, f"{whole}\ufeff{whole}".encode()))


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1e", "\ufeff"])
def test_other_breaks_are_characters_of_a_word(tmp_path, mark):
    word = f"A{mark}n"
    for name in ("x.conll", "x.conllu", "x.table", "x.vocabulary"):
        path = write(tmp_path / name, WHOLE[name].replace("Ann", word).encode())
        assert repr(word)[1:-1] in repr(READERS[name](path))
    (line, *_) = read_lines(write(tmp_path / "x", f"a{mark}b\nc\n".encode()))
    assert line == (1, f"a{mark}b")


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file"):
        list(read_lines(tmp_path / "nowhere"))
    whole = gzip.compress(b"line\n" * 1000)
    with pytest.raises(ValueError, match="damaged gzip file"):
        list(read_lines(write(tmp_path / "half.gz", whole[: len(whole) // 2])))
    with pytest.raises(ValueError, match=r"no.gz: it is not gzipped: name it without .gz"):
        list(read_lines(write(tmp_path / "no.gz", b"PK" + whole)))
    with pytest.raises(ValueError, match=r"two.gz: it is gzipped twice: gunzip it once"):
        list(read_lines(write(tmp_path / "two.gz", gzip.compress(whole))))
    for place in range(10, len(whole)):  # behind the header, any byte
        broken = whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
        with pytest.raises(ValueError, match=r"broken.gz"):
            list(read_lines(write(tmp_path / "broken.gz", broken)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a  1 2\nb 1 2\n", r"v.txt:(1: ''|2: a vector of 2 numbers)"),
        (b"b 1 2\na  1 2\n", r"v.txt:2: a vector of 3 numbers"),
        (b"b 1 2\na 1 0_5\n", r"v.txt:2: '0_5' is not a finite number"),
        (b"b 1 2\na 1 nan\n", r"v.txt:2: 'nan' is not a finite number"),
        (b"b 1 2\na 1 -1e39\n", r"v.txt:2: '-1e39' is not a finite number"),
        ("b 1 2\na 1 ٥\n".encode(), r"v.txt:2: '٥' is not"),
        (b"b 1 2\nb 1 2a 1 2\n", r"v.txt:2: a vector of 4 numbers"),
        (b"b 1 2 3\nb 4 1 2 3\n", r"v.txt:2: a vector of 4 numbers, but a line must be a word and 3"),
        (b"b 1 2\na 1\n", r"v.txt:2: a vector of 1 number,"),
        (b"b 1 2\n1 2\n", r"v.txt:2: a vector of 1 number,"),  # no header, in line 2
        (b"b 1 2\na\n", r"v.txt:2: a vector of 0 numbers"),
        (b"3 2\na 1 2\nb 1 2\n", r"v.txt: its first line says 3 vectors, but the file has 2"),
        (b"2 3\na 1 2\nb 1 2\n", r"v.txt:2: a vector of 2 numbers, but a line must be a word and 3"),
        (b"b 1 2\ncaf\xe9 1 2\na 1 2\n", r"v.txt:2: byte 0xe9 is not UTF-8 text: if it is Latin-1"),
    ],
)  # fmt: skip
def test_vectors_that_are_none(tmp_path, content, message):
    """Also in lines of words that nobody wants, where the fields tell."""
    path = write(tmp_path / "v.txt", content)
    for wanted in ({"a"}, None):
        with pytest.raises(ValueError, match=message):
            read_vectors(path, wanted)


def test_vectors_of_all_words_and_of_some(tmp_path):
    """With a header and spaces at the ends, tabs, empty lines, spaces within words, U+FEFF."""
    for content in (
        "4 3\na 1 2 3 \nb\u00a0c 3 4 5 \n. . . 5 6 7 \n\ufeffx 7 8 9 \n\n",
        "a\t1\t2\t3\n\nb\u00a0c 3 4 5\n. . . 5 6 7\nx\ufeff 7 8 9",
    ):
        path = write(tmp_path / "v.txt", content.encode())
        vectors = by_word(path)
        assert vectors["a"] == [1, 2, 3]
        assert len(vectors) == 4
        assert by_word(path, {*vectors, "not there"}) == vectors
        assert by_word(path, {". . .", "dog"}) == {". . .": [5, 6, 7]}
        assert by_word(path, {"dog"}) == {}


def test_the_lines_of_other_words_are_not_split(tmp_path):
    """Nor their numbers read: of two million lines a corpus wants some thousand."""
    path = write(tmp_path / "v.txt", b"the 1 2\nno x y\nat .com 3 4\n\xc3\xa9t\xc3\xa9 5 6\n")
    assert by_word(path, {"at .com", "\u00e9t\u00e9", "at", "half \ud83d"}) == {
        "at .com": [3, 4],
        "\u00e9t\u00e9": [5, 6],
    }


def test_vocab():
    vocab = Vocab.build([["A", "a", "b"], ["c"]], ["B-X", "O"], min_count=2, keep=["c", "z"])
    assert vocab.words == ["a", "c", "z"]
    assert [vocab.word_id(w) for w in ("a", "A", "b", "z")] == [2, 2, 1, 4]
    assert vocab.labels == ["O", "B-X"]
    with pytest.raises(ValueError, match="label 'B-Y' does not occur in the training data"):
        vocab.label_id("B-Y")
    assert Vocab(**vocab.state()).state() == vocab.state()


def test_a_word_without_a_vector_as_it_stands_is_looked_up_in_lower_case():
    sentences = [["US", "us", "The", "the", "Foo", "foo"]]
    vocab = Vocab.build(sentences, [], keep=["US", "the"], lowercase="fallback")
    words = {word: vocab.word_id(word) for word in ("US", "us", "The", "the", "Foo", "foo", "Bar")}
    assert len({words["US"], words["us"], words["the"], words["foo"], words["Bar"]}) == 5
    assert (words["The"], words["Foo"], words["Bar"]) == (words["the"], words["foo"], 1)
    assert Vocab(**vocab.state()).word_id("US") == words["US"]


def test_sentences(tmp_path):
    """A line each, blank ones too; in JSON lines any string is a token."""
    (tmp_path / "a.txt").write_text(" a  b\t\n\n c", encoding="utf-8")
    assert list(read_sentences(tmp_path / "a.txt")) == [["a", "b"], [], ["c"]]
    (tmp_path / "a.jsonl").write_text('["", "a b"]\n[]\n["\\u2028"]\n', encoding="utf-8")
    assert list(read_sentences(tmp_path / "a.jsonl")) == [["", "a b"], [], ["\u2028"]]
    (tmp_path / "b.jsonl").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ValueError, match=r"b.jsonl:1: lists and objects are nested too deep"):
        list(read_sentences(tmp_path / "b.jsonl"))


def test_quotes_and_sentences():
    def parted(line):
        return "|".join(" ".join(sentence) for sentence in part_sentences(tokenize(line)))

    assert parted('He left. "No," she said. "Stay."') == 'He left .|" No , " she said .|" Stay . "'
    several = '" He is tall ! "|" What ? "|( So he is . )|Yes'
    assert parted('"He is tall!" "What?" (So he is.) Yes') == several


def test_files_of_a_folder(tmp_path):
    for name in (".DS_Store", ".cache/hub/a.txt.metadata", "a.txt", "b[1].txt", "c/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a b\n")
    assert text_files(tmp_path) == [tmp_path / name for name in ("a.txt", "b[1].txt", "c/d.txt")]
    assert text_files(tmp_path / "b[1].txt") == [tmp_path / "b[1].txt"]
    assert text_files(tmp_path / "a*") == [tmp_path / "a.txt"]
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "c").symlink_to(tmp_path / "c")
    assert text_files(tmp_path / "linked") == [tmp_path / "linked" / "c" / "d.txt"]


@pytest.mark.parametrize("piece", ['"', "[]", "“"])
def test_a_long_line_takes_time_by_its_length_alone(piece):
    """80 kB of quotes took nine seconds."""
    tokenize("")
    times = []
    for size in (2_000, 32_000):
        text = (piece * size)[:size]
        start = time.process_time()
        assert sum(map(len, part_sentences(tokenize(text)))) > size // 5
        times.append(time.process_time() - start)
    assert times[1] < 80 * times[0]  # a quadratic one takes 256 times as long


def test_what_took_minutes_takes_no_time(tmp_path):
    """Many digits beside a word that are no number."""
    start = time.process_time()
    words = "a " + "1" * 1_000_000 + "x"
    (tmp_path / "v.txt").write_text(f"the 1 2\n{words} 3 4\n")
    assert by_word(tmp_path / "v.txt", {words}) == {words: [3, 4]}
    assert time.process_time() - start < 5
