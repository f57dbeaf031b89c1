"""SNLI: the pairs of its JSON lines, prediction files, and ESIM against loops and published sizes."""

import gzip
import json
import logging
from collections import Counter
from functools import partial

import pytest
import torch
from hydra.utils import instantiate
from torch import nn

from elmo_bench.elmo import Elmo
from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.nn import Backbone, BiLstm, Words
from elmo_bench.text import Vocab
from tasks.snli.data import Example, collate, leaves, parse, read, read_predictions, render, write
from tasks.snli.model import Esim
from tests import conftest


def record(
    label="entailment",
    identity="boat#1",
    premise="( ( Two boats ) ( race . ) )",
    hypothesis="( Boats race )",
):
    return {
        "annotator_labels": [label],
        "captionID": "boat",
        "gold_label": label,
        "pairID": identity,
        "sentence1": "Two boats race.",
        "sentence1_binary_parse": premise,
        "sentence2": "Boats race",
        "sentence2_binary_parse": hypothesis,
    }


@pytest.fixture
def save(tmp_path):
    def save(*lines, name="pairs.jsonl"):
        path = tmp_path / name
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return save


# -- reading
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz"])
def test_read(save, name):
    path = save(record(), "", record("neutral", "boat#2"), name=name)
    first, second = read(path)
    assert (first.premise, first.hypothesis) == (("Two", "boats", "race", "."), ("Boats", "race"))
    assert first.sentences == [first.premise, first.hypothesis]
    assert (first.labels, first.gold) == (["entailment"], "entailment")
    assert (first.identity, first.source) == ("boat#1", f"{path}:1")
    assert (second.gold, second.identity, second.source) == ("neutral", "boat#2", f"{path}:3")


def test_pairs_without_a_gold_label_are_left_out_and_counted(save, caplog):
    caplog.set_level(logging.INFO)
    path = save(record("-", "a"), record(identity="b"), record("-", "c"))
    assert [example.identity for example in read(path)] == ["b"]
    assert f"{path}: skipped 2 pairs without a gold label" in caplog.text


def test_leaves():
    tree = "( ( A ( -LRB- ( red -RRB- ) ) ) ( ( and\\/or 2\xa01\\/2 ) ( -LSB- -RCB- ) ) )"
    assert leaves(tree, "here") == ["A", "(", "red", ")", "and/or", "2\xa01/2", "[", "}"]
    assert leaves("word", "here") == ["word"]


@pytest.mark.parametrize("tree", [None, ""])
def test_text_is_tokenised_where_there_is_no_parse(save, tree):
    (example,) = read(save(record(premise=tree, hypothesis=tree)))
    assert example.sentences == [("Two", "boats", "race", "."), ("Boats", "race")]
    bare = {key: value for key, value in record().items() if not key.endswith("parse")}
    (same,) = read(save(bare))
    assert same.sentences == example.sentences


def test_a_pair_without_pair_id_is_named_by_its_line(save):
    bare = {key: value for key, value in record().items() if key != "pairID"}
    null = record(identity=None)
    assert [example.identity for example in read(save(record(), bare, null))] == [
        "boat#1",
        "2",
        "3",
    ]


def test_an_empty_premise_is_one_word_without_characters(save):
    """The official accuracy counts every labelled pair, so that such a one is scored like any
    other.
    """
    nothing = {"gold_label": "neutral", "pairID": "x", "sentence1": "", "sentence2": "Boats race"}
    for pair in (nothing, record("neutral", premise="( )"), {**nothing, "sentence1": []}):
        (example,) = read(save(pair))
        assert example.premise == ("",)
    model, vocab = build(EXAMPLES)
    batch = collate([example], vocab)
    assert torch.isfinite(model.loss(model(batch), batch))
    assert len(model.decode(model(batch), batch)) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps(record())[:100], "not JSON, from character"),
        ("premise\thypothesis", "not JSON, from character 1"),
        ("[1, 2]", r"'\[1, 2\]', but each line must be a JSON object"),
        (
            record("maybe"),
            r"gold_label 'maybe', but it must be one of \['contradiction', 'entailment', 'neutral', "
            r"'-'\]",
        ),
        (record(1), "gold_label 1"),
        ({"sentence1": "a", "sentence2": "b"}, "gold_label None"),
        (
            {"gold_label": "neutral", "sentence1": "a"},
            "'sentence2' must be a string or a list of tokens, but it is None",
        ),
        (
            {"gold_label": "neutral", "sentence1": ["a", 2], "sentence2": "b"},
            r"'sentence1' .* \['a', 2\]",
        ),
        (record(premise=["Two"]), r"'sentence1_binary_parse' must be a string, not \['Two'\]"),
        (record(premise="( ( Two boats ) ( race . )"), "3 '\\(' but 2 '\\)'"),
        (
            record(premise="((Two boats)(race .))"),
            r"'\(\(Two' in the binary parse .* must have spaces around them",
        ),
    ],
)
def test_errors_name_file_and_line(save, line, message):
    path = save(record(), line)
    with pytest.raises(ValueError, match=message) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}:2: ")


def test_golden_pairs(fixtures):
    golden = json.loads((fixtures / "derived" / "expected_parse.json").read_text())["snli"]
    examples = list(read(fixtures / "tasks" / "snli" / "snli.jsonl"))
    assert [example.gold for example in examples] == [pair["label"] for pair in golden]
    premise = "A person on a horse jumps over a broken down airplane ."
    assert {" ".join(example.premise) for example in examples} == {premise}


def test_official_dev(corpora):
    labels, words = Counter(), 0
    for example in read(corpora / "snli" / "snli_1.0_dev.jsonl.gz"):
        labels[example.gold] += 1
        words += sum(map(len, example.sentences))
    assert labels == {"entailment": 3329, "neutral": 3235, "contradiction": 3278}
    assert words > 211_101  # its words between white space: punctuation comes on top


# -- predictions
# -----------------------------------------------------------------------------------------------------


def test_predictions_make_a_round_trip(save, tmp_path):
    examples = list(
        read(save(record(), record("neutral", "boat#2"), record("contradiction", "boat#3")))
    )
    predictions = ["entailment", "contradiction", "neutral"]
    path = tmp_path / "test.jsonl"
    write(examples, predictions, path)
    first = json.loads(path.read_text().splitlines()[0])
    assert first == {
        "pairID": "boat#1",
        "gold_label": "entailment",
        "predicted_label": "entailment",
    }
    assert read_predictions(path, examples) == predictions
    path.write_text("\n".join(reversed(path.read_text().splitlines())) + "\n")
    assert read_predictions(path, examples) == predictions


def guess(identity, label="neutral"):
    return {"pairID": identity, "predicted_label": label}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([guess("boat#1")], "no prediction for pairID 'boat#2' of .*pairs.jsonl:2"),
        ([guess("boat#1"), guess("ship")], ":2: pairID 'ship' is not in the gold file"),
        ([guess("boat#1"), guess("boat#1")], ":2: pairID 'boat#1' already has a prediction"),
        ([guess("boat#1", "-")], ":1: predicted_label '-'"),
        ([{"pairID": "boat#1", "label": "neutral"}], ":1: predicted_label None"),
        ([guess("boat#1"), '{"pairID": "boa'], ":2: not JSON"),
    ],
)
def test_wrong_prediction_files(save, lines, message):
    examples = list(read(save(record(), record("neutral", "boat#2"))))
    with pytest.raises(ValueError, match=message):
        read_predictions(save(*lines, name="test.jsonl"), examples)


def test_predictions_for_pairs_that_share_a_name(save):
    examples = list(read(save(record(), record())))
    with pytest.raises(ValueError, match="2 pairs from here on, but only 1 pairIDs"):
        read_predictions(save(guess("boat#1"), name="test.jsonl"), examples)


def test_parse_and_render():
    example = parse({"sentence1": ["Two", "boats"], "sentence2": "Boats race."}, "in.jsonl:4")
    assert example.sentences == [("Two", "boats"), ("Boats", "race", ".")]
    assert (example.labels, example.identity, example.source) == ([], "in.jsonl:4", "in.jsonl:4")
    rendered = {
        "sentence1": ["Two", "boats"],
        "sentence2": ["Boats", "race", "."],
        "label": "neutral",
    }
    assert render(example, "neutral") == {"pairID": "in.jsonl:4", **rendered}
    official = parse(record("-"), "in.jsonl:5")
    assert (official.premise, official.labels, official.identity) == (
        ("Two", "boats", "race", "."),
        [],
        "boat#1",
    )
    with pytest.raises(ValueError, match=r"in\.jsonl:6: 'sentence1'"):
        parse({"premise": "a", "hypothesis": "b"}, "in.jsonl:6")


# -- the model
# -------------------------------------------------------------------------------------------------------

TINY = Options(cell_size=8, projection_size=4, filters=((1, 4), (2, 4)), char_dim=4)


def build(examples, *, at=("input", "output"), dropout=0.0, l2=0.0):
    vocab = Vocab.build(
        (sentence for example in examples for sentence in example.sentences),
        [label for example in examples for label in example.labels],
    )
    elmo = Elmo(BiLm(TINY), at=at, dropout=dropout)
    embed = Words(vocab=vocab, vectors={}, word_dim=20)
    backbone = partial(Backbone, embed, elmo, partial(BiLstm, hidden_size=20, dropout=dropout))
    model = Esim(
        backbone, vocab.labels, hidden_size=20, dropout=dropout, attention_dropout=dropout, l2=l2
    )
    return model, vocab


PAIRS = [
    *(
        ("entailment", "two boats race", "boats race"),
        ("contradiction", "two boats race", "nobody races"),
    ),
    *(
        ("neutral", "two boats race", "two boats race for a cup"),
        ("entailment", "a red boat", "a boat"),
    ),
    *(
        ("contradiction", "a red boat sinks", "a red boat wins"),
        ("neutral", "a boat", "a red boat"),
    ),
    *(
        ("entailment", "a boat sinks in a lake", "a boat sinks"),
        ("contradiction", "nobody swims", "a man swims"),
    ),
    *(
        ("neutral", "a man swims", "a man swims in a lake"),
        ("contradiction", "boats race", "no boats race"),
    ),
]
EXAMPLES = [
    Example(tuple(premise.split()), tuple(hypothesis.split()), label, str(k), f"here:{k}")
    for k, (label, premise, hypothesis) in enumerate(PAIRS, 1)
]


@pytest.mark.parametrize("at", [("input", "output"), ()])
def test_ten_pairs_are_learnt_by_heart(at):
    model, vocab = build(EXAMPLES, at=at)
    batch = collate(EXAMPLES, vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(model(batch), batch).backward()
        optimizer.step()
    model.eval()
    assert model.decode(model(batch), batch) == [example.gold for example in EXAMPLES]


def test_the_batch_changes_nothing():
    model, vocab = build(EXAMPLES, dropout=0.5)
    model.eval()
    together = model(collate(EXAMPLES, vocab))
    assert together.shape == (10, 3)
    for row, example in zip(together, EXAMPLES, strict=True):
        torch.testing.assert_close(row, model(collate([example], vocab))[0], rtol=1e-4, atol=1e-6)


def test_the_network_against_loops():
    """One pair at a time, word by word, from the definition (Chen et al. 2017, section 3)."""
    model, vocab = build(EXAMPLES)
    model.eval()
    batch = collate([EXAMPLES[6]], vocab)
    (a,), (b,) = model.backbone(batch.premise), model.backbone(batch.hypothesis)
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
    model, _ = build(EXAMPLES)
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
    plain, vocab = build(EXAMPLES)
    batch = collate(EXAMPLES, vocab)
    fined, _ = build(EXAMPLES, l2=0.5)
    fined.load_state_dict(plain.state_dict())
    squares = sum(
        float((parameter.detach() ** 2).sum())
        for name, parameter in plain.named_parameters()
        if "weight" in name and not name.startswith(("backbone.embed.", "backbone.elmo."))
    )
    scores = plain(batch)
    assert (fined.loss(scores, batch) - plain.loss(scores, batch)).item() == pytest.approx(
        0.5 * squares, rel=1e-4
    )


def test_unlabelled_pairs_are_decoded():
    model, vocab = build(EXAMPLES)
    batch = collate(
        [parse({"sentence1": ["never"], "sentence2": ["seen", "this"]}, "here:1")], vocab
    )
    assert model.decode(model(batch), batch)[0] in ("contradiction", "entailment", "neutral")


# -- the config
# ------------------------------------------------------------------------------------------------------


def composed(*overrides):
    return conftest.composed("task=snli", "data=snli", *overrides, "run_dir=here")


class Wide(nn.Module):
    """Stands for the original biLM, of which only the sizes matter here."""

    num_layers, dim = 3, 1024


@pytest.mark.parametrize(
    ("layers", "word_dim", "expected"),
    [(None, 300, 4_331_103), (Wide(), 0, 6_068_703)],
    ids=["baseline", "elmo"],
)
def test_as_many_parameters_as_allennlp(layers, word_dim, expected):
    """The task's layers of AllenNLP's configs (with ELMo they have no word vectors), counted by
    hand.
    """
    cfg = composed("task.elmo.at=[input]")
    vocab = Vocab(["word"], ["contradiction", "entailment", "neutral"])
    with torch.device("meta"):
        embed = Words(vocab=vocab, vectors={}, word_dim=word_dim)
        elmo = Elmo(layers, at=list(cfg.elmo.at))
        model = instantiate(cfg.task.model)(
            partial(Backbone, embed, elmo, instantiate(cfg.rnn)), vocab.labels
        )
    left_out = {*embed.parameters(), *elmo.parameters()}
    assert sum(p.numel() for p in model.parameters() if p not in left_out) == expected


def test_output_elmo_widens_what_the_attention_reads():
    cfg = composed()
    assert list(cfg.task.elmo.at) == ["input", "output"]
    vocab = Vocab(["word"], ["neutral"])
    with torch.device("meta"):
        elmo = Elmo(Wide(), at=list(cfg.elmo.at))
        embed = Words(vocab=vocab, vectors={}, word_dim=300)
        model = instantiate(cfg.task.model)(
            partial(Backbone, embed, elmo, instantiate(cfg.rnn)), vocab.labels
        )
    assert model.projection[1].in_features == 6496


def test_what_the_command_line_may_override():
    cfg = composed()
    assert cfg.elmo.norm == "batch"
    assert cfg.rnn.hidden_size == 300
    assert cfg.embed._target_.endswith("Words")
    cfg = composed("elmo.norm=none", "rnn=bilstm", "embed=words_chars", "task.model.l2=0")
    assert cfg.elmo.norm == "none"
    assert cfg.rnn.hidden_size == 200
    assert cfg.embed._target_.endswith("WordsChars")
    assert cfg.task.model.l2 == 0


def test_the_learning_rate_is_halved_when_dev_does_not_rise():
    cfg = composed()
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=cfg.task.optimizer.lr)
    scheduler = instantiate(cfg.task.scheduler)(optimizer)
    rates = []
    for accuracy in (0.5, 0.50001, 0.50001, 0.6):
        scheduler.step(accuracy)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.0004, 0.0004, 0.0002, 0.0002]
