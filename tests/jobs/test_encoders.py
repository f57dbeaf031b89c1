"""Every kind of encoder in every job that reads one; a transformer under every task."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_bench import encode, load_encoder
from elmo_bench.jobs.embed import embed
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.probe import probe
from elmo_bench.jobs.train import train
from tests.jobs.small_settings import SMALL

LINE = "Morin opened the old brewery ."


@pytest.fixture
def encoders(random_bert, tmp_path):
    """The overrides of each encoder."""
    vectors, words = tmp_path / "vectors.txt", [*LINE.split(), "the", "a", "in", "was", "of"]
    vectors.write_text("".join(f"{word} {n % 3} 1 -{n % 5}\n" for n, word in enumerate(words)))
    return {
        "transformer": ["encoder=transformer", f"encoder.model={random_bert}"],
        "static": ["encoder=static", f"encoder.vectors={vectors}"],
        "forward": ["encoder=mini", "encoder.directions=[forward]"],
    }


@pytest.mark.parametrize("task", ["coref", "squad", "srl"])
def test_tasks_that_cut_batches_or_read_two_texts(new_run, encoders, task):
    """The transformer reads each batch; `tests/build/test_checkpoint.py` has all tasks on a store."""
    short = ["data.size=2", *SMALL[task], "fit.max_epochs=1", "store.mode=off"]
    cfg = new_run(f"task={task}", *short, *encoders["transformer"])
    assert f"test/{cfg.task.monitor}" in train(cfg)
    result = json.loads(Path(cfg.run_dir, "result.json").read_text())
    assert result["mix"]["input"]["layers"] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["transformer", "static", "forward"])
def test_every_job(new_run, encoders, tmp_path, kind):
    """`embed`, `probe`, `train`, `evaluate` and `predict`."""
    (tmp_path / "text.txt").write_text(f"{LINE}\n\nthe brewery was old .\n")
    text, out = f"input={tmp_path}/text.txt", tmp_path / "layers.hdf5"
    embed(new_run("job=embed", *encoders[kind], text, f"output={out}"))
    with h5py.File(out) as file:
        layers = {name: file[name][()] for name in ("0", "1")}
    name, settings = encoders[kind][1].partition("=")[2], {}
    if kind == "forward":
        name, settings = "mini", {"directions": ["forward"]}
    (expected,) = encode(load_encoder(name, **settings), [LINE.split()])
    np.testing.assert_allclose(layers["0"], expected.numpy(), atol=1e-5)
    assert layers["1"].shape == (len(expected), 0, expected.shape[-1])

    torch.manual_seed(0)
    figures = probe(
        new_run("job=probe", *encoders[kind], "data.size=10", "probe.steps=20", "probe.seeds=1")
    )
    assert {f"pos/{layer}" for layer in range(len(expected))} <= figures.keys()

    sizes = ["task=ner", *SMALL["ner"], "data.size=2", "fit.max_epochs=1"]
    cfg = new_run(*sizes, *encoders[kind])
    figures = train(cfg)
    checkpoint = f"checkpoint={cfg.run_dir}/best.ckpt"
    again = evaluate(new_run("job=evaluate", checkpoint, "split=test"))
    assert again == {name: value for name, value in figures.items() if name.startswith("test/")}
    predict(new_run("job=predict", checkpoint, text, f"output={tmp_path}/tags.jsonl"))
    tags = json.loads((tmp_path / "tags.jsonl").read_text().splitlines()[0])
    assert len(tags["tags"]) == len(LINE.split())
