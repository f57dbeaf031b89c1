"""The Python of README.md runs as it is printed, and is what it says."""

import re
from pathlib import Path

import pytest
import torch

from elmo_bench import Elmo, encode, load_encoder

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
)


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
    mini = load_encoder("mini")
    sentences = [["a"], [], ["", "two", "x" * 99], ["a"]]
    for sentence, layers in zip(sentences, encode(mini, sentences), strict=True):
        assert layers.shape == (3, len(sentence), 128)
        torch.testing.assert_close(layers, mini(mini.prepare([sentence]))[:, 0])
    assert encode(mini, []) == []


def test_loading():
    mini = ROOT / "elmo_bench" / "encoders" / "bilm" / "mini"
    vectors = [encode(load_encoder(name), [["word"]])[0] for name in ("mini", mini, str(mini))]
    assert torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])
    assert Elmo(load_encoder("mini"), mix="top", at=["output"]).dim("output") == 128
    with pytest.raises(
        FileNotFoundError, match=r"huge: not a biLM that ships with elmo-bench \(.*mini.*\)"
    ):
        load_encoder("huge")
