"""A run that replaces a finished one: wherever it is killed or fails, there is one finished run, and
it is whole.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.kills import is_change
from elmo_bench.build import objects
from elmo_bench.callback import Check
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.train import train
from elmo_bench.runs import begin, collect, failures, finished, run_folders, write_result
from elmo_bench.training.in_parts import InParts
from tests.conftest import COSTS, composed
from tests.jobs.killed import kill_at, train_and_kill
from tests.jobs.small_settings import SMALL

KILLED = 9


@pytest.fixture
def config(tmp_path):
    def build(*settings):
        return composed(*settings, f"run_dir={tmp_path}/run", f"cache_dir={tmp_path}/cache")

    return build


def files_of(folder, seed):
    """Write what a run leaves besides run.json and result.json."""
    for name in ("last.ckpt", "best.ckpt", "metrics.csv", "hparams.yaml"):
        (folder / name).write_text(f"{name} of seed {seed}")
    for name in ("predictions/test.conll", "counts/test.npz"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name} of seed {seed}")


def run_in(cfg):
    """All changes of files of a run, as job=train makes them."""
    begin(cfg, {})
    files_of(Path(cfg.run_dir), cfg.seed)
    write_result(cfg, COSTS | {"metrics": {"dev/f1": cfg.seed / 10}})


def is_killed(work: Callable[[], None], folder: Path, step: int) -> bool:
    """Do the work in a process that ends before its change of files number `step`, as by a kill;
    return whether it came so far.
    """
    if (process := os.fork()) == 0:
        changes = iter(range(step))

        def see(event, about):
            if is_change(event, about, folder) and next(changes, None) is None:
                os._exit(KILLED)

        sys.addaudithook(see)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED


def seed_of(folder: Path) -> int:
    """Return the seed of a run's files, all of which must be there."""
    seed = json.loads((folder / "result.json").read_text())["config"]["seed"]
    assert json.loads((folder / "run.json").read_text())["config"]["seed"] == seed
    for name in ("best.ckpt", "metrics.csv", "predictions/test.conll", "counts/test.npz"):
        assert (folder / name).read_text() == f"{name} of seed {seed}"
    return seed


def test_killed_at_each_change_of_a_file(config, tmp_path):
    """Reports find the old run or the new one, whole; the repeated command leaves the new one, and
    nothing else.
    """
    old, new, folder = config("seed=1"), config("seed=2"), tmp_path / "run"
    step, seeds = 0, []
    run_in(old)
    while is_killed(partial(run_in, new), folder, step):
        (run,) = collect(run_folders([tmp_path], tmp_path / "cache"))
        seeds.append(seed_of(run.folder))
        assert [*finished([tmp_path]).values()] == [run.folder]
        run_in(new)
        assert [run.folder for run in collect([tmp_path])] == [folder]
        assert seed_of(folder) == 2
        assert not [*folder.glob(".*"), *folder.glob("replaced")]
        run_in(old)
        step += 1
    assert seeds == sorted(seeds)
    assert {*seeds} == {1, 2}


def test_a_kill_in_the_end_leaves_nothing(small, tmp_path):
    """What it has left beside the result goes when resume=true finds the run finished."""
    metrics = train(small())
    (tmp_path / "run" / "last.ckpt").touch()
    shutil.copytree(tmp_path / "run", tmp_path / "run" / "replaced")
    assert train(small("resume=true")) == metrics
    assert not {"last.ckpt", "replaced"} & {path.name for path in (tmp_path / "run").iterdir()}


def test_its_links_are_copies_where_there_are_none(config, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    run_in(config("seed=1"))
    begin(config("seed=2"), {})
    assert seed_of(tmp_path / "run" / "replaced") == 1


def test_a_user_s_folder_of_that_name_stays(config, tmp_path):
    run_in(config("seed=1"))
    mine = tmp_path / "run" / "replaced" / "mine"
    mine.parent.mkdir()
    mine.write_text("a user's own")
    with pytest.raises(ValueError, match="contains replaced, which this run would delete, but no"):
        begin(config("seed=2"), {})
    assert mine.read_text() == "a user's own"
    assert seed_of(tmp_path / "run") == 1


def test_resume_replaces_no_run_of_other_settings(config, tmp_path):
    """Its advice works: in another folder, or without resume=true."""
    run_in(config("seed=1"))
    said = r"resume=true, but run_dir=\S+/run contains a finished run with other settings or files"
    with pytest.raises(ValueError, match=said):
        begin(config("seed=2", "resume=true"), {})
    begin(config("seed=2"), {})
    with pytest.raises(ValueError, match=said):  # which is in replaced/ now
        begin(config("seed=3", "resume=true"), {})
    begin(config("seed=2", "resume=true"), {})  # which was to replace it
    (tmp_path / "run" / "last.ckpt").write_text("state")
    with pytest.raises(ValueError, match=r"contains the last.ckpt of a run with other settings"):
        begin(config("seed=3", "resume=true"), {})
    assert seed_of(tmp_path / "run" / "replaced") == 1
    begin(config("seed=3"), {})
    assert seed_of(tmp_path / "run" / "replaced") == 1
    other = composed("seed=2", "resume=true", f"run_dir={tmp_path}/other", f"cache_dir={tmp_path}")
    begin(other, {})
    assert (tmp_path / "other" / "run.json").is_file()


def test_an_input_in_what_would_go(config, tmp_path):
    run_in(config("seed=1"))
    begin(config("seed=2"), {})
    words = tmp_path / "run" / "replaced" / "metrics.csv"
    with pytest.raises(ValueError, match=r"vocab.vectors=.* is inside run_dir=.*would delete"):
        begin(config("seed=3"), {"vocab.vectors": words})


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def small(new_run, tmp_path):
    """The config of a short run in one folder, and that of job=evaluate in another."""
    ner = [*SMALL["ner"], "encoder=none", "++data.size=3", "fit.max_epochs=1"]
    return partial(new_run, *ner, f"run_dir={tmp_path}/run")


def test_a_command_that_fails_on_its_data(small, tmp_path):
    """The finished run stays where it is, to the byte; the repeated command replaces it."""
    cfg = small("seed=1")
    train(cfg)
    before = content(tmp_path / "run")
    words = tmp_path / "train.txt"
    words.write_text("word NOTATAG\n\n")
    files = [f"data.files.{split}={words}" for split in ("train", "dev", "test")]
    wrong = small("seed=2", "data=files", *files)
    with pytest.raises(ValueError, match="NOTATAG"):
        train(wrong)
    assert content(tmp_path / "run") == before
    train(small("seed=2"))
    (run,) = collect([tmp_path])
    assert (run.seed, run.folder) == (2, tmp_path / "run")


def test_a_training_that_is_killed(small, tmp_path, caplog):
    """A report finds the finished run, once; resume=true continues the new one and finds the old
    one; when the new one has finished, the old one is gone.
    """
    settings = ("fit.batch_size=4", "fit.save_minutes=0")
    metrics = train(small("seed=1"))
    weights = (tmp_path / "run" / "best.ckpt").read_bytes()
    new = small("seed=2", *settings)
    train_and_kill(new, InParts, "training_step", kill_at(2))
    assert f"it is in {tmp_path}/run/replaced until the new one has finished" in caplog.text
    (run,) = collect([tmp_path])
    assert (run.seed, run.metrics, run.folder.name) == (1, metrics, "replaced")
    assert (run.folder / "best.ckpt").read_bytes() == weights
    assert [(each.seed, each.folder) for each in failures([tmp_path], [run])] == [
        (0, tmp_path / "run")  # whose seed a run.json has only in its config
    ]
    assert train(small("seed=1", "resume=true")) == metrics  # is finished
    with pytest.raises(ValueError, match=r"contains the last.ckpt of a run with other"):
        train(small("seed=3", "resume=true"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "vocab", None)  # it goes on, so it builds again: and fails
        with pytest.raises(TypeError):
            train(small("seed=2", *settings, "resume=true"))
    assert (tmp_path / "run" / "last.ckpt").is_file()
    train(small("seed=2", *settings, "resume=true"))
    assert caplog.text.count("until the new one has finished") == 1
    (run,) = collect([tmp_path])
    assert (run.seed, run.folder) == (2, tmp_path / "run")
    assert not (tmp_path / "run" / "replaced").exists()
    with pytest.raises(ValueError, match="a finished run with other settings"):
        train(small("seed=1", "resume=true"))


def test_an_evaluation_that_fails(small, new_run, tmp_path):
    train(small())
    where = f"checkpoint={tmp_path}/run/best.ckpt", f"run_dir={tmp_path}/measured"
    evaluate(new_run("job=evaluate", *where))
    before = content(tmp_path / "measured")
    (tmp_path / "wrong.txt").write_text("word NOTATAG\n\n")
    with pytest.raises(ValueError, match="NOTATAG"):
        evaluate(
            new_run(
                *("job=evaluate", *where, "data=files", f"data.files.test={tmp_path}/wrong.txt")
            )
        )
    assert content(tmp_path / "measured") == before


def test_the_settings_of_a_finished_run_stay(config, tmp_path):
    """Hydra writes those of a command before its job; they take their place when the run begins."""
    run_in(config("seed=1"))
    of_run = tmp_path / "run" / ".hydra"
    of_run.mkdir()
    (of_run / "overrides.yaml").write_text("- seed=1")

    def subdir(*settings):
        whole = composed(*settings, f"hydra.run.dir={tmp_path}/run", whole=True)
        Check().on_run_start(whole)
        return whole.hydra.output_subdir

    assert subdir("seed=2") == ".hydra/next"
    assert subdir("seed=2", "resume=true") is None  # which replaces nothing
    (of_run / "next").mkdir()
    (of_run / "next" / "overrides.yaml").write_text("- seed=2")
    begin(config("seed=2"), {})
    assert (of_run / "overrides.yaml").read_text() == "- seed=2"
    assert (tmp_path / "run/replaced/.hydra/overrides.yaml").read_text() == "- seed=1"
    assert not [*tmp_path.rglob("next")]
    assert subdir("seed=2") == ".hydra"
