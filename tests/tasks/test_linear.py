"""Tasks without an RNN (`rnn=identity`) and with a linear layer alone."""

import pytest
import torch
from torch import nn

from elmo_bench.build.task_format import reader
from elmo_bench.nn import Identity
from tests.conftest import composed
from tests.tasks.small_models import built

# a sentence of two words, and one of one
TEXTS = {"ner": "Ann I-PER\n\nAnn I-PER\nruns O\n", "sst5": "(3 Bravo)\n(1 (2 No) (2 Bravo))\n"}


@pytest.mark.parametrize("task", TEXTS)
def test_a_linear_head(tmp_path, task):
    """Nothing stands between the vectors [x_k; ELMo_k] and the scores but one linear layer."""
    (tmp_path / "gold").write_text(TEXTS[task])
    heads = {"ner": ["head=linear"], "sst5": ["head=pooled", "task.model.pool=mean"]}
    cfg = composed(f"task={task}", "rnn=identity", "encoder=mini", "run_dir=here", *heads[task])
    model, _, batch = built(cfg, list(reader(cfg, "test")(tmp_path / "gold")))
    own = {"output", "crf"} if task == "ner" else {"classifier"}
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {"backbone", *own}
    backbone, tokens = model.eval().backbone, batch[0]
    x = torch.cat([backbone.embed(tokens), backbone.read_elmo(tokens).input], -1)
    parts = (part for name, part in model.named_modules() if "backbone" not in name)
    (linear,) = (part for part in parts if isinstance(part, nn.Linear))
    if task == "ner":
        expected = linear(x) * tokens.mask[..., None]
        given = model(batch) * tokens.mask[..., None]
    else:
        lengths = tokens.mask.sum(1).tolist()
        vectors = torch.cat([x, backbone.read_elmo(tokens).output], -1)  # ELMo at the RNN's output
        assert vectors.shape[-1] == backbone.dim
        means = [row[:length].mean(0) for row, length in zip(vectors, lengths, strict=True)]
        expected, given = linear(torch.stack(means)), model(batch)
    torch.testing.assert_close(given, expected)


def test_tags_chosen_apart(tmp_path):
    """Without a CRF: the negative log-likelihood of the words' tags, its mean over a sentence and
    then over sentences, so that halves of a batch add up to the same gradient; and the best tag of
    each word, whatever stands beside it.
    """
    (tmp_path / "gold").write_text(TEXTS["ner"])
    settings = [
        "rnn=identity",
        "head=linear",
        "encoder=none",
        "run_dir=here",
        "task.model.crf=false",
    ]
    cfg = composed("task=ner", *settings)
    model, vocab, batch = built(cfg, list(reader(cfg, "test")(tmp_path / "gold")))
    scores = torch.randn(2, 2, len(vocab.labels))
    right = [scores[0, 0].log_softmax(0)[vocab.label_id("U-PER")]]
    right += [scores[1, 0].log_softmax(0)[vocab.label_id("U-PER")]]
    right += [scores[1, 1].log_softmax(0)[vocab.label_id("O")]]
    expected = -(right[0] + (right[1] + right[2]) / 2) / 2
    torch.testing.assert_close(model.loss(scores, batch), expected)
    scores[1, :, vocab.label_id("L-PER")] = 9.0  # a chunk that nothing begins
    scores[0, 0, vocab.label_id("O")] = 9.0
    assert model.decode(scores, batch) == [["O"], ["B-PER", "B-PER"]]
    assert not model.sums_losses


def test_dropout_after_the_upper_rnn(tmp_path):
    """None by default, as in the paper; with AllenNLP's, in training alone, and no further weight."""
    (tmp_path / "gold").write_text(TEXTS["ner"])
    dropouts, weights = {}, {}
    for rate in ("0.0", "0.5"):
        own = [] if rate == "0.0" else [f"task.model.output_dropout={rate}"]
        cfg = composed("task=ner", "encoder=none", "run_dir=here", "task.model.hidden_size=8", *own)
        model, _, batch = built(cfg, list(reader(cfg, "test")(tmp_path / "gold")))
        weights[rate] = [(name, part.shape) for name, part in model.named_parameters()]
        read = []
        model.output.register_forward_pre_hook(lambda _, given, read=read: read.append(given[0]))
        for is_training in (True, False):
            model.train(is_training)(batch)
        dropouts[rate] = [float((h[batch.tokens.mask] == 0).float().mean()) for h in read]
    assert weights["0.0"] == weights["0.5"]
    assert dropouts["0.0"] == [0, 0]
    assert 0.2 < dropouts["0.5"][0] < 0.8
    assert dropouts["0.5"][1] == 0


def test_identity():
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True, True, True], [True, False, False]])
    identity = Identity(input_size=4, dropout=0.5, hidden_size=7)
    assert identity.dim == 4
    assert torch.equal(identity.eval()(x, mask), x * mask[..., None])
    ones = identity.train()(torch.ones(2, 3, 400), mask)
    assert set(ones[0].unique().tolist()) == {0.0, 2.0}
    assert ones[1, 1:].abs().sum() == 0
