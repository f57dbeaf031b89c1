"""Each probe finds what its vectors hold by construction, and no control task that they do not."""

import pytest
import torch

from elmo_bench.encoders.probing import (
    Heads,
    Senses,
    Sentence,
    Tags,
    Text,
    Training,
    labelled,
    measure,
)
from elmo_bench.encoders.probing.probes import (
    Bilinear,
    bilinear,
    chunks,
    control_heads,
    drawn,
    f1,
    nearest,
)
from elmo_bench.training.metrics import SpanF1

TRAINING = Training(100, 0.05, "cpu")


def text(sentences, *layers):
    return Text(sentences, torch.stack([layer.float() for layer in layers]))


def one_hot(numbers, size):
    return torch.eye(size)[torch.as_tensor(numbers)]


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
    both = text([sentence], one_hot(types, 40), one_hot(tags, 40))
    probe = Tags("pos", both, both, TRAINING)
    word, tag = measure(probe, 2, [1, 2], lambda: None)["layers"]
    assert min(tag["accuracy"]) == 1
    assert max(tag["control"]) < 0.6  # of four labels
    assert min(word["control"]) == 1
    assert max(word["accuracy"]) < 0.7
    assert probe.baseline()["accuracy"] == pytest.approx(word["accuracy"][0], abs=0.05)
    assert len(set(tag["control"])) == 2  # a seed has a control task of its own
    again = Tags("pos", both, both, TRAINING).figures(1, 2)
    assert again == {name: figures[1] for name, figures in tag.items()}


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
    both = text([sentence], one_hot([0, 1, 1, 0] * 50, 2))
    assert Tags("pos", both, both, TRAINING).figures(0, 1)["accuracy"] == 1


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
    ours = (chunks([tag for row in part for tag in row], lengths) for part in rows)
    assert f1(*ours) == pytest.approx(float(metric.compute()["f1"]))
    assert f1(set(), set()) == 0


def test_entities_have_an_f1_too():
    """Most words are O: always guessing O gives a high accuracy, but an F1 of 0."""
    tags = (["O"] * 9 + ["B-X"]) * 20
    sentences = [Sentence(["w"] * 10, {"entity": tags[:10]}) for _ in range(20)]
    both = text(sentences, torch.zeros(200, 2), one_hot([int(tag != "O") for tag in tags], 2))
    probe = Tags("entity", both, both, TRAINING)
    assert probe.baseline() == {"accuracy": 0.9, "f1": 0}
    assert probe.figures(0, 1).items() >= {"accuracy": 0.9, "f1": 0}.items()
    assert probe.figures(1, 1).items() >= {"accuracy": 1, "f1": 1}.items()


def test_nearest_senses():
    senses = [("run", "01"), ("run", "02"), ("run", "02"), ("eat", "05")]
    x = torch.tensor([[1.0, 0], [0, 1], [0, 2], [1, 1]])
    new = torch.tensor([[3.0, 1], [1, 3], [0, 1], [1, 0]])
    guesses = nearest(x, senses, new, ["run", "run", "eat", "new"])
    assert guesses == ["01", "02", "05", "02"]  # a new lemma has the most frequent sense


def test_senses_have_no_seeds():
    pairs = [None, ("run", "01"), ("run", "02"), ("run", "02")]
    both = text([Sentence(["I", "ran", "ran", "runs"], {"sense": pairs})], torch.eye(4))
    probe = Senses("sense", both, both)
    assert not probe.is_random
    assert probe.figures(0, 1) == probe.figures(0, 2) == {"accuracy": 1}
    assert probe.baseline() == {"accuracy": pytest.approx(2 / 3)}


@pytest.fixture
def chains():
    """Sentences of 3 to 6 words of 30 types, in which each word's head is the word before it.

    The first word is the root, the last is not scored. Layer 0 encodes positions, layer 1 is noise.
    """
    generator = torch.Generator().manual_seed(0)
    sentences, positions = [], []
    for number in range(80):
        length = 3 + number % 4
        words = [f"w{n}" for n in torch.randint(30, (length,), generator=generator).tolist()]
        sentences.append(Sentence(words, {"head": [*range(length - 1), None]}))
        positions += range(length)
    noise = torch.randn(len(positions), 6, generator=generator)
    return text(sentences, one_hot(positions, 6), noise)


def test_a_bilinear_probe_finds_heads_by_position(chains):
    """It does not find those of the control task, which depend on the word type."""
    layers = measure(Heads("head", chains, chains, TRAINING), 2, [1], lambda: None)["layers"]
    assert layers[0]["accuracy"] == [1]
    assert layers[0]["control"][0] < 0.7
    assert layers[1]["accuracy"][0] < 0.6


def test_the_baseline_of_heads_is_a_words_usual_distance():
    """A distance out of the sentence is wrong; being the root counts as a distance."""
    train = [Sentence(["the", "dog", "ran"], {"head": [2, 3, 0]})]
    test = [
        Sentence(["a", "the", "dog", "ran"], {"head": [3, 3, 4, 0]}),
        Sentence(["ran", "the"], {"head": [0, 1]}),
    ]
    probe = Heads("head", text(train, torch.eye(3)), text(test, torch.eye(6)), TRAINING)
    # New words have the distance of all: +1, which came first of those that are as frequent.
    assert probe.baseline() == {"accuracy": pytest.approx(4 / 6)}


def test_scores_of_heads_one_by_one():
    model = Bilinear(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    x, lengths = torch.randn(2, 4, 5), [4, 2]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    scores = model(x, mask)
    (a, b), root = (model.head.weight, model.head.bias), model.root
    for row, length in enumerate(lengths):
        for i in range(length):
            torch.testing.assert_close(scores[row, i, :1], root(x[row, i]))
            for j in range(length):
                score = x[row, j] @ (a @ x[row, i]) / 5 + x[row, j] @ b / 5**0.5
                torch.testing.assert_close(scores[row, i, j + 1], score)
        assert (scores[row, :, length + 1 :] == -torch.inf).all()


def test_a_sentences_heads_do_not_depend_on_its_batch(chains):
    x = chains.layers[0]
    lengths = [len(sentence.words) for sentence in chains.sentences]
    heads = torch.tensor([n for length in lengths for n in range(length)])
    together = bilinear(x, lengths, heads, x, lengths, TRAINING, 1)
    alone = bilinear(x, lengths, heads, x[3:7], lengths[1:2], TRAINING, 1)
    assert alone == together[3:7]


def test_control_heads():
    sentences = [
        Sentence(["a", "x", "b"], {"head": [2, None, 0]}),
        Sentence(["a", "c"], {"head": [2, 0]}),
    ]
    behaviours = {"a": "itself", "b": "first", "c": "last"}
    assert control_heads(labelled(sentences, "head"), behaviours) == [1, 1, 1, 2]
