"""Made-up runs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo_bench.runs import Run, as_baseline

PAPERS = {"ner": "conll2003", "srl": "ontonotes5", "snli": "snli"}  # the paper's corpora
SEEDS = (1, 2, 3, 4, 5)  # with fewer, a comparison is preliminary


def a_run(task: dict[str, Any] | None = None, folder: Path = Path(), **more: Any) -> Run:
    """A run of a task without a file; `more` has its other fields, the config beside the task too."""
    config = {"task": {"name": "ner", "monitor": "f1"} | (task or {})} | more.pop("config", {})
    return Run(**{"folder": folder, "config": config, "seed": 1} | more)


def write_run(folder: Path, metrics: Mapping[str, float], config: Any = (), **more: Any) -> None:
    """Write a run's result.json or, without metrics, run.json; `more` has its other fields."""
    usual = {"task": {"name": "ner", "monitor": "f1"}, "encoder": {"name": "mini"}}
    config = usual | {"elmo": {"mix": "all"}, "seed": 1} | dict(config)
    folder.mkdir(parents=True, exist_ok=True)
    content = {"task": config["task"]["name"], "seed": config["seed"]}
    content |= {"metrics": metrics, "config": config} | more
    (folder / ("result.json" if metrics else "run.json")).write_text(json.dumps(content))


def write_failed(folder: Path, config: Any = (), **more: Any) -> None:
    """Write what a run leaves for which memory was too small."""
    write_run(folder, {}, config, inputs={}, started="then", **more)
    (folder / "error.txt").write_text("Traceback (most recent call last):\n  f\nMemoryError: x\n")


def change(folder: Path, how: Callable[[Any], object]) -> None:
    """Change what a finished run's result.json holds."""
    path = folder / "result.json"
    content = json.loads(path.read_text())
    how(content)
    path.write_text(json.dumps(content))


def scored_run(folder, f1, seed=1, right=None, sentences=None, documents=None, more=(), **choices):
    """A run's folder; `right` are the examples, of one chunk each, that it has right, so that F1 is
    their share.

    `more` stands in its `result.json` too.
    """
    config = {
        "task": {"name": "ner", "monitor": "f1"},
        "data": {"name": PAPERS.get(choices.get("task_name", "ner"), "sample")},
        "encoder": {"name": "mini"},
        "elmo": {"mix": "all"},
        "finetune": {"name": "none"},
        "seed": seed,
    }
    for key, value in choices.items():
        group, _, name = key.partition("_")
        config[group][name] = value
    if config["encoder"]["name"] == "none":
        as_baseline(config)
    metrics = {"test/f1": f1, "test/recall": f1 / 2, "dev/f1": f1 / 4}
    write_run(folder, **{"metrics": metrics, "config": config} | dict(more))
    (folder / "counts").mkdir()
    if right is not None:
        rows = np.stack([right, np.ones_like(right)] * 2, 1)[:, None].astype(float)
        numbers = np.arange(len(right)) if sentences is None else sentences
        arrays = {"sentences": np.asarray(numbers, dtype=np.uint64), "f1": rows}
        arrays["groups"] = np.arange(len(right)) if documents is None else documents
        if documents is not None:
            arrays["unit"] = np.frombuffer(b"document", np.uint8)
        np.savez(folder / "counts" / "test.npz", **arrays)


def trained_run(
    folder, f1, *, seed=1, name="mini", l2=0.1, dropout=0.5, fraction=1.0, epochs=(0.1, 0.3, 0.2)
):
    """A finished run as job=train leaves it; its best epoch is measured once more, after the last."""
    elmo = {"mix": "none" if name == "none" else "all", "l2": l2, "dropout": dropout}
    learned = {"layers": [0, 1, 2], "shares": [0.2, 0.5, 0.3], "gamma": 1.25, "norms": []}
    mix = {} if name == "none" else {"input": learned}
    encoder = {"name": name} | ({} if name == "none" else {"_target_": "load"})
    write_run(
        folder,
        {"test/f1": f1, "dev/f1": max(epochs)},
        {"encoder": encoder, "elmo": elmo, "fraction": fraction, "seed": seed},
        mix=mix,
        seconds={"training": 10.0 * seed, "total": 20.0},
        epochs=len(epochs),
        examples_per_second=1234.5,
        parameters={"trainable": 1000, "frozen": 2000},
        device="cpu",
    )
    rows = [f"{epoch},{value},\n{epoch},,0.5" for epoch, value in enumerate(epochs)]
    (folder / "metrics.csv").write_text(
        "\n".join(["epoch,dev/f1,train/loss", *rows, f"{len(epochs)},{max(epochs)},", ",0.9,"])
    )


def commanded_run(folder, seed, *overrides):
    """A run with the overrides of its command in a file."""
    (folder / ".hydra").mkdir(parents=True)
    text = "".join(f"- {each}\n" for each in (*overrides, f"seed={seed}"))
    (folder / ".hydra" / "overrides.yaml").write_text(text)
    return a_run(folder=folder, seed=seed, epochs="job=evaluate" not in overrides)
