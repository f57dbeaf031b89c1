"""What tests share: where golden figures lie (ours here, the original's outside the project), random
numbers that do not change, a tiny run.
"""

import json
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path

# Tests are small: threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A job of SLURM may run the tests; their runs are no tasks of it.
os.environ.pop("SLURM_NTASKS", None)
# No test waits for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
# A shell lets what it starts in the background (`make test &`) ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from tests.type_checks import check_types

if "elmo_bench" not in sys.modules:  # as for `python -m tests.tools.hostile`, which goes without
    check_types()

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.plugins import Plugins
from omegaconf import DictConfig

import tasks
from elmo_bench.encoders.bilm import BiLm, save
from elmo_bench.sample import files as sample
from elmo_bench.settings.hydra_private import OF_VERSION
from tests.encoders.random_bilm import random_bilm
from tests.jobs.small_settings import SMALL
from tests.kept_configs import keep_configs

Plugins.instance()  # Hydra makes its plugins anew: before ours extend them
keep_configs()
SHARED = Path(__file__).parents[2] / "shared"
GOLDEN = Path(__file__).parent / "golden"

CONF = Path(__file__).parents[1] / "conf"
# Where the experiments of RESULTS.md are.
OF_RESULTS = f"hydra.searchpath=[file://{CONF.parent}/results/conf]"
QUIET = ["trainer=cpu", "trainer.enable_progress_bar=false"]
TINY = [*SMALL["ner"], "fit.max_epochs=2"]
FENCED = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
COSTS = {  # what a run measures besides its scores
    "parameters": {"trainable": 1, "frozen": 2},
    "seconds": {"training": 1.0, "total": 2.0},
    "epochs": 1,
    "examples_per_second": 1.0,
    "device": "cpu",
}


def composed(*overrides: str, whole: bool = False) -> DictConfig:
    """The config of a command; with Hydra's own part if it is `whole`."""
    with initialize_config_dir(str(CONF), **OF_VERSION):
        return compose("config", [*overrides], return_hydra_config=whole)


def result_of(folder: str | Path) -> dict:
    """What a run's result.json says."""
    return json.loads(Path(folder, "result.json").read_text())


def weights_of(folder: str | Path) -> dict[str, torch.Tensor]:
    """Those of a run's best epoch."""
    return torch.load(Path(folder, "best.ckpt"), weights_only=True)["state_dict"]


def printed(page: str) -> dict[str, str]:
    """The files that a page of docs/ prints."""
    text = (CONF.parent / "docs" / page).read_text(encoding="utf-8")
    return {name: content for _, name, content in FENCED.findall(text) if name}


def outside_the_clone(name: str) -> Path:
    """A folder beside the repository, which a stranger's clone does not have: the test is skipped."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/{name} (CONTRIBUTING.md)")
    return folder


def pytest_terminal_summary(terminalreporter) -> None:
    """Say in one line for each thing that is missing here how many tests need it."""
    reasons = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reasons[report.longrepr[-1].removeprefix("Skipped: ")] += 1
    for reason, count in reasons.most_common():
        if reason.startswith("needs "):
            tests, need = ("tests", "they need") if count > 1 else ("test", "it needs")
            terminalreporter.write_line(f"{count} {tests} skipped: {need} {reason[6:]}")


@pytest.fixture(scope="module")
def documented_parts(tmp_path_factory):
    """A folder with the task, encoders and job that docs/ prints, where Hydra and Python find them."""
    folder = tmp_path_factory.mktemp("user")
    pages = ("encoders.md", "new_task.md", "compare.md")
    for name, content in [block for page in pages for block in printed(page).items()]:
        path = folder / re.sub("^conf/", "mine/", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (folder / "tasks" / "number" / "__init__.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setattr(tasks, "__path__", [*tasks.__path__, str(folder / "tasks")])
        yield folder / "mine"
    for name in [name for name in sys.modules if name.startswith(("mine", "tasks.number"))]:
        del sys.modules[name]


@pytest.fixture
def shared_fixtures() -> Path:
    """Golden vectors of the original and figures of the official scorers."""
    return outside_the_clone("fixtures")


@pytest.fixture(params=["shipped", "original"])
def golden_modules(request) -> Path:
    """The folder of golden figures of modules: ours, and those among the fixtures of the
    original.
    """
    if request.param == "shipped":
        return GOLDEN / "modules"
    return request.getfixturevalue("shared_fixtures") / "derived"


@pytest.fixture
def shared_data() -> Path:
    """Real corpora in their official formats."""
    return outside_the_clone("data")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def closed_pipe():
    """What a command prints to where the next one has ended, as in `| head`."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        yield pipe


@pytest.fixture
def new_run(tmp_path, tmp_path_factory):
    """compose(*overrides) -> config of a run on the CPU, in a new folder: run0, run1, ..."""

    def build(*overrides):
        run_dir = tmp_path / f"run{len([*tmp_path.glob('run*')])}"
        run_dir.mkdir()
        where = [f"run_dir={run_dir}", f"cache_dir={tmp_path_factory.getbasetemp()}"]
        return composed(*QUIET, *where, *overrides)

    return build


@pytest.fixture
def tiny_ner(tmp_path, new_run):
    """compose(*overrides) -> config of a tiny NER run; `encoder=files` finds a small random biLM."""
    save(random_bilm(), tmp_path / "bilm" / "weights.safetensors")

    def build(*overrides):
        chosen = [*TINY]
        if not any(each.startswith("encoder=") for each in overrides):
            chosen += ["encoder=files", f"encoder.dir={tmp_path}/bilm"]
        if not any(each.startswith("data=") or each == "job=evaluate" for each in overrides):
            chosen += ["data.size=2"]
        return new_run(*chosen, *overrides)

    return build


@pytest.fixture
def times_read(monkeypatch):
    """How often the biLM has read each sentence."""
    counts, forward = Counter(), BiLm.forward

    def counting(bilm, inputs, *args, **kwargs):
        counts.update(row[row.any(-1)].numpy().tobytes() for row in inputs.chars)
        return forward(bilm, inputs, *args, **kwargs)

    monkeypatch.setattr(BiLm, "forward", counting)
    return counts


@pytest.fixture(scope="session")
def sample_lines(tmp_path_factory) -> list[str]:
    """Sentences of the sample's raw text."""
    files = sample(task="lm", root=tmp_path_factory.mktemp("text"), size=60)
    return files["train"].read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def random_bert(tmp_path_factory, sample_lines) -> Path:
    """The folder of a small random BERT, with a tokenizer trained on those."""
    from tests.encoders import random_transformers

    return random_transformers.save("bert", tmp_path_factory.mktemp("bert") / "model", sample_lines)
