"""A corpus is a name and a path for each split: what is taken, and what is said of one that is
none.
"""

from pathlib import Path

import pytest
from omegaconf import open_dict

from elmo_bench.build.encoders import encoder
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.report import report
from elmo_bench.jobs.train import train
from elmo_bench.settings import inputs
from elmo_bench.settings.targets import allow
from tests import conftest

TEXT = "Ann B-PER\nsleeps O\n\nBob B-PER\nsings O\n\n"


def composed(*overrides):
    return conftest.composed("data=files", *overrides)


@pytest.fixture
def paths(tmp_path):
    for split in inputs.SPLITS:
        (tmp_path / f"{split}.txt").write_text(TEXT)
    return [f"data.files.{split}={tmp_path}/{split}.txt" for split in inputs.SPLITS]


@pytest.fixture
def overridden(monkeypatch):
    """Says which keys the command line sets, where Hydra has not composed the config itself."""
    return lambda *keys: monkeypatch.setattr(
        inputs, "overridden", lambda _: dict.fromkeys(keys, "")
    )


def test_files_without_a_yaml(tmp_path, paths):
    cfg = composed(*paths)
    assert inputs.corpus(cfg) == {split: tmp_path / f"{split}.txt" for split in inputs.SPLITS}
    assert cfg.data.name == f"{tmp_path}/train.txt"
    assert composed(*paths, "data.name=mine").data.name == "mine"


@pytest.mark.parametrize("how", [[], ["data=wikigold", "data.files.test=null"]])
def test_a_corpus_without_a_test_file(paths, how):
    cfg = composed(*how, *paths[:2])
    assert [*inputs.corpus(cfg)] == ["train", "dev"]
    with pytest.raises(ValueError, match=r"data.files.test is empty: .* has no test file"):
        inputs.corpus(cfg, ["test"])


@pytest.mark.parametrize("split", ["train", "dev"])
def test_any_other_gap_is_told(paths, split):
    with pytest.raises(ValueError, match=f"data.files.{split} is empty"):
        inputs.corpus(composed(*(path for path in paths if f".{split}=" not in path)))


def test_a_gap_that_a_share_of_training_fills(paths):
    """What the message says of dev works; a corpus of a user's own may lack the setting."""
    files = [path for path in paths if ".dev=" not in path]
    with pytest.raises(ValueError, match=r"training examples dev: data.held_out=0.1$") as error:
        inputs.corpus(composed(*files))
    setting = str(error.value).rpartition(" ")[2]
    assert [*inputs.corpus(composed(*files, setting))] == ["train", "test"]
    without = composed(*files)
    without.data = {key: value for key, value in without.data.items() if key != "held_out"}
    with pytest.raises(ValueError, match=r"training examples dev: \+data.held_out=0.1$"):
        inputs.corpus(without)


def test_folds_need_one_file(paths):
    (train,) = [path for path in paths if ".train=" in path]
    assert [*inputs.corpus(composed(train, "data.folds=3"))] == ["train"]


def test_the_generated_corpus_takes_no_files(paths, tmp_path):
    with pytest.raises(ValueError, match=r"data.files.train=.*, but data=sample has its own"):
        inputs.corpus(composed("data=sample", paths[0], f"cache_dir={tmp_path}"))


def test_other_files_are_not_filed_as_a_known_corpus(paths, overridden):
    keys = [path.partition("=")[0] for path in paths]
    overridden("data", *keys)
    with pytest.raises(ValueError, match=r"dev.txt is not a file of wikigold.*choose data=files"):
        inputs.corpus(composed("data=wikigold", *paths))
    overridden("data", "data.name", *keys)
    assert len(inputs.corpus(composed("data=wikigold", "data.name=mine", *paths))) == 3


def test_a_sweep_finds_the_files_that_its_run_will(paths, tmp_path):
    """Whether a run is finished is asked where Hydra has composed no run yet."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.txt").write_text(TEXT)
    cfg = composed(*paths, f"data_dir={tmp_path}/data")
    with pytest.MonkeyPatch.context() as patch, open_dict(cfg):
        patch.chdir(tmp_path)
        cfg.data.files.train = "train.txt"
        assert inputs.corpus(cfg, ["train"])["train"] == tmp_path / "data" / "train.txt"
        cfg.hydra = {"overrides": {"task": ["data.files.train=train.txt"]}}
        assert inputs.corpus(cfg, ["train"])["train"] == Path("train.txt")


def test_a_part_of_a_training_set_may_be_given(paths, overridden, tmp_path):
    """Measured on the corpus's own dev and test, the figure is one on this corpus."""
    overridden("data", "data.files.train")
    (tmp_path / "ner").mkdir()
    for split in ("dev", "test"):
        (tmp_path / "ner" / f"wikigold.{split}.txt").write_text(TEXT)
    cfg = composed("data=wikigold", paths[0], f"data_dir={tmp_path}")
    assert inputs.corpus(cfg)["train"] == tmp_path / "train.txt"
    cfg.data.files.train = "mine.txt"
    with pytest.raises(FileNotFoundError, match=r"no file mine.txt or .*Paths are .* data_dir$"):
        inputs.corpus(cfg)


def test_a_run_without_a_test_file(new_run, tmp_path, paths, capsys):
    """It leaves the figures of dev, and a report reads them."""
    own = ["data=files", *conftest.TINY, "encoder=mini"]
    metrics = train(cfg := new_run(*own, *paths[:2]))
    assert {key.partition("/")[0] for key in metrics} == {"dev"}
    assert conftest.result_of(cfg.run_dir)["metrics"] == metrics
    assert [path.name for path in Path(cfg.run_dir, "predictions").iterdir()] == ["dev.conll"]
    assert "dev, in percent" in capsys.readouterr().out
    with pytest.raises(ValueError, match="split=test: none of 1 runs was evaluated on it"):
        report(composed("job=report", f"runs={tmp_path}"))
    tested = new_run("job=evaluate", f"checkpoint={cfg.run_dir}/best.ckpt", "data=files", paths[2])
    assert "test/f1" in evaluate(tested)
    assert conftest.result_of(tested.run_dir)["config"]["data"]["name"] == f"{tmp_path}/test.txt"


def test_word_vectors_are_found_or_their_origin_is_said(tmp_path, overridden):
    """A default that is missing says where it comes from; a file that a person names does not."""
    coref = ("sweep=table1", "task=coref", f"data_dir={tmp_path}")
    first, second = (f"{tmp_path}/vectors/{name}" for name in ("glove.840B.300d", "turian.50d"))
    Path(first).parent.mkdir()
    Path(f"{first}.txt.gz").touch()
    with pytest.raises(FileNotFoundError) as caught:
        inputs.checked_vector_files(composed(*coref))
    said = str(caught.value)
    assert said.startswith(f"vocab.vectors={second}.txt: no such file; ")
    assert "coref/turian.50d.txt" in said
    assert "vocab.vectors=null" in said
    overridden("vocab.vectors")
    with pytest.raises(FileNotFoundError, match=r"vocab.vectors=a: no such file$"):
        inputs.checked_vector_files(composed(*coref, "vocab.vectors=a"))
    Path(f"{second}.txt").touch()
    assert inputs.checked_vector_files(composed(*coref)) == [f"{first}.txt.gz", f"{second}.txt"]
    assert inputs.checked_vector_files(composed(*coref, "vocab.vectors=null")) == []
    below = ["encoder=static", f"data_dir={tmp_path}", "vocab.vectors=vectors/glove.840B.300d.txt"]
    assert inputs.checked_vector_files(composed(*below)) == [f"{first}.txt.gz"]
    Path(f"{first}.txt").write_text("a 1 2\n")
    assert inputs.encoder_files(composed(*below)) == {"encoder.vectors": Path(f"{first}.txt")}
    assert encoder(composed(*below)).dim == 2


@pytest.mark.parametrize(
    ("data", "bilm"), [("sample", "mini"), ("wikigold", "wiki"), ("files", "wiki")]
)
def test_real_english_has_a_bilm_of_real_english(data, bilm):
    assert composed(f"data={data}").encoder.name == bilm
    assert composed(f"data={data}", "encoder=none").encoder.name == "none"
    assert composed(f"data={data}", "sweep=table1").encoder.name == "original"


def test_a_model_s_files_are_inputs(paths, random_bert):
    """Other weights in the same folder are another run."""
    cfg = composed(*paths, "encoder=transformer", f"encoder.model={random_bert}")
    assert {"encoder.model.safetensors", "encoder.config.json"} <= inputs.files(cfg).keys()
    baseline = composed(*paths, "encoder=none", f"encoder.model={random_bert}")
    assert inputs.files(baseline).keys() == inputs.files(composed(*paths, "encoder=none")).keys()


def nothing(**_):
    """A user's encoder that is none."""


@pytest.mark.parametrize("value", [3, [1, 2], {"dim": 3}], ids=str)
@pytest.mark.parametrize("key", ["model", "options", "weights", "vectors"])
def test_of_a_user_s_encoder_an_argument_may_be_no_path(paths, key, value):
    cfg = composed(*paths, "encoder=none")
    cfg.encoder = {"name": "mine", "_target_": f"{__name__}.nothing", key: value}
    allow(cfg.encoder)
    assert not [name for name in inputs.files(cfg) if name.startswith("encoder")]
    said = "returned a NoneType, which is not an encoder: its class must inherit elmo_bench.Encoder"
    with pytest.raises(ValueError, match=said):
        encoder(cfg)
