"""A run's folder: what a run finds at its start and leaves at its end."""

import errno
import json
import math
import os

import pytest

from elmo_bench.files import alone
from elmo_bench.runs import (
    begin,
    failures,
    finished,
    hash_files,
    identity_of,
    leaves_error,
    read_run,
    unfinished,
    where,
    write_result,
)
from tests.conftest import COSTS, composed

MEASURED = COSTS | {"metrics": {"dev/f1": 0.5}}


@pytest.fixture(scope="module")
def default():
    return composed()


@pytest.fixture
def config(default, tmp_path):
    def build(**settings):
        cfg = default.copy()
        cfg.run_dir, cfg.cache_dir = str(tmp_path / "run"), str(tmp_path)
        for key, value in settings.items():
            cfg[key] = value
        return cfg

    return build


def test_the_folder_is_made_and_says_what_has_begun(config, tmp_path):
    (tmp_path / "train.txt").write_text("text")
    files = {"data.train": tmp_path / "train.txt"}
    assert begin(config(), files) is None
    begun = json.loads((tmp_path / "run" / "run.json").read_text())
    assert begun["inputs"] == hash_files(files)
    assert begun["identity"] == identity_of(config(), begun["inputs"])
    write_result(config(), MEASURED)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert begun.items() <= result.items()
    assert result["started"] < result["finished"]
    (tmp_path / "result.json").write_text("{")  # damaged: it is ignored
    assert finished([tmp_path]) == {begun["identity"]: tmp_path / "run"}


def test_an_error_is_raised_even_if_its_file_cannot_be_written(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match="what failed"), leaves_error(str(tmp_path)):
        raise ValueError("what failed")
    assert not (tmp_path / "error.txt").exists()


def test_runs_that_have_no_result(config, tmp_path):
    """Each once, whichever of its folders; not those that somebody ran again."""

    def begun(folder, error=None, **settings):
        cfg = config(**settings)
        cfg.run_dir = str(tmp_path / folder)
        begin(cfg, {})
        if error:
            frames = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\n'
            (tmp_path / folder / "error.txt").write_text(f"{frames}{error}\n")
        return cfg

    begun("a/raised", "torch.OutOfMemoryError: there is none:\n/home/me/a: b", seed=1)
    begun("b/raised", "ValueError: again", seed=1)
    begun("a/killed", seed=2)
    begun("a/failed", "ValueError: no", seed=3)
    write_result(begun("a/again", seed=3), MEASURED)
    (tmp_path / "a" / "damaged").mkdir()
    (tmp_path / "a" / "damaged" / "run.json").write_text("{")
    for number, said in enumerate(({"published": {"table": 1}}, {"task": []}, [], {"task": {}})):
        (tmp_path / "a" / f"foreign{number}").mkdir()
        content = {"identity": f"{number}", "inputs": {}, "config": said}
        (tmp_path / "a" / f"foreign{number}" / "run.json").write_text(json.dumps(content))
    with alone(begun("a/running", seed=4).run_dir + "/run", ""):
        results = [read_run(path) for path in tmp_path.rglob("result.json")]
        failed = failures([tmp_path / "a", tmp_path / "b"], results)
    assert {run.folder.name: run.reason for run in failed} == {
        "killed": "did not end",
        "raised": "OutOfMemoryError",
        "running": "is running",
    }
    assert [run.folder.name for run in where(failed, {"seed": 1})] == ["raised"]


def test_nothing_of_an_earlier_run_stays(config, tmp_path):
    begin(config(seed=1), {})
    folder = tmp_path / "run"
    for name in ("best.ckpt", "last.ckpt", "metrics.csv"):
        (folder / name).write_text("of seed 1")
    for name in ("predictions", "counts", "tensorboard"):
        (folder / name).mkdir()
        (folder / name / "old").write_text("of seed 1")
    write_result(config(seed=1), MEASURED)
    (folder / "mine.txt").write_text("a user's own")
    begin(config(seed=7), {})
    assert sorted(path.name for path in folder.iterdir()) == ["mine.txt", "replaced", "run.json"]
    write_result(config(seed=7), MEASURED)
    assert sorted(path.name for path in folder.iterdir()) == ["mine.txt", "result.json", "run.json"]


@pytest.mark.parametrize(
    "name", ["predictions/mine", ".counts-old/mine", "metrics.csv", "hpc_ckpt_1.ckpt"]
)
@pytest.mark.parametrize("resume", [True, False])
def test_nothing_of_a_user_goes(config, tmp_path, name, resume):
    """A folder without run.json and result.json held no run; nor does a folder with a name like
    that of a scratch file belong to one.
    """
    mine = tmp_path / "run" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("a user's own")
    if name.startswith("."):
        begin(config(resume=resume), {})
    else:
        with pytest.raises(ValueError, match=rf"contains {name.partition('/')[0]}, which this run"):
            begin(config(resume=resume), {})
    assert mine.read_text() == "a user's own"


def test_a_kill_while_an_earlier_run_is_removed(config, tmp_path, monkeypatch):
    """The folder is still known as ours: the same command removes the rest."""
    begin(config(seed=1), {})
    for name in ("last.ckpt", "best.ckpt", "metrics.csv"):
        (tmp_path / "run" / name).write_text("of seed 1")
    (tmp_path / "run" / "predictions").mkdir()

    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            begin(config(seed=2), {})
    assert not unfinished([tmp_path])  # last.ckpt is the first to go
    assert begin(config(seed=2), {}) is None
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.json"]


def test_a_run_goes_on_from_its_own_checkpoint_only(config, tmp_path):
    folder = tmp_path / "run"
    last = folder / "last.ckpt"

    def killed(**settings):
        begin(config(**settings), {})
        last.write_text("state")

    killed(seed=1)
    identity = identity_of(config(seed=1), {})
    assert unfinished([tmp_path]) == {identity: folder}
    assert begin(config(seed=1, resume=True), {}) == last  # and it is still there
    with pytest.raises(ValueError, match=r"run_dir=.*/run contains the last.ckpt of a run with"):
        begin(config(seed=7, resume=True), {})
    (tmp_path / "other").write_text("another input")
    with pytest.raises(ValueError, match="of a run with other settings or files"):
        begin(config(seed=1, resume=True), {"data.train": tmp_path / "other"})
    assert last.read_text() == "state"
    assert begin(config(seed=1), {}) is None  # not asked to go on
    killed(seed=1)
    write_result(config(seed=1), MEASURED)
    assert not unfinished([tmp_path])


@pytest.mark.parametrize("resume", [True, False])
def test_a_run_goes_on_from_no_checkpoint_of_lightning(config, tmp_path, resume):
    begin(config(), {})
    for name in ("last.ckpt", "hpc_ckpt_1.ckpt"):  # the second as SLURM's signal has it written
        (tmp_path / "run" / name).write_text("state")
    assert (begin(config(resume=resume), {}) is not None) is resume
    assert not [*(tmp_path / "run").glob("hpc_*")]


def test_what_is_being_written_is_no_result(config, tmp_path):
    """A kill may leave it."""
    begin(config(), {})
    write_result(config(), MEASURED)
    scratch = tmp_path / "run" / ".result.json-12345678"
    scratch.mkdir()
    (tmp_path / "run" / "result.json").rename(scratch / "result.json")
    assert finished([tmp_path]) == {}


@pytest.mark.parametrize("figure", [math.nan, -math.inf])
def test_a_figure_that_is_no_number_is_not_written(config, tmp_path, figure):
    """Reports and resume=true could not read the file."""
    cfg = config()
    begin(cfg, {})
    measured = MEASURED | {"metrics": {"dev/f1": 0.5, "test/mcc": figure}}
    with pytest.raises(FloatingPointError, match=rf"test/mcc is {figure}, but a score"):
        write_result(cfg, measured)
    assert not (tmp_path / "run" / "result.json").exists()
