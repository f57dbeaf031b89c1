"""SST-5: trees and their phrases, the accuracy, and the network against loops, golden numbers and
published sizes.
"""

import gzip
import inspect
import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from elmo_bench.elmo import Elmo
from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.nn import Backbone, ReluBiLstm, Words
from elmo_bench.text import Vocab
from elmo_bench.training.metrics import Accuracy
from tasks.sst5.data import (
    Example,
    collate,
    parse,
    parse_tree,
    read,
    read_predictions,
    render,
    write,
)
from tasks.sst5.model import Bcn, Maxout, SelfAttentivePool
from tests import conftest

SOUP = "(3 (2 (2 This) (2 soup)) (3 (2 is) (4 delicious)))"
QUEUE = "(1 (2 Nobody) (1 (1 (2 loved) (1 (2 the) (1 queue))) (2 .)))"
MENU = r"(2 (2 -LRB-) (2 (2 fish\/meat) (2 (2 5\*) (2 -RRB-))))"


@pytest.fixture
def save(tmp_path):
    def save(text, name="trees.txt"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return save


def summary(examples):
    return [(example.label, " ".join(example.words)) for example in examples]


# -- reading
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trees.txt", "trees.txt.gz"])
def test_whole_sentences(save, name):
    path = save(f"{SOUP}\r\n\r\n{QUEUE}\r\n(4 Bravo)", name)
    examples = list(read(path))
    assert summary(examples) == [
        ("3", "This soup is delicious"),
        ("1", "Nobody loved the queue ."),
        ("4", "Bravo"),
    ]
    assert [example.source for example in examples] == [f"{path}:1", f"{path}:3", f"{path}:4"]
    first = examples[0]
    assert (first.sentences, first.labels, first.gold) == ([first.words], ["3"], "3")


def test_phrases(save):
    path = save(f"{SOUP}\n{QUEUE}\n")
    every = summary(read(path, min_tokens=1))
    assert len(every) == 7 + 9
    assert every[:3] == [("3", "This soup is delicious"), ("2", "This soup"), ("2", "This")]
    assert every[7:10] == [
        ("1", "Nobody loved the queue ."),
        ("2", "Nobody"),
        ("1", "loved the queue ."),
    ]
    assert summary(read(path, min_tokens=4)) == [every[0], every[7], every[9]]
    assert list(read(path, min_tokens=6)) == []


def test_escaped_characters_and_spaces_within_words(save):
    (example,) = read(save(MENU))
    assert example.words == ("(", "fish/meat", "5*", ")")
    (example,) = read(save("(2 (2 2\xa01\\/2) (2 hours))"))
    assert example.words == ("2\xa01/2", "hours")


def test_fewer_classes(save):
    path = save("\n".join(f"({label} word)" for label in range(5)))
    assert [example.label for example in read(path)] == ["0", "1", "2", "3", "4"]
    three = ["negative", "negative", "neutral", "positive", "positive"]
    assert [example.label for example in read(path, classes=3)] == three
    assert [(e.label, e.source[-1]) for e in read(path, classes=2)] == [
        *(("negative", "1"), ("negative", "2")),
        *(("positive", "4"), ("positive", "5")),
    ]
    phrases = summary(read(save(QUEUE), classes=2, min_tokens=1))
    assert ("negative", "queue") in phrases
    assert not any(words == "Nobody" for _, words in phrases)  # neutral


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (SOUP[:-1], "1 brackets are not closed"),
        (SOUP[:20], "'so' at character 19"),
        (SOUP + ")", r"'\)' at character 51"),
        (SOUP + " " + SOUP, r"'\(3' at character 52"),
        (SOUP + " again", "'again' at character 52"),
        ("This soup", "'This' at character 1"),
        (")", r"'\)' at character 1"),
        ("(3 This soup)", "'This' at character 4"),
        ("(3 (2 This) soup)", "'soup' at character 13"),
        ("(3 (2 This) ())", "label ''"),
        ("(3 (2 This) (2 ))", r"'\)' at character 16"),
        ("(3)", r"'\)' at character 3"),
        ("(5 Bravo)", r"label '5', but it must be one of \['0', '1', '2', '3', '4'\]"),
        ("(3 (-1 This) (2 soup))", "label '-1'"),
        ("(12 Bravo)", "label '12'"),
        ("(positive Bravo)", "label 'positive'"),
        ("((2 This) (2 soup))", "label ''"),
    ],
)
def test_errors_name_file_and_line(save, line, message):
    path = save(f"{QUEUE}\n{line}\n")
    with pytest.raises(ValueError, match=message) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}:2: ")


def test_missing_and_empty_files(save, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        list(read(tmp_path / "none.txt"))
    with pytest.raises(ValueError, match="empty"):
        list(read(save("")))


LABELLED = st.recursive(
    st.tuples(st.sampled_from("01234"), st.text("abc.'é-", min_size=1, max_size=3)),
    lambda inner: st.tuples(st.sampled_from("01234"), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=12,
)


@given(LABELLED)
def test_any_tree(tree):
    def spell(node):
        return (
            f"({node[0]} {node[1] if isinstance(node[1], str) else ' '.join(map(spell, node[1]))})"
        )

    def leaves(node):
        return (
            [node[1]]
            if isinstance(node[1], str)
            else [word for child in node[1] for word in leaves(child)]
        )

    def nodes(node):
        yield node
        for child in () if isinstance(node[1], str) else node[1]:
            yield from nodes(child)

    words, phrases = parse_tree(spell(tree), "here")
    assert list(words) == leaves(tree)
    found = [(label, list(words[start : end + 1])) for label, start, end in phrases]
    assert found == [(node[0], leaves(node)) for node in nodes(tree)]
    with pytest.raises(ValueError, match="here"):
        parse_tree(spell(tree)[:-1], "here")


def test_golden_nodes(fixtures):
    golden = json.loads((fixtures / "derived" / "expected_parse.json").read_text())[
        "sst_all_subtrees"
    ]
    found = read(fixtures / "tasks" / "sst" / "sst.txt", min_tokens=1)
    assert [(e.label, list(e.words)) for e in found] == [
        (node["label"], node["tokens"]) for node in golden
    ]


def test_official_dev(corpora):
    path = corpora / "sst" / "dev.txt"
    examples = list(read(path))
    assert Counter(example.label for example in examples) == {
        "0": 139,
        "1": 289,
        "2": 229,
        "3": 279,
        "4": 165,
    }
    assert sum(len(example.words) for example in examples) == 21274
    assert sum(1 for _ in read(path, min_tokens=1)) == 41447
    assert sum(1 for _ in read(path, classes=2)) == 872


# -- predictions
# -----------------------------------------------------------------------------------------------------


def test_predictions_make_a_round_trip(save, tmp_path):
    examples = list(read(save(f"{SOUP}\n{QUEUE}\n{MENU}\n")))
    path = tmp_path / "test.tsv"
    write(examples, ["3", "0", "4"], path)
    assert path.read_text().splitlines()[:2] == [
        "3\t3\tThis soup is delicious",
        "1\t0\tNobody loved the queue .",
    ]
    assert read_predictions(path, examples) == ["3", "0", "4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\t3\tThis soup is delicious\n", "1 predictions, but there are 2 sentences"),
        (
            "3\t3\tThis soup is delicious\n1\t0\tNobody loved the queue .\n1\t0\tNobody\n",
            "3 predictions",
        ),
        (
            "3\t3\tThis soup is delicious\n1\t0\tNobody\n",
            ":2: 'Nobody', but .*:2 is 'Nobody loved the queue .'",
        ),
        ("3\t3\tThis soup is delicious\n1\t7\tNobody loved the queue .\n", ":2: label '7'"),
        (
            "3\tpositive\tThis soup is delicious\n",  # of task.classes=2
            ":1: label 'positive', but it must be one of 0, 1, 2, 3, 4; check that task.classes",
        ),
        ("3\t3\n", ":1: 2 columns"),
        (
            "positive\tpositive\tThis soup is delicious\n",
            ":1: gold label 'positive', but .*:1 has '3'; check that task.classes",
        ),
    ],
)
def test_wrong_prediction_files(save, text, message):
    examples = list(read(save(f"{SOUP}\n{QUEUE}\n")))
    with pytest.raises(ValueError, match=message):
        read_predictions(save(text, "test.tsv"), examples)


def test_parse_and_render():
    example = parse({"tokens": ["Good", "soup", "!"], "id": 7}, "in.jsonl:1")
    assert (example.words, example.labels, example.source) == (
        ("Good", "soup", "!"),
        [],
        "in.jsonl:1",
    )
    assert render(example, "4") == {"tokens": ["Good", "soup", "!"], "label": "4"}
    assert parse({"text": "Good soup!"}, "in.jsonl:2").words == example.words


@pytest.mark.parametrize(
    "record", [{}, {"tokens": None}, {"tokens": [1]}, {"tokens": []}, {"text": " "}]
)
def test_wrong_records(record):
    with pytest.raises(ValueError, match=r"in\.jsonl:3: a record must have 'tokens'"):
        parse(record, "in.jsonl:3")


# -- the metric
# ------------------------------------------------------------------------------------------------------


def test_accuracy():
    metric = Accuracy(["b", "a", "c"])
    metric.update(["a", "b", "b"], ["a", "a", "b"])
    metric.update(["c"], ["b"])
    figures = {name: value.item() for name, value in metric.compute().items()}
    assert figures == {"accuracy": 0.5, "a/accuracy": 0.5, "b/accuracy": 0.5, "c/accuracy": 0}
    with pytest.raises(ValueError, match="gold label 'd', but the labels are"):
        metric.update(["a"], ["d"])


def test_accuracy_of_nothing_is_zero():
    metric = Accuracy(["a"])
    metric.update([], [])
    assert metric.compute() == {"accuracy": 0, "a/accuracy": 0}


def test_accuracy_adds_up_over_processes():
    whole, halves = Accuracy("ab"), [Accuracy("ab"), Accuracy("ab")]
    for half, (predicted, gold) in zip(halves, [("aab", "abb"), ("b", "a")], strict=True):
        half.update(list(predicted), list(gold))
        whole.update(list(predicted), list(gold))
    assert (halves[0].counts + halves[1].counts == whole.counts).all()
    assert whole.compute()["accuracy"] == 0.5


# -- the model
# -------------------------------------------------------------------------------------------------------

TINY = Options(cell_size=8, projection_size=4, filters=((1, 4), (2, 4)), char_dim=4)


def build(examples, *, at=("input", "output"), maxout=None, dropout=0.0):
    vocab = Vocab.build(
        (e.words for e in examples), [label for e in examples for label in e.labels]
    )
    elmo = Elmo(BiLm(TINY), at=at, dropout=dropout)
    embed = Words(vocab=vocab, vectors={}, word_dim=20)
    encoder = partial(
        ReluBiLstm, projection_size=20, hidden_size=20, input_dropout=dropout, dropout=dropout
    )
    backbone = partial(Backbone, embed, elmo, encoder)
    dropouts = [dropout] * 2
    model = Bcn(
        backbone, vocab.labels, hidden_size=20, layer_sizes=[30], dropouts=dropouts, maxout=maxout
    )
    return model, vocab


SENTENCES = [
    *(
        ("0", "the worst soup ever"),
        ("0", "a terrible terrible queue"),
        ("1", "not good"),
        ("1", "a dull place ."),
    ),
    *(
        ("2", "the soup"),
        ("2", "they serve soup on Mondays"),
        ("3", "good soup"),
        ("3", "not a dull place at all"),
    ),
    *(("4", "superb !"), ("4", "the best soup ever served in any place")),
]
EXAMPLES = [
    Example(tuple(words.split()), label, f"here:{line}")
    for line, (label, words) in enumerate(SENTENCES, 1)
]


@pytest.mark.parametrize(("at", "maxout"), [(("input", "output"), None), ((), 3)])
def test_ten_examples_are_learnt_by_heart(at, maxout):
    model, vocab = build(EXAMPLES, at=at, maxout=maxout)
    batch = collate(EXAMPLES, vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(model(batch), batch).backward()
        optimizer.step()
    model.eval()
    assert model.decode(model(batch), batch) == [example.gold for example in EXAMPLES]


def test_shapes_and_the_baseline():
    model, vocab = build(EXAMPLES)
    batch = collate(EXAMPLES, vocab)
    assert model(batch).shape == (10, 5)
    assert model.loss(model(batch), batch).shape == ()
    none, _ = build(EXAMPLES, at=())
    assert none.backbone.dim == model.backbone.dim - 8


@pytest.mark.parametrize("maxout", [None, 2])
def test_the_batch_changes_nothing(maxout):
    model, vocab = build(EXAMPLES, maxout=maxout, dropout=0.5)
    model.eval()
    together = model(collate(EXAMPLES, vocab))
    for row, example in zip(together, EXAMPLES, strict=True):
        torch.testing.assert_close(row, model(collate([example], vocab))[0], rtol=1e-4, atol=1e-6)


def test_unlabelled_sentences_are_decoded():
    model, vocab = build(EXAMPLES)
    batch = collate([parse({"tokens": ["never", "seen"]}, "here:1"), EXAMPLES[0]], vocab)
    labels = model.decode(model(batch), batch)
    assert len(labels) == 2
    assert set(labels) <= set("01234")


def test_the_network_against_loops():
    """One sentence at a time, word by word, from the definition (McCann et al. 2017, section 5)."""
    model, vocab = build(EXAMPLES)
    model.eval()
    example = EXAMPLES[7]
    batch = collate([example], vocab)
    (h,) = model.backbone(batch.tokens)
    enhanced = []
    for x in h:
        powers = [(x @ other).exp() for other in h]
        context = sum(power * other for power, other in zip(powers, h, strict=True)) / sum(powers)
        enhanced.append(torch.cat([x, x - context, x * context]))
    (forward, backward), enhanced = model.integrator.layers[0], torch.stack(enhanced)
    words = torch.cat([forward(enhanced)[0], backward(enhanced.flip(0))[0].flip(0)], -1)
    powers = [model.attentive_pool.score(word).exp() for word in words]
    attentive = sum(power * word for power, word in zip(powers, words, strict=True)) / sum(powers)
    pooled = torch.cat([words.amax(0), words.amin(0), words.mean(0), attentive])
    (_, hidden, relu, _, output) = model.classifier
    expected = output(relu(hidden(pooled)))
    torch.testing.assert_close(model(batch)[0], expected, rtol=1e-4, atol=1e-5)


def test_golden_maxout(modules):
    golden = json.loads((modules / "maxout.json").read_text("utf-8"))

    def tensor(entry):
        return torch.tensor(entry["data"]).view(entry["shape"])

    x = tensor(golden["x"])
    for width, pool, weight, bias in zip(
        *(golden[key] for key in ("width", "pool", "W", "b")), strict=True
    ):
        layer = Maxout(x.shape[1], width, pool=pool)
        layer.load_state_dict({"weight": tensor(weight), "bias": tensor(bias)})
        x = layer(x)
    torch.testing.assert_close(x, tensor(golden["out"]))


def test_maxout_is_the_maximum_of_linear_functions():
    layer, x = Maxout(3, 2, pool=4), torch.randn(5, 3)
    for k in range(2):
        rows = [x @ layer.weight[4 * k + j] + layer.bias[4 * k + j] for j in range(4)]
        torch.testing.assert_close(layer(x)[:, k], torch.stack(rows).amax(0))


def test_attentive_pool_without_preference_is_the_mean():
    pool, x = SelfAttentivePool(3), torch.randn(2, 4, 3)
    nn.init.zeros_(pool.score.weight)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    torch.testing.assert_close(pool(x, mask), torch.stack([x[0].mean(0), x[1, :2].mean(0)]))


def test_dropouts_must_fit_the_layers():
    with pytest.raises(ValueError, match=r"dropouts=\[0.1\]"):
        Bcn(
            lambda: build(EXAMPLES)[0].backbone,
            ["a", "b"],
            hidden_size=2,
            layer_sizes=[4],
            dropouts=[0.1],
        )


# -- the config
# ------------------------------------------------------------------------------------------------------


def composed(*overrides):
    return conftest.composed("task=sst5", "data=sst", *overrides, "run_dir=here")


class Wide(nn.Module):
    """Stands for the original biLM, of which only the sizes matter here."""

    num_layers, dim = 3, 1024


@pytest.mark.parametrize(
    ("layers", "expected"), [(None, 20_999_721), (Wide(), 21_306_921)], ids=["baseline", "elmo"]
)
def test_as_many_parameters_as_allennlp(layers, expected):
    """The task's layers of AllenNLP's configs without and with ELMo, counted by hand; no word
    vectors, no biLM.
    """
    cfg = composed("task.model.maxout=4", "task.elmo.at=[input]")
    vocab = Vocab(["word"], list("01234"))
    with torch.device("meta"):
        embed = Words(vocab=vocab, vectors={}, word_dim=300)
        elmo = Elmo(layers, at=list(cfg.elmo.at))
        model = instantiate(cfg.task.model)(
            partial(Backbone, embed, elmo, instantiate(cfg.rnn)), vocab.labels
        )
    left_out = {*embed.parameters(), *elmo.parameters()}
    assert sum(p.numel() for p in model.parameters() if p not in left_out) == expected


def test_what_is_read_and_what_the_command_line_may_override():
    cfg = composed()
    assert dict(cfg.task.read.train) == {"classes": 5, "min_tokens": 4}
    assert dict(cfg.task.read.test) == {"classes": 5}
    assert cfg.embed._target_.endswith("Words")
    assert cfg.rnn._target_.endswith("ReluBiLstm")
    cfg = composed("task.classes=2", "task.phrases=null", "rnn=bilstm", "rnn.hidden_size=7")
    for split in ("train", "dev", "test"):
        assert (
            inspect.signature(read).bind(Path("here"), **cfg.task.read[split]).arguments["classes"]
            == 2
        )
    assert cfg.task.read.train.min_tokens is None
    assert (cfg.rnn._target_, cfg.rnn.hidden_size) == ("elmo_bench.nn.BiLstm", 7)
    assert composed("embed=words_chars").embed._target_.endswith("WordsChars")


def test_a_tab_and_a_record_without_a_label(tmp_path):
    """A tab within a word would be a column of `write`; a record without a label is named."""
    path = tmp_path / "x.txt"
    path.write_text("(2 (2 a) (2 b\tc))\n")
    with pytest.raises(ValueError, match=r"x\.txt:1: contains a tab, but"):
        list(read(path))
    path.write_text("(2 a)\n")
    examples, labels = list(read(path)) * 2, tmp_path / "y.jsonl"
    labels.write_text('{"tokens": ["a"], "label": "2"}\n{"tokens": ["a"]}\n')
    with pytest.raises(ValueError, match=r"y\.jsonl:2: label None, but"):
        read_predictions(labels, examples)
