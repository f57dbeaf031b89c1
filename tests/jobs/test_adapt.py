"""A biLM adapted to a task's text: what it leaves, and a run with it."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from elmo_bench.build import adaptation, hardware
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.perplexity import perplexity
from elmo_bench.jobs.pretrain import pretrain
from elmo_bench.jobs.train import train
from elmo_bench.lm import Corpus, LanguageModel, load_language_model
from tests.conftest import composed
from tests.jobs.small_settings import SMALL

pytestmark = pytest.mark.xdist_group("adapt")  # which share a biLM
TINY = ["bilm.cell_size=12", "bilm.projection_size=6", "bilm.filters=[[1,4],[3,4]]"]
QUICK = ["adapt.batch_size=4", "adapt.lr=0.02", "adapt.warmup=3"]


@pytest.fixture
def config(new_run):
    return partial(new_run, "data.size=20", *QUICK)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """The folder of a small biLM, trained on other stories of the sample, and its softmax."""
    folder = tmp_path_factory.mktemp("pretrained")
    where = [f"out={folder}/bilm", f"run_dir={folder}", f"cache_dir={folder.parent}"]
    pretrain(composed("job=pretrain", "text.size=100", "pretrain.epochs=2", *TINY, *where))
    return folder / "bilm"


@pytest.fixture
def bilm(pretrained, tmp_path):
    """encoder=files with a copy of that biLM."""
    shutil.copytree(pretrained, tmp_path / "bilm")
    return ["encoder=files", f"encoder.dir={tmp_path}/bilm"]


def folder_of(cfg):
    """Where the adapted biLM of a config is."""
    return Path(adaptation.adapted(cfg).encoder.options).parent


def about(folder):
    return json.loads((folder / "adaptation.json").read_text())


def test_perplexity_falls(config, bilm, tmp_path):
    cfg = config("task=ner", *bilm)
    out = folder_of(cfg)
    assert folder_of(config("task=ner", "seed=2", *bilm)) == out  # for all seeds
    figures = about(out)["perplexity"]
    assert figures["after/forward"] < 0.9 * figures["before/forward"]
    assert figures["after/backward"] < 0.9 * figures["before/backward"]
    dev = adaptation.text(adaptation.whole_sentences(cfg), "dev")
    assert about(out)["dev_tokens"] == sum(map(len, dev))
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(sentence) + "\n" for sentence in dev))
    for folder, when in ((tmp_path / "bilm", "before"), (out, "after")):
        where = "encoder=files", f"encoder.dir={folder}", f"input={tmp_path}/dev.jsonl"
        found = perplexity(config("job=perplexity", *where))
        for name in ("forward", "backward"):
            assert figures[f"{when}/{name}"] == pytest.approx(found[name], rel=1e-4)


def test_a_biLM_without_a_softmax_gets_one(config, bilm, tmp_path):  # noqa: N802
    (tmp_path / "bilm" / "softmax.safetensors").unlink()
    command = ["task=ner", "adapt.epochs=2", *bilm]
    out = folder_of(config(*command, f"cache_dir={tmp_path}/one"))
    figures = about(out)["perplexity"]
    assert figures["after/forward"] < figures["before/forward"]
    torch.manual_seed(3)  # it has a seed of its own: the same command, the same biLM
    assert about(folder_of(config(*command, f"cache_dir={tmp_path}/two")))["perplexity"] == figures
    model = load_language_model(out / "options.json", out / "weights.safetensors")
    data = adaptation.whole_sentences(config("task=ner"))
    assert model.vocabulary == Corpus(adaptation.text(data, "train")).vocabulary(min_count=2)


def test_another_vocabulary_is_another_biLM(config, bilm, tmp_path, monkeypatch):  # noqa: N802
    monkeypatch.setattr(adaptation, "adapt", lambda *args: args[-1].mkdir(parents=True) or {})
    before = folder_of(config("task=ner", *bilm))
    words = (tmp_path / "bilm" / "vocabulary.txt").read_text().splitlines()
    (tmp_path / "bilm" / "vocabulary.txt").write_text("\n".join(words[::-1]) + "\n")
    assert folder_of(config("task=ner", *bilm)) != before


def test_on_the_way_of_a_run(config, bilm, tmp_path, monkeypatch):
    calls, adapt = [], adaptation.adapt
    monkeypatch.setattr(adaptation, "adapt", lambda *args: calls.append(args) or adapt(*args))
    settings = ["task=ner", *SMALL["ner"], "fit.max_epochs=1", f"cache_dir={tmp_path}", *bilm]
    metrics = [train(config(*settings, "elmo.adapt=true")) for _ in range(2)]
    assert len(calls) == 1  # the second run finds what the first has left
    assert metrics[0] == metrics[1]
    train(config(*settings, "elmo.adapt=true", "fraction=0.5"))
    assert len(calls) == 1  # a share of the examples, but all of the text
    train(config(*settings, "elmo.adapt=true", "adapt.epochs=2"))
    assert len(calls) == 2
    files = [tmp_path / f"run{number}" / "result.json" for number in range(4)]
    results = [json.loads(file.read_text()) for file in files]
    for result in results:  # as asked for
        encoder = result["config"]["encoder"]
        assert encoder["dir"] == encoder["weights"]["path"] == f"{tmp_path}/bilm"
    first, again, share, longer = (result["mix"] for result in results)
    assert first == again != share
    assert longer != first  # it is the adapted biLM that a run reads
    figures = evaluate(
        config("job=evaluate", "data=sample", f"checkpoint={tmp_path}/run1/best.ckpt", "split=test")
    )
    assert figures["test/f1"] == pytest.approx(metrics[0]["test/f1"])


def test_it_runs_where_the_run_does(config, tmp_path, monkeypatch):
    """On the CPU, where `trainer` says so, even beside a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert hardware.device(config()) == "cpu"
    assert hardware.device(config("trainer=auto")) == "cuda"
    assert hardware.device(config("trainer=auto", "trainer.devices=[1]")) == "cuda:1"

    def to(self, device):
        raise InterruptedError(device)

    monkeypatch.setattr(LanguageModel, "to", to)
    with pytest.raises(InterruptedError, match=r"^cpu$"):
        adaptation.adapted(config("task=ner", "encoder=mini", f"cache_dir={tmp_path}"))


def test_a_text_is_read_once(config):
    data = adaptation.whole_sentences(config("task=squad"))  # a passage has several questions
    every, text = [*map(tuple, data.sentences("train"))], adaptation.text(data, "train")
    assert len(every) > len(text) == len(set(text))
    assert set(every) == set(text)
