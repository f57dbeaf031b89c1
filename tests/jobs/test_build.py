"""From a config to objects: word vectors as each task's original reads them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra import compose, initialize_config_dir

from elmo_bench.data import TaskData
from elmo_bench.jobs import build, inputs

CONF = Path(__file__).parents[2] / "conf"


def composed(*overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", ["data.files={}", "elmo=none", "run_dir=here", *overrides])


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["task=ner"], {"US": [1, 1], "the": [1, 1], "The": [1, 1]}),
        (["task=sst5"], {"US": [3, 4], "the": [1, 1], "The": None}),
        (["task=squad"], {"US": [3, 4], "the": [1, 1], "The": [1, 1]}),
        (["task=coref"], {"US": [0.6, 0.8], "the": [0.5**0.5] * 2, "The": None}),
        (["task=ner", "vocab.lowercase=false"], {"US": [3, 4], "the": [1, 1], "The": None}),
    ],
)
def test_how_a_word_finds_its_vector(tmp_path, overrides, expected):
    """As each task's original looks it up."""
    (tmp_path / "v.txt").write_text("US 3 4\nus 1 1\nthe 1 1\n")
    words = [*expected, "rare"]
    data = TaskData.__new__(TaskData)
    data.examples, data.labels = {"train": [SimpleNamespace(sentences=[words])]}, ["O"]
    vocab, vectors = build.vocab(composed(*overrides, f"vocab.vectors={tmp_path}/v.txt"), data)
    for word, vector in expected.items():
        place = vocab.word_id(word) - 2
        found = vectors[vocab.words[place]].tolist() if place >= 0 else None
        assert found == (vector and pytest.approx(vector)), word
    assert build.vocab(composed(*overrides), data)[0].lowercase is True  # as ever, where there are no vectors


def test_several_files_of_vectors(tmp_path):
    (tmp_path / "a.txt").write_text("the 3 4\nUs 0 2\n")
    (tmp_path / "b.txt").write_text("the 5 0\nNew 0 7\n")
    cfg = composed("task=coref", f"vocab.vectors=[{tmp_path}/a.txt,{tmp_path}/b.txt]")
    found = {word: vector.tolist() for word, vector in build.vectors(cfg, ["the", "Us", "New"]).items()}
    assert found == {"the": pytest.approx([0.6, 0.8, 1, 0]), "Us": [0, 1, 0, 0], "New": [0, 0, 0, 1]}
    assert {"vocab.vectors", "vocab.vectors.1"} <= inputs.files(cfg).keys()
    with pytest.raises(ValueError, match=r"vocab.lowercase=upper, but it may be true, false or fallback"):
        build.vectors(composed("vocab.lowercase=upper"), [])
