"""What no job writes over, and what each may: its own earlier output."""

import shutil

import pytest

from elmo_bench.encoders.bilm import save
from elmo_bench.files import sole
from elmo_bench.jobs.embed import embed
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.pretrain import pretrain
from elmo_bench.jobs.report import report
from elmo_bench.jobs.train import train
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm
from tests.runs.made_runs import change, write_run

JOBS = {job.__name__: job for job in (embed, evaluate, predict, pretrain, report, train)}


@pytest.fixture
def lost(tmp_path):
    """Files of a user and of other jobs: a text under three names, two biLMs, two folders and a
    run.
    """
    (tmp_path / "text").write_text("the cat sees the dog\n" * 9)
    (tmp_path / "symlink").symlink_to(tmp_path / "text")
    (tmp_path / "hardlink").hardlink_to(tmp_path / "text")
    for name in ("bilm/weights.hdf5", "adapted/weights.safetensors", "theirs/weights.hdf5"):
        save(random_bilm(), tmp_path / name)
    (tmp_path / "adapted" / "adaptation.json").write_text("{}")
    for name in ("project/README.md", "words/vocabulary.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("a user's own")
    config = {"job": {"_target_": "elmo_bench.jobs.train.train"}, "data": {"name": "sample"}}
    write_run(tmp_path / "run", {"test/f1": 0.5}, config)
    (tmp_path / "run" / "metrics.csv").write_text("epoch,dev/f1\n0,0.5\n")
    (tmp_path / "run" / "best.ckpt").write_text("weights")
    return tmp_path


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


PREDICT = "job=predict checkpoint=best.ckpt input="
FILES = "data.files.train={}/run/metrics.csv data.files.dev={}/text data.files.test={}/text"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"{PREDICT}{{}}/hardlink output={{}}/symlink", "is also input="),
        ("job=predict checkpoint={}/run/best.ckpt input={}/text output={}/run/best.ckpt", "is also checkpoint="),
        (f"{PREDICT}other output={{}}/text", "not written by this job"),
        (f"{PREDICT}other output={{}}/run", "is a folder"),
        ("job=report runs={}/run output=[{}/new.md,{}/run/metrics.csv]", "not written by this job"),
        ("job=embed encoder=mini input={}/text output={}/theirs/weights.hdf5", "not written by this job"),
        ("job=pretrain out={}/bilm", "contains options.json"),
        ("job=pretrain out={}/text", "is not a folder"),
        ("job=pretrain out={}/words", "contains vocabulary.txt"),
        ("job=pretrain out={}/adapted", "contains adaptation.json"),
        ("job=pretrain out={}/run", "contains best.ckpt"),
        ("job=pretrain out={}/project", "contains README.md"),
        (f"job=train task=ner encoder=none run_dir={{}}/run data=files {FILES}", "which this run would delete"),
    ],
)  # fmt: skip
def test_nothing_is_lost(lost, arguments, said):
    before = content(lost)
    words = arguments.replace("{}", str(lost)).split()
    if "run_dir=" not in arguments:
        words += [f"run_dir={lost}/new"]
    cfg = composed(*words, f"cache_dir={lost}/cache")
    job = JOBS[cfg.job.name]
    with pytest.raises(ValueError, match=said):
        job(cfg)
    after = content(lost)
    assert {path: after[path] for path in before} == before


def test_the_folder_of_another_job(tiny_ner, tmp_path):
    """An evaluation does not begin where a run has trained, however the folder is spelt, nor a run
    where one was measured.
    """
    trained = tiny_ner("encoder=none", "fit.max_epochs=1")
    train(trained)
    measured = ["job=evaluate", f"checkpoint={trained.run_dir}/best.ckpt"]
    evaluation = tiny_ner(*measured)
    evaluate(evaluation)
    (tmp_path / "latest").symlink_to(trained.run_dir)
    for folder in (trained.run_dir, f"{trained.run_dir}/../run0", tmp_path / "latest"):
        with pytest.raises(ValueError, match=r"run_dir=.*: choose another folder"):
            evaluate(tiny_ner(*measured, f"run_dir={folder}"))
    other = tmp_path / "other"
    shutil.copytree(trained.run_dir, other)
    with pytest.raises(ValueError, match="contains a run of another job"):
        evaluate(tiny_ner(*measured, f"run_dir={other}"))
    (other / "result.json").unlink()  # it has not ended
    with pytest.raises(ValueError, match="contains a run of another job"):
        evaluate(tiny_ner(*measured, f"run_dir={other}"))
    with pytest.raises(ValueError, match="contains a run of another job"):
        train(tiny_ner("encoder=none", f"run_dir={evaluation.run_dir}"))
    evaluate(tiny_ner(*measured, f"run_dir={evaluation.run_dir}"))  # its own


def test_its_own_output_is_written_again(lost):
    """In every format, as is one that is empty."""

    def run(*overrides):
        cfg = composed(*overrides, f"cache_dir={lost}/cache")
        JOBS[cfg.job.name](cfg)

    small = ["encoder=files", f"encoder.dir={lost}/bilm"]
    shutil.copytree(lost / "run", lost / "top")
    change(lost / "top", lambda it: it["config"]["elmo"].update(mix="top"))
    suffixes = ("html", "svg", "pdf", "md", "tex", "csv")
    reports = ",".join(f"{lost}/report.{suffix}" for suffix in suffixes)
    (lost / "report.md").touch()
    for _ in range(2):
        runs = f"runs=[{lost}/run,{lost}/top]"
        run("job=report", runs, "columns=elmo.mix", f"output=[{reports}]")
        run("job=embed", *small, f"input={lost}/text", f"output={lost}/vectors.hdf5")
    assert not [*lost.glob("vectors*.lock")]


def test_the_second_of_two_ends_at_once(tmp_path):
    said = rf"out=there: another process holds {tmp_path}/bilm\.lock and is writing to it"
    for _ in range(2):
        first, second = (sole(tmp_path / "bilm", what) for what in ("first", "out=there"))
        with first, pytest.raises(OSError, match=said), second:
            pass
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("job", ["pretrain", "embed"])
def test_two_of_a_job_at_one_output(lost, job):
    out = {"pretrain": "new/pretrain", "embed": "new.hdf5.part"}[job]
    (lost / "new").mkdir()
    named = f"output={lost}/new.hdf5" if job == "embed" else f"out={lost}/new"
    more = [f"input={lost}/text"] if job == "embed" else []
    cfg = composed(f"job={job}", named, *more, f"cache_dir={lost}/cache")
    with sole(lost / out, "first"), pytest.raises(OSError, match=r"=.*: another process holds"):
        JOBS[job](cfg)
