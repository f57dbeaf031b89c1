"""The encoders of docs/encoders.md, exactly as they are printed there, in a folder of a user's
own: frozen and fine-tuned, and in every job that reads an encoder.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_bench import encode
from elmo_bench.build import encoders
from elmo_bench.encoders import Encoder
from elmo_bench.encoders.bilm import save
from elmo_bench.jobs.embed import embed
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.probe import probe
from elmo_bench.jobs.train import train
from elmo_bench.settings import command
from elmo_bench.settings.targets import allow
from tests.encoders.random_bilm import random_bilm
from tests.jobs.small_settings import SMALL

SENTENCES = [["Morin", "saw", "the", "play", "."], ["", "x" * 10_000], ["saw"]]
SMALL_NER = ["task=ner", "data.size=2", *SMALL["ner"], "fit.max_epochs=1"]


@pytest.fixture
def own_run(documented_parts, new_run, monkeypatch):
    """compose(*overrides) -> a config with the user's folder; its command line is known to it."""

    def build_config(*overrides):
        values = dict(override.split("=", 1) for override in overrides)
        monkeypatch.setattr(command, "overridden", lambda _: values)
        cfg = new_run(f"hydra.searchpath=[file://{documented_parts}]", *overrides)
        allow(cfg)  # as the check of a command does
        return cfg

    return build_config


def test_it_keeps_the_contract(own_run):
    encoder = encoders.encoder(own_run("encoder=ngrams"))
    assert isinstance(encoder, Encoder)
    assert len(own_run("encoder=ngrams").encoder) == 3  # lines
    together = encode(encoder, SENTENCES)
    for sentence, layers in zip(SENTENCES, together, strict=True):
        (alone,) = encode(encoder, [sentence], [1, 0])
        assert alone.shape == (2, len(sentence), 64)
        torch.testing.assert_close(alone, layers[[1, 0]])
    assert torch.equal(together[0][:, 1], together[2][:, 0])  # a word is the same everywhere
    assert not torch.equal(together[0][0, 0], together[0][0, 1])
    inputs_ = encoder.prepare(SENTENCES)
    assert not encoder(inputs_)[:, 1, 2:].any()
    groups = encoder.parameter_groups()
    assert {p for group in groups for p in group} == set(encoder.parameters())
    assert groups[0] == [encoder.tables[1].weight]
    prints = [
        encoders.encoder(own_run("encoder=ngrams", *more)).fingerprint()
        for more in ([], ["+encoder.seed=2"])
    ]
    assert encoder.fingerprint() == prints[0] != prints[1]


def test_its_checkpoint(own_run, tmp_path):
    """It gives its figures again, and labels, where the command line names the encoder."""
    cfg = own_run(*SMALL_NER, "encoder=ngrams")
    figures = train(cfg)
    result = json.loads(Path(cfg.run_dir, "result.json").read_text())
    assert result["mix"]["input"]["layers"] == [0, 1]
    computed = train(own_run(*SMALL_NER, "encoder=ngrams", "store.mode=off"))
    assert computed == pytest.approx(figures, abs=1e-6)
    checkpoint = f"checkpoint={cfg.run_dir}/best.ckpt"
    again = evaluate(own_run("job=evaluate", checkpoint, "encoder=ngrams"))
    assert again == {key: value for key, value in figures.items() if key.startswith("test/")}
    (tmp_path / "in.txt").write_text("Morin saw Ann .\n")
    files = [f"input={tmp_path}/in.txt", f"output={tmp_path}/out.jsonl"]
    predict(own_run("job=predict", checkpoint, "encoder=ngrams", *files))
    assert len(json.loads((tmp_path / "out.jsonl").read_text())["tags"]) == 4
    with pytest.raises(ValueError, match=r"trained with encoder=ngrams, .* give encoder=OPTION"):
        evaluate(own_run("job=evaluate", checkpoint))


def test_fine_tuned(own_run):
    tuned = ["finetune=full", "finetune.lr=0.01", "finetune.lr_decay=0.5"]
    cfg = own_run(*SMALL_NER, "encoder=ngrams", *tuned)
    train(cfg)
    weights = torch.load(Path(cfg.run_dir, "best.ckpt"), weights_only=True)["state_dict"]
    before = encoders.encoder(own_run("encoder=ngrams")).state_dict()
    for layer in range(2):
        (after,) = (v for k, v in weights.items() if k.endswith(f"encoder.tables.{layer}.weight"))
        assert not torch.equal(after, before[f"tables.{layer}.weight"])
        assert not after[0].any()


def test_every_job(own_run, tmp_path):
    lines = [" ".join(SENTENCES[0]), "Ann saw a play", ""]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    text = f"input={tmp_path}/in.txt"
    embed(own_run("job=embed", "encoder=ngrams", text, f"output={tmp_path}/out.hdf5"))
    (layers,) = encode(encoders.encoder(own_run("encoder=ngrams")), SENTENCES[:1])
    with h5py.File(tmp_path / "out.hdf5") as file:
        np.testing.assert_allclose(file["0"], layers, atol=1e-6)
    figures = probe(
        own_run("job=probe", "encoder=ngrams", "data.size=10", "probe.steps=20", "probe.seeds=1")
    )
    assert {"pos/0", "pos/1"} <= figures.keys()


def test_its_model_may_be_a_file(documented_parts, own_run):
    """Only of our encoders it is a folder or a name on the hub."""
    own = (
        "from mine.ngrams import CharNgrams\n\n\ndef own(model, dim):\n    return CharNgrams(dim)\n"
    )
    (documented_parts / "own.py").write_text(own)
    chosen = ["encoder=ngrams", "encoder._target_=mine.own.own", "+encoder.model=/words.bin"]
    assert encoders.encoder(own_run(*chosen)).dim == 64


def test_settings_of_an_encoder_that_there_is(documented_parts, own_run):
    """A three-line option trains, and its checkpoint is evaluated beside the option."""
    assert len((documented_parts / "encoder/my_bilm.yaml").read_text().splitlines()) == 3
    save(random_bilm(), documented_parts / "bilms" / "news" / "weights.safetensors")
    ask = ["encoder=my_bilm", f"data_dir={documented_parts}"]
    cfg = own_run(*SMALL_NER, *ask)
    figures = train(cfg)
    again = evaluate(own_run("job=evaluate", f"checkpoint={cfg.run_dir}/best.ckpt", *ask))
    assert again == {key: value for key, value in figures.items() if key.startswith("test/")}
