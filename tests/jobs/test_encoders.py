"""Every encoder under every task, and every job that reads an encoder."""

import json

import h5py
import numpy as np
import pytest
import torch

from elmo_bench import encode, load_encoder
from elmo_bench.jobs.embed import embed
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.probe import probe
from elmo_bench.jobs.report import report
from elmo_bench.jobs.train import train
from tests import conftest
from tests.jobs.small import SMALL

TUNED = ["finetune=full", "finetune.lr_decay=0.385"]
LINE = "Morin opened the old brewery ."


@pytest.fixture
def encoders(bert, tmp_path):
    """The overrides of each encoder."""
    vectors, words = tmp_path / "vectors.txt", [*LINE.split(), "the", "a", "in", "was", "of"]
    vectors.write_text("".join(f"{word} {n % 3} 1 -{n % 5}\n" for n, word in enumerate(words)))
    transformer = ["encoder=transformer", f"encoder.model={bert}"]
    return {
        "transformer": transformer,
        "fine-tuned": [*transformer, *TUNED],
        "static": ["encoder=static", f"encoder.vectors={vectors}"],
        "forward": ["encoder=mini", "encoder.directions=[forward]"],
    }


@pytest.fixture
def composed(tmp_path, tmp_path_factory):
    def build(*overrides):
        run_dir = tmp_path / f"run{len([*tmp_path.glob('run*')])}"
        run_dir.mkdir()
        cache = f"cache_dir={tmp_path_factory.getbasetemp()}"
        quiet = ["trainer=cpu", "trainer.enable_progress_bar=false"]
        return conftest.composed(*quiet, cache, f"run_dir={run_dir}", *overrides)

    return build


@pytest.mark.parametrize(
    ("task", "kind"),
    [(task, "transformer") for task in SMALL]
    + [(task, kind) for task in ("ner", "squad") for kind in ("fine-tuned", "static", "forward")],
)
def test_every_task(composed, encoders, task, kind):
    """The checkpoint of a run gives its figures again."""
    epochs = "fit.max_epochs=2" if kind == "fine-tuned" else "fit.max_epochs=1"
    size = [] if task == "srl" else ["data.size=2"]
    cfg = composed(f"task={task}", *size, *SMALL[task], epochs, *encoders[kind])
    figures = train(cfg)
    again = evaluate(composed("job=evaluate", f"checkpoint={cfg.run_dir}/best.ckpt", "split=test"))
    assert again == {name: value for name, value in figures.items() if name.startswith("test/")}


@pytest.mark.parametrize("kind", ["transformer", "static", "forward"])
def test_every_job(composed, encoders, tmp_path, kind, capsys):
    """`embed`, `probe`, `predict` and `report`."""
    (tmp_path / "text.txt").write_text(f"{LINE}\n\nthe brewery was old .\n")
    text, out = f"input={tmp_path}/text.txt", tmp_path / "layers.hdf5"
    embed(composed("job=embed", *encoders[kind], text, f"output={out}"))
    with h5py.File(out) as file:
        layers = {name: file[name][()] for name in ("0", "1")}
    name, settings = {
        "transformer": (encoders[kind][1].partition("=")[2], {}),
        "static": (encoders[kind][1].partition("=")[2], {}),
        "forward": ("mini", {"directions": ["forward"]}),
    }[kind]
    (expected,) = encode(load_encoder(name, **settings), [LINE.split()])
    np.testing.assert_allclose(layers["0"], expected.numpy(), atol=1e-5)
    assert layers["1"].shape == (len(expected), 0, expected.shape[-1])

    torch.manual_seed(0)
    figures = probe(
        composed("job=probe", *encoders[kind], "data.size=10", "probe.steps=20", "probe.seeds=1")
    )
    assert {f"pos/{layer}" for layer in range(len(expected))} <= figures.keys()

    sizes = ["task=ner", *SMALL["ner"], "data.size=2", "fit.max_epochs=1"]
    runs = [composed(*sizes, *which) for which in (encoders[kind], ["encoder=none"])]
    for cfg in runs:
        train(cfg)
    checkpoint = f"checkpoint={runs[0].run_dir}/best.ckpt"
    predict(composed("job=predict", checkpoint, text, f"output={tmp_path}/tags.jsonl"))
    tags = json.loads((tmp_path / "tags.jsonl").read_text().splitlines()[0])
    assert len(tags["tags"]) == len(LINE.split())

    folders = ",".join(cfg.run_dir for cfg in runs)
    report(composed("job=report", f"runs=[{folders}]", "columns=encoder", "baseline=none"))
    shown = capsys.readouterr().out
    assert f"encoder={runs[0].encoder.name}" in shown
    assert "encoder=none" in shown
