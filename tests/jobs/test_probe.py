"""The job measures every property that a file has, with several seeds."""

import json
from functools import partial

import pytest

from elmo_bench.jobs.probe import probe
from tests.conftest import composed


@pytest.fixture
def config(tmp_path, tmp_path_factory):
    return partial(composed, f"run_dir={tmp_path}", f"cache_dir={tmp_path_factory.getbasetemp()}")


def test_on_the_sample(config, tmp_path, capsys):
    """Names are new in test, and their tags are known from context. The same seed gives the same
    figures, another one another control task.
    """
    ask = ("job=probe", "encoder=mini", "probe.seeds=2", "probe.steps=100", "seed=3")
    ask += ("probe.max_sentences=100", "data.size=20")
    figures = probe(config(*ask))
    names = ("pos", "entity", "sense")
    assert set(figures) == {f"{name}/{row}" for name in names for row in ("baseline", 0, 1, 2)}
    assert figures["pos/1"] > figures["pos/baseline"]
    written = json.loads((tmp_path / "probe.json").read_text())
    assert (written["corpus"], written["seeds"]) == ("sample", [3, 4])
    pos, _, sense = (written["properties"][name] for name in names)
    assert [len(layer["accuracy"]) for layer in (pos["layers"][0], sense["layers"][0])] == [2, 1]
    assert figures["pos/2"] == pytest.approx(sum(pos["layers"][2]["accuracy"]) / 2)
    assert pos["layers"][1]["control"][0] != pos["layers"][1]["control"][1]
    shown = " ".join(capsys.readouterr().out.split())
    assert "What each layer knows" in shown
    assert "selectivity" in shown
    text = (tmp_path / "probe.json").read_text()
    assert str(tmp_path) not in text
    probe(config(*ask))
    assert (tmp_path / "probe.json").read_text() == text


def test_conllu(config, tmp_path):
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    sentence = row.format(1, "the", "DET") + row.format(2, "play", "NOUN")
    (tmp_path / "a.conllu").write_text(("# text = the play\n" + sentence + "\n") * 30)
    files = [f"data.files.{split}={tmp_path}/a.conllu" for split in ("train", "test")]
    files += ["data=files", "data.name=a"]
    ask = ["job=probe", "encoder=mini", "probe.seeds=1", "probe.steps=100"]
    figures = probe(config(*ask, *files))
    assert figures == {f"pos/{row}": 1 for row in ("baseline", 0, 1, 2)}
    about = json.loads((tmp_path / "probe.json").read_text())
    assert about["corpus"] == "a"
    assert about["data"]["test"].items() >= {"sentences": 30, "words": 60}.items()
    (tmp_path / "b.conllu").write_text("1\tthe\n")
    with pytest.raises(ValueError, match=r"b.conllu:1: 2 columns, but CoNLL-U has 10"):
        probe(config(*ask, *files, f"data.files.train={tmp_path}/b.conllu"))
    (tmp_path / "c.conllu").write_text(row.format(1, "the", "_"))
    with pytest.raises(
        ValueError, match=r"data.files: \S+c.conllu and \S+a.conllu share no property"
    ):
        probe(config(*ask, *files, f"data.files.train={tmp_path}/c.conllu"))
