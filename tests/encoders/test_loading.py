"""What `elmo_bench` itself offers: `load_encoder` and `encode`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo_bench import Elmo, encode, load_encoder

ROOT = Path(__file__).parents[2]


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


WRONG = {
    "encoder.precision=bf16, but it must be float32 or bfloat16": ("mini", "precision"),
    "encoder.lowercase=no, but it must be true, false or fallback": ("vectors.txt", "lowercase"),
    "encoder.pooling=middle, but it must be first, last or mean": ("any", "pooling"),
    "encoder.dtype=float64, but it must be float32, bfloat16 or float16": ("any", "dtype"),
}
SCRIPT = """
import sys
from elmo_bench import load_encoder
try:
    load_encoder(sys.argv[1], **{sys.argv[2]: sys.argv[3]})
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("said", WRONG)
def test_a_setting_that_an_encoder_does_not_have(tmp_path, said):
    """In a process without jaxtyping's checks, as a notebook is."""
    (tmp_path / "vectors.txt").write_text("word 1 2\n")
    value = said.partition("=")[2].partition(",")[0]
    arguments = [sys.executable, "-c", SCRIPT, *WRONG[said], value]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == said
