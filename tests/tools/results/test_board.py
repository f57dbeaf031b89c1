"""The board: its sweep, its page, and what `results/board.py --check` refuses."""

import csv
import io
import json
import lzma
import re
import shutil
import tarfile
import zlib
from functools import cache
from pathlib import Path

import board
import cells
import contribution
import exports
import numpy as np
import pytest
import yaml

from elmo_bench.runs import collect, figure, pack
from tests.conftest import composed

EXAMPLES = 60
CORPORA = list(cells.recipes())
METRICS = {"en_ewt": ("uas", "las"), "ewt_propbank": ("f1", "precision", "recall")}
METRICS["wnut17"] = METRICS["ewt_propbank"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TIMES = {"started": "2026-11-28T10:00:00+00:00", "finished": "2026-11-28T10:09:00+00:00"}
OURS = {"name": "ours", "_target_": "elmo_bench.encoders.transformer.Transformer", "model": "ours"}
THEIRS = OURS | {"name": "theirs", "model": "theirs"}
ENCODER_FILES = ("encoder.config.json", "encoder.model.safetensors")


def digest(text):
    return f"{zlib.crc32(text.encode()):064x}"


def inputs_of(corpus, encoder):
    inputs = {f"data.{split}": digest(f"{corpus} {split}") for split in ("train", "dev", "test")}
    inputs["vocab.vectors"] = digest("GloVe")
    if "_target_" in encoder:
        inputs |= {file: digest(f"{encoder['name']} {file}") for file in ENCODER_FILES}
    return inputs


@cache
def gold(corpus, split):
    """The number of gold labels of each example, the same for all runs."""
    return np.random.default_rng(zlib.crc32(f"{corpus} {split}".encode())).integers(1, 5, EXAMPLES)


def arrays(corpus, split, random):
    """Counts that predictions could give."""
    gold_labels = gold(corpus, split)
    right = random.binomial(gold_labels, 0.6)
    found = {"sentences": np.arange(EXAMPLES, dtype=np.uint64), "groups": np.arange(EXAMPLES) // 3}
    found["unit"] = np.frombuffer(b"document", np.uint8)
    if "las" in METRICS[corpus]:
        labelled = random.binomial(right, 0.9)
        columns = {"uas": [right, gold_labels] * 2, "las": [labelled, gold_labels] * 2}
    else:
        predicted = right + random.integers(0, 3, EXAMPLES)
        recall, precision = [right, gold_labels], [right, predicted]
        columns = {"f1": recall + precision, "precision": precision * 2, "recall": recall * 2}
    for metric, several in columns.items():
        found[metric] = np.stack(several, 1)[:, None].astype(float)
    return found


def write_scores(folder, content, by_split):
    """Write counts, and the result and learning curve that agree with them."""
    (folder / "counts").mkdir(parents=True, exist_ok=True)
    metrics = {}
    for split, found in by_split.items():
        np.savez(folder / "counts" / f"{split}.npz", **found)
        for metric, rows in found.items():
            if rows.ndim == 3:
                metrics[f"{split}/{metric}"] = float(figure(rows.sum(0)))
    content["metrics"] = metrics
    (folder / "result.json").write_text(json.dumps(content))
    metric = content["config"]["task"]["monitor"]
    best = metrics[f"dev/{metric}"]
    curve = f"epoch,dev/{metric},seed\n0,{best / 2},{folder.name}\n1,{best},\n"
    (folder / "metrics.csv").write_text(curve)


def made(root, corpus, encoder, seed, mix="all"):
    """A run of a recipe of the board, with counts of its own."""
    folder = root / f"{corpus}-{encoder['name']}-{mix}-{seed}"
    random = np.random.default_rng(zlib.crc32(folder.name.encode()))
    own = {"encoder": encoder, "elmo": {"mix": mix}, "seed": seed}
    config = cells.expected(own, cells.recipes()[corpus])
    inputs = inputs_of(corpus, encoder)
    if "_target_" not in encoder:
        config["elmo"] = {"mix": "none"}
    content = {"task": config["task"]["name"], "seed": seed, "config": config, "inputs": inputs}
    content |= {"epochs": 2, "device": "cpu", "commit": COMMIT, "examples_per_second": 1.0}
    content["seconds"] = {"training": 1.0, "total": 2.0}
    content["parameters"] = {"trainable": 1, "frozen": 1}
    content["identity"] = next(cells.identities(config, inputs, cells.FOLDER))
    by_split = {split: arrays(corpus, split, random) for split in ("dev", "test")}
    write_scores(folder, content | TIMES, by_split)
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text(f"[seed={seed}]")
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs of a small board, of two encoders, and those of a contribution."""
    folder = tmp_path_factory.mktemp("board")
    for corpus in CORPORA:
        for seed in cells.seeds():
            made(folder / "board", corpus, {"name": "none"}, seed, "none")
            made(folder / "board", corpus, THEIRS, seed)
            made(folder / "ours", corpus, OURS, seed)
    return folder


@pytest.fixture(scope="module")
def on_board(root):
    return collect([root / "board"])


@pytest.fixture
def ours(root, tmp_path, monkeypatch):
    """A copy of the contribution, to tamper with."""
    monkeypatch.setattr(contribution, "_is_known", lambda commit: commit == COMMIT)
    (tmp_path / "board").symlink_to(root / "board")
    return Path(shutil.copytree(root / "ours", tmp_path / "ours"))


def packed(folder, name="ours.tar.xz"):
    """An archive of all files in a folder, as it is: a forger does not use job=archive."""
    path = folder.parent / name
    with lzma.open(path, "wb", preset=0) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for each in sorted(folder.rglob("*")):
            if each.is_file():
                tar.add(each, each.relative_to(folder).as_posix(), recursive=False)
    return path


def test_a_sound_contribution(ours, on_board):
    """As job=archive packs it; nothing is refused, and what was not checked is said."""
    path = ours.parent / "sound.tar.xz"
    pack(collect([ours]), path)
    lines = contribution.check(path, ours.parent / "cache", on_board)
    assert lines[0] == "sound: 15 runs: ours, mix"
    assert lines[-1] == "not checked: that the encoder is what its name says"


def changed(run, value, *keys):
    """Change what a run's result has under these keys."""
    path = run / "result.json"
    content = json.loads(path.read_text())
    node = content
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    path.write_text(json.dumps(content))


def renewed(run):
    """Write the identity that a run's changed config and inputs have."""
    content = json.loads((run / "result.json").read_text())
    identity = next(cells.identities(content["config"], content["inputs"], cells.FOLDER))
    changed(run, identity, "identity")


def recount(run, change, splits=("test",)):
    """Change a run's counts, and the scores and the curve with them."""
    content = json.loads((run / "result.json").read_text())
    by_split = {}
    for split in ("dev", "test"):
        found = dict(np.load(run / "counts" / f"{split}.npz"))
        by_split[split] = change(found) if split in splits else found
    write_scores(run, content, by_split)


def setting(value, *keys):
    return lambda run: changed(run, value, *keys)


def renewed_setting(value, *keys):
    """Such a change with an identity that fits it."""

    def change(run):
        changed(run, value, *keys)
        renewed(run)

    return change


def counts(change, splits=("test",)):
    return lambda run: recount(run, change, splits)


def number(metric, column, value):
    """A count of the first example."""

    def change(found):
        found[metric][0, 0, column] = value
        return found

    return counts(change)


def shorter(found):
    return {name: array if name == "unit" else array[:-1] for name, array in found.items()}


def other_sentences(found):
    return found | {"sentences": found["sentences"] + np.uint64(1000)}


def other_groups(found):
    return found | {"groups": np.arange(EXAMPLES)}


def another_metric(found):
    return found | {"accuracy": found["f1"]}


def one_more(found):
    """One wrong prediction more."""
    found["f1"][7, 0, 3] += 1
    found["precision"][7, 0, [1, 3]] += 1
    return found


def copied(other):
    """The counts, the scores and the curve of another run; its path begins in our folder."""

    def change(run):
        source = run.parent / other
        for name in ("counts/dev.npz", "counts/test.npz", "metrics.csv"):
            shutil.copy(source / name, run / name)
        metrics = json.loads((source / "result.json").read_text())["metrics"]
        changed(run, metrics, "metrics")

    return change


def almost_copied(run):
    copied("wnut17-ours-all-12")(run)
    recount(run, one_more, ("dev", "test"))


def counts_of_another(run):
    shutil.copy(run.parent / "wnut17-ours-all-12/counts/test.npz", run / "counts/test.npz")


def curve_of_another(run):
    shutil.copy(run.parent / "wnut17-ours-all-12/metrics.csv", run / "metrics.csv")


def without_trees(run):
    for each in run.parent.glob("en_ewt-*"):
        shutil.rmtree(each)


def another_seed(run):
    changed(run, 16, "seed")
    changed(run, 16, "config", "seed")
    (run / ".hydra" / "overrides.yaml").write_text("[seed=16]")
    renewed(run)


def twice(run):
    again = Path(shutil.copytree(run, run.parent / "again"))
    recount(again, lambda found: arrays("wnut17", "test", np.random.default_rng(1)))


def name_of_the_board(run):
    for each in run.parent.iterdir():
        changed(each, "theirs", "config", "encoder", "name")
        renewed(each)


def no_encoder(run):
    changed(run, {"name": "none"}, "config", "encoder")
    changed(run, "none", "config", "elmo", "mix")


def array(value):
    def change(run):
        path = run / "counts" / "test.npz"
        found = dict(np.load(path))
        np.savez(path, **found | {"f1": value(found["f1"])})

    return change


def without(name):
    return lambda run: (run / name).unlink()


def more(name):
    return lambda run: (run / name).write_text("import os")


BAD_IDENTITY = "identity .*: the board's recipe with"
# What is done to the run of seed 11 on WNUT-17, and the line that says so.
TAMPERED = {
    "a changed score": (setting(0.9, "metrics", "test/f1"), "test/f1 is 90.0000, but counts/test"),
    "counts of another run": (counts_of_another, "test/f1 is .*, but counts/test.npz gives"),
    "a run under two seeds": (copied("wnut17-ours-all-12"), "metrics.csv is that of wnut17-ours"),
    "almost a copy": (almost_copied, "dev counts differ from wnut17-ours.* in 1.7 % of the"),
    "an entry's counts": (
        copied("../board/wnut17-theirs-all-11"),
        "is that of wnut17-theirs-all-1",
    ),
    "a shorter test file": (counts(shorter), "59 examples, but the file has 60"),
    "another test file": (
        renewed_setting("0", "inputs", "data.test"),
        "inputs.data.test is 0, but",
    ),
    "other sentences": (counts(other_sentences), "its examples are not those of the board's file"),
    "other groups": (counts(other_groups), "grouped in another way than the board's"),
    "other vectors": (renewed_setting("0", "inputs", "vocab.vectors"), "inputs.vocab.vectors is 0"),
    "a file too many": (renewed_setting("0", "inputs", "x"), "inputs.x is 0, but the board's file"),
    "more gold": (number("f1", 1, 9), "f1 has other gold labels than the board's"),
    "a changed recipe": (
        renewed_setting(60, "config", "fit", "max_epochs"),
        "fit.max_epochs=60, not 30, which is the board's recipe",
    ),
    "a setting beside it": (
        renewed_setting(2, "config", "trainer", "limit_test_batches"),
        BAD_IDENTITY,
    ),
    "a changed seed": (setting(12, "config", "seed"), "seed is 11, but config.seed 12"),
    "another command": (
        lambda run: (run / ".hydra/overrides.yaml").write_text("[seed=12]"),
        "seed is 11, but its command had seed=12",
    ),
    "an edited identity": (setting("0-0", "identity"), BAD_IDENTITY),
    "a changed name": (setting("better", "config", "encoder", "name"), BAD_IDENTITY),
    "a name in one run": (
        renewed_setting("better", "config", "encoder", "name"),
        "better, mix, wnut17: no run with seed 12, 13, 14 and 15",
    ),
    "an entry's name": (name_of_the_board, "encoder.name=theirs is an encoder of the board"),
    "no plain name": (setting("<b>", "config", "encoder", "name"), "but must be a plain name"),
    "another encoder": (
        renewed_setting("0", "inputs", "encoder.model.safetensors"),
        "inputs.encoder.model.safetensors is not that of",
    ),
    "no counts of dev": (without("counts/dev.npz"), "counts/dev.npz is missing"),
    "no learning curve": (without("metrics.csv"), "metrics.csv is missing"),
    "another's learning curve": (curve_of_another, "metrics.csv: the best dev/f1 is"),
    "a run that did not end": (without("result.json"), "'?result.json'? is missing: the run did"),
    "a file of code": (more("setup.py"), "'wnut17-ours-all-11/setup.py' is not a file of a run"),
    "a seed too many": (another_seed, "seed 16 is none of the board's: 11, 12, 13, 14 and 15"),
    "a seed twice": (twice, "seed 11 is that of again, too"),
    "a seed too few": (shutil.rmtree, "ours, mix, wnut17: no run with seed 11"),
    "a corpus too few": (without_trees, "ours, mix, en_ewt: no run with seed 11, 12, 13, 14 and"),
    "another metric": (counts(another_metric), "has accuracy, f1, precision and recall, but"),
    "no encoder": (no_encoder, "encoder=none, which the board has"),
    "no numbers": (array(lambda rows: rows * np.nan), "f1: they are not all finite"),
    "objects": (array(lambda rows: np.array([{}, 1])), "not an .npz file of numeric arrays"),
    "more right than gold": (number("f1", 0, 9), "in example 1 more is right than there is gold"),
    "more right than predicted": (number("f1", 2, 90), "in example 1 more is right than was pre"),
    "half a label": (number("f1", 3, 9.5), "has fractions, but counts are whole numbers"),
    "F1 alone": (number("f1", 3, 99), "f1 and precision are not of the same predictions"),
    "an interpolation": (
        setting("${oc.env:HOME}", "config", "encoder", "model"),
        "encoder.model has",
    ),
    "uncommitted changes": (setting(f"{COMMIT}+", "commit"), "the code had changes"),
    "an unknown commit": (setting("f" * 40, "commit"), "is not in this repository"),
    "a time to come": (setting("2099-01-01T00:00:00+00:00", "finished"), "its times"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampering(what, ours, on_board):
    """One line says which run is refused, and why."""
    change, line = TAMPERED[what]
    change(ours / "wnut17-ours-all-11")
    with pytest.raises(ValueError, match=line) as error:
        contribution.check(packed(ours), ours.parent / "cache", on_board)
    told = str(error.value).split("\n")
    assert len(told) <= len(cells.seeds()) * len(CORPORA)


def member(name, **about):
    """An archive with a member of this name."""
    info = tarfile.TarInfo(name)
    for key, value in about.items():
        setattr(info, key, value)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    return lzma.compress(file.getvalue(), preset=0)


ARCHIVES = {
    "a path that leads out": (lambda: member("../x/result.json"), "is not a file of a run"),
    "an absolute path": (lambda: member("/tmp/result.json"), "is not a file of a run"),
    "a link": (
        lambda: member("run/result.json", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        "is not a file of a run",
    ),
    "a bomb": (lambda: member("run/result.json", size=1 << 22), "it expands to over"),
    "no archive": (lambda: b"#!/bin/sh", "not an archive of runs"),
    "much": (lambda: bytes(1 << 10), "1,024 bytes, but at most 1,000 are read"),
}


@pytest.mark.parametrize("what", ARCHIVES)
def test_archives_that_are_none(what, tmp_path, on_board, monkeypatch):
    """They are refused before anything of them is kept."""
    monkeypatch.setattr("elmo_bench.runs.archive.UNPACKED_FREE", 1 << 20)
    monkeypatch.setattr(contribution, "MOST_BYTES", 1_000)
    make, line = ARCHIVES[what]
    path = tmp_path / "ours.tar.xz"
    path.write_bytes(make())
    with pytest.raises(ValueError, match=line):
        contribution.check(path, tmp_path / "cache", on_board)
    assert list((tmp_path / "cache").rglob("*.json")) == []


def test_the_sweep_finds_the_runs_of_the_board():
    """resume=true repeats none of the runs in cells.csv: their settings are those of the recipes."""
    cfg = composed(f"hydra.searchpath=[file://{cells.FOLDER}/conf]", "sweep=board", whole=True)
    assert cfg.hydra.mode.name == "MULTIRUN"
    of_csv = {}
    for row in csv.DictReader(cells.FILE.read_text().splitlines()):
        if row["encoder"] == "none":
            of_csv[row["corpus"], int(row["seed"])] = row["identity"].partition("-")[0]
    for corpus, recipe in cells.recipes().items():
        for seed in cells.seeds():
            own = {"encoder": {"name": "none"}, "elmo": {"mix": "none"}, "seed": seed}
            identity = next(cells.identities(cells.expected(own, recipe), {}, cells.FOLDER))
            assert identity.partition("-")[0] == of_csv[corpus, seed]


def test_the_page(root, on_board, tmp_path, monkeypatch):
    """An encoder beside the entries: each pair on each corpus, ties said."""
    monkeypatch.setattr(cells, "board_runs", lambda cache_dir: on_board)
    files = [tmp_path / name for name in ("board.md", "board.html")]
    board.main([f"{root}/ours", *(f"--output={file}" for file in files)])
    text, page = (file.read_text() for file in files)
    assert "| EWT (trees) | ours, mix | theirs, mix |" in text
    assert text.count(f"| {board.TIE} |") + text.count(" is better |") == 6
    assert "| theirs | all layers |" in text
    assert "python results/board.py ours" in text
    assert page.startswith("<!DOCTYPE html>")
    assert "ours beside the encoders already run" in page
    board.main([f"--output={files[0]}"])
    assert files[0].read_text().count("| theirs, mix | no encoder |") == len(CORPORA)


def test_runs_that_the_page_cannot_have(root, on_board, tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "board_runs", lambda cache_dir: on_board)
    run = Path(shutil.copytree(root / "ours" / "wnut17-ours-all-11", tmp_path / "few" / "run"))
    with pytest.raises(ValueError, match="no corpus has seeds 11, 12, 13, 14, 15: go on with"):
        board.main([f"{run.parent}"])
    changed(run, 60, "config", "fit", "max_epochs")
    renewed(run)
    with pytest.raises(ValueError, match=r"not a run of the board's recipes \(1 of 1 are"):
        board.main([f"{run.parent}"])


def test_the_workflow_runs_only_code_of_the_base_branch():
    """It has no secrets, and pins what it uses."""
    text = (cells.FOLDER.parent / ".github" / "workflows" / "board.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["defaults"] == {"run": {"shell": "bash"}}  # which has pipefail
    assert "secrets" not in text.replace("no secrets", "")
    checkout, python, *others = workflow["jobs"]["board"]["steps"]
    assert checkout["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert checkout["with"]["persist-credentials"] is False
    for step in (checkout, python):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
    assert not any("uses" in step or "${{" in step["run"] for step in others)


def test_formats_of_others(root, on_board, tmp_path, monkeypatch):
    """What eval.schema.json 0.2.1 and modelcard.md require, and the types of what we add."""
    monkeypatch.setattr(cells, "board_runs", lambda cache_dir: on_board)
    board.main([f"{root}/ours", f"--export={tmp_path}"])
    record = json.loads((tmp_path / "ours-all.json").read_text())
    required = {"schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata"}
    required |= {"model_info", "eval_library", "evaluation_results"}
    assert record.keys() - required == {"evaluation_timestamp"}  # no further key is allowed
    assert record["source_metadata"]["source_type"] in ("documentation", "evaluation_run")
    assert record["source_metadata"]["source_organization_name"]
    relations = ("first_party", "third_party", "collaborative", "other")
    assert record["source_metadata"]["evaluator_relationship"] in relations
    assert record["model_info"].keys() >= {"name", "id"}
    assert record["eval_library"].keys() >= {"name", "version"}
    assert len(record["evaluation_results"]) == 6  # three corpora, dev and test
    for each in record["evaluation_results"]:
        assert each["evaluation_name"]
        assert each["source_data"].keys() == {"dataset_name", "source_type", "additional_details"}
        assert each["source_data"]["source_type"] == "other"
        assert each["metric_config"]["lower_is_better"] is False
        assert each["metric_config"]["score_type"] == "continuous"
        assert 0.0 == each["metric_config"]["min_score"] < each["score_details"]["score"] < 1.0
        texts = [*each["score_details"]["details"].values()]
        texts += each["source_data"]["additional_details"].values()
        assert all(isinstance(text, str) for text in texts)
        interval = each["score_details"]["uncertainty"]["confidence_interval"]
        assert interval["lower"] < each["score_details"]["score"] < interval["upper"]
    _, card, _ = (tmp_path / "ours-all.yaml").read_text().split("---\n")
    index = yaml.safe_load(card)["model-index"]
    assert [each["name"] for each in index] == ["ours"]
    for each in index[0]["results"]:
        assert each["task"]["type"] == exports.HUB_TASK
        assert each["dataset"].keys() >= {"type", "name"}
        assert isinstance(each["metrics"][0]["value"], float)
        assert each["metrics"][0]["type"] in ("las", "f1")
