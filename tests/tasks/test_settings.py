"""Each task's settings and sizes are the published ones, and the command line wins."""

from functools import partial

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from elmo_bench.elmo import Elmo
from elmo_bench.nn import AlternatingHighwayLstm, Backbone, Words
from elmo_bench.settings.targets import instantiate
from elmo_bench.text import Vocab
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm

CHARS = {"embed.char_dim": 20, "embed.num_filters": 100, "embed.width": 5, "embed.freeze": True}
CLASSES = {f"task.read.{split}.classes": 2 for split in ("train", "dev", "test")}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "task=coref data=ontonotes5 rnn.dropout=0.25",
            {"rnn.hidden_size": 200, "rnn.dropout": 0.25, "elmo.dropout": 0.5, "elmo.l2": 0.0}
            | {"elmo.at": ["input"], "embed.char_dim": 8, "fit.batch_size": 1}
            | {"task.model.max_width": 10, "task.model.spans_per_word": 0.4}
            | {"task.model.max_antecedents": 250},
        ),
        (
            "task=snli data=snli task.model.l2=0",
            {"elmo.norm": "batch", "rnn.hidden_size": 300, "elmo.at": ["input", "output"]}
            | {"embed._target_": "elmo_bench.nn.Words", "task.model.l2": 0},
        ),
        (
            "task=squad data=squad1 rnn=bilstm elmo.at=[input] task.callbacks.0.decay=0.9",
            {"rnn._target_": "elmo_bench.nn.BiLstm", "elmo.at": ["input"], **CHARS}
            | {"task.callbacks[0].decay": 0.9},
        ),
        (
            "task=srl data=ontonotes5 embed=words_chars",
            {"embed._target_": "elmo_bench.nn.WordsChars", "elmo.l2": 0.001}
            | {"trainer.gradient_clip_algorithm": "value"},
        ),
        (
            "task=sst5 data=sst",
            {"task.read.train": {"classes": 5, "min_tokens": 4}, "task.read.test": {"classes": 5}}
            | {"embed._target_": "elmo_bench.nn.Words", "rnn._target_": "elmo_bench.nn.ReluBiLstm"},
        ),
        (
            "task=sst5 data=sst task.classes=2 task.phrases=null rnn=bilstm rnn.hidden_size=7",
            {"rnn.hidden_size": 7, "task.read.train.min_tokens": None, **CLASSES},
        ),
    ],
)
def test_settings(command, expected):
    cfg = composed(*command.split(), "run_dir=here")
    assert {key: OmegaConf.select(cfg, key) for key in expected} == expected


class Wide(nn.Module):
    """Stands for the original biLM, of which only the sizes matter here."""

    num_layers, dim = 3, 1024


@pytest.mark.parametrize(
    ("command", "labels", "layers", "word_dim", "expected"),
    [
        ("task=snli data=snli", "cen", None, 300, 4_331_103),
        ("task=snli data=snli", "cen", Wide(), 0, 6_068_703),
        ("task=sst5 data=sst task.model.maxout=4", "01234", None, 300, 20_999_721),
        ("task=sst5 data=sst task.model.maxout=4", "01234", Wide(), 300, 21_306_921),
    ],
)
def test_as_many_parameters_as_allennlp(command, labels, layers, word_dim, expected):
    """The task's layers of AllenNLP's configs, counted by hand; no word vectors, no biLM."""
    cfg, vocab = composed(*command.split(), "elmo.at=[input]"), Vocab(["word"], [*labels])
    with torch.device("meta"):
        embed = Words(vocab=vocab, vectors={}, word_dim=word_dim)
        elmo = Elmo(layers, at=list(cfg.elmo.at))
        backbone = partial(Backbone, embed, elmo, instantiate(cfg.rnn))
        model = instantiate(cfg.task.model)(backbone, vocab.labels)
    left_out = {*embed.parameters(), *elmo.parameters()}
    assert sum(p.numel() for p in model.parameters() if p not in left_out) == expected


def test_parameters_of_the_encoder_of_srl():
    encoder = instantiate(composed("task=srl", "data=ontonotes5").rnn)(input_size=1124)
    assert isinstance(encoder, AlternatingHighwayLstm)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 9_415_200


def test_parameters_of_squad():
    """The sizes of Clark and Gardner with ELMo at both places, counted by hand; words and biLM left
    out.
    """
    cfg = composed("task=squad", "data=squad1")
    x, dim, gru = 300 + 100, 1024, 90
    h = 2 * gru

    def bi_gru(size):
        return 2 * 3 * (gru * (size + gru) + 2 * gru)

    merged = h + dim
    expected = 262 * 20 + 5 * 20 * 100 + 100  # characters
    expected += 2 * (3 + 1)  # two mixes of three layers
    expected += bi_gru(x + dim) + (3 * merged + 1) + (4 * merged * h + h)  # encoder, attention
    expected += bi_gru(h) + (3 * h + 1) + 1 + (3 * h * h + h)  # self-attention
    expected += bi_gru(h) + bi_gru(2 * h) + 2 * (h + 1)  # pointers
    embed = instantiate(cfg.embed)(vocab=Vocab([], []), vectors={})
    elmo = Elmo(random_bilm(cell_size=8, projection_size=512), at=tuple(cfg.elmo.at))
    model = instantiate(cfg.task.model)(partial(Backbone, embed, elmo, instantiate(cfg.rnn)), [])
    words = model.backbone.embed.embedding.weight
    counted = [p.numel() for p in model.parameters() if p.requires_grad and p is not words]
    assert sum(counted) == expected == 2_340_785


def test_the_learning_rate_of_snli_is_halved_when_dev_does_not_rise():
    cfg = composed("task=snli", "data=snli")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=cfg.task.optimizer.lr)
    scheduler = instantiate(cfg.task.scheduler)(optimizer)
    rates = []
    for accuracy in (0.5, 0.50001, 0.50001, 0.6):
        scheduler.step(accuracy)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.0004, 0.0004, 0.0002, 0.0002]
