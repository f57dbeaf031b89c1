"""The files of the runs of results/, made of public ones."""

import hashlib
import json

import ewt_propbank
import pytest
import vectors

WORDS = ["the", "of", "rare", "seen"]
RELEASE = """\
google/ewt/answers/00/1_ans.xml 0 0 [WORD] PRP (TOP(S(NP*) - - (ARG0*)
google/ewt/answers/00/1_ans.xml 0 1 [WORD] VBD (VP* see see.01 (V*)
google/ewt/answers/00/1_ans.xml 0 2 [WORD] : *)) - - *

google/ewt/answers/00/1_ans.xml 1 0 [WORD] UH (TOP(INTJ*)) - -
"""
TREES = """\
# sent_id = answers-1_ans-0001
1-2\tIsaw\t_
1\tI\tI
2\tsaw\tsee
3\t:)\t:)

# sent_id = answers-1_ans-0002
1\tHm\thm
"""
OTHERS = "# sent_id = weblog-2-0001\n1\tWell\twell\n"
JOINED = """\
#begin document (ewt/answers/00/1_ans); part 000
ewt/answers/00/1_ans   0   0   I   PRP   (TOP(S(NP*)   -   -   -   -   *   (ARG0*)   -
ewt/answers/00/1_ans   0   1   saw   VBD   (VP*   see   01   -   -   *   (V*)   -
ewt/answers/00/1_ans   0   2   :-RRB-   :   *))   -   -   -   -   *   *   -

#end document
"""


def test_word_vectors(tmp_path, monkeypatch):
    """The most frequent words, then those of the list; another text is refused."""
    numbers = {word: [0.1234567, -1.0, 9.0] for word in WORDS}
    package = tmp_path / "package.json"
    package.write_text(json.dumps({"words": WORDS, "vectors": numbers}))
    (tmp_path / "ranks.txt").write_text("2\n")
    monkeypatch.setattr(vectors, "RANKS", tmp_path / "ranks.txt")
    monkeypatch.setattr(vectors, "FREQUENT", 2)
    monkeypatch.setattr(vectors, "SIZE", 2)
    with pytest.raises(ValueError, match=r"take version 1\.1\.0 of the package"):
        vectors.main([f"{package}", f"{tmp_path}/glove.txt"])
    text = "the 0.123457 -1.0\nof 0.123457 -1.0\nseen 0.123457 -1.0\n"
    monkeypatch.setattr(vectors, "SHA256", hashlib.sha256(text.encode()).hexdigest())
    vectors.main([f"{package}", f"{tmp_path}/glove.txt"])
    assert (tmp_path / "glove.txt").read_text() == text


def test_semantic_roles(tmp_path, monkeypatch):
    """Columns of the release and words of the treebank; what differs between them is mended."""
    release = tmp_path / "release"
    (release / "data/google/ewt/answers/00").mkdir(parents=True)
    (release / "data/google/ewt/answers/00/1_ans.xml.gold_skel").write_text(RELEASE)
    (release / "docs/evaluation").mkdir(parents=True)
    (tmp_path / "ud").mkdir()
    for split in ewt_propbank.SHA256:
        names = "answers/00/1_ans.xml.conllu\nanswers/00/lost.xml.conllu\n"
        (release / f"docs/evaluation/ewt.{split}.txt").write_text(names)
        trees = TREES if split == "train" else OTHERS
        (tmp_path / f"ud/en_ewt-ud-{split}.conllu").write_text(trees)
    (tmp_path / "different.txt").write_text(
        "ewt/answers/00/1_ans sentence 1\newt/answers/00/1_ans 3 1\n"
    )
    monkeypatch.setattr(ewt_propbank, "DIFFERENT", tmp_path / "different.txt")
    with pytest.raises(ValueError, match="check out the commit that this script names"):
        ewt_propbank.main([f"{release}", f"{tmp_path}"])
    digest = hashlib.sha256(JOINED.encode()).hexdigest()
    monkeypatch.setattr(ewt_propbank, "SHA256", dict.fromkeys(ewt_propbank.SHA256, digest))
    ewt_propbank.main([f"{release}", f"{tmp_path}"])
    assert (tmp_path / "srl/ewt.dev.gold_conll").read_text() == JOINED
