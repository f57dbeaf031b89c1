"""SST-5: trees and their phrases, the accuracy, and the network against loops, golden numbers and
published sizes.
"""

import json
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_bench.build import examples as examples_of
from elmo_bench.elmo import Elmo
from elmo_bench.metrics import Accuracy
from elmo_bench.nn import Backbone, ReluBiLstm, Words
from elmo_bench.text import Vocab
from tasks.classify.bcn import Bcn, Maxout
from tasks.classify.examples import Example
from tasks.classify.sst import collate, parse, parse_tree, read, render
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm

SOUP = "(3 (2 (2 This) (2 soup)) (3 (2 is) (4 delicious)))"
QUEUE = "(1 (2 Nobody) (1 (1 (2 loved) (1 (2 the) (1 queue))) (2 .)))"
MENU = r"(2 (2 -LRB-) (2 (2 fish\/meat) (2 (2 5\*) (2 -RRB-))))"


def summary(examples):
    return [(example.gold, " ".join(example.texts[0])) for example in examples]


def test_whole_sentences(text_file):
    path = text_file(f"{SOUP}\r\n\r\n{QUEUE}\r\n(4 Bravo)")
    examples = list(read(path))
    assert summary(examples) == [
        ("3", "This soup is delicious"),
        ("1", "Nobody loved the queue ."),
        ("4", "Bravo"),
    ]
    assert [example.source for example in examples] == [f"{path}:1", f"{path}:3", f"{path}:4"]
    first = examples[0]
    assert (first.sentences, first.labels, first.gold) == ([*first.texts], [*"01234", "3"], "3")


def test_phrases(text_file):
    path = text_file(f"{SOUP}\n{QUEUE}\n")
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


def test_labels_are_those_of_the_classes(text_file):
    """Phrases of few tokens are left out of training, and may be all of a class."""
    path = text_file("(4 (2 So) (4 good))\n(1 (2 No) (1 (2 more) (1 (2 dull) (2 lamps))))\n")
    (phrase, *_) = read(path, min_tokens=4)
    assert {*phrase.labels} == {*"01234"}
    (sentence, *_) = read(path, classes=2)
    assert {*sentence.labels} == {"negative", "positive"}


def test_held_out_trees_are_whole_sentences(text_file):
    """Also a short one, of which no phrase is long enough to train on."""
    path = text_file("\n".join([SOUP, QUEUE, "(4 Bravo)"] * 10))
    files = ["data=files", f"data.files.train={path}", "data.held_out=0.5", "encoder=none"]
    examples = examples_of(composed("task=sst5", "run_dir=here", *files))
    whole, dev = [*read(path)], examples.by_split["dev"]
    assert len(dev) == 15
    assert {*summary(dev)} == {*summary(whole)}
    held = {example.group for example in dev}
    assert not held & {example.group for example in examples.by_split["train"]}
    assert {tuple(s) for s in examples.all_sentences} >= {example.texts[0] for example in dev}


def test_escaped_characters_and_spaces_within_words(text_file):
    (example,) = read(text_file(MENU))
    assert example.texts[0] == ("(", "fish/meat", "5*", ")")
    (example,) = read(text_file("(2 (2 2\xa01\\/2) (2 hours))"))
    assert example.texts[0] == ("2\xa01/2", "hours")


def test_fewer_classes(text_file):
    path = text_file("\n".join(f"({label} word)" for label in range(5)))
    assert [example.gold for example in read(path)] == ["0", "1", "2", "3", "4"]
    three = ["negative", "negative", "neutral", "positive", "positive"]
    assert [example.gold for example in read(path, classes=3)] == three
    found = [(e.gold, e.source[-1]) for e in read(path, classes=2)]
    assert found == [*zip(("negative", "negative", "positive", "positive"), "1245", strict=True)]
    phrases = summary(read(text_file(QUEUE), classes=2, min_tokens=1))
    assert ("negative", "queue") in phrases
    assert not any(words == "Nobody" for _, words in phrases)  # neutral


LABELLED = st.recursive(
    st.tuples(st.sampled_from("01234"), st.text("abc.'é-", min_size=1, max_size=3)),
    lambda inner: st.tuples(st.sampled_from("01234"), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=12,
)


@given(LABELLED)
def test_any_tree(tree):
    def spell(node):
        inside = node[1] if isinstance(node[1], str) else " ".join(map(spell, node[1]))
        return f"({node[0]} {inside})"

    def leaves(node):
        if isinstance(node[1], str):
            return [node[1]]
        return [word for child in node[1] for word in leaves(child)]

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


def test_golden_nodes(shared_fixtures):
    golden = json.loads((shared_fixtures / "derived" / "expected_parse.json").read_text())
    found = read(shared_fixtures / "tasks" / "sst" / "sst.txt", min_tokens=1)
    expected = [(node["label"], node["tokens"]) for node in golden["sst_all_subtrees"]]
    assert [(e.gold, list(e.texts[0])) for e in found] == expected


def test_parse_and_render():
    example = parse({"tokens": ["Good", "soup", "!"], "id": 7}, "in.jsonl:1")
    assert (example.labels, example.source) == ([], "in.jsonl:1")
    assert parse({"text": "(3 stars)"}, "in:1").texts == (("(", "3", "stars", ")"),)
    with pytest.raises(
        ValueError, match=r"^in:1: '\(3 \(2 Very\) \(3 good\)\)' is a tree with labels"
    ):
        parse({"text": "(3 (2 Very) (3 good))"}, "in:1")
    assert render(example, "4") == {"tokens": ["Good", "soup", "!"], "label": "4"}
    assert parse({"text": "Good soup!"}, "in.jsonl:2").texts == example.texts


def test_accuracy():
    metric = Accuracy(["b", "a", "c"])
    metric.update(["a", "b", "b"], ["a", "a", "b"])
    metric.update(["c"], ["b"])
    figures = {name: value.item() for name, value in metric.compute().items()}
    assert figures == {"accuracy": 0.5, "a/accuracy": 0.5, "b/accuracy": 0.5, "c/accuracy": 0}
    with pytest.raises(ValueError, match="gold label 'd', but the labels are"):
        metric.update(["a"], ["d"])


WORDS = ("not", "a", "dull", "place", "at", "all")


def build():
    vocab = Vocab.build([WORDS], "01234")
    elmo = Elmo(random_bilm(), at=("input", "output"), dropout=0.0)
    embed = Words(vocab=vocab, vectors={}, word_dim=20)
    encoder = partial(ReluBiLstm, projection_size=20, hidden_size=20)
    backbone = partial(Backbone, embed, elmo, encoder)
    return Bcn(backbone, vocab.labels, hidden_size=20, layer_sizes=[30], dropouts=[0.0] * 2), vocab


def test_the_network_against_loops():
    """One sentence at a time, word by word, from the definition (McCann et al. 2017, section 5)."""
    model, vocab = build()
    model.eval()
    batch = collate([Example((WORDS,), "3", "here:1", (), ())], vocab)
    (h,) = model.backbone(batch.first)
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


def test_golden_maxout(golden_modules):
    golden = json.loads((golden_modules / "maxout.json").read_text("utf-8"))

    def tensor(entry):
        return torch.tensor(entry["data"]).view(entry["shape"])

    x = tensor(golden["x"])
    parts = zip(*(golden[key] for key in ("width", "pool", "W", "b")), strict=True)
    for width, pool, weight, bias in parts:
        layer = Maxout(x.shape[1], width, pool=pool)
        layer.load_state_dict({"weight": tensor(weight), "bias": tensor(bias)})
        x = layer(x)
    torch.testing.assert_close(x, tensor(golden["out"]))


def test_dropouts_must_fit_the_layers():
    backbone, sizes = (lambda: build()[0].backbone), {"hidden_size": 2, "layer_sizes": [4]}
    with pytest.raises(ValueError, match=r"dropouts=\[0.1\]"):
        Bcn(backbone, ["a", "b"], **sizes, dropouts=[0.1])
