"""Training: truncated against full backpropagation, going on from any step, losses that are not
numbers.
"""

from functools import partial

import pytest
import torch

from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.lm import Corpus, LanguageModel, Trainer, Training
from elmo_bench.text.chars import char_ids

OPTIONS = Options(cell_size=12, projection_size=6, filters=((1, 4), (2, 4)))
TEXT = [[word, other, "."] for word in "abcdefgh" for other in "ijklmnop"]
KINDS = {
    "adam": (torch.optim.Adam, torch.optim.SparseAdam),
    "adagrad": (partial(torch.optim.Adagrad, initial_accumulator_value=1.0),) * 2,
}


def trainer(kind="adam", dropout=0.0, text=TEXT, **settings):
    defaults = {"epochs": 2, "batch_size": 4, "unroll": 5, "lr": 0.02, "gradient_clip": 1.0}
    torch.manual_seed(3)
    corpus = Corpus(text)
    model = LanguageModel(BiLm(OPTIONS, dropout), corpus.vocabulary())
    dense, sparse = KINDS[kind]
    return Trainer(model, corpus, Training(**defaults | settings), dense=dense, sparse=sparse)


def weights(found):
    return {name: value.clone() for name, value in found.model.state_dict().items()}


def test_truncated_equals_full_backpropagation_where_the_window_covers_the_text():
    """The gradient of one window, by hand through `Scan`, is autograd's through the definition over
    the whole sentence.
    """
    sentence = ["a", "b", "c", "a"]
    found = trainer(text=[sentence], batch_size=1, unroll=5, lr=0.0, gradient_clip=1e9, epochs=1)
    (found_loss,) = found.run()
    truncated = {name: parameter.grad for name, parameter in found.model.named_parameters()}
    model = found.model
    model.zero_grad()
    words = ["<S>", *sentence, "</S>"]
    rows = torch.tensor([*map(model.number, words)])
    x = model.bilm.token_encoder(char_ids([words])[0])
    layers, _ = model.bilm.read_tokens(x[None], [len(words)], model.bilm.zero_state(1))
    forward, backward = layers[-1][0].chunk(2, -1)
    losses = [
        torch.nn.functional.cross_entropy(model.softmax(top), wanted)
        for top, wanted in ((forward[:-1], rows[1:]), (backward[1:], rows[:-1]))
    ]
    loss = sum(losses) / 2
    loss.backward()
    assert found_loss == pytest.approx(loss.item(), abs=1e-6)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(truncated[name], parameter.grad, atol=1e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("state", ["zero", "carried"])
def test_a_window_that_begins_with_a_sentence_begins_from_a_zero_state(state):
    """Here all do: an epoch's loss is that of the sentences by themselves."""
    found = trainer(unroll=1 + len(TEXT[0]), lr=0.0, epochs=1, state=state)
    losses = [*found.run()]
    alone = torch.tensor([*found.model.perplexity(TEXT).values()]).log().mean().item()
    is_equal = sum(losses) / len(losses) == pytest.approx(alone, abs=1e-6)
    assert is_equal == (state == "zero")


@pytest.mark.parametrize("samples", [None, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_to_the_same_bits(kind, samples, tmp_path):
    make = partial(trainer, kind, dropout=0.3, samples=samples)
    whole = make()
    losses = [*whole.run()]
    assert len(losses) == whole.num_steps == 2 * whole.epoch_steps
    cut = make()
    for _ in cut.run():
        if cut.step == whole.epoch_steps + 3:
            torch.save(cut.state_dict(), tmp_path / "last.ckpt")
        elif cut.step == whole.epoch_steps + 5:
            break
    again = make()
    again.load_state_dict(torch.load(tmp_path / "last.ckpt", weights_only=True))
    assert [*again.run()] == losses[whole.epoch_steps + 3 :]
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(again)[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_and_full_softmax_learn_alike(kind):
    how = {"lr": 0.01} if kind == "adam" else {"lr": 0.2, "loss_scale": 5.0, "gradient_clip": 10.0}
    perplexities = []  # 2 choices of 8 in 4 predictions: 2.8 at best, of 20 words
    for samples in (None, 14):
        found = trainer(kind, epochs=8, samples=samples, **how)
        list(found.run())
        perplexities.append(sum(found.model.perplexity(TEXT).values()) / 2)
        assert perplexities[-1] < 13
    assert perplexities[1] == pytest.approx(perplexities[0], rel=0.15)


def test_a_step_touches_only_the_rows_that_it_gathers():
    found = trainer(samples=3, batch_size=1, max_steps=1)
    before = weights(found)
    list(found.run())
    changed = (weights(found)["softmax.weight"] != before["softmax.weight"]).any(1).sum()
    assert 0 < changed < len(found.model.vocabulary)


@pytest.mark.parametrize("samples", [None, 8])
def test_bf16_is_near(samples):
    losses = [[*trainer(bf16=bf16, samples=samples).run()] for bf16 in (False, True)]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert losses[1] != losses[0]


def test_a_loss_that_is_no_number_names_its_step():
    found = trainer(lr=1e30, gradient_clip=1e30)
    said = r"step \d+: the loss is .*choose a lower learning rate"
    with pytest.raises(FloatingPointError, match=said):
        list(found.run())
