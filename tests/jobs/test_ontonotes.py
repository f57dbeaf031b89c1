"""`job=ontonotes`: an invented treebank in the LDC's layout, and skeletons of its files."""

import json

import pytest

from elmo_bench.jobs.ontonotes import ontonotes
from tasks.coref import data as coref
from tasks.srl import data as srl
from tests.conftest import composed

# Words that no column has: traces, EDITED phrases, and all of the second tree.
TREES = """\
(TOP (S (EDITED (NP-SBJ (PRP He)) (, ,))
        (NP-SBJ-1 (NNP Ada))
        (VP (VBD was)
            (VP (VBN seen)
                (NP (-NONE- *-1))
                (PRN (-LRB- -LRB-) (RB twice) (-RRB- -RRB-))))
        (. .)))

(TOP (EDITED (NP (PRP I))))
* a comment (
(TOP (INTJ (UH Oh\u00a0no)))
"""
SKELETON = """\
#begin document ({id}); part 000
{id} 0 0 [WORD] NNP   (TOP(S(NP*)  -  - - Bo * (ARG1*) (7)
{id} 0 1 [WORD] VBD          (VP*  -  - - Bo * *       -
{id} 0 2 [WORD] VBN          (VP* see 01 1 Bo * (V*)   -
{id} 0 3 [WORD] -LRB-       (PRN*  -  - - Bo * *       -
{id} 0 4 [WORD] RB              *  -  - - Bo * *       -
{id} 0 5 [WORD] -RRB-         *)))  -  - - Bo * *       -
{id} 0 6 [WORD] .             *))  -  - - Bo * *       -

{id} 0 0 [WORD] XX (TOP*) - - - Bo * -

#end document
#begin document ({id}); part 001
{id} 1 0 [WORD] UH (TOP(INTJ*)) - - - - * -

#end document
"""
WORDS = ["Ada", "was", "seen", "-LRB-", "twice", "-RRB-", "."]
RELEASES = {
    "gold_skel": ("train", "development", "conll-2012-test"),
    "v4_gold_skel": ("train", "development", "test"),
}
ANNOTATIONS = "data/english/annotations"


@pytest.fixture
def folders(tmp_path):
    """The LDC's folder and that of the skeletons, with a file a split and a second in train."""
    for ending, splits in RELEASES.items():
        for number, split in enumerate([*splits, splits[0]]):
            name = f"nw/p2.5_wsj/0{number}/p2.5_wsj_0{number}"
            for path, text in [
                (f"ldc/data/files/{ANNOTATIONS}/{name}.parse", TREES),
                (f"skeletons/{ending[:2]}/{split}/{ANNOTATIONS}/{name}.{ending}", SKELETON),
            ]:
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text(text.replace("{id}", name), encoding="utf-8")
    return tmp_path


def join(folder, *overrides):
    paths = [f"{key}={folder}/{key}" for key in ("ldc", "skeletons", "out")]
    return ontonotes(composed("job=ontonotes", *paths, *overrides))


def test_words_come_into_the_columns(folders, capsys, caplog):
    counts = join(folders)
    assert json.loads(capsys.readouterr().out) == counts
    assert not caplog.records
    assert list(counts) == [
        *(f"ontonotes5/{split}.gold_conll" for split in RELEASES["gold_skel"]),
        *(f"conll2012/{split}.english.v4_gold_conll" for split in ("train", "dev", "test")),
    ]
    for name, found in counts.items():
        path, num_files = folders / "out" / name, 2 if "/train" in name else 1
        assert found == {
            "documents": 2 * num_files,
            "with_coreference": 2 * num_files,  # a part without a mention stays with its file
            "sentences": 3 * num_files,
            "words": 9 * num_files,
            "propositions": num_files,
        }
        first, empty, last, *_ = srl.read(path)
        assert [[*one.words] for one in (first, empty, last)] == [WORDS, ["nullp"], ["Oh\u00a0no"]]
        assert first.gold == ["B-ARG1", "O", "B-V", "O", "O", "O", "O"]
        assert [document.gold for document in coref.read(path)] == [[[(0, 0)]], []] * num_files
        row = path.read_text().splitlines()[1]
        assert row.endswith(" 0 0 Ada NNP (TOP(S(NP*) - - - Bo * (ARG1*) (7)")
    with pytest.raises(FileExistsError, match=r"ontonotes5/train.gold_conll exists: remove it"):
        join(folders)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(RB twice)", "", r"wsj_02.gold_skel:2: a sentence of 7 words, but tree 1 of .*wsj_02.parse has 6"),
        ("(TOP (INTJ (UH Oh\u00a0no)))", "", r"wsj_02.gold_skel:14: a sentence of 1 words, but tree 3 .* has 0"),
        ("(UH Oh", "(UH Oh oh", r"wsj_02.parse:11: 'Oh oh\\xa0no' is not one word"),
        ("no)))", "no))", r"wsj_02.parse: the file ends within a tree"),
        ("(. .)))", "(. .))))", r"wsj_02.parse:7: '\)' is not within a tree"),
    ],
)  # fmt: skip
def test_a_document_that_does_not_fit_is_named_and_nothing_written(folders, old, new, message):
    path = folders / f"ldc/data/files/{ANNOTATIONS}/nw/p2.5_wsj/02/p2.5_wsj_02.parse"
    assert old in TREES
    path.write_text(TREES.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        join(folders)
    assert not [path for path in (folders / "out").rglob("*") if path.is_file()]


def test_rows_of_other_widths_are_named(folders):
    (path,) = folders.rglob("*wsj_02.gold_skel")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].rstrip() + " x\n", *lines[3:]]), "utf-8")
    with pytest.raises(ValueError, match=r"wsj_02.gold_skel:3: a row .* as many as the sentence's"):
        join(folders)


def test_other_parts_of_speech_and_further_trees_are_told(folders, caplog):
    name = f"{ANNOTATIONS}/nw/p2.5_wsj/01/p2.5_wsj_01"
    path = folders / f"ldc/data/files/{name}.parse"
    path.write_text(f"{TREES.replace('(RB twice)', '(NN twice)')}(TOP (UH Oh))", encoding="utf-8")
    join(folders)
    for file, skeleton in [
        ("ontonotes5/development.gold_conll", f"skeletons/go/development/{name}.gold_skel"),
        ("conll2012/dev.english.v4_gold_conll", f"skeletons/v4/development/{name}.v4_gold_skel"),
    ]:
        said = f"{path} has more trees than {folders}/{skeleton} has sentences (3)"
        assert said in caplog.messages
        said = f"{file}: 1 of 3 sentences have other parts of speech in the LDC's trees, first "
        assert f"{said}{folders}/{skeleton}:2" in caplog.messages
    assert len(caplog.messages) == 4


def test_what_is_missing_is_named(folders, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ldc=.*/out: no data/files/data/english/annot"):
        join(folders, f"ldc={folders}/out")
    with pytest.raises(FileNotFoundError, match=r"no files \*.gold_skel or \*.v4_gold_skel"):
        join(folders, f"skeletons={folders}/ldc")
    (parse,) = folders.rglob("*wsj_02.parse")
    parse.unlink()
    with pytest.raises(FileNotFoundError, match=r"wsj_02.parse: no such file"):
        join(folders)
    for skeleton in folders.rglob("*wsj_02.v4_gold_skel"):
        skeleton.unlink()
    with pytest.raises(FileNotFoundError, match=r"no \*.v4_gold_skel in test/data/english/annotat"):
        join(folders)
