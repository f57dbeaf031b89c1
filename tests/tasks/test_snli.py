"""SNLI: the pairs of its JSON lines, and ESIM against loops and published sizes."""

import json
import logging
from functools import partial

import pytest
import torch

from elmo_bench.elmo import Elmo
from elmo_bench.nn import Backbone, BiLstm, Words
from elmo_bench.text import Vocab
from tasks.classify.esim import Esim
from tasks.classify.examples import Example
from tasks.classify.snli import LABELS, collate, leaves, parse, read, render
from tests.encoders.random_bilm import random_bilm


def record(label="entailment", premise="( ( Two boats ) ( race . ) )", hypothesis="( Boats race )"):
    return {
        "annotator_labels": [label],
        "gold_label": label,
        "pairID": "boat#1",
        "sentence1": "Two boats race.",
        "sentence1_binary_parse": premise,
        "sentence2": "Boats race",
        "sentence2_binary_parse": hypothesis,
    }


def lines(*records):
    return "".join(f"{json.dumps(each)}\n\n" for each in records)


def test_read(text_file):
    path = text_file(lines(record(), record("neutral")))
    first, second = read(path)
    assert first.sentences == [("Two", "boats", "race", "."), ("Boats", "race")]
    assert (first.labels, first.gold) == ([*LABELS, "entailment"], "entailment")
    assert (first.source, second.gold, second.source) == (f"{path}:1", "neutral", f"{path}:3")


def test_pairs_without_a_gold_label_are_left_out_and_counted(text_file, caplog):
    caplog.set_level(logging.INFO)
    path = text_file(lines(record("-"), record(), record("-")))
    assert [example.source for example in read(path)] == [f"{path}:3"]
    assert f"{path}: skipped 2 pairs without a gold label" in caplog.text


def test_leaves():
    tree = "( ( A ( -LRB- ( red -RRB- ) ) ) ( ( and\\/or 2\xa01\\/2 ) ( -LSB- -RCB- ) ) )"
    assert leaves(tree, "here") == ["A", "(", "red", ")", "and/or", "2\xa01/2", "[", "}"]
    assert leaves("word", "here") == ["word"]


@pytest.mark.parametrize("tree", [None, ""])
def test_text_is_tokenised_where_there_is_no_parse(text_file, tree):
    (example,) = read(text_file(lines(record(premise=tree, hypothesis=tree))))
    assert example.sentences == [("Two", "boats", "race", "."), ("Boats", "race")]
    bare = {key: value for key, value in record().items() if not key.endswith("parse")}
    (same,) = read(text_file(lines(bare)))
    assert same.sentences == example.sentences


def test_an_empty_premise_is_one_word_without_characters(text_file):
    """The official accuracy counts every labelled pair, so that such a one is scored like any
    other.
    """
    nothing = {"gold_label": "neutral", "sentence1": "", "sentence2": "Boats race"}
    for pair in (nothing, record("neutral", premise="( )"), {**nothing, "sentence1": []}):
        (example,) = read(text_file(lines(pair)))
        assert example.texts[0] == ("",)
    model, vocab = build()
    batch = collate([example], vocab)
    assert torch.isfinite(model.loss(model(batch), batch))
    assert len(model.decode(model(batch), batch)) == 1


def test_golden_pairs(shared_fixtures):
    golden = json.loads((shared_fixtures / "derived" / "expected_parse.json").read_text())["snli"]
    examples = list(read(shared_fixtures / "tasks" / "snli" / "snli.jsonl"))
    assert [example.gold for example in examples] == [pair["label"] for pair in golden]
    premise = "A person on a horse jumps over a broken down airplane ."
    assert {" ".join(example.texts[0]) for example in examples} == {premise}


def test_parse_and_render():
    example = parse({"sentence1": ["Two", "boats"], "sentence2": "Boats race."}, "in.jsonl:4")
    assert example.sentences == [("Two", "boats"), ("Boats", "race", ".")]
    assert (example.labels, example.source) == ([], "in.jsonl:4")
    sentences = {"sentence1": ["Two", "boats"], "sentence2": ["Boats", "race", "."]}
    assert render(example, "neutral") == sentences | {"label": "neutral"}
    official = parse(record("-"), "in.jsonl:5")
    assert (official.texts[0], official.labels) == (("Two", "boats", "race", "."), [])


def build(l2=0.0):
    sentences = [sentence for example in EXAMPLES for sentence in example.sentences]
    vocab = Vocab.build(sentences, [example.gold for example in EXAMPLES])
    elmo = Elmo(random_bilm(), at=("input", "output"), dropout=0.0)
    embed = Words(vocab=vocab, vectors={}, word_dim=20)
    backbone = partial(Backbone, embed, elmo, partial(BiLstm, hidden_size=20, dropout=0.0))
    return Esim(backbone, vocab.labels, hidden_size=20, dropout=0.0, l2=l2), vocab


PAIRS = """\
entailment | a boat sinks in a lake | a boat sinks
contradiction | nobody swims | a man swims
neutral | a boat | a red boat
"""
EXAMPLES = [
    Example((tuple(premise.split()), tuple(hypothesis.split())), label, f"here:{k}", (), ())
    for k, line in enumerate(PAIRS.splitlines(), 1)
    for label, premise, hypothesis in [line.split(" | ")]
]


def test_the_network_against_loops():
    """One pair at a time, word by word, from the definition (Chen et al. 2017, section 3)."""
    model, vocab = build()
    model.eval()
    batch = collate([EXAMPLES[0]], vocab)
    (a,), (b,) = model.backbone(batch.first), model.backbone(batch.second)
    pooled = []
    for mine, other in ((a, b), (b, a)):
        enhanced = []
        for x in mine:
            powers = [(x @ y).exp() for y in other]
            found = sum(power * y for power, y in zip(powers, other, strict=True)) / sum(powers)
            enhanced.append(model.projection(torch.cat([x, found, x - found, x * found])))
        (forward, backward), enhanced = model.composition.layers[0], torch.stack(enhanced)
        words = torch.cat([forward(enhanced)[0], backward(enhanced.flip(0))[0].flip(0)], -1)
        pooled += [words.mean(0), words.amax(0)]
    expected = model.classifier(torch.cat(pooled))
    torch.testing.assert_close(model(batch)[0], expected, rtol=1e-4, atol=1e-5)


def test_it_starts_as_allennlps():
    """The initialisers of its configuration: uniform after Glorot and Bengio, orthogonal, and no
    forgetting.
    """
    model, _ = build()
    for lstm in (*model.backbone.rnn.layers[0], *model.composition.layers[0]):
        size = lstm.hidden_size
        bias = (lstm.bias_ih_l0 + lstm.bias_hh_l0).detach()
        assert bias.tolist() == [0.0] * size + [1.0] * size + [0.0] * 2 * size
        recurrent = lstm.weight_hh_l0.detach()
        torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(size), rtol=0, atol=1e-5)
        limit = (6 / sum(lstm.weight_ih_l0.shape)) ** 0.5
        assert 0.9 * limit < lstm.weight_ih_l0.abs().max() <= limit
    for layer in (model.projection[1], model.classifier[1], model.classifier[4]):
        assert not layer.bias.any()
        assert layer.weight.abs().max() <= (6 / sum(layer.weight.shape)) ** 0.5


def test_the_penalty_is_on_the_matrices_of_the_tasks_own_layers():
    plain, vocab = build()
    batch = collate(EXAMPLES, vocab)
    fined, _ = build(l2=0.5)
    fined.load_state_dict(plain.state_dict())
    squares = sum(
        float((parameter.detach() ** 2).sum())
        for name, parameter in plain.named_parameters()
        if "weight" in name and not name.startswith(("backbone.embed.", "backbone.elmo."))
    )
    scores = plain(batch)
    extra = (fined.loss(scores, batch) - plain.loss(scores, batch)).item()
    assert extra == pytest.approx(0.5 * squares, rel=1e-4)
