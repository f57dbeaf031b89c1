"""Notes on scores that do not mean what they seem to."""

import numpy as np
import pytest

from elmo_bench.report.build import build_tables
from tests.conftest import COSTS
from tests.runs.made_runs import write_run

LATE = "no entity is predicted on test, which has 7"
EARLY = "no entity is predicted on dev, which has 9"
UNREAD = "encoder=mini: the tokenizer knows no piece of 3 of 4 word types"
SETTINGS = {
    "where": None,
    "rows": None,
    "columns": "encoder",
    "baseline": None,
    "split": None,
    "metric": None,
    "contrasts": None,
    "paper": None,
    "tables": None,
    "cache_dir": "",
}


def run(folder, encoder, seed, f1=0.5, corpus="wikigold", trainer=None, **more):
    config = {"encoder": {"name": encoder}, "data": {"name": corpus}, "seed": seed}
    config |= {"trainer": trainer or {}}
    write_run(folder / f"{corpus}{encoder}{seed}", {"test/f1": f1, "dev/f1": f1}, config, **COSTS | more)  # fmt: skip


def notes(folder, **settings):
    tables = build_tables(SETTINGS | {"runs": str(folder)} | settings)
    return [note for table in tables for note in table.notes]


def test_a_fact_is_said_once_of_a_side_and_once_of_all(tmp_path):
    for seed in (1, 2):
        run(tmp_path, "none", seed, cautions={"test": "test has no entity"})
        warnings = {"test": "test has no entity", "encoder": UNREAD, "dev/predicted": EARLY}
        run(tmp_path, "mini", seed, cautions=warnings)
    assert notes(tmp_path) == ["ner (wikigold): test has no entity", f"ner, mini: {UNREAD}"]
    assert notes(tmp_path, split="dev") == [f"ner, mini: {UNREAD}", f"ner, mini: {EARLY}"]


def test_some_runs_of_a_side(tmp_path):
    run(tmp_path, "mini", 1, cautions={"test/predicted": LATE})
    run(tmp_path, "mini", 2)
    run(tmp_path, "mini", 3, cautions={"test/predicted": "no entity is predicted, either"})
    run(tmp_path, "none", 1)
    assert notes(tmp_path) == [f"ner, mini: {LATE} (so or alike in 2 of 3 runs)"]


def test_all_scores_are_nothing(tmp_path):
    for encoder in ("none", "mini"):
        run(tmp_path, encoder, 1, 0.0, cautions={"test/predicted": LATE})
        run(tmp_path, encoder, 1, 0.5, "wnut17")
    zeros = "ner (wikigold): every score is 0.00, so nothing is compared"
    assert notes(tmp_path) == [f"ner (wikigold): {LATE}", zeros]


def test_smoke_runs(tmp_path):
    run(tmp_path, "none", 1)
    run(tmp_path, "mini", 1, trainer={"limit_train_batches": 2})
    said = "ner, mini: smoke runs (trainer.limit_train_batches=2), whose scores mean nothing"
    assert said in notes(tmp_path)
    run(tmp_path, "none", 1, trainer={"limit_train_batches": 2})
    said = "ner (wikigold): smoke runs (trainer.limit_train_batches=2), whose scores mean nothing"
    assert said in notes(tmp_path)
    run(tmp_path, "mini", 1, trainer={"limit_train_batches": 0.5})
    assert not any(note.startswith("ner, mini: smoke") for note in notes(tmp_path))


def test_few_documents_stand_beside_the_interval(tmp_path):
    """Ten are not few."""
    for count in (3, 10):
        folder, rng = tmp_path / str(count), np.random.default_rng(0)
        for encoder in ("none", "mini"):
            for seed in (1, 2):
                right = rng.random(40) < (0.5 if encoder == "none" else 0.8)
                run(folder, encoder, seed, float(right.mean()))
                arrays = {"f1": np.stack([right, right**0] * 2, 1)[:, None].astype(float)}
                arrays |= {"groups": np.arange(40) % count, "sentences": np.arange(40).astype("u8")}
                arrays["unit"] = np.frombuffer(b"document", np.uint8)
                (folder / f"wikigold{encoder}{seed}" / "counts").mkdir()
                np.savez(folder / f"wikigold{encoder}{seed}" / "counts" / "test.npz", **arrays)
    said = "ner, mini: the interval rests on 3 documents only, which say little of others"
    assert notes(tmp_path / "3", baseline="none") == [said]
    assert notes(tmp_path / "10", baseline="none") == []


@pytest.mark.parametrize("wrong", [["a"], {"test": 1}])
def test_wrong_types_are_refused(tmp_path, wrong):
    run(tmp_path, "mini", 1, cautions=wrong)
    with pytest.raises(ValueError, match="not a result of elmo-bench: cautions"):
        notes(tmp_path)
