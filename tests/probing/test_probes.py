"""Each probe finds what its vectors hold by construction, and no control task that they do not."""

from functools import partial

import pytest
import torch

from elmo_bench.metrics import SpanF1
from elmo_bench.probing.corpora import Sentence
from elmo_bench.probing.probes import (
    Text,
    description_length,
    drawn,
    f1,
    linear,
    measure_senses,
    measure_tags,
    nearest,
)

FIT = partial(linear, steps=100, lr=0.05)


def text(sentences, *layers):
    return Text(sentences, torch.stack([layer.float() for layer in layers]))


def measured(name, both, seeds):
    return measure_tags(name, both, both, FIT, seeds)


@pytest.fixture
def tagged():
    """A sentence of 600 words of 40 types with one or two tags each; the types and the tags."""
    generator = torch.Generator().manual_seed(1)
    types = torch.randint(40, (600,), generator=generator)
    tags = (types + torch.randint(2, (600,), generator=generator)) % 4
    words = [f"w{number}" for number in types.tolist()]
    sentence = Sentence(words, {"pos": [f"T{number}" for number in tags.tolist()]})
    return sentence, types, tags


def test_a_control_task_is_learned_where_vectors_have_the_word_and_else_not(tagged):
    """Layer 0 encodes only the word type, layer 1 only the tag."""
    sentence, types, tags = tagged
    both = text([sentence], torch.eye(40)[types], torch.eye(40)[tags])
    figures = measured("pos", both, [1, 2])
    word, tag = figures["layers"]
    assert min(tag["accuracy"]) == 1
    assert max(tag["control"]) < 0.6  # of four labels
    assert min(word["control"]) == 1
    assert max(word["accuracy"]) < 0.7
    assert figures["baseline"]["accuracy"] == pytest.approx(word["accuracy"][0], abs=0.05)
    assert len(set(tag["control"])) == 2  # a seed has a control task of its own
    assert measured("pos", both, [2])["layers"][1] == {name: each[1:] for name, each in tag.items()}


def test_the_description_length_is_that_of_an_online_code():
    """By hand: a probe that gives the tags of what it has seen their shares, plus one each."""
    seen = []

    def fit(x, tags, new, num_tags, seed, share):
        seen.append((len(x), len(new), round(share, 2)))
        shares = torch.bincount(tags, minlength=num_tags) + 1.0
        return (shares / shares.sum()).log().expand(len(new), -1)

    tags = torch.arange(40) % 4 // 3  # a quarter has tag 1
    order = torch.randperm(40, generator=torch.Generator().manual_seed(5))
    bits = 1.0  # of the first, uniformly
    for end, following in ((1, 2), (2, 3), (3, 5), (5, 10), (10, 20), (20, 40)):
        known, block = tags[order[:end]], tags[order[end:following]]
        for tag in (0, 1):
            share = ((known == tag).sum() + 1) / (end + 2)
            bits -= float((block == tag).sum() * share.log2())
    x = torch.zeros(40, 2)
    assert description_length(x, tags, 2, fit, 5) == pytest.approx(bits / 40, rel=1e-5)
    assert seen[0] == (1, 1, 0.03)
    assert seen[-1] == (20, 20, 0.5)


def test_what_is_easier_to_read_is_shorter(tagged):
    """The tag itself; the word's type, which tells it half; noise, about the uniform code."""
    sentence, types, tags = tagged
    noise = torch.randn(600, 4, generator=torch.Generator().manual_seed(3))
    noise = torch.nn.functional.pad(noise, (0, 36))
    both = text([sentence], torch.eye(40)[tags], torch.eye(40)[types], noise)
    tag, word, nothing = (layer["code"][0] for layer in measured("pos", both, [1])["layers"])
    assert tag < 0.3 < 0.5 < word < 0.9 < nothing < 1.2


def test_a_control_task_has_the_labels_as_often_as_they_are():
    words = [f"w{number}" for number in range(4000)]
    labels = drawn(words, ["A", "A", "A", "B"], seed=3)
    assert 0.72 < sum(label == "A" for label in labels.values()) / 4000 < 0.78
    assert labels == drawn(words[::-1] * 2, ["A", "A", "A", "B"], seed=3)  # by type, in any order
    assert labels != drawn(words, ["A", "A", "A", "B"], seed=4)


def test_words_without_a_label_are_passed_over():
    """Unlabelled words have vectors that would mislead the probe if they were read."""
    labels = ["A", None, "B", None] * 50
    sentence = Sentence(["a", "x", "b", "y"] * 50, {"pos": labels})
    both = text([sentence], torch.eye(2)[[0, 1, 1, 0] * 50])
    assert measured("pos", both, [1])["layers"][0]["accuracy"] == [1]


def test_f1_of_chunks_is_seqevals():
    """On random IOB2 tags of many sentences, F1 equals that of `SpanF1`."""
    generator = torch.Generator().manual_seed(0)
    kinds = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    lengths = [1 + n % 7 for n in range(60)]
    rows = [
        [[kinds[k] for k in torch.randint(5, (n,), generator=generator).tolist()] for n in lengths]
        for _ in range(2)
    ]
    metric = SpanF1(kinds)
    metric.update(*rows)
    ours = f1(*([tag for row in part for tag in row] for part in rows), lengths)
    assert ours == pytest.approx(float(metric.compute()["f1"]))
    assert f1(["O"], ["O"], [1]) == 0


def test_entities_have_an_f1_too():
    """Most words are O: always guessing O gives a high accuracy, but an F1 of 0."""
    tags = (["O"] * 9 + ["B-X"]) * 20
    sentences = [Sentence(["w"] * 10, {"entity": tags[:10]}) for _ in range(20)]
    both = text(sentences, torch.zeros(200, 2), torch.eye(2)[[int(tag != "O") for tag in tags]])
    figures = measured("entity", both, [1])
    assert figures["baseline"] == {"accuracy": 0.9, "f1": 0}
    assert figures["layers"][0].items() >= {"accuracy": [0.9], "f1": [0]}.items()
    assert figures["layers"][1].items() >= {"accuracy": [1], "f1": [1]}.items()


def test_nearest_senses():
    senses = [("run", "01"), ("run", "02"), ("run", "02"), ("eat", "05")]
    x = torch.tensor([[1.0, 0], [0, 1], [0, 2], [1, 1]])
    new = torch.tensor([[3.0, 1], [1, 3], [0, 1], [1, 0]])
    guesses = nearest(x, senses, new, ["run", "run", "eat", "new"])
    assert guesses == ["01", "02", "05", "02"]  # a new lemma has the most frequent sense


def test_senses_have_no_seeds():
    pairs = [None, ("run", "01"), ("run", "02"), ("run", "02")]
    both = text([Sentence(["I", "ran", "ran", "runs"], {"sense": pairs})], torch.eye(4))
    figures = measure_senses(both, both)
    assert figures["layers"] == [{"accuracy": [1]}]
    assert figures["baseline"] == {"accuracy": pytest.approx(2 / 3)}
