"""What is made from a config."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from torch import nn

from elmo_bench import build
from elmo_bench.build import hardware, texts
from elmo_bench.build.task_format import required, task_format
from elmo_bench.encoders import Encoder
from elmo_bench.nn import TaskModel
from elmo_bench.settings import machine
from elmo_bench.settings.targets import allow
from elmo_bench.text import Vocab, joined
from tests.conftest import composed


def test_word_vectors(tmp_path):
    """Of the forms in which words are looked up."""
    (tmp_path / "v.txt").write_text("the 1 2\n. 3 4\n\u00e9t\u00e9 5 6\n")
    cfg = composed(f"vocab.vectors={tmp_path}/v.txt", "vocab.lowercase=true")
    vectors = texts.read_word_vectors(cfg, ["The", "\u00c9t\u00e9", "half \ud83d"])
    found = {word: vector.tolist() for word, vector in vectors.items()}
    assert found == {"the": [1, 2], "\u00e9t\u00e9": [5, 6]}
    assert {vector.dtype.name for vector in vectors.values()} == {"float32"}


def test_word_vectors_of_two_files(tmp_path):
    (tmp_path / "v.txt").write_text("a 3 4\n")
    (tmp_path / "w.txt").write_text("b 2\n")
    asked = [f"vocab.vectors=[{tmp_path}/v.txt,{tmp_path}/w.txt]", "vocab.unit_vectors=true"]
    vectors = texts.read_word_vectors(composed(*asked), ["a", "b"])
    expected = {"a": pytest.approx([0.6, 0.8, 0]), "b": [0, 0, 1]}
    assert {word: vector.tolist() for word, vector in vectors.items()} == expected


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tasks.absent.data", "task.data=tasks.absent.data, but there is no module tasks.absent"),
        ("abc", "abc has no function read, which task.data=abc requires"),
    ],
)
def test_a_module_that_cannot_read(name, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        task_format(composed(f"task.data={name}"))


def test_what_a_module_may_lack(monkeypatch):
    """Its error comes before any work; of another scorer there are then no figures."""
    cfg = composed("task=ner")
    for name in ("parse", "other_scores"):
        monkeypatch.delattr(f"tasks.ner.data.{name}")
    form = task_format(cfg)
    assert form.other_scores([], []) == {}
    with pytest.raises(
        ValueError, match=r"^tasks\.ner\.data has no function parse, which job=predict"
    ):
        required(form, "parse", "job=predict")
    monkeypatch.delattr("tasks.ner.data.write")
    with pytest.raises(
        ValueError, match=r"has no function write, which task\.data=tasks\.ner\.data"
    ):
        task_format(cfg)


class OldModel(nn.Module):
    """A user's model that inherits no contract."""

    def __init__(self, backbone, labels):
        super().__init__()
        self.backbone = backbone()


class OldRnn(nn.Module):
    """A user's RNN that inherits none."""

    def __init__(self, *, input_size):
        super().__init__()
        self.dim = input_size


@pytest.mark.parametrize(
    ("key", "kind", "contract"), [("task.model", OldModel, "TaskModel"), ("rnn", OldRnn, "Rnn")]
)
def test_a_class_without_its_contract(key, kind, contract):
    """Its error says what to inherit."""
    cfg = composed("task=ner", "encoder=none", "run_dir=here")
    target = {"_target_": f"{__name__}.{kind.__name__}", "_partial_": True}
    OmegaConf.update(cfg, key, target, merge=False)
    allow(cfg)
    said = f"returned a {kind.__name__}, whose class must inherit elmo_bench.nn.{contract}$"
    with pytest.raises(ValueError, match=rf"^{key}\._target_=\S+ {said}"):
        build.model(cfg, Vocab(["a"], ["O"]), {}, build.elmo(cfg))


def test_an_incomplete_model_or_encoder():
    for contract in (TaskModel, Encoder):
        with pytest.raises(TypeError, match="abstract"):
            type("Mine", (contract,), {})()


@pytest.mark.parametrize(("words", "said"), [(["The", "dog"], True), (["the", "dog"], False)])
def test_vectors_without_capitals_for_a_task_that_looks_words_up_as_they_stand(
    tmp_path, caplog, words, said
):
    (tmp_path / "v.txt").write_text("the 3 4\ndog 0 2\n")
    settings = [f"vocab.vectors={tmp_path}/v.txt", f"cache_dir={tmp_path}"]
    texts.read_word_vectors(composed("task=sst5", *settings), words)
    assert ("v.txt is lower-cased" in caplog.text) == said


def test_more_processes_than_cores(tiny, monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)
    many = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=5"]
    with pytest.raises(ValueError, match=r"trainer.devices=5, but only 4 cores.*oversubscribe"):
        hardware.trainer(tiny(*many), [])
    assert hardware.trainer(tiny(*many, "oversubscribe=true"), []).num_devices == 5
    assert hardware.trainer(tiny(*many, "trainer.devices=4"), []).num_devices == 4


@pytest.mark.parametrize(
    ("task", "chosen"), [("squad", "embed=words"), ("sst5", "rnn=bigru"), ("coref", "rnn=identity")]
)
def test_a_task_has_another_embed_or_rnn_than_its_own(task, chosen):
    """What the task says of its own one does nothing."""
    cfg = composed(f"task={task}", chosen, "encoder=none")
    vocab = Vocab(["a"], ["x", "y"])
    assert build.model(cfg, vocab, {}, build.elmo(cfg)).backbone.dim > 0


def test_examples_in_one_sequence_stand_in_a_text_too(tmp_path):
    """The marks between their texts are in no text."""
    (tmp_path / "text.txt").write_text("It rains .\n\nWet\n")
    cfg = composed("text=files", f"text.files.train={tmp_path}/text.txt")
    empty = dict.fromkeys(("labels", "source", "gold", "group"), ())
    sentences = ["It", "rains", "."], ["Wet"]
    test = [SimpleNamespace(texts=sentences, sentences=[joined(*sentences)], **empty)]
    counts = texts.overlap(cfg, {"train": [], "test": test})
    assert counts["text"] == {"test": [1, 1]}
