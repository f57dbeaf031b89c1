"""The seventh task of docs/new_task.md, exactly as it is printed there, put into a copy of the
project and trained.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import printed

ROOT = Path(__file__).parents[1]


def treebank(path, rng, sentences):
    """A language of three words a sentence, in CoNLL-U, comments and multi-word tokens included."""
    words = {"_": ["the", "a"], "Case=Nom|Number=Plur": ["dogs", "trees"], "Number=Sing": ["ran"]}
    with path.open("w") as file:
        for number in range(sentences):
            file.write(f"# sent_id = {number}\n1-2\tthedog" + "\t_" * 8 + "\n")
            for place, (features, choices) in enumerate(words.items(), 1):
                file.write(
                    f"{place}\t{rng.choice(choices)}\t_\t_\t_\t{features}" + "\t_" * 4 + "\n"
                )
            file.write("\n")


def test_the_seventh_task(tmp_path):
    project = tmp_path / "project"
    for name in ("conf", "tasks"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "run.py", project)
    for name in ("elmo_bench", "hydra_plugins"):
        (project / name).symlink_to(ROOT / name)
    for name, content in (printed("new_task.md") | {"tasks/number/__init__.py": ""}).items():
        assert not (project / name).exists()  # nothing of ours is touched
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(content, encoding="utf-8")
    for split in ("train", "dev", "test"):
        treebank(tmp_path / f"{split}.conllu", random.Random(split), 40)
    command = [sys.executable, "run.py", "task=number", "data=treebank", f"data_dir={tmp_path}"]
    command += ["encoder=none", "fit.max_epochs=15", "rnn.hidden_size=8", "rnn.dropout=0"]
    command += ["task.optimizer.lr=0.02", f"hydra.run.dir={tmp_path}/run"]
    settings = {"cwd": project, "env": os.environ | {"PYTHONPATH": str(project)}, "timeout": 300}
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["metrics"]["test/accuracy"] == 1
    assert (tmp_path / "run" / "predictions" / "test.tsv").read_text().count("\n\n") == 40
