"""Two processes measure what one measures, exactly: every example once, corpus-level figures from
summed counts.
"""

import multiprocessing
import os
import socket

import pytest

from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.train import train
from tests.conftest import composed, result_of
from tests.jobs.small_settings import SMALL

TASKS = ("ner", "squad")  # one whose metric sums integers, and one that sums floats


def evaluate_all(rank, folder, port):
    """As one of two processes that `torchrun` starts."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "1"}
    os.environ |= {"LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    for task in TASKS:
        run = [f"checkpoint={folder}/{task}/best.ckpt", f"run_dir={folder}/{task}/two"]
        ddp = ["trainer=ddp", "trainer.accelerator=cpu", f"cache_dir={folder}"]
        evaluate(composed("job=evaluate", "split=test", *ddp, *run))


@pytest.mark.slow
def test_each_metric(tmp_path, new_run):
    alone = {}
    for task in TASKS:
        (tmp_path / task / "two").mkdir(parents=True)
        small = [f"task={task}", "data.size=3", *SMALL[task], "fit.max_epochs=1"]
        where = [f"run_dir={tmp_path / task}", f"cache_dir={tmp_path}"]
        alone[task] = train(new_run(*small, *where))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    both = [fork.Process(target=evaluate_all, args=(rank, tmp_path, port)) for rank in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(240)
        process.kill()
    assert [process.exitcode for process in both] == [0, 0]
    for task, metrics in alone.items():
        found = result_of(tmp_path / task / "two")["metrics"]
        assert found == {
            name: value for name, value in metrics.items() if name.startswith("test/")
        }, task
        (one,), (two,) = (
            (tmp_path / folder / "predictions").iterdir() for folder in (task, f"{task}/two")
        )
        assert one.read_bytes() == two.read_bytes()
