"""What `elmo_bench` itself offers: `load_encoder` and `encode`."""

from pathlib import Path

import pytest
import torch

from elmo_bench import Elmo, encode, load_encoder

ROOT = Path(__file__).parents[2]


def test_loading():
    mini = ROOT / "elmo_bench" / "encoders" / "bilm" / "mini"
    vectors = [encode(load_encoder(name), [["word"]])[0] for name in ("mini", mini, str(mini))]
    assert torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])
    assert vectors[0].shape == (3, 1, 128)
    assert encode(load_encoder("mini"), []) == []
    assert Elmo(load_encoder("mini"), mix="top", at=["output"]).dim("output") == 128
    with pytest.raises(
        FileNotFoundError, match=r"huge: not a biLM that ships with elmo-bench \(.*mini.*\)"
    ):
        load_encoder("huge")
