"""Documents and argument columns of CoNLL-2012 files; `tests/tasks` has what tasks read of them."""

from pathlib import Path

import pytest

from elmo_bench.text import Row
from elmo_bench.text.conll import bracket_spans, read_conllu, read_documents


def row(number: int, word: str, *arguments: str, part: int = 0, parse: str = "-") -> str:
    cells = ["nw/tale", str(part), str(number), word, "_", parse, *"----*", *arguments, "-"]
    return "  ".join(cells)


def owls(part: int) -> str:
    first = row(0, "Owls", "(ARG0*)", part=part, parse="(TOP(S(NP*)")
    return f"{first}\n{row(1, 'sing', '(V*)', part=part, parse='(VP*)))')}"


FILE = f"""#begin document (nw/tale); part 000
{owls(0)}

{row(0, "Why")}
{row(1, "?")}
#end document

#begin document (nw/tale); part 012

{owls(12)}

#end document
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "some.gold_conll"
    path.write_text(text)
    return path


def test_the_part_of_a_row_may_be_missing(tmp_path):
    """As in half of OntoNotes 5's documents."""
    unnamed = FILE.replace("nw/tale  12", "nw/tale  -1")
    (*_, document) = read_documents(write(tmp_path, unnamed))
    assert unnamed != FILE
    assert (document.id, document.part) == ("nw/tale", 12)


def test_words_that_may_not_be_published_are_missed(tmp_path):
    """All words of a sentence are _, as in GUM's documents of reddit; one word may be _."""
    hidden = FILE.replace("Why", "_").replace("?", "_")
    with pytest.raises(ValueError, match="conll:5: all words of this sentence are _, as in corp"):
        [*read_documents(write(tmp_path, hidden))]
    assert len([*read_documents(write(tmp_path, hidden.replace(f"\n{row(1, '_')}", "")))]) == 2
    blank = "".join(f"{n}\t_\t_\t_\t_\t_\t{n - 1}\tx\t_\t_\n" for n in (1, 2))
    path = tmp_path / "some.conllu"
    path.write_text(f"# text = _\n{blank}\n")
    with pytest.raises(ValueError, match="conllu:2: all words of this sentence are _"):
        [*read_conllu(path)]


def test_tabs_separate_and_a_word_may_hold_a_no_break_space(tmp_path):
    (document,) = read_documents(
        write(tmp_path, FILE.partition("\n#b")[0].replace("  ", "\t").replace("Owls", "2\u00a0000"))
    )
    assert [row.columns[3] for row in document.sentences[0]] == ["2\u00a0000", "sing"]


WHY, LAST = row(0, "Why"), row(1, "?")
SING = row(1, "sing", "(V*)", part=12, parse="(VP*)))")
WRONG = {  # what stands in its place, in which line, and what is said
    "#begin": ("nonsense\n#begin", 1, "a document must begin with"),
    "#end document\n\n#b": ("#b", 7, r"'#begin document .* has no #end document yet"),
    "012": ("000", 9, "occurs twice, first in line 1"),
    "  (V*)": ("", 3, "12 columns, but .* must have 13, as line 2"),
    "sing": ("[WORD]", 3, r"word '\[WORD\]': this file is a skeleton, to which job=ontonotes adds"),
    "Why  _": ("Why", 5, "11 columns, but .* must have 12 or more"),
    # What the format says twice: a row lost, repeated, a lost empty line, two rows in a line.
    f"{WHY}\n": ("", 5, "word number '1', but it must be 0"),
    WHY: (f"{WHY}\n{WHY}", 6, "number '0', but .* 1"),
    f"{LAST}\n": (f"{LAST}\n{row(0, 'Oh')}\n", 7, "an empty line"),
    f"\n{SING}": ("", 11, "has 3 opening and 1 closing"),
    f"{WHY}\n{LAST}": (f"{WHY}  {LAST}", 5, "in one line"),
    "nw/tale  12": ("nw/tale  13", 11, "a row of 'nw/tale' part '13' in nw/tale part 12"),
    "nw/tale  0  1  ?": ("nw/tail  0  1  ?", 6, "a row of 'nw/tail' part '0' in nw/tale"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text):
    other, line, message = WRONG[text]
    path = write(tmp_path, FILE.replace(text, other, 1))
    with pytest.raises(ValueError, match=f"^{path}:{line}: .*{message}"):
        list(read_documents(path))


def sentence(*cells: str) -> list[Row]:
    return [Row(7 + place, ["word", cell, "-"]) for place, cell in enumerate(cells)]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("* -", r"f:8: '-' in column 2"),
        ("(*)", r"f:7: '\(\*\)' in column 2"),
        ("(A0* * *)*", r"f:9: '\*\)\*'"),
        ("(A0(A1* *))", r"f:7: "),
        ("* (A0* *", r"f:8: \(A0\* in column 2 is not closed before its sentence ends at line 9"),
    ],
)
def test_bad_brackets_are_named_with_their_line(cells, message):
    with pytest.raises(ValueError, match=message):
        bracket_spans(sentence(*cells.split()), 1, "f")
