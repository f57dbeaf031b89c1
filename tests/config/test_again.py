"""`resume=true` of a single run, in processes of their own: kill -9, and the same command goes on
in the same folder.
"""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from elmo_bench.jobs.train import train
from tests.jobs.small import SMALL
from tests.test_run import run, start


@pytest.mark.slow
def test_the_same_command_goes_on_in_the_same_folder(tmp_path, tiny):
    settings = [
        "task=ner",
        *SMALL["ner"],
        "encoder=none",
        "data.size=2",
        "fit.max_epochs=2",
        "trainer=cpu",
        "fit.save_minutes=0",
    ]
    command = [*settings, f"outputs_dir={tmp_path}/outputs", f"cache_dir={tmp_path}", "resume=true"]
    killed = start(*command)
    while not [*tmp_path.glob("outputs/*/*/last.ckpt")] and killed.poll() is None:
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    (folder,) = tmp_path.glob("outputs/*/*")
    assert not (folder / "result.json").exists()
    done = run(*command)
    assert done.returncode == 0, done.stderr
    assert f"continuing in {folder}" in done.stdout
    assert [*tmp_path.glob("outputs/*/*")] == [folder]
    assert not (folder / "last.ckpt").exists()
    undisturbed = tiny(*settings)
    assert json.loads((folder / "result.json").read_text())["metrics"] == train(undisturbed)
    assert (folder / "metrics.csv").read_text() == Path(
        undisturbed.run_dir, "metrics.csv"
    ).read_text()
    written = (folder / "result.json").stat().st_mtime_ns
    again = run(*command)
    assert again.returncode == 0, again.stderr
    assert f"already finished: {folder}/result.json" in again.stdout
    assert [*tmp_path.glob("outputs/*/*")] == [folder]
    assert (folder / "result.json").stat().st_mtime_ns == written
