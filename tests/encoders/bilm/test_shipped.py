"""The biLMs that ship: whole, small, described, and language models of what their cards say."""

from pathlib import Path

import pytest

import elmo_bench.encoders.bilm
from elmo_bench.encoders.bilm import load
from elmo_bench.lm import load_language_model

FOLDERS = sorted(
    path.parent for path in Path(elmo_bench.encoders.bilm.__file__).parent.glob("*/options.json")
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_whole_and_small(folder):
    load(folder / "options.json", folder / "weights.safetensors")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 32_000_000
    card = (folder / "README.md").read_text("utf-8")
    assert "job=pretrain" in card
    assert "perplexity" in card


def test_wiki_knows_english():
    folder = next(path for path in FOLDERS if path.name == "wiki")
    model = load_language_model(folder / "options.json", folder / "weights.safetensors")
    right = [["He", "took", "his", "hat", "and", "went", "out", "of", "the", "house", "."]]
    wrong = [["house", "the", "of", "out", "went", "and", "hat", "his", "took", "He", "."]]
    good, bad = (model.perplexity(each) for each in (right, wrong))
    assert all(good[name] < 100 < 10 * good[name] < bad[name] for name in good)
