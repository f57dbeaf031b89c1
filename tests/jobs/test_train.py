"""A whole run, small: what it leaves, that it repeats, and what it says of bad input before any
training.
"""

import logging
import re
from pathlib import Path

import pytest
import pytorch_lightning.loggers
import torch
import wandb
from lightning_fabric import accelerators as fabric
from pytorch_lightning.accelerators import MPSAccelerator
from pytorch_lightning.loggers import Logger
from pytorch_lightning.strategies import SingleDeviceStrategy
from seqeval.metrics import f1_score

from elmo_bench import build
from elmo_bench.build import hardware
from elmo_bench.encoders import encode
from elmo_bench.jobs import train as job
from elmo_bench.jobs.train import train
from elmo_bench.metrics import SpanF1
from elmo_bench.report import report
from elmo_bench.report.learning import after_epochs
from elmo_bench.runs import collect, identity_of, read_run
from elmo_bench.terminal import progress
from elmo_bench.training import wandb_logger
from elmo_bench.training.log import is_first
from tests.conftest import result_of, weights_of

FOLDS = 5  # with fewer, a comparison is preliminary
PLATEAU = "+task.scheduler={_target_:torch.optim.lr_scheduler.ReduceLROnPlateau,_partial_:true}"


def test_what_a_run_leaves(tiny_ner):
    """Among it predictions in conlleval's format, in which an outside scorer finds the same F1; in
    the checkpoint no frozen biLM.
    """
    metrics = train(cfg := tiny_ner("elmo.at=[input,output]", "seed=3"))
    left = result_of(cfg.run_dir)
    assert left["metrics"] == metrics
    assert (left["task"], left["seed"], left["epochs"]) == ("ner", 3, 2)
    assert left["config"]["elmo"]["mix"] == "all"
    for place in ("input", "output"):
        mix = left["mix"][place]
        assert mix["layers"] == [0, 1, 2]
        assert sum(mix["shares"]) == pytest.approx(1)
        assert mix["gamma"] != 1  # it learnt
    assert left["parameters"]["frozen"] > 0
    assert (Path(cfg.run_dir) / "metrics.csv").read_text().count("\n") > 2
    kernels = torch.backends.cpu.get_cpu_capability()
    assert re.fullmatch(rf".+, {kernels}, {torch.get_num_threads()} threads?", left["device"])
    assert any("elmo.mixes" in name for name in weights_of(cfg.run_dir))
    assert not any("elmo.encoder" in name for name in weights_of(cfg.run_dir))
    written = Path(cfg.run_dir, "predictions", "test.conll").read_text(encoding="utf-8")
    blocks = written.strip().split("\n\n")
    rows = [[line.split(" ") for line in block.split("\n")] for block in blocks]
    gold, predicted = ([[row[column] for row in block] for block in rows] for column in (1, 2))
    assert metrics["test/f1"] == pytest.approx(f1_score(gold, predicted), abs=1e-6)
    assert len(rows) == len(build.examples(cfg).by_split["test"])


@pytest.mark.parametrize(
    ("told", "expected"), [({}, True), ({"NODE_RANK": "0"}, True), ({"NODE_RANK": "1"}, False)]
)
def test_which_process_is_the_first(monkeypatch, told, expected):
    """Two that both were would wait for each other: one for the run's folder, one for the other's
    connection.
    """
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert is_first() is expected


@pytest.mark.parametrize("scheduler", [[], [PLATEAU]])
def test_dev_is_scored_every_other_epoch(tiny_ner, caplog, scheduler):
    cfg = tiny_ner(
        "encoder=none", "fit.max_epochs=3", "+trainer.check_val_every_n_epoch=2", *scheduler
    )
    with caplog.at_level(logging.INFO):
        train(cfg)
    lines = [line for line in caplog.messages if line.startswith("epoch ")]
    assert ["dev/f1" in line for line in lines] == [False, True, False]


def test_an_epoch_that_ends_early(tiny_ner, caplog, monkeypatch):
    """Only the examples of its batches were seen; its best score may not be its last."""
    scores = iter([0.5, 0.6, 0.4])
    monkeypatch.setattr(SpanF1, "compute", lambda _: {"f1": torch.tensor(next(scores, 0.0))})
    short = ["+trainer.max_steps=3", "+trainer.val_check_interval=1"]
    cfg = tiny_ner("encoder=none", "fit.batch_size=1", *short)
    with caplog.at_level(logging.INFO):
        train(cfg)
    left = result_of(cfg.run_dir)
    assert left["examples_per_second"] * left["seconds"]["training"] == pytest.approx(3)
    assert "dev/f1 40.00" in caplog.text
    assert "best so far" not in caplog.text


def test_dev_that_is_the_training_file_and_a_long_pass_over_it(
    tiny_ner, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(progress, "PAUSE", 0)
    same = f"data.files.dev={tmp_path}/train.txt"
    with caplog.at_level(logging.INFO):
        train(tiny_ner(*corpus(tmp_path), same, "encoder=none", "fit.max_epochs=1"))
    assert "data.files.dev is the training file: its scores say how well" in caplog.text
    said = "epoch 1 of at most 1, batch: 1 of ", "dev, batch: 1 so far", "test, batch: 1 so far"
    assert all(line in caplog.text for line in said)


def test_same_seed_same_numbers(tiny_ner):
    """Workers change none of them, nor dropout."""
    first, again, other = (
        result_without_time(tiny_ner(f"seed={seed}", f"num_workers={workers}"))
        for seed, workers in ((1, 0), (1, 2), (2, 0))
    )
    assert first == again
    assert first != other


def result_without_time(cfg):
    train(cfg)
    names = weights_of(cfg.run_dir)
    weights = {name: value.tolist() for name, value in names.items() if "metrics" not in name}
    return result_of(cfg.run_dir)["metrics"], result_of(cfg.run_dir)["mix"], weights


def test_overfitting_ends_when_all_is_right(new_run):
    cfg = new_run("encoder=none", "trainer=overfit", "fit.overfit=2", "task.optimizer.lr=0.02")
    assert train(cfg)["dev/f1"] == 1
    assert 1 < result_of(cfg.run_dir)["epochs"] < cfg.fit.max_epochs


@pytest.mark.parametrize("norm", ["none", "word"])
def test_the_mean_norm_of_each_layer_on_dev(tiny_ner, norm):
    train(cfg := tiny_ner(f"elmo.norm={norm}", "elmo.at=[input,output]"))
    mix = result_of(cfg.run_dir)["mix"]
    sentences = [*build.examples(cfg).sentences("dev")]
    layers = torch.cat([*encode(build.elmo(cfg).encoder, sentences)], 1)  # L T D, all words
    expected = layers.norm(dim=-1).mean(1) if norm == "none" else [layers.shape[-1] ** 0.5] * 3
    for place in ("input", "output"):
        assert mix[place]["norms"] == pytest.approx([*map(float, expected)], rel=1e-4)


def test_a_baseline_mixes_nothing(tiny_ner):
    """Whichever of encoder and elmo.mix is none: a sweep over both has such runs."""
    cfg = tiny_ner("encoder=mini", "elmo.mix=none")
    asked = identity_of(cfg, {})
    train(cfg)
    assert result_of(cfg.run_dir)["config"]["encoder"] == {"name": "none"}
    assert result_of(cfg.run_dir)["mix"] == {}
    assert result_of(cfg.run_dir)["parameters"]["frozen"] == 0
    assert asked == identity_of(tiny_ner("encoder=none", "elmo.mix=all"), {})


@pytest.mark.parametrize(
    "overrides",
    [
        ["encoder.precision=bfloat16"],
        ["encoder.precision=bfloat16", "finetune=full"],
        ["~logger"],
    ],
)
def test_variants_run(tiny_ner, overrides):
    cfg = tiny_ner(*overrides)
    assert 0 <= train(cfg)["test/f1"] <= 1
    assert result_of(cfg.run_dir)["mix"]


@pytest.mark.parametrize(
    ("cores", "threads", "gpus", "number"),
    [(16, "", 1, 4), (4, "", 1, 3), (1, "", 1, 0), (16, "2", 1, 1), (8, "", 2, 3)],
)
def test_workers_beside_a_gpu(tiny_ner, monkeypatch, cores, threads, gpus, number):
    """As many as the share of the cores allows, which a sweep gives a run as OMP_NUM_THREADS."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(hardware, "cores", lambda: cores)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    cfg = tiny_ner("trainer=gpu")
    assert hardware.workers(cfg) == number
    cfg.trainer.accelerator = "cpu"
    assert hardware.workers(cfg) == 0
    cfg.num_workers = 7
    assert hardware.workers(cfg) == 7


def test_a_store_is_computed_on_the_device_of_the_run(tiny_ner, monkeypatch):
    def store(cfg, elmo, data, where):
        raise InterruptedError(where)

    monkeypatch.setattr(build, "store", store)
    monkeypatch.setattr(SingleDeviceStrategy, "root_device", torch.device("cuda", 1))
    with pytest.raises(InterruptedError, match=r"^cuda:1$"):
        train(tiny_ner())


def corpus(tmp_path, **splits):
    """Overrides that point at three small files."""
    good = b"John B-PER\nSmith I-PER\nslept O\n\nParis B-LOC\n"
    paths = {split: tmp_path / f"{split}.txt" for split in ("train", "dev", "test")}
    for split, path in paths.items():
        path.write_bytes(splits.get(split, good))
    return ["data=wikigold", *(f"data.files.{split}={path}" for split, path in paths.items())]


def test_the_result_names_the_device_of_the_trainer(tiny_ner, monkeypatch):
    """The module is back on the CPU when its training is over."""
    measured = job._measure

    def then_on_a_gpu(*args):
        metrics = measured(*args)
        monkeypatch.setattr(SingleDeviceStrategy, "root_device", torch.device("cuda", 1))
        return metrics

    monkeypatch.setattr(job, "_measure", then_on_a_gpu)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    train(cfg := tiny_ner())
    assert result_of(cfg.run_dir)["device"] == "GPU 1"


def test_test_examples_in_training_and_in_the_text_of_the_encoder(tiny_ner, tmp_path, caplog):
    known = "John B-PER\nSmith I-PER\nslept O\n\n"
    (tmp_path / "text.txt").write_text("Paris\n\nit rained .\n")
    files = corpus(tmp_path, test=f"{known}Paris B-LOC\n\nparis O\n".encode(), dev=b"Rome B-LOC\n")
    text = ["text=files", f"text.files.train={tmp_path}/text.txt"]
    cfg = tiny_ner(*files, *text, "encoder=none", "fit.max_epochs=1")
    with caplog.at_level(logging.INFO):
        train(cfg)
    assert "2 of 3 test examples (66.7 %) also stand in training" in caplog.text
    assert "1 of 3 test examples (33.3 %) also stand in text.files.train" in caplog.text
    overlap = {"training": [2, 3], "text": [1, 3], "n-grams": [0, 3]}
    run = read_run(Path(cfg.run_dir, "result.json"))
    assert run.overlap == {k: {"dev": [0, 1], "test": v} for k, v in overlap.items()}
    assert identity_of(cfg, {}) == identity_of(
        tiny_ner(*files, "encoder=none", "fit.max_epochs=1"), {}
    )


def test_a_run_says_what_makes_its_scores_mean_nothing(tiny_ner, tmp_path, caplog):
    """In the log and in the result, as an evaluation of it does."""
    none = b"it O\nrains O\n\nAnn O\nsleeps O\n"
    cfg = tiny_ner(*corpus(tmp_path, train=none, dev=none, test=none), "fit.max_epochs=1")
    with caplog.at_level(logging.INFO):
        train(cfg)
    run = read_run(Path(cfg.run_dir, "result.json"))
    assert run.examples == {"train": 2, "dev": 2, "test": 2}
    assert [*run.cautions] == ["train", "dev", "test"]
    assert run.cautions["train"].startswith("training has no entity: there is nothing to learn")
    assert all(said in caplog.text for said in run.cautions.values())
    some = none.replace(b"Ann O", b"Ann B-PER")
    cfg = tiny_ner(*corpus(tmp_path, train=some, dev=some, test=some), "fit.max_epochs=1")
    train(cfg)
    cautions = read_run(Path(cfg.run_dir, "result.json")).cautions
    assert {*cautions} <= {"dev/predicted", "test/predicted"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_devices_that_are_not_there(tiny_ner, monkeypatch):
    """It says so before the biLM reads a sentence."""
    monkeypatch.setattr(build, "store", pytest.fail)
    said = r"^trainer.accelerator=gpu{}; use trainer=auto to use the available devices"
    with pytest.raises(ValueError, match=said.format(", but torch finds no GPU")):
        train(tiny_ner("trainer.accelerator=gpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # but not as many as asked for
    with pytest.raises(ValueError, match=said.format(" trainer.devices=1: .*")):
        hardware.trainer(tiny_ner("trainer.accelerator=gpu"), [])


def test_apples_gpu_is_not_chosen(tiny_ner, monkeypatch):
    """It lacks float64."""
    for accelerator in (MPSAccelerator, fabric.MPSAccelerator):
        monkeypatch.setattr(accelerator, "is_available", lambda: True)
    trainer = hardware.trainer(tiny_ner("trainer.accelerator=auto"), [])
    assert trainer.strategy.root_device.type == "cpu"


def test_a_logger_that_is_not_installed(tiny_ner, monkeypatch):
    def missing(**_):
        raise ModuleNotFoundError("no tensorboard")

    monkeypatch.setattr(pytorch_lightning.loggers, "TensorBoardLogger", missing)
    with pytest.raises(ModuleNotFoundError, match="no tensorboard"):
        train(tiny_ner("logger=tensorboard"))


class Recorder(Logger):
    """What TensorBoard's logger is told, where it is not installed."""

    name, version = "recorder", 0

    def __init__(self, **settings):
        super().__init__()
        self.settings, self.told = settings, []
        Recorder.latest = self

    def log_metrics(self, metrics, step=None):
        self.told.append((step, metrics))

    def log_hyperparams(self, params):
        pass


def test_a_logger_gets_curves(tiny_ner, monkeypatch):
    """Loss and learning rates by step, dev by epoch; the best epoch's figures have names of their
    own and overwrite nothing.
    """
    monkeypatch.setattr(pytorch_lightning.loggers, "TensorBoardLogger", Recorder)
    settings = ["trainer.log_every_n_steps=1", "elmo.mix_lr=0.5", "fit.batch_size=2"]
    metrics = train(cfg := tiny_ner("logger=tensorboard", *settings))
    curves = {}
    for step, figures in Recorder.latest.told:
        for name, value in figures.items():
            curves.setdefault(name, []).append((step, value))
    steps = [step for step, _ in curves["train/loss_step"]]
    assert steps == sorted({*steps})
    assert len(steps) > 2
    assert [step for step, _ in curves["lr-Adam/model"]] == steps
    assert {rate for _, rate in curves["lr-Adam/mix"]} == {0.5}
    assert len(curves["dev/f1"]) == len({step for step, _ in curves["dev/f1"]}) == 2
    assert curves["best/dev/f1"] == [(len(steps), metrics["dev/f1"])]
    assert curves["test/f1"] == [(len(steps), metrics["test/f1"])]
    assert Recorder.latest.settings["default_hp_metric"] is False
    # The learning curve that a report draws from metrics.csv.
    assert len(after_epochs(read_run(Path(cfg.run_dir, "result.json")), None)) == 2


def test_wandb_is_told_of_an_exploding_loss(tiny_ner, monkeypatch):
    codes = []
    monkeypatch.setattr(wandb_logger, "logger", Recorder)
    monkeypatch.setattr(wandb, "finish", lambda exit_code: codes.append(exit_code))
    train(tiny_ner("logger=wandb", "encoder=none"))
    with pytest.raises(FloatingPointError, match=r"the loss is nan at step .*task.optimizer.lr"):
        train(tiny_ner("logger=wandb", "encoder=none", "task.optimizer.lr=inf"))
    assert codes == [0, 1]


def test_missing_corpus_says_where_it_comes_from(tiny_ner, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_dir=.*conll2003.*NIST"):
        train(tiny_ner("data=conll2003", f"data_dir={tmp_path}"))


def test_a_label_that_dev_lacks_is_no_monitor(tiny_ner):
    with pytest.raises(ValueError, match=r"task.monitor=XYZ/f1, but dev has only .*/f1"):
        train(tiny_ner("encoder=none", "task.monitor=XYZ/f1", "task.monitor_title=F1 of XYZ"))


def test_vectors_that_know_no_word(tiny_ner, tmp_path):
    (tmp_path / "v.txt").write_text("qqq 1 2\n")
    with pytest.raises(ValueError, match=r"vocab.vectors=.*it has no vector for any word"):
        train(tiny_ner(f"vocab.vectors={tmp_path}/v.txt"))


def test_a_fold_for_each_seed(tiny_ner, tmp_path):
    """Both sides of all folds, and their report: each example of the corpus is tested once."""
    tested = []
    for seed in range(1, FOLDS + 1):
        for encoder in ("none", "mini"):
            more = [f"data.folds={FOLDS}", f"seed={seed}", "fit.max_epochs=1"]
            train(cfg := tiny_ner(f"encoder={encoder}", *more))
        found = build.examples(cfg).by_split
        assert result_of(cfg.run_dir)["examples"] == {key: len(of) for key, of in found.items()}
        tested += [example.source for example in found["test"]]
    assert len(tested) == len(set(tested)) == 88
    shown = report(collect([tmp_path]), None, ["encoder"], baseline=("none",))
    (cell,) = [cell for cell in shown.cells if cell.comparison]
    test = cell.comparison.test
    assert test.folds == FOLDS
    assert (test.examples, test.is_preliminary) == (88, False)
    assert cell.comparison.p_holm == pytest.approx(test.p)
    assert cell.size == "88 in 22 documents, 5 folds"
