"""A trained model again, from its checkpoint alone: the same figures, labels for new text; and what
a stranger's may not do.
"""

import json
import logging
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from elmo_bench.build import trusted
from elmo_bench.build.checkpoint import extend, restore
from elmo_bench.encoders.bilm import save
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.train import train
from elmo_bench.nn import tokens
from elmo_bench.runs import figure
from elmo_bench.settings import command, inputs
from elmo_bench.text.vocab import UNKNOWN
from tests.conftest import QUIET, composed, result_of
from tests.encoders.random_bilm import random_bilm
from tests.jobs.small_settings import SMALL
from tests.tasks.small_files import RECORDS


@pytest.fixture
def predicted(new_run):
    """A function of a checkpoint and two files: predict labels; return the lines written."""

    def predicted(checkpoint, source, output):
        files = [f"input={source}", f"output={output}"]
        predict(new_run("job=predict", f"checkpoint={checkpoint}", *files))
        return output.read_text().splitlines()

    return predicted


GONE = object()
SHORT = ["data.size=2", "fit.max_epochs=1"]


@pytest.fixture
def trained(new_run):
    """A function of a task and overrides: the checkpoint of a run, and its figures."""

    def trained(task, *overrides):
        cfg = new_run(f"task={task}", *SHORT, *SMALL[task], *overrides)
        return Path(cfg.run_dir, "best.ckpt"), train(cfg)

    return trained


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    """The checkpoint of a small NER model on mini, and its figures; for tests that only read it."""
    run_dir = tmp_path_factory.mktemp("entities")
    cache = f"cache_dir={tmp_path_factory.getbasetemp()}"
    cfg = composed("task=ner", *SHORT, *SMALL["ner"], *QUIET, f"run_dir={run_dir}", cache)
    return run_dir / "best.ckpt", train(cfg)


def test_a_model_of_a_fold_is_not_scored_on_what_it_saw(trained, new_run, predicted, tmp_path):
    """Its result says which fold it was tested on; new text and other corpora are as always."""
    checkpoint, metrics = trained("ner", "encoder=none", "data.folds=3", "seed=5")
    result = result_of(checkpoint.parent)
    assert (result["config"]["data"]["folds"], result["config"]["data"]["fold"]) == (3, 2)
    assert set(result["examples"]) == {"train", "dev", "test"}
    assert "test/f1" in metrics
    text = tmp_path / "text.txt"
    text.write_text("Ann sleeps .\n")
    assert len(predicted(checkpoint, text, tmp_path / "labels.jsonl")) == 1
    again = ["job=evaluate", f"checkpoint={checkpoint}"]
    for split in ("train", "dev", "test"):
        with pytest.raises(ValueError, match=r"was trained with data.folds=3 on a part of .*: the"):
            evaluate(new_run(*again, f"split={split}"))
    other = tmp_path / "other.txt"
    other.write_text("Ann B-PER\nsleeps O\n")
    cfg = new_run(*again, "data=files", f"data.files.test={other}")
    assert "test/f1" in evaluate(cfg)
    assert result_of(cfg.run_dir)["config"]["trained_on"]["folds"] == 3


def test_a_bilm_of_a_folder_that_moved(trained, tmp_path, monkeypatch):
    """It is named in the checkpoint, and again on the command line where it lies elsewhere."""
    save(random_bilm(), tmp_path / "bilm" / "weights.hdf5")
    checkpoint, _ = trained("ner", "encoder=files", f"encoder.dir={tmp_path}/bilm")
    (tmp_path / "bilm").rename(tmp_path / "moved")
    again = ["job=evaluate", f"checkpoint={checkpoint}"]
    with pytest.raises(FileNotFoundError, match=r"encoder.dir=.*bilm: no such folder"):
        restore(composed(*again))
    monkeypatch.setattr(command, "overridden", lambda _: {"encoder": "files", "encoder.dir": ""})
    module = restore(composed(*again, "encoder=files", f"encoder.dir={tmp_path}/moved")).module
    assert module.elmo.encoder.dim == 8


@pytest.mark.parametrize("task", SMALL)
def test_the_figures_of_training_again_and_labels_for_new_text(
    new_run, trained, predicted, times_read, tmp_path, task
):
    """The biLM reads each sentence of training once, whatever the task."""
    more = ["fit.max_epochs=2", f"cache_dir={tmp_path}/cache"]
    checkpoint, metrics = trained(task, *more)
    assert set(times_read.values()) == {1}
    for split in ("dev", "test"):
        cfg = new_run("job=evaluate", f"checkpoint={checkpoint}", f"split={split}")
        figures = {key.removeprefix(f"{split}/"): value for key, value in evaluate(cfg).items()}
        of_training = {name: metrics[f"{split}/{name}"] for name in figures}
        assert figures == pytest.approx(of_training)
        assert sum(name.startswith(f"{split}/") for name in metrics) == len(figures)
        assert result_of(cfg.run_dir)["config"]["trained_on"]["name"] == "sample"
        ours, theirs = (
            np.load(Path(left, "counts", f"{split}.npz"))
            for left in (cfg.run_dir, checkpoint.parent)
        )
        assert all((ours[key] == theirs[key]).all() for key in theirs)
        keys = theirs.keys() - {"sentences", "groups", "unit"}
        sums = {key: figure(theirs[key].sum(0)) for key in keys}
        assert sums == pytest.approx({key: figures[key] for key in sums}, abs=1e-6)
        assert {"accuracy", "f1", "las"} & sums.keys()
    for path in Path(cfg.run_dir, "predictions").iterdir():
        assert path.read_text() == (checkpoint.parent / "predictions" / path.name).read_text()

    source, records = tmp_path / "in.jsonl", [*RECORDS[task]]
    if task == "ner":
        records.append({"text": "half a pair: \ud83d"})
    source.write_text("".join(json.dumps(record) + "\n\n" for record in records))
    lines = predicted(checkpoint, source, tmp_path / "out.jsonl")
    # Every other line is blank, as in the input.
    labelled = [json.loads(line) for line in lines[::2]]
    assert [record["line"] for record in labelled] == [2 * k + 1 for k in range(len(records))]
    assert set(lines[1::2]) <= {""}
    assert [record.get("id") for record in labelled] == [record.get("id") for record in records]
    answers = {"tags", "label", "answer", "clusters", "heads"}
    assert all(record.keys() & answers for record in labelled)


def test_raw_text(entities, predicted, tmp_path):
    (tmp_path / "in.txt").write_text("Bob sings well.\nAnn slept.\n")
    lines = predicted(entities[0], tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert [("Bob" in line, "Ann" in line) for line in lines] == [(True, False), (False, True)]


COLUMNS = "in.txt has one word per line, in columns, but job=predict reads text"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.jsonl", '{"text": "a"}\n{"text": "b', "in.jsonl:2: not JSON, from character 10"),
        ("in.jsonl", '["a"]\n', "in.jsonl:1: .*but each line must be a JSON object"),
        ("in.jsonl", '{"words": ["a"]}\n', "in.jsonl:1: a record must have 'tokens'"),
        ("in.txt", "", "in.txt: the file is empty"),
        ("in.txt", "\n\n", "in.txt: the test file has no examples"),
        ("in.txt", "Ann I-PER\nslept O\n\nRain O\n", COLUMNS),
        ("in.txt", "#begin document (nw/x); part 000\nnw/x 0 0 Run (0)\nnw/x 0 1 . -\n", COLUMNS),
        ("in.txt", "# text = Rain\n1\tRain\train\n\n1\tSnow\tsnow\n", COLUMNS),
    ],
)
def test_input_that_is_not_what_it_should_be(entities, predicted, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        predicted(entities[0], tmp_path / name, tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_without_the_vectors_it_was_trained_with(new_run, trained, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 2 3\n. 4 5 6\n")
    checkpoint, metrics = trained(
        "ner", f"vocab.vectors={vectors}", "embed.freeze=true", "finetune=full"
    )
    vectors.unlink()
    cfg = new_run("job=evaluate", f"checkpoint={checkpoint}")
    assert evaluate(cfg)["test/f1"] == metrics["test/f1"]
    results = [result_of(left) for left in (checkpoint.parent, cfg.run_dir)]
    assert results[0]["parameters"] == results[1]["parameters"]
    assert results[0]["parameters"]["frozen"]


def test_a_frozen_bilm_without_a_file_is_in_the_checkpoint(new_run, trained):
    checkpoint, metrics = trained("sst5", "encoder.pretrained=false")
    torch.manual_seed(99)
    figures = evaluate(new_run("job=evaluate", f"checkpoint={checkpoint}"))
    assert figures["test/accuracy"] == metrics["test/accuracy"]


def edited(checkpoint, tmp_path, key, value, *more):
    """The command of an evaluation of a checkpoint with another value, or none, of a key."""
    content = torch.load(checkpoint, weights_only=True)
    *path, last = key.split("/")
    node = reduce(lambda node, name: node[name], path, content)
    node.pop(last, None)
    if value is not GONE:
        node[last] = value
    torch.save(content, tmp_path / "edited.ckpt")
    file = f"checkpoint={tmp_path}/edited.ckpt"
    return composed("job=evaluate", file, f"run_dir={tmp_path}", *more, whole=True)


FETCH = {"_target_": "elmo_bench.files.fetch", "url": "https://host/x", "folder": "/etc"}
EVIL = {"name": "transformer", "model": "somebody/evil"}
TYPE = "Input should be"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("embed/_target_", "os.system", "names 'os.system'"),
        ("embed", "a", f"elmo_bench.config.embed is 'a': {TYPE} a valid dictionary"),
        ("embed", {1: 2}, rf"config.embed.1.\[key\] is 1: {TYPE} a valid string"),
        ("task/data", "outputs.theirs", "data=outputs.theirs, which is not a module of tasks"),
        ("task/name", "../x", r"sets task.name=../x, which is not a name of a task"),
        ("task/metric/_target_", "tasks.ner.data.read", "names 'tasks.ner.data.read'"),
        ("encoder/name", "../evil", "trained with encoder=../evil, but conf/encoder has only bert"),
        ("encoder/weights", "https://host/x", "may only set local paths"),
        ("encoder/weights", FETCH, "names 'elmo_bench.files.fetch'"),
        ("encoder", EVIL, "encoder.model=somebody/evil, which is not a local folder"),
        ("encoder/theirs", 1, "sets encoder.theirs=1, but it may only set"),
        ("vocab/smuggle", ("${oc.env:HOME}",), "contains a tuple"),
        ("vocab/vectors", "???", r"refers to '\?\?\?'"),
        ("data", GONE, r"was trained on data=None, which is not .*: give data=NAME"),
        ("data/option", "../evil", "on data=../evil, which is not an option of conf/data: give"),
        ("data/root", "/etc", "was trained with data=sample data.root=/etc: give data=NAME"),
        ("data/files/test", "https://host/x", "but a file must be a local path"),
        ("data/files", ["x"], "data.files must map splits to paths"),
        ("rnn/hidden_size", 2_000, r"edited.ckpt: its .*(far larger|it must be)"),
        ("rnn/hidden_size", "x", r"edited.ckpt: its settings.* rnn.hidden_size=x, but it must be"),
        ("rnn/_args_", [1], "its config contains an invalid key: _args_"),
        ("finetune/rank", 65_536, r"edited.ckpt: its settings.*rank=65536, but it must"),
        ("elmo/at", ["x"], r"edited.ckpt: its settings.* elmo.at="),
    ],
)
def test_a_stranger_s_checkpoint_calls_nothing_but_ours(entities, tmp_path, key, value, message):
    with pytest.raises(ValueError, match=message):
        restore(edited(entities[0], tmp_path, f"elmo_bench/config/{key}", value))


def test_the_folder_of_a_transformer_that_has_moved(entities, tmp_path):
    """It may be given; what is said can be added as it stands."""
    stored = {"name": "minilm", "model": "/old/minilm"}
    at = entities[0], tmp_path, "elmo_bench/config/encoder", stored
    given = ["encoder=transformer", "encoder.name=minilm"]
    said = " ".join(given)
    with pytest.raises(ValueError, match=f"{said} encoder.model=FOLDER.*encoder.revision=null"):
        restore(edited(*at, *given))
    with pytest.raises(ValueError, match=f"{tmp_path} cannot be used .* has no config.json"):
        restore(edited(*at, *given, f"encoder.model={tmp_path}"))


def test_the_share_of_a_corpus_that_was_dev_is_a_number_of_its_run():
    stored = {"option": "files", "held_out": 0.2, "files": {"train": "a.tsv"}}
    assert trusted.corpus(composed(), stored, "a run").held_out == 0.2


@pytest.mark.parametrize("name", ["trec", "cola"])
def test_a_corpus_of_ours_is_known_again(name):
    """Also with a note that names its share of dev; its columns cannot be another's."""
    cfg = composed("task=classify", f"data={name}")
    stored = OmegaConf.to_container(cfg.data, resolve=True) | {"option": name}
    assert trusted.corpus(composed(), stored, "a run").columns == cfg.data.columns
    stored["columns"]["id"] = 3
    with pytest.raises(ValueError, match=f"data={name} data.columns.id=3: give data=NAME"):
        trusted.corpus(composed(), stored, "a run")


LACKS = "not a checkpoint of elmo-bench, such as a best.ckpt of job=train"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("state_dict", GONE, LACKS),
        ("state_dict/model.output.bias", torch.tensor(torch.nan), "bias: it contains NaN or inf"),
        ("elmo_bench/config", GONE, LACKS),
        ("elmo_bench/vocab", GONE, LACKS),
        ("elmo_bench/vocab/words", "abc", "vocab.words is 'abc': "),
        ("elmo_bench/vocab/words", [1], "vocab.words.0 is 1: "),
        ("elmo_bench/vocab/labels", ["O"] * 17_000, "vocab.labels is .*: List should have at most"),
        ("elmo_bench/vocab/lowercase", "x", "vocab.lowercase.* is 'x': "),
        ("elmo_bench/encoder", "82", "was trained with another version of encoder"),
        ("elmo_bench/run", GONE, LACKS),
        ("elmo_bench/run/more", "${oc.env:HOME}", "may refer to nothing"),
        ("elmo_bench/run/config/trainer", GONE, "run.config.trainer is None: "),
        ("elmo_bench/run/config/seed", "1", "run.config.seed is '1': "),
        ("elmo_bench/run/parameters/frozen", "many", "run.parameters.frozen is 'many': "),
        ("elmo_bench/run/inputs", ["data.train"], f"run.inputs is .*: {TYPE}"),
    ],
)
def test_the_other_parts_of_a_stranger_s_checkpoint(entities, tmp_path, key, value, message):
    with pytest.raises(ValueError, match=f"edited.ckpt.*{message}"):
        restore(edited(entities[0], tmp_path, key, value))


def test_vectors_below_another_data_dir(trained, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "vectors.txt").write_text("the 1 2 3\n")
    own = [f"data_dir={tmp_path}/here", "vocab.vectors=${data_dir}/vectors.txt"]
    checkpoint, _ = trained("ner", "encoder=none", *own)
    (tmp_path / "here").rename(tmp_path / "there")
    again = ["job=evaluate", f"checkpoint={checkpoint}", f"data_dir={tmp_path}/there"]
    config = restore(composed(*again)).config
    assert inputs.vector_files(config) == [f"{tmp_path}/there/vectors.txt"]


def test_words_that_training_did_not_see_have_their_vectors(trained, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HOME", str(tmp_path))
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 2 3\nzork 4 5 6\nfoo 7 8 9\n")
    checkpoint, _ = trained("ner", "encoder=none", "embed=words_chars", f"vocab.vectors={vectors}")
    restored, module, vocab, _ = restore(composed("job=predict", f"checkpoint={checkpoint}"))
    restored.vocab.vectors = "~/vectors.txt"  # as a user gives it
    num_words = vocab.num_words
    with caplog.at_level(logging.INFO):
        extend(restored, module, vocab, [["Zork", "the", "xyzzy", "xyzzy"]])
    assert "vocab.vectors has 1 of the words not seen in training" in caplog.text
    found = vocab.word_id("Zork"), vocab.num_words, vocab.word_id("xyzzy")
    assert found == (num_words, num_words + 1, UNKNOWN)
    embedded = module.model.backbone.embed(tokens([["Zork", "the"]], vocab))
    assert embedded[0, 0, :3].tolist() == [4, 5, 6]
    vectors.unlink()
    with caplog.at_level(logging.WARNING):
        extend(restored, module, vocab, [["bar"]])
    assert "vectors.txt does not exist, so words not seen in training are unknown" in caplog.text
    vectors.write_text("the 1 2\nbar 1 2\n")
    with pytest.raises(
        ValueError, match=r"vectors have 2 numbers, but the model was trained with 3"
    ):
        extend(restored, module, vocab, [["bar"]])


def test_labels_that_the_model_does_not_know(entities, new_run, tmp_path):
    (tmp_path / "x.txt").write_text("a B-NEW\n")
    files = [f"data.files.{split}={tmp_path}/x.txt" for split in ("train", "dev", "test")]
    command = ["job=evaluate", f"checkpoint={entities[0]}", "data=wikigold", *files]
    with pytest.raises(ValueError, match=r"x.txt:1: labels NEW of the test file .*, which has LOC"):
        evaluate(new_run(*command))
