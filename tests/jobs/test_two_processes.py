"""Two processes measure what one measures, exactly: every example once, corpus-level figures from
summed counts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_bench.jobs.train import train
from tests.conftest import composed
from tests.jobs.small import SMALL

ROOT = Path(__file__).parents[2]
EVALUATE = """
import sys
from elmo_bench.jobs.evaluate import evaluate
from tests.conftest import composed
folder, *tasks = sys.argv[1:]
for task in tasks:
    run = [f"checkpoint={folder}/{task}/best.ckpt", f"run_dir={folder}/{task}/two", f"cache_dir={folder}"]
    evaluate(composed("job=evaluate", "split=test", "trainer=ddp", "trainer.accelerator=cpu", *run))
"""


TASKS = ("ner", "squad", "coref", "sst5")  # one for each kind of metric


@pytest.mark.slow
def test_each_metric(tmp_path):
    alone = {}
    for task in TASKS:
        (tmp_path / task / "two").mkdir(parents=True)
        run = [
            f"task={task}",
            "data.size=3",
            *SMALL[task],
            "fit.max_epochs=1",
            "trainer=cpu",
            "trainer.enable_progress_bar=false",
        ]
        alone[task] = train(composed(*run, f"run_dir={tmp_path / task}", f"cache_dir={tmp_path}"))
    script = tmp_path / "evaluate_all.py"
    script.write_text(EVALUATE)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    done = subprocess.run(
        [*torchrun, str(script), str(tmp_path), *TASKS],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    for task, metrics in alone.items():
        found = json.loads((tmp_path / task / "two" / "result.json").read_text())["metrics"]
        assert found == {
            name: value for name, value in metrics.items() if name.startswith("test/")
        }, task
        (one,), (two,) = (
            (tmp_path / folder / "predictions").iterdir() for folder in (task, f"{task}/two")
        )
        assert one.read_bytes() == two.read_bytes()
