"""The Python of README.md runs as it is printed, and is what it says."""

import re
from pathlib import Path

import pytest
import torch

from elmo_bench import Elmo
from elmo_bench.elmo import char_ids

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


def test_the_code_of_the_readme():
    assert BLOCKS
    assert len([line for line in BLOCKS[0].splitlines() if line]) == 3
    names = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    first, second = names["layers"]
    assert (first.shape, second.shape) == ((3, 5, 128), (3, 1, 128))
    torch.testing.assert_close(names["vectors"][0], first.mean(0))  # a mix begins with equal shares


def test_a_sentence_does_not_depend_on_its_neighbours():
    elmo = Elmo.load("mini")
    sentences = [["a"], [], ["", "two", "x" * 99], ["a"]]
    for sentence, layers in zip(sentences, elmo.embed(sentences), strict=True):
        assert layers.shape == (3, len(sentence), 128)
        torch.testing.assert_close(layers, elmo.layers(char_ids([sentence]))[0][:, 0])
    assert elmo.embed([]) == []


def test_loading():
    mini = ROOT / "elmo_bench" / "elmo" / "mini"
    by_name, by_folder, by_files = (
        Elmo.load(*names) for names in (["mini"], [mini], [mini / "options.json", mini / "weights.safetensors"])
    )
    vectors = [elmo.embed([["word"]])[0] for elmo in (by_name, by_folder, by_files)]
    assert torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])
    assert Elmo.load("mini", mix="top", at=["output"]).dim("output") == 128
    with pytest.raises(FileNotFoundError, match=r"huge: no such folder, and no biLM that ships \(.*mini.*\)"):
        Elmo.load("huge")
    with pytest.raises(ValueError, match="without a biLM"):
        Elmo(None).embed([["a"]])
