"""A sweep over options: a setting goes to the runs whose options have it, and what no run has is an
error; sides take turns; what is missing is said before the first run.
"""

import json
import re

import pytest

from elmo_bench.encoders.bilm import save
from elmo_bench.settings import check
from elmo_bench.settings.check import not_installed
from tests.commands import SMALLEST, run, run_here
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm

TINY = ["data.size=2", *SMALLEST[2:], "trainer=cpu", "fit.max_epochs=1"]


@pytest.fixture(scope="module")
def given(tmp_path_factory, random_bert):
    """The setting that each encoder of a user needs."""
    folder = tmp_path_factory.mktemp("encoders")
    save(random_bilm(), folder / "bilm" / "weights.safetensors")
    (folder / "vectors.txt").write_text("the 1 0\nin 0 1\n")
    return {
        "transformer": f"encoder.model={random_bert}",
        "files": f"encoder.dir={folder}/bilm",
        "static": f"encoder.vectors={folder}/vectors.txt",
    }


@pytest.mark.parametrize("encoder", ["transformer", "files", "static"])
def test_the_baseline_and_an_encoder_are_one_sweep(given, tmp_path, encoder):
    command = ["task=ner", f"encoder=none,{encoder}", given[encoder], "seed=1,2"]
    done = run_here("-m", *command, *TINY, f"cache_dir={tmp_path}", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "4 runs: the settings are valid" in done.stdout
    assert "is not given" not in done.stdout


def test_sides_take_turns_and_keep_their_numbers(given, tmp_path):
    command = [given["static"], "-m", "encoder=none,static", "seed=1,2", *TINY]
    done = run(*command, f"cache_dir={tmp_path}/cache", f"hydra.sweep.dir={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    started = re.findall(r"#(\d)  ", done.stdout)
    assert started == ["0", "2", "1", "3"]
    sides = []
    for number in range(4):
        result = json.loads((tmp_path / "out" / str(number) / "result.json").read_text())
        sides.append((result["config"]["encoder"]["name"], result["seed"]))
    assert sides == [("none", 1), ("none", 2), ("static", 1), ("static", 2)]
    assert re.search(r"runs: 1 of 4, at least 0:00:\d\d left", done.stdout)
    assert re.search(r"runs: 2 of 4, about 0:00:\d\d left\n", done.stdout)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("encoder=none,mini,files {dir}", "encoder.dir is not given to the runs with encoder=mini"),
        ("encoder=none,static {vectors},/no.txt", "/no.txt: no such file"),
        ("encoder=mini finetune=none,full finetune.lr=1e-5", "finetune.lr is not given to the runs"),
        ("encoder=none,files encoder.dri=x", "no setting encoder.dri; did you mean encoder.dir=x?"),
        ("encoder=none,mini encoder.dir=x", "encoder.dir is a setting of encoder=files"),
        ("seed=1,2 fit.epochs=3 lr=1 fraction=9", "no setting fit.epochs; did you mean fit.max"),
        ("seed=1,2 fit.epochs=3 lr=1 fraction=9", "no setting lr; did you mean task.optimizer.lr=1?"),
        ("seed=1,2 fit.epochs=3 lr=1 fraction=9", "fraction=9, but it must be"),
        ("encoder=none,org/model-x", "encoder=transformer encoder.model=org/model-x"),
    ],
)  # fmt: skip
def test_what_a_sweep_is_told(given, tmp_path, command, said):
    words = command.format(dir=given["files"], vectors=given["static"]).split()
    done = run_here("-m", *words, *TINY, f"cache_dir={tmp_path}", "--dry-run")
    assert said in done.stdout + done.stderr
    assert ("not given" in said) == (done.returncode == 0)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("data=files data.name=x data.files.train=/no data.files.dev=/no encoder=none,mini", "no file /no"),
        ("encoder=none,transformer encoder.model=/no", "encoder.model=/no: no such folder"),
        ("encoder=none,transformer", "encoder=transformer needs a model: encoder.model="),
        ("encoder=none,files encoder.dir=/no", "encoder.dir=/no: no such folder"),
        ("encoder=none,mini vocab.vectors=/", "vocab.vectors=/: is a folder, but it must be a file"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_before_the_first_run(tmp_path, command, said):
    where = [f"cache_dir={tmp_path}/cache", f"hydra.sweep.dir={tmp_path}/out"]
    tiny = TINY[1:] if "data=files" in command else TINY
    done = run_here("-m", *command.split(), *tiny, *where)
    assert done.returncode == 1
    assert said in done.stderr
    assert not [*(tmp_path / "out").glob("*/.hydra")]


def test_a_missing_package_is_named_with_what_was_typed(monkeypatch):
    monkeypatch.setattr(check, "find_spec", lambda name: None)
    advice = "needs the package transformers: pip install -e '.[transformers]'"
    chosen = composed("encoder=bert_base", whole=True)
    assert not_installed(chosen) == [f"encoder=bert_base {advice}"]
    with pytest.raises(ValueError, match="encoder=bert_base needs the package"):
        check.check(chosen)
    lora = composed("encoder=mini", "finetune=lora", whole=True)
    assert not_installed(lora)[0].startswith("finetune=lora needs the package peft: pip install")
    assert not_installed(composed("encoder=none", "finetune=lora", whole=True)) == []
    assert not_installed(composed("job=report", "encoder=bert_base", whole=True)) == []
