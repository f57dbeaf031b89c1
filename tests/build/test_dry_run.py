"""`--dry-run` refuses what the run itself refuses, reads whole files, and keeps nothing."""

import re

import pytest

from elmo_bench.build import dry_run as dry_run_module
from elmo_bench.files import download
from elmo_bench.settings.advice import MENDABLE
from elmo_bench.settings.check import faults
from tests import conftest

GOOD = "".join(f"Ann{number} X X B-PER\nsleeps X X O\n\n" for number in range(3))


@pytest.fixture
def folder(tmp_path):
    """Files of several kinds, as somebody might mistake them for each other."""
    contents = {
        "text.txt": "It rains .\nAnn sleeps .\n",
        "blank.txt": "\n\n",
        "notes.json": '{"a": 1}\n',
        "own.txt": "mine\n",
        "train.conll": GOOD,
        "dev.conll": GOOD.replace("Ann", "Bob"),
        "late.conll": GOOD * 300 + "Ann X X\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "runs").mkdir()
    return tmp_path


def dry_run(folder, command, kind="true"):
    """The lines of a dry run."""
    arguments = [part.format(d=folder) for part in command.split()]
    arguments += [f"dry_run={kind}", f"cache_dir={folder}/cache", f"outputs_dir={folder}/outputs"]
    config = conftest.composed(*arguments, whole=True)
    assert faults(config) == []
    return "\n".join(dry_run_module.lines([config]))


EMBED = "job=embed encoder=mini input={d}/text.txt output={d}/o.hdf5"
FILES = "task=ner data=files encoder=none data.files.train={d}/train.conll data.files.dev="


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{EMBED} input={{d}}/none.txt", "{d}/none.txt: no such file"),
        ("job=evaluate checkpoint={d}/notes.json", "notes.json: not a checkpoint, or damaged"),
        ("job=predict checkpoint={d}/notes.json input={d}/text.txt output={d}/own.txt", "own.txt ex"),
        ("job=report runs={d}/runs output={d}/o.docx", "output={d}/o.docx: unknown ending; give FILE.html, FILE.svg, FILE.pdf, FILE.md, FILE.tex or FILE.csv"),
        ("job=archive runs={d}/runs output={d}/o.tar.xz", "no finished run"),
        ("job=diff a={d}/runs b={d}/runs", "a={d}/runs: no finished run"),
        ("job=pretrain text=files text.files.train={d}/blank.txt", "contains only blank lines"),
        ("job=probe data=files data.name=n data.files.train={d}/text.txt data.files.test={d}/text.txt encoder=mini", "text.txt"),
        (f"{FILES}{{d}}/late.conll", "late.conll:2701"),
        (f"{FILES}{{d}}/dev.conll vocab.vectors={{d}}/train.conll", "train.conll"),
        ("task=snli data=snli data_dir={d} vocab.vectors={d}/no.txt encoder=none", "{d}/no.txt"),
        ("data.size=2 encoder=transformer encoder.model={d}/brt", "model={d}/brt: no such folder"),
        ("data.size=2 encoder=files encoder.dir={d}", "biLM, *options.json and *weights"),
        ("data.size=2 encoder=mini store.mode=memory store.max_bytes=1000", "store.mode=memory: the layers of this data would take"),
        ("task=ner data=files encoder=none data.files.train={d}/runs data.files.dev={d}/runs", "data.files.train={d}/runs is a folder, but it must be a file"),
        ("data.size=2 encoder=none vocab.vectors={d}/runs", "vocab.vectors={d}/runs: is a folder"),
        ("data.size=2 encoder=transformer encoder.model={d}/own.txt", "own.txt: is a file, but it must be a folder"),
        ("data.size=2 +trainer.nonsense=3", "trainer: Trainer.__init__() got an unexpected keyword"),
    ],
)  # fmt: skip
def test_what_a_run_refuses_a_dry_run_refuses(folder, command, said):
    before = {*folder.rglob("*")}
    with pytest.raises(MENDABLE, match=re.escape(said.format(d=folder))):
        dry_run(folder, command)
    kept = {path for path in {*folder.rglob("*")} - before if "cache" not in path.parts}
    assert kept == set()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("task=snli data=snli data_dir={d} encoder=none", "snli_1.0.zip"),
        (f"{EMBED} encoder=original", "options.json"),
        ("data.size=2 encoder=original", "options.json"),
        ("data.size=2 encoder=transformer encoder.model=bert", "encoder.model=bert"),
    ],
)
def test_what_was_not_read_is_said(folder, command, said):
    assert f"{said}: not here; a run downloads it" in dry_run(folder, command)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("encoder=mini fraction=0.5", "8 examples, of which fraction=0.5 keeps 4 to train on"),
        ("encoder=none data.folds=3 seed=5", "data.folds=3, fold 2, test: 28 examples"),
        ("encoder=none finetune=full", "finetune=full has no effect without layers: encoder=none"),
        ("encoder=none elmo.mix=[0,1]", "elmo.mix=[0,1] has no effect without layers"),
    ],
)
def test_what_has_less_effect_than_it_seems_is_said(folder, command, said):
    assert said in dry_run(folder, f"data.size=2 trainer=cpu {command}")


def test_few_documents_of_a_fold_are_not_told(folder):
    """Folds are tested together: a fold's four documents are not what an interval rests on."""
    told = dry_run(folder, "data.size=2 encoder=none trainer=cpu seed=1 data.folds=5")
    assert "fold 1, test" in told
    assert "rest on so few" not in told


def test_runs_with_one_corpus_read_it_once(folder, monkeypatch):
    """As those of `sweep=tune`, whose draws differ in settings of the model."""
    lines = ("elmo.l2=0", "seed=2", "task.optimizer.lr=0.1 task.model.dropout=0 rnn.dropout=0")
    lines += ("data.size=3",)
    command = f"data.size=2 encoder=none dry_run=true cache_dir={folder}"
    configs = [conftest.composed(*f"{command} {line}".split(), whole=True) for line in lines]
    read, corpus = [], dry_run_module.inputs.corpus
    spy = lambda cfg: read.append(cfg.data.size) or corpus(cfg)  # noqa: E731
    monkeypatch.setattr(dry_run_module.inputs, "corpus", spy)
    dry_run_module.lines(configs)
    assert read == [2, 3]


@pytest.mark.parametrize(("mode", "place"), [("auto", "disk"), ("memory", "memory")])
def test_room_for_layers_is_a_short_line(folder, mode, place):
    told = dry_run(folder, f"data.size=2 encoder=mini store.mode={mode} elmo.mix=top trainer=cpu")
    size = r"^layer store: 0\.00 GB of {} \([\d,]+ tokens x 1 layer x 128 x float32\)$"
    assert re.search(size.format(place), told, re.M)
    assert (" GB are free at /" in told) == (place == "disk")
    assert "on every batch" not in told


def test_too_little_room_for_layers_is_said(folder):
    told = dry_run(folder, "data.size=2 encoder=mini store.max_bytes=1 trainer=cpu")
    assert "unless this store is there, the encoder will run on every batch: its layers" in told


@pytest.mark.parametrize(
    "command",
    [
        EMBED,
        "data.size=2 encoder=none logger=wandb",
        "job=score gold={d}/train.conll predicted={d}/train.conll",
        "job=pretrain text=files text.files.train={d}/text.txt pretrain.unroll=1 "
        "pretrain.batch_size=2",
        "job=cache clear=all",
    ],
)
def test_what_is_right_is_kept_as_it_is(folder, command):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    dry_run(folder, command)
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert {path: after[path] for path in before} == before
    assert all("cache" in path.parts for path in after.keys() - before.keys())


def test_what_is_downloaded_is_here_for_a_run(folder, monkeypatch):
    """On a machine without the run's GPU, too."""

    def retrieve(url, path, sha256, _):
        if not path.is_file():
            download.check_online(str(path))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(GOOD)

    monkeypatch.setattr(download, "_retrieve", retrieve)
    command = "data=wnut17 data_dir={d}/data encoder=none trainer=gpu trainer.devices=9"
    said = dry_run(folder, command, "download")
    assert "wnut17.dev.txt: 3 examples" in said
    assert "All files are here." in said
    assert "not here" not in dry_run(folder, command.replace("gpu trainer.devices=9", "cpu"))


def test_what_makes_scores_mean_nothing_is_said(folder):
    """Of the corpus, of word vectors and of the encoder."""
    (folder / "v.txt").write_text("sleeps 1 2\nBob 2 3\n")
    (folder / "none.conll").write_text(f"it X X O\n{'x' * 49} X X O\n\nAnn X X O\n")
    files = f"{FILES}{{d}}/none.conll data.files.train={{d}}/none.conll"
    said = dry_run(
        folder, f"{files} encoder=mini vocab.vectors={{d}}/v.txt".replace("none.conll", "dev.conll")
    )
    assert "vocab.vectors: no vector for 3 of 4 word types of the corpus (75.0 %)" in said
    assert "dev has 3 sentences only: intervals and p rest on so few" in said
    assert "no entity" not in said
    assert "bytes" not in said
    said = dry_run(folder, f"{files} encoder=mini")
    assert "training has no entity: there is nothing to learn: is the right column read?" in said
    assert "dev has no entity: its F1 is 0.00" in said
    assert "encoder=mini: only the first 48 bytes are read of 1 of 3 word types" in said
