"""`resume=true` of a single run: the same command goes on, or ends, in the same folder."""

import json

import pytest

from elmo_bench.jobs.train import train
from elmo_bench.settings.earlier import earlier_run, finished_figures
from elmo_bench.training.in_parts import InParts
from tests.commands import run
from tests.conftest import composed
from tests.jobs.killed import kill_at, train_and_kill
from tests.jobs.small_settings import SMALL


@pytest.mark.slow
def test_the_same_command_goes_on_in_the_same_folder(tmp_path):
    settings = ["task=ner", *SMALL["ner"], "encoder=none", "data.size=2", "fit.max_epochs=2"]
    settings += ["trainer=cpu", "fit.save_minutes=0", f"cache_dir={tmp_path}"]
    command = [*settings, f"outputs_dir={tmp_path}/outputs", "resume=true"]
    folder = tmp_path / "outputs" / "day" / "time"
    killed = composed(*command, f"run_dir={folder}")
    train_and_kill(killed, InParts, "training_step", kill_at(1))
    assert not (folder / "result.json").exists()
    done = run(*command)
    assert done.returncode == 0, done.stderr
    assert f"resume=true: this run is in {folder}\n" in done.stdout
    assert [*tmp_path.glob("outputs/*/*")] == [folder]
    assert not (folder / "last.ckpt").exists()
    metrics = json.loads((folder / "result.json").read_text())["metrics"]
    assert metrics == train(composed(*settings, f"run_dir={tmp_path}/undisturbed"))
    curves = [path / "metrics.csv" for path in (folder, tmp_path / "undisturbed")]
    assert curves[0].read_text() == curves[1].read_text()
    # Given again, it finds the finished run; in a folder of its choice it looks for no other.
    assert earlier_run(composed(*command, whole=True)) == folder
    assert finished_figures(killed) == metrics
    for other in ("seed=7", "hydra.run.dir=here", "run_dir=here", "resume=false"):
        assert earlier_run(composed(*command, other, whole=True)) is None
