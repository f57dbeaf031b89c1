"""The archived runs are those that today's code would train: their identities are today's."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from elmo_bench.runs import identity_of, unpacked

ARCHIVES = sorted((Path(__file__).parents[2] / "results").glob("*.tar.xz"))
NUM_LAYERS = {"wiki": 3, "books": 3, "minilm": 7, "static": 1}


def identity(content, folder):
    """The identity of an archived run; a model was a folder of files if it has hashes of them."""
    config, hashes = content["config"], content["inputs"]
    if config["encoder"].get("model") and "encoder.config.json" in hashes:
        config["encoder"]["model"] = str(folder)
    num_layers = NUM_LAYERS.get(config["encoder"]["name"])
    return identity_of(OmegaConf.create(config), hashes, num_layers)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_identities(archive, tmp_path):
    seen = []
    for file in unpacked(archive, tmp_path / "cache").glob("*/result.json"):
        content = json.loads(file.read_text())
        seen.append(content["identity"])
        assert seen[-1] == identity(content, tmp_path), file.parent.name
    assert len(seen) == len(set(seen)) > 0
