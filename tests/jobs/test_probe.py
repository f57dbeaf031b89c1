"""The probes find what a layer holds, and say so of a biLM; neighbours are those of the highest
cosine.
"""

import json
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir

from elmo_bench import encode, load_encoder
from elmo_bench.jobs.neighbours import neighbours
from elmo_bench.jobs.probe import Predicates, linear, most_frequent, nearest, probe

CONF = str(Path(__file__).parents[2] / "conf")


@pytest.fixture
def config(tmp_path, tmp_path_factory):
    def composed(*overrides):
        with initialize_config_dir(CONF, version_base="1.3"):
            settings = [
                f"run_dir={tmp_path}",
                f"cache_dir={tmp_path_factory.getbasetemp()}",
                "data.size=20",
            ]
            return compose("config", [*settings, *overrides])

    return composed


def test_most_frequent():
    assert most_frequent(
        ["a", "a", "a", "b"], ["X", "X", "Y", "Y"], ["a", "b", "new"], ["X", "Y", "Y"]
    ) == pytest.approx(2 / 3)


def test_a_linear_probe_reads_what_is_there():
    torch.manual_seed(0)
    tags = ["A", "B", "C"] * 100
    hot = torch.eye(3).repeat(100, 1) + 0.01 * torch.randn(300, 3)
    assert linear(hot, tags, hot, tags, epochs=50, lr=0.05) == 1
    assert (
        linear(hot, tags, hot[:4], ["A", "B", "C", "D"], epochs=50, lr=0.05) == 0.75
    )  # D was never seen
    assert linear(torch.randn(300, 3), tags, torch.randn(300, 3), tags, epochs=50, lr=0.05) < 0.5


def test_nearest_senses():
    vectors = torch.tensor([[[1.0, 0], [0, 1], [0, 2], [1, 1]]])
    known = Predicates(["run", "run", "run", "eat"], ["01", "02", "02", "05"], vectors)
    asked = Predicates(
        ["run", "run", "eat", "new"],
        ["01", "02", "05", "02"],
        torch.tensor([[[3.0, 1], [1, 3], [0, 1], [1, 0]]]),
    )
    assert nearest(known, asked, 0) == 1  # the new lemma has the most frequent sense
    assert nearest(known, asked._replace(senses=["02", "01", "05", "01"]), 0) == 0.25


def test_on_the_sample(config, tmp_path, capsys):
    figures = probe(config("job=probe", "encoder=mini"))
    assert set(figures) == {
        f"{kind}/{row}" for kind in ("pos", "sense") for row in ("baseline", 0, 1, 2)
    }
    assert all(0 <= value <= 1 for value in figures.values())
    assert (
        figures["pos/1"] > figures["pos/baseline"]
    )  # names are new in test, and their tags are known from context
    assert json.loads((tmp_path / "probe.json").read_text())["accuracy"] == figures
    assert "layer 2" in capsys.readouterr().out


def test_conllu(config, tmp_path):
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    sentence = (
        row.format(1, "the", "DET")
        + row.format("2-3", "can't", "_")
        + row.format(2, "ca", "AUX")
        + row.format("2.1", "x", "X")
    )
    (tmp_path / "a.conllu").write_text(("# text = the ca\n" + sentence + "\n") * 30)
    figures = probe(
        config(
            "job=probe",
            f"probe.train={tmp_path}/a.conllu",
            f"probe.test={tmp_path}/a.conllu",
            "probe.epochs=30",
        )
    )
    assert set(figures) == {"pos/baseline", "pos/0", "pos/1", "pos/2"}
    assert figures["pos/baseline"] == figures["pos/2"] == 1
    assert json.loads((tmp_path / "probe.json").read_text())["tokens"] == {"train": 60, "test": 60}
    (tmp_path / "b.conllu").write_text("1\tthe\n")
    with pytest.raises(ValueError, match=r"b.conllu:1: 2 columns, but CoNLL-U has 10"):
        probe(
            config(
                "job=probe", f"probe.train={tmp_path}/b.conllu", f"probe.test={tmp_path}/a.conllu"
            )
        )


def test_neighbours(config, tmp_path):
    lines = [
        "Morin opened a brewery .",
        "the brewery was old",
        "Morin opened a brewery .",
        "",
        "a of b",
    ]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    ask = ["job=neighbours", f"input={tmp_path}/text", "sentence='Morin opened a brewery .'"]
    found = neighbours(config(*ask, "word=brewery", "count=3"))
    assert found[0] == (1.0, "brewery")  # itself, and once
    assert [cosine for cosine, _ in found] == sorted((cosine for cosine, _ in found), reverse=True)
    layers = encode(load_encoder("mini"), [line.split() for line in lines])
    every = torch.cat([layer[2] for layer in layers])
    cosines = torch.cosine_similarity(every, layers[0][2, 3][None]).sort(descending=True).values
    assert [cosine for cosine, _ in found] == pytest.approx(cosines[[0, 2, 3]].tolist(), abs=1e-5)
    assert neighbours(config(*ask, "word=3", "layer=0"))[0] == (1.0, "brewery")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["word=a", "sentence='a b a'"], "word=a occurs 2 times"),
        (["word=7", "sentence='a b a'"], "word=7, but the sentence has the places 0 to 2"),
        (["word=b", "sentence='a b a'", "layer=3"], "layer=3, but it may be top or 0 to 2"),
        (["word=b", "sentence='a b a'", "encoder=none"], "encoder=none has no layers"),
        (["word=b", "sentence='a b a'", "elmo.adapt=true"], "write an adapted biLM with job=adapt"),
    ],
)
def test_wrong_questions(config, tmp_path, overrides, said):
    (tmp_path / "text").write_text("a b\n")
    with pytest.raises(ValueError, match=said):
        neighbours(config("job=neighbours", f"input={tmp_path}/text", *overrides))
