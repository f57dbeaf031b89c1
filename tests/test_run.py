"""The command itself, in a process of its own: what it prints, its exit status, how soon it answers."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments, cwd=ROOT, **more):
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments], capture_output=True, text=True, cwd=cwd, timeout=300, **more
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"]])
def test_answers_without_torch(arguments):
    code = (
        "import sys, runpy; sys.argv = ['run.py', *sys.argv[1:]]\n"
        "try: runpy.run_path('run.py', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'pytorch_lightning', 'wandb', 'h5py'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "elmo" in done.stdout


def test_help_is_what_hydra_prints():
    expected = run("--help", "task=ner").stdout  # with an override Hydra itself answers
    assert "Choices" in expected
    assert run("--help").stdout == run("-h").stdout == expected


@pytest.mark.parametrize(
    ("argument", "key"), [("elmo.mxi=all", "mxi"), ("task=net", "net"), ("elmo=files", "elmo.options is empty")]
)
def test_a_typo(tmp_path, argument, key):
    done = run(argument, f"hydra.run.dir={tmp_path}")
    assert done.returncode != 0
    assert key in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_run_says_why_and_leaves_it(tmp_path):
    done = run("elmo=none", "fraction=7", f"hydra.run.dir={tmp_path}/run", f"cache_dir={tmp_path}", "data.size=2")
    assert done.returncode != 0
    assert "fraction=7, but it may be more than 0 and at most 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in (tmp_path / "run" / "error.txt").read_text()
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.slow
def test_a_sweep_and_its_report(tmp_path):
    settings = [
        "elmo=none",
        "data.size=2",
        "encoder.hidden_size=4",
        "task.model.hidden_size=4",
        "fit.max_epochs=1",
        f"cache_dir={tmp_path}",
    ]
    sweep = ["sweep=seeds", "seed=1,2", "fraction=0.5,1.0", f"outputs_dir={tmp_path}/outputs"]
    for expected in ("done", "finished before"):
        done = run(*settings, *sweep, f"hydra.sweep.dir={tmp_path}/sweep", "hydra.launcher.n_jobs=2", "resume=true")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(expected) == 4
        assert len(list(tmp_path.rglob("result.json"))) == 4
    report = run("job=report", f"runs={tmp_path}/sweep", "columns=fraction", cwd=ROOT)
    assert report.returncode == 0, report.stderr
    assert "fraction=0.5" in report.stdout
    assert "(2)" in report.stdout


@pytest.mark.slow
def test_two_processes_test_every_sentence_once(tmp_path):
    settings = ["elmo=none", "data.size=4", "encoder.hidden_size=4", "task.model.hidden_size=4", "fit.max_epochs=1"]
    devices = ["trainer=ddp", "trainer.accelerator=cpu"]
    done = run(*settings, *devices, f"cache_dir={tmp_path}", f"hydra.run.dir={tmp_path}/run")
    assert done.returncode == 0, done.stderr
    (gold,) = tmp_path.glob("sample-*/ner/test.txt")
    left = (tmp_path / "run" / "predictions" / "test.conll").read_text().strip().split("\n\n")
    words = [[line.split(" ")[0] for line in block.split("\n")] for block in left]
    blocks = [block for block in gold.read_text().strip().split("\n\n") if not block.startswith("-DOCSTART-")]
    assert words == [[line.split(" ")[0] for line in block.split("\n")] for block in blocks]
