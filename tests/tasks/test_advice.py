"""Who does what a message about a file says has a file that reads as it was meant."""

import codecs
import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_bench.files import read_json
from elmo_bench.jobs.predict import _check_text, _records
from elmo_bench.text import read_conllu, read_vectors
from tasks.classify import data as classify
from tasks.ner import data as ner

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = re.compile(r"\b(?:awk|cut|iconv|python|sed|tr) .*? > NEW[.\w]*")
IN_A_CELL = '(within a cell of a table, with " " in place of "\\n")'
TAGGED = "Zoë B-PER\nleft O\n\nTom B-PER\n"
TABLE = "label\ttext\nnews\tZoë opened a shop.\nreview\tIt is so, so dull; a lamp is not.\n"
ROWS = TABLE.partition("\n")[2]
COMMAS = 'label,text\nnews,Zoë opened a shop.\nreview,"It is so, so dull; a lamp is not."\n'
VECTORS = "Zoë 1 2\nleft 3 4\n"
JSON = '{"a":\n"Zoë"}\n'
NUMBERED = """\
# text = Zoë is there
1\tZoë\tB-PER\t-
2-3\tisn't\tO\t-
2\tis\tO\t-
3\tn't\tO\t-

1\tTom\tB-PER\t-
"""
WORDS = "1\tZoë{0}\n2\tleft{0}\n\n1\tTom{0}\n".format("\t_" * 8)


def tagged(path, **_):
    return [(example.words, example.gold) for example in ner.read(path)]


def table(path, **columns):
    return [(example.texts, example.gold) for example in classify.read(path, **columns)]


def pair(path, **columns):
    """As `table`, of texts that stand in two columns."""
    return table(path, **{"text2": "other"} | columns)


def vectors(path, **_):
    rows, numbers = read_vectors(path, {"left", "Tom"})
    return {word: numbers[row].tolist() for word, row in rows.items()}


def conllu(path, **_):
    return [sentence.words for sentence in read_conllu(path)]


def predicted(path, **_):
    records = _records(path)
    _check_text(str(path), records, is_pair=False)
    return records


def joined_with_a_mark(text):
    return f"{text}\n\ufeff{text}"


# The reader, the name of the file, its bytes, and a text that says what they mean (None: nobody can
# tell how a converted file reads in this way, but it does).
WRONG = [
    *(
        (reader, name, text.replace("\n", end).encode(), text)
        for reader, name, text in (
            (tagged, "x.txt", TAGGED),
            (table, "x.tsv", TABLE),
            (table, "x.csv", COMMAS),
            (conllu, "x.conllu", f"{WORDS}\n"),
            (vectors, "x.vec", VECTORS),
        )
        for end in ("\r", "\r\r\n")
    ),
    (tagged, "x.txt", TAGGED.replace("\n", "\r\n").replace("O\r\n\r\n", "O\r\r").encode(), TAGGED),
    (tagged, "x.txt", TAGGED.replace("\n", "\r", 1).encode(), TAGGED),
    (table, "x.tsv", TABLE.replace("so, so", "so,\rso").encode(), TABLE),
    (table, "x.tsv", TABLE.replace("so, so", "so,\rso").replace("\n", "\r\n").encode(), TABLE),
    *(
        (reader, name, content, text)
        for reader, name, text in (
            (tagged, "x.txt", TAGGED),
            (table, "x.tsv", TABLE),
            (table, "x.csv", COMMAS),
            (read_json, "x.json", JSON),
            (vectors, "x.vec", VECTORS),
        )
        for content in (
            text.encode("latin-1"),
            text.encode("utf-16"),
            codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
            text.encode("utf-32"),
            gzip.compress(text.encode()),
        )
    ),
    (tagged, "x.txt.gz", TAGGED.encode(), TAGGED),
    (tagged, "x.txt", joined_with_a_mark(TAGGED).encode(), f"{TAGGED}\n{TAGGED}"),
    (tagged, "x.txt", NUMBERED.encode(), "Zoë B-PER\nis O\nn't O\n\nTom B-PER\n"),
    (tagged, "x.txt", NUMBERED.replace("\t", " ").encode(), "Zoë B-PER\nis O\nn't O\n\nTom B-PER\n"),
    (table, "x.tsv", ROWS.encode(), TABLE),
    (table, "x.csv", b"1,A title,It has a longer text.\n", "label\ttext\n1\tIt has a longer text.\n"),
    (table, "x.tsv", TABLE.replace("label\ttext", "Label\tTEXT").encode(), TABLE),
    (table, "x.csv", COMMAS.partition("\n")[2].encode(), TABLE),
    (table, "x.csv", COMMAS.replace(",", ";").replace("so;", "so,").encode(), TABLE),
    (table, "x.tsv", COMMAS.encode(), TABLE),
    (table, "x.csv", TABLE.replace("It is so, so dull;", "It is so").encode(), TABLE.replace("It is so, so dull;", "It is so")),
    (pair, "x.tsv", b"a good shop\tyes\tit is a very nice shop\n", "label\ttext\tother\nyes\ta good shop\tit is a very nice shop\n"),
    (predicted, "x.txt", b"One shop.\tnews\nTwo shops.\treview\n", "One shop.\nTwo shops.\n"),
]  # fmt: skip


def followed(message, path):
    """Do what a message says; the file then, and the arguments with which to read it."""
    settings = {
        key: int(value) if value.isdecimal() else value
        for key, value in re.findall(r"data\.columns\.(\w+)=([\w]+)", message)
        if value != "COLUMN"
    }
    if command := COMMAND.search(message):
        said = command[0]
        if (
            message.endswith(IN_A_CELL)
            and path.suffix == ".tsv"
            and ",\r" in path.read_bytes().decode()
        ):
            said = said.replace(r'"\n"', '" "')
        shutil.copy(path, path.with_name("OLD"))
        bash = ["bash", "-c", said.replace("python ", f"{sys.executable} ")]
        subprocess.run(bash, cwd=path.parent, check=True, env=os.environ | {"LC_ALL": "C.UTF-8"})
        new = path.with_name(said.rpartition(" ")[2])
        return new.rename(path.with_name(f"new{new.suffix or path.suffix}")), settings
    if named := re.search(r"name it (?:FILE|\S+?)((?:\.\w+)?)$", message):
        return path.rename(
            path.with_name(f"{path.name}{named[1]}" if named[1] == ".gz" else f"y{named[1]}")
        ), settings
    if "without .gz" in message:
        return path.rename(path.with_suffix("")), settings
    assert settings, message
    return path, settings


@pytest.mark.parametrize(
    ("reader", "name", "content", "meant"), WRONG, ids=[str(k) for k in range(len(WRONG))]
)
def test_after_the_advice_a_file_reads_as_it_was_meant(tmp_path, reader, name, content, meant):
    (good := tmp_path / "meant").mkdir()
    suffix = ".tsv" if meant.startswith("label\t") else Path(name.removesuffix(".gz")).suffix
    (good := good / f"x{suffix}").write_text(meant, encoding="utf-8")
    (path := tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^(input=)?{re.escape(str(path))}") as error:
        reader(path)
    path, settings = followed(str(error.value), path)
    assert reader(path, **settings) == reader(good)


def test_the_page_says_what_the_messages_say(tmp_path):
    """Each command of the page about files is one that a message has, so it is tried above."""
    tried = set()
    for number, (reader, name, content, _) in enumerate(WRONG):
        (tmp_path / str(number)).mkdir()
        (path := tmp_path / str(number) / name).write_bytes(content)
        with pytest.raises(ValueError) as error:  # noqa: PT011
            reader(path)
        tried |= {*COMMAND.findall(str(error.value))}
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    commands = {each for each in re.findall("`([^`]+)`", page) if each.endswith("> NEW")}
    assert commands
    assert commands <= tried


def test_types_are_renamed_as_the_page_says(tmp_path):
    page = (DOCS / "vectors.md").read_text(encoding="utf-8")
    (sed,) = re.findall("`(sed .* FILE > NEW)`", page)
    (tmp_path / "FILE").write_text("Zoë B-person\nLee I-person\ndropped O\nLamp B-product\n")
    subprocess.run(["bash", "-c", sed], cwd=tmp_path, check=True)
    assert (tmp_path / "NEW").read_text() == "Zoë B-PER\nLee I-PER\ndropped O\nLamp O\n"
