"""SRL: the reader, srl-eval.pl's rules and file format, the tagger."""

import json
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from elmo_bench.elmo import Elmo
from elmo_bench.nn import AlternatingHighwayLstm, Backbone, Words
from elmo_bench.text import Vocab
from tasks.srl.data import Example, collate, parse, read, read_predictions, render, write
from tasks.srl.metric import ArgumentF1, arguments
from tasks.srl.model import PredicateTagger
from tests.encoders.random_bilm import random_bilm
from tests.tasks.small_files import FILES

DASH = """\
#begin document (nw/dash); part 000
nw/dash 0 0 -     HYP * -  -  - - * (V*)    -
nw/dash 0 1 rays  NNS * -  -  - - * (ARG1*) -
#end document
"""


@pytest.fixture
def examples(text_file):
    return list(read(text_file(FILES["srl"])))


def test_an_example_for_each_predicate_and_one_without(text_file):
    path = text_file(FILES["srl"])
    found = list(read(path))
    assert [(example.lemma, example.predicate) for example in found] == [
        *(("wind", (1, 3)), ("leave", (5,)), ("leave", (5,)), ("-", ())),
        *(("xray", (0, 2)), ("x", (0,))),  # a lemma may stand at a later word, or nowhere
    ]
    assert found[0].words == ("Ada", "wound", "clocks", "up", "and", "left")
    assert found[0].arguments == (("ARG0", 0, 0), ("V", 1, 1), ("ARG1", 2, 2), ("C-V", 3, 3))
    assert [example.gold for example in found[1:4]] == [
        ["B-ARG0", "I-ARG0", "O", "O", "O", "B-V"],
        ["O", "O", "B-R-ARG0", "I-R-ARG0", "O", "B-V"],
        ["O", "O"],
    ]
    assert [one.source for one in found] == [f"{path}:{line}" for line in (2, 2, 2, 9, 12, 12)]


def test_a_record_of_text():
    example = parse({"text": "Ada (she) wound it.", "predicate": "wound"}, "in:1")
    words = ("Ada", "-LRB-", "she", "-RRB-", "wound", "it", ".")  # as the treebank has them
    assert (example.words, example.predicate) == (words, (4,))


def test_labels_foresee_length_continuation_and_reference(examples):
    assert examples[3].labels == ["O"]
    roles = ["ARG0", "C-ARG0", "C-V", "R-ARG0", "V"]
    assert examples[2].labels == ["O", *(f"{prefix}-{role}" for role in roles for prefix in "BI")]
    for example in examples:
        assert set(example.gold) <= set(example.labels)


def test_a_column_of_stars_alone_is_no_predicate(text_file):
    """One sentence of OntoNotes 5 has one (nw/p2.5_c2e/00/p2.5_c2e_0034)."""
    found = list(read(text_file(FILES["srl"])))
    stars = FILES["srl"].replace(" -\n", " * -\n")
    assert list(read(text_file(stars))) == found


def figures(pairs):
    labels = {tag for pair in pairs for tags in pair for tag in tags}
    metric = ArgumentF1(labels)
    metric.update([predicted for predicted, _ in pairs], [gold for _, gold in pairs])
    return {name: value.item() for name, value in metric.compute().items()}, metric


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-A I-A B-A", {("A", (0, 1)), ("A", (2, 2))}),
        ("O I-A I-B", {("A", (1, 1)), ("B", (2, 2))}),
        ("B-A O B-C-A I-C-A B-C-A", {("A", (0, 0), (2, 3), (4, 4))}),
        ("B-C-A O B-A B-C-A", {("A", (0, 0)), ("A", (2, 2), (3, 3))}),
        ("B-C-A B-B B-C-A", {("A", (0, 0), (2, 2)), ("B", (1, 1))}),
        ("B-A B-A O B-C-A", {("A", (0, 0)), ("A", (1, 1), (3, 3))}),
        ("B-A B-R-A B-C-R-A", {("A", (0, 0)), ("R-A", (1, 1), (2, 2))}),
        ("O O", set()),
    ],
)
def test_arguments(tags, expected):
    assert arguments(tags.split()) == {(role, frozenset(phrases)) for role, *phrases in expected}


def test_counts_by_hand():
    pairs = [  # predicted, gold: right, predicted and gold arguments without V
        ("B-A0 B-V B-A1 O", "B-A0 B-V B-A1 I-A1"),  # 1 2 2
        ("B-A1 B-V O B-C-A1", "B-A1 B-V O B-C-A1"),  # 1 1 1
        ("B-A1 B-V O O", "B-A1 B-V O B-C-A1"),  # 0 1 1
        ("B-A2 B-A2 O O", "O B-V O O"),  # 0 2 0, and V missed
        ("B-A0 O O O", "O O O O"),  # no proposition
    ]
    found, metric = figures([(predicted.split(), gold.split()) for predicted, gold in pairs])
    assert found["precision"] == pytest.approx(2 / 6)
    assert found["recall"] == pytest.approx(2 / 4)
    assert found["f1"] == pytest.approx(4 / 10)
    by_role = {name: value for name, value in found.items() if name.endswith("/f1")}
    assert by_role == pytest.approx({"A0/f1": 1.0, "A1/f1": 1 / 3, "A2/f1": 0.0, "V/f1": 6 / 7})
    assert metric.types == ["A0", "A1", "A2", "V"]


def test_golden_scores_of_the_official_script(shared_fixtures):
    cases = json.loads((shared_fixtures / "derived" / "srl_eval.json").read_text())["cases"]
    assert len(cases) == 22
    for case in cases:
        found, metric = figures([(case["pred"], case["gold"])])
        for name in ("precision", "recall", "f1"):
            assert round(100 * found[name], 2) == case[name], case["name"]
        counts = dict(zip(metric.types, metric.counts.tolist(), strict=False))
        of_verbs = torch.tensor(counts.get("V", [0, 0, 0]))
        right, predicted, gold = (metric.counts.sum(0) - of_verbs).tolist()
        expected = [case[key] for key in ("correct", "excess", "missed")]
        assert [right, predicted - right, gold - right] == expected, case["name"]
        by_role = {role: [r, p - r, g - r] for role, (r, p, g) in counts.items() if p or g}
        assert by_role == case["per_role_correct_excess_missed"], case["name"]


PROPS = """\
- (ARG0*) (ARG0*
wind (V*) *)
- (ARG1*) *
- (C-V*) *
- * *
leave * (V*)

- *
- *
- (R-ARG0*
- *)
- *
leave (V*)

-
-

xray (V*)
- *
- (C-V*)
- *

x (V*)
- *
- *
- (ARG1*)

"""


def test_writes_what_the_official_script_reads(examples, tmp_path):
    path = tmp_path / "gold.props"
    write(examples, [example.gold for example in examples], path)
    assert path.read_text() == PROPS
    assert read_predictions(path, examples) == [example.gold for example in examples]


def test_predictions_differ_from_gold_and_come_back(examples, tmp_path):
    path = tmp_path / "test.props"
    predictions = [["O"] * len(example.words) for example in examples]
    predictions[0] = ["B-ARG1", "B-ARG1", "I-ARG1", "O", "O", "B-ARGM-TMP"]
    write(examples, predictions, path)
    assert read_predictions(path, examples) == predictions
    write(examples[1:2], predictions[1:2], path)  # some of the predicates of a sentence
    assert read_predictions(path, examples[1:2]) == predictions[1:2]


def test_a_predicate_without_lemma_whose_word_is_a_dash_is_written(text_file, tmp_path):
    (example,) = read(text_file(DASH))
    path = tmp_path / "gold.props"
    write([example], [example.gold], path)
    assert path.read_text() == "_ (V*)\n- (ARG1*)\n\n"
    assert read_predictions(path, [example]) == [example.gold]


def test_columns_of_predictions_are_separated_as_those_of_the_reader(text_file, tmp_path):
    text = DASH.replace("ARG1", "ARG\u00a01").replace(" -     HYP", " x\u00a0y HYP")
    (example,) = read(text_file(text))
    path = tmp_path / "gold.props"
    write([example], [example.gold], path)
    assert "ARG\u00a01" in path.read_text()
    assert read_predictions(path, [example]) == [example.gold]


@pytest.mark.parametrize(("predicate", "places"), [(1, (1,)), ([3, 1], (1, 3)), ("wound", (1,))])
def test_records(predicate, places):
    words = ("Ada", "wound", "clocks", "up")
    example = parse({"tokens": [*words], "predicate": predicate}, "in:1")
    assert example == Example(words, places, "wound", (), "in:1")
    tags = ["B-ARG0", "B-V", "B-ARG1", "B-C-V"]
    rendered = {"tokens": [*words], "predicate": [*places], "tags": tags}
    assert render(example, tags) == rendered


def build(examples):
    """A small tagger, on a small biLM."""
    labels = {label for example in examples for label in example.labels}
    vocab = Vocab.build([example.words for example in examples], labels)
    encoder = partial(AlternatingHighwayLstm, hidden_size=48, num_layers=2)
    embed = Words(vocab=vocab, vectors={}, word_dim=16)
    backbone = partial(Backbone, embed, Elmo(random_bilm(), at=["input"], dropout=0.0), encoder)
    return PredicateTagger(backbone, vocab.labels, indicator_dim=8), vocab


def test_the_indicator_starts_short(examples):
    """As AllenNLP's embeddings do: Glorot and Bengio's uniform distribution."""
    model, _ = build(examples)
    assert model.indicator.weight.abs().max() <= (6 / (2 + 8)) ** 0.5


def test_shapes_loss_and_gradients(examples):
    model, vocab = build(examples)
    batch = collate(examples, vocab)
    places = [[0, 1], [0, 3], [1, 5], [2, 5], [4, 0], [4, 2], [5, 0]]
    assert batch.predicate.nonzero().tolist() == places
    scores = model(batch)
    assert scores.shape == (6, 6, len(vocab.labels))
    loss = model.loss(scores, batch)
    by_hand = [
        F.cross_entropy(row[: len(gold)], torch.tensor([vocab.label_id(tag) for tag in gold]))
        for row, gold in zip(scores, [each.gold for each in examples], strict=True)
    ]
    torch.testing.assert_close(loss, sum(by_hand) / len(by_hand))
    loss.backward()
    learned = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert learned >= {"indicator.weight", "output.weight", "backbone.embed.embedding.weight"}


def test_decodes_allowed_tags_and_nothing_without_a_predicate(examples):
    model, vocab = build(examples)
    batch = collate(examples, vocab)
    favoured = [5.0 if label[0] == "I" else 0.0 for label in vocab.labels]
    scores = torch.tensor(favoured).expand(6, 6, -1)
    for example, tags in zip(examples, model.decode(scores, batch), strict=True):
        assert len(tags) == len(example.words)
        assert (set(tags) == {"O"}) == (not example.predicate)
        for before, after in zip(["O", *tags], tags, strict=False):
            assert after[0] != "I" or before[1:] == after[1:]
