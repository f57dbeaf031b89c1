"""NER: the reader's tags; the official files of WNUT-17, as they are downloaded, hold what the
four-column files hold.
"""

import pytest

from tasks.ner.data import read


def test_a_type_with_a_space_cannot_be_written(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("Mona\tB-work_of_art\nLisa\tI-work of art\n")
    with pytest.raises(
        ValueError, match=f"^{path}:2: tag 'I-work of art', but a tag must be O, B-"
    ):
        list(read(path))


@pytest.mark.parametrize("mark", ["\u200b", "\ufeff", "\u202e", "\0"])
def test_a_tag_can_be_seen(tmp_path, mark):
    """Otherwise it would be another label."""
    path = tmp_path / "some.txt"
    path.write_text(f"Ann\tB-PER\nBo\tB-PER{mark}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{path}:2: tag 'B-PER\\\\[ux]"):
        list(read(path))


@pytest.mark.parametrize(
    ("split", "sentences", "entities"),
    [("train", 3394, 1975), ("dev", 1009, 836), ("test", 1287, 1079)],
)
def test_official_wnut17(corpora, split, sentences, entities):
    official, ours = (
        list(read(corpora / "ner" / f"wnut17.{split}.{end}")) for end in ("official.conll", "txt")
    )
    assert [(each.words, each.entities) for each in official] == [
        (each.words, each.entities) for each in ours
    ]
    assert (len(official), sum(len(each.entities) for each in official)) == (sentences, entities)
