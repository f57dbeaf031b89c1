"""SQuAD: the reader's spans, the model against loops, the official scores, the averaged weights."""

import itertools
import json
import logging
from collections import Counter
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
import pytorch_lightning as pl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn

from elmo_bench.elmo import Elmo
from elmo_bench.nn import Backbone, BiGru, Identity, Words
from elmo_bench.text import Vocab, joined, texts_of
from elmo_bench.training.data import Examples, TaskData
from elmo_bench.training.module import TaskModule
from elmo_bench.training.optim import WeightAverage
from tasks.squad.data import (
    Answer,
    collate,
    parse,
    read,
    read_predictions,
    render,
    token_span,
    write,
)
from tasks.squad.metric import AnswerScores, exact_match, f1, normalise
from tasks.squad.model import BiAttention, BiDafPlus, SelfAttention, Span, TriLinear, best_spans
from tests.encoders.random_bilm import random_bilm

PIER = "A pier stands near the mill."
MILL = "The old mill burned down in 1893. Its owner, Mrs. O'Dell, rebuilt it with a £500 loan – half of it “borrowed”."


def ask(identity, question, *answers):
    """A question; an answer is a text that the context has, or a text and an offset."""
    pairs = [(text, MILL.index(text)) if isinstance(text, str) else text for text in answers]
    found = [{"text": text, "answer_start": start} for text, start in pairs]
    return {"id": identity, "question": question, "answers": found}


def document(*questions):
    paragraphs = [{"context": MILL, "qas": questions}]
    return json.dumps({"version": "1.1", "data": [{"title": "Mill", "paragraphs": paragraphs}]})


def example(*answers, identity="q", question="When did it burn?"):
    one = parse({"question": question, "context": MILL}, "here:1")
    places = [(MILL.index(text), MILL.index(text) + len(text)) for text in answers]
    spans = tuple(token_span(one.paragraph.offsets, *place) for place in places)
    return replace(one, identity=identity, gold=[*answers], spans=spans)


def vocab_of(examples):
    return Vocab.build([s for e in examples for s in e.sentences], [])


def build(examples, dropout=0.0):
    """A small reader with a small biLM."""
    vocab = vocab_of(examples)
    embed = Words(vocab=vocab, vectors={}, word_dim=12)
    elmo = Elmo(random_bilm(), at=("input", "output"), dropout=0.0)
    backbone = partial(Backbone, embed, elmo, partial(BiGru, hidden_size=8))
    return BiDafPlus(backbone, [], hidden_size=8, dropout=dropout, max_answer_length=17), vocab


def test_read(text_file):
    asked = ask("a", "When?", "1893", "in 1893"), ask("b", "Who rebuilt it?", "Mrs. O'Dell")
    first, second = read(path := text_file(document(*asked)))
    assert (first.identity, first.source) == ("a", f"{path}: question a")
    assert (first.question, first.gold) == (("When", "?"), ["1893", "in 1893"])
    assert [first.paragraph.words[a : b + 1] for a, b in first.spans] == [("1893",), ("in", "1893")]
    assert first.sentences == [first.paragraph.words, first.question]
    assert first.paragraph is second.paragraph  # tokenised and kept once
    start, end = (second.paragraph.offsets[place] for place in second.spans[0])
    assert MILL[start[0] : end[1]] == "Mrs. O'Dell"


def test_words_are_read_with_one_kind_of_quote_and_dash_but_answers_are_cut_from_the_text():
    words = parse({"question": "?", "context": MILL}, "here:1").paragraph.words
    assert " ".join(words[-8:]) == '– half of it " borrowed " .'
    text = "''Yes'' − she said — ‘no’."
    paragraph = parse({"question": "?", "context": text}, "here:1").paragraph
    assert paragraph.words == ('"', "Yes", '"', "-", "she", "said", "–", "'", "no", "'", ".")
    places = paragraph.offsets
    assert "".join(text[a:b] for a, b in places) == text.replace(" ", "")


def test_answers_off_the_tokens_are_kept_and_counted(text_file, caplog):
    path = text_file(
        document(ask("a", "What?", "1893", ("89", MILL.index("893")), ("mills", 8), ("1893", 30)))
    )
    with caplog.at_level(logging.INFO):
        (one,) = read(path)
    year = one.paragraph.words.index("1893")
    assert one.spans == ((year, year), (year, year), (2, 2), (year, year + 1))
    assert (
        "1 questions, 4 answers; 3 begin or end within a token, 2 differ from the text at their "
        "offset" in caplog.text
    )
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # three of four


def test_few_answers_off_the_tokens_are_no_warning(text_file, caplog):
    right = [ask(str(number), "What?", "1893") for number in range(20)]
    path = text_file(document(*right, ask("a", "What?", ("89", MILL.index("893")))))
    with caplog.at_level(logging.INFO):
        assert len([*read(path)]) == 21
    assert [record.levelname for record in caplog.records] == ["INFO"]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_token_span_holds_the_tokens_that_share_a_character(data):
    lengths = data.draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=8)
    )
    places, end = [], 0
    for gap, length in lengths:
        places.append((end + gap, end + gap + length))
        end += gap + length
    start = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(start + 1, end + 3))
    touched = [k for k, (a, b) in enumerate(places) if a < stop and start < b]
    first, last = token_span(places, start, stop)
    assert list(range(first, last + 1)) == touched


def test_collate():
    some = [example("1893", "in 1893", "1893")]
    some += [example("burned down", identity="r", question="What happened?")]
    batch = collate(some, vocab_of(some))
    year = some[0].paragraph.words.index("1893")
    assert batch.answers[0].tolist() == [[year, year], [year - 1, year], [year, year]]
    assert batch.answers[1, 1:].tolist() == [[-1, -1]] * 2
    assert batch.question.mask.sum(1).tolist() == [5, 3]
    assert batch.offsets[0, year].tolist() == [MILL.index("1893"), MILL.index("1893") + 4]


def test_one_linear_layer_over_question_and_paragraph_in_one_sequence():
    """Scores of the paragraph's words alone, whatever the length of its question; targets and
    answers at their places there.
    """
    some = [example("1893"), example("burned down", "rebuilt", identity="r", question="What?")]
    apart = collate(some, vocab := vocab_of(some))
    both = [replace(one, joint=True) for one in some]
    assert [*map(texts_of, both)] == [*map(texts_of, some)]  # by which reports pair examples
    batch = collate(both, vocab)
    embed = Words(vocab=vocab, vectors={}, word_dim=12)
    model = Span(partial(Backbone, embed, Elmo(None), Identity), [], max_answer_length=17).eval()
    scores, x = model(batch), model.output(embed(apart.context)).mT
    assert batch.question is None
    for row, one in enumerate(both):
        (words,) = one.sentences
        assert words == joined(one.question, one.paragraph.words)
        begin, length = len(one.question) + 2, len(one.paragraph.words)
        torch.testing.assert_close(scores[row, :, begin : begin + length], x[row, :, :length])
        assert scores[row].isfinite().sum() == 2 * length
        assert batch.answers[row, 0].tolist() == [place + begin for place in one.spans[0]]
    assert batch.answers[0, 1].tolist() == [-1, -1]
    torch.manual_seed(2)
    loss = model.loss(x, apart)
    torch.manual_seed(2)
    torch.testing.assert_close(model.loss(scores, batch), loss)
    assert model.decode(scores, batch) == model.decode(x, apart)


def test_predictions_make_a_round_trip(tmp_path):
    """Half a surrogate pair is written as JSON writes it."""
    path, answers = tmp_path / "predictions.json", {"a": "1893", "b": "“borrowed”", "\ud83d": "x"}
    some = [example(identity=identity) for identity in answers]
    write(some, [Answer(text, 1, 2) for text in answers.values()], path)
    assert json.loads(path.read_text(encoding="utf-8")) == answers
    assert read_predictions(path, some[::-1]) == [*map(Answer, reversed(answers.values()))]


def test_parse_predict_render():
    one = parse({"question": "Where is the pier?", "context": PIER}, "in.jsonl:1")
    model, vocab = build([one])
    batch = collate([one], vocab)
    (answer,) = model.eval().decode(model(batch), batch)
    rendered = render(one, answer)
    assert PIER[rendered["start"] : rendered["end"]] == rendered["answer"] != ""
    assert json.loads(json.dumps(rendered)) == rendered


@pytest.mark.parametrize("max_length", [None, 1, 2, 4, 100])
def test_best_spans_equal_brute_force(max_length):
    scores, lengths = torch.randn(20, 2, 9), torch.arange(20) % 9 + 1
    scores.masked_fill_(torch.arange(9) >= lengths[:, None, None], -torch.inf)
    for row, length, span in zip(
        scores, lengths.tolist(), best_spans(scores, max_length).tolist(), strict=True
    ):
        pairs = [
            (a, b) for a in range(length) for b in range(a, min(length, a + (max_length or length)))
        ]
        assert tuple(span) == max(pairs, key=lambda pair: row[0, pair[0]] + row[1, pair[1]])


def test_tri_linear_equals_its_definition():
    layer = TriLinear(4)
    nn.init.normal_(layer.bias)
    x, y = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    scores = layer(x, y)
    for b, t, q in itertools.product(range(2), range(3), range(5)):
        joined = torch.cat([x[b, t], y[b, q], x[b, t] * y[b, q]])
        torch.testing.assert_close(scores[b, t, q], layer.weight.flatten() @ joined + layer.bias)


def test_bi_attention_equals_its_definition():
    layer = BiAttention(4)
    x, y = torch.randn(1, 3, 4), torch.randn(1, 2, 4)
    scores = layer.similarity(x, y)[0]
    padded = torch.cat([x, torch.randn(1, 2, 4)], 1), torch.cat([y, torch.randn(1, 1, 4)], 1)
    masks = torch.tensor([[True] * 3 + [False] * 2]), torch.tensor([[True] * 2 + [False]])
    out = layer(*padded, *masks)
    context = sum(weight * x[0, t] for t, weight in enumerate(scores.amax(1).softmax(0)))
    for t in range(3):
        question = sum(weight * y[0, q] for q, weight in enumerate(scores[t].softmax(0)))
        expected = torch.cat([x[0, t], question, x[0, t] * question, x[0, t] * context])
        torch.testing.assert_close(out[0, t], expected)


def test_self_attention_looks_at_others_or_at_nothing():
    layer = SelfAttention(3, dropout=0.0)
    r, mask = torch.randn(2, 5, 6), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    weights = layer.weights(r, mask)
    scores = layer.similarity(r, r)
    assert layer.nothing.item() == -1
    for t in range(5):
        others = [k for k in range(5) if k != t]
        expected = torch.cat([scores[0, t, others], layer.nothing[None]]).softmax(0)[:-1]
        torch.testing.assert_close(weights[0, t, others], expected)
    assert weights[0].diagonal().eq(0).all()
    assert weights[1, :2, 2:].eq(0).all()
    alone = layer.weights(torch.randn(1, 1, 6), torch.ones(1, 1, dtype=torch.bool))
    assert alone.tolist() == [[[0.0]]]


def test_loss_is_the_mean_over_questions_of_two_cross_entropies():
    some = [example("1893"), example("burned down")]
    model, vocab = build(some)
    batch = collate(some, vocab)
    scores = model.eval()(batch)
    expected = 0
    for row, (first, last) in zip(scores, [one.spans[0] for one in some], strict=True):
        expected -= row[0].log_softmax(0)[first] + row[1].log_softmax(0)[last]
    torch.testing.assert_close(model.loss(scores, batch), expected / 2)
    model.loss(scores, batch).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


def test_targets():
    some = [example("1893", "in 1893", "in 1893", "burned"), example("mill")]
    model, vocab = build(some)
    answers = collate(some, vocab).answers
    counts = Counter(tuple(model._targets(answers)[0].tolist()) for _ in range(600))
    assert counts.keys() == set(some[0].spans)
    assert 200 < counts[some[0].spans[1]] < 400  # half of them
    assert model._targets(answers)[1].tolist() == list(some[1].spans[0])


def test_golden_scores(shared_fixtures):
    cases = json.loads((shared_fixtures / "derived" / "squad_metric.json").read_text())["cases"]
    for case in cases:
        predicted, gold = case["prediction"], case["golds"]
        assert normalise(predicted) == case["normalised_prediction"]
        assert exact_match(predicted, gold) == case["em"]
        # The golden figures are those of version 2 where both sides are empty; version 1.1 has 0
        # there.
        assert f1(predicted, gold) == pytest.approx(case["f1"] if normalise(predicted) else 0.0)


@pytest.mark.parametrize(
    ("predicted", "gold", "exact", "score"),
    [
        ("The Mill!", ["mill"], True, 1.0),
        ("an old mill", ["the mill", "old old mill"], False, 2 * 2 / (2 + 3)),
        ("in 1893", ["1893"], False, 2 / 3),
        ("theatre", ["atre"], False, 0.0),
        ("the", ["a"], True, 0.0),
        ("anything", [], False, 0.0),
    ],
)
def test_scores(predicted, gold, exact, score):
    assert exact_match(predicted, gold) == exact
    assert f1(predicted, gold) == pytest.approx(score)


def fit(tmp_path, text_file, *callbacks, epochs):
    """Train a small reader with Lightning; the trainer, the module and the data."""
    pairs = [("When?", "1893"), ("Who?", "owner")] * 2
    path = text_file(document(*(ask(f"{k}", *pair) for k, pair in enumerate(pairs))))
    files, reads = (dict.fromkeys(("train", "dev", "test"), each) for each in (path, read))
    examples = Examples(files, read=reads).by_split
    model, vocab = build(examples["train"], dropout=0.2)
    data = TaskData(examples, vocab, model.backbone, collate=collate, batch_size=2)
    optimizer = partial(torch.optim.Adam, lr=0.01)
    module = TaskModule(
        model, AnswerScores([]), optimizer, monitor="dev/f1", encoder_is_elsewhere=True
    )
    best = ModelCheckpoint(tmp_path, "best", monitor="dev/f1", mode="max")
    trainer = pl.Trainer(
        max_epochs=epochs, callbacks=[*callbacks, best], logger=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(module, data)
    return trainer, module, data


class Record(pl.Callback):
    """The weights after every step, and those with which dev and test are measured."""

    def __init__(self):
        self.steps, self.measured = [], {}

    def weights(self, module):
        return {
            name: p.detach().clone() for name, p in module.named_parameters() if p.requires_grad
        }

    def on_train_batch_end(self, trainer, pl_module, *_):
        self.steps.append(self.weights(pl_module))

    on_train_start = on_train_batch_end

    def on_validation_batch_end(self, trainer, pl_module, *_):
        self.measured["fit" if trainer.state.fn == "fit" else "val"] = self.weights(pl_module)

    def on_test_batch_end(self, trainer, pl_module, *_):
        self.measured["test"] = self.weights(pl_module)


def test_dev_test_and_checkpoint_have_the_averaged_weights(tmp_path, text_file):
    record = Record()
    trainer, module, data = fit(tmp_path, text_file, WeightAverage(decay=0.5), record, epochs=1)
    average = record.steps[0]
    for n, weights in enumerate(record.steps[1:], 1):
        decay = min(0.5, (1 + n) / (10 + n))
        average = {name: decay * average[name] + (1 - decay) * weights[name] for name in average}
    assert not torch.equal(average["model.merge.weight"], record.steps[-1]["model.merge.weight"])
    trainer.validate(module, data, ckpt_path="best", verbose=False)
    trainer.test(module, data, verbose=False)
    for kind in ("fit", "val", "test"):
        torch.testing.assert_close(record.measured[kind], average)
    checkpoint = torch.load(tmp_path / "best.ckpt", weights_only=True)
    torch.testing.assert_close({name: checkpoint["state_dict"][name] for name in average}, average)
    torch.testing.assert_close(checkpoint["current_weights"], record.steps[-1])
    names = [*checkpoint["state_dict"], *checkpoint["current_weights"]]
    assert not any(".elmo.encoder." in name for name in names)


def test_training_goes_on_with_its_own_weights(tmp_path, text_file):
    averaged, plain = Record(), Record()
    fit(tmp_path, text_file, WeightAverage(decay=0.9), averaged, epochs=2)
    torch.manual_seed(0)
    fit(tmp_path, text_file, plain, epochs=2)
    assert len(plain.steps) == 5
    for with_average, without in zip(averaged.steps, plain.steps, strict=True):
        torch.testing.assert_close(with_average, without)


def test_an_average_in_16_bits_moves_by_small_steps_and_tied_weights_have_one():
    module, trainer = pl.LightningModule().to(torch.bfloat16), Mock(spec=pl.Trainer)
    module.one = module.two = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    average, weight = WeightAverage(decay=0.999), module.one.weight
    for trainer.global_step in range(2_301):
        nn.init.constant_(weight, min(1.0, 0.1 + trainer.global_step / 2_000))
        if trainer.global_step == 0:
            average.on_train_start(trainer, module)
        average.on_train_batch_end(trainer)
    average.on_validation_start()
    assert weight.item() == pytest.approx(0.99, abs=0.005)
    average.on_validation_end()
    assert weight.item() == 1.0
    checkpoint = {"state_dict": module.state_dict()}
    average.on_save_checkpoint(trainer, module, checkpoint)
    assert {*checkpoint["state_dict"]} == {"one.weight", "two.weight"}
    assert all(0.985 < saved.item() < 0.995 for saved in checkpoint["state_dict"].values())
    assert checkpoint["current_weights"] == {"one.weight": weight}
