"""Every task without an RNN (`rnn=identity`), and with a linear layer alone where it has one."""

import pytest
import torch
from torch import nn

from elmo_bench.config import build
from elmo_bench.nn import Identity
from elmo_bench.text import Vocab
from tests.conftest import composed
from tests.tasks.test_one_word import ONE_WORD

LINEAR = ("ner", "sst5")


def built(tmp_path, task, *overrides):
    """The model, and a batch of one sentence of two words and one of one."""
    (tmp_path / "gold").write_text(
        {
            "ner": "Ann I-PER\n\nAnn I-PER\nruns O\n",
            "sst5": "(3 Bravo)\n(1 (2 No) (2 Bravo))\n",
        }.get(task, ONE_WORD[task])
    )
    cfg = composed(f"task={task}", "rnn=identity", "encoder=mini", "run_dir=here", *overrides)
    examples = list(build.reader(cfg, "test")(tmp_path / "gold"))
    labels = [label for example in examples for label in example.labels]
    sentences = [sentence for example in examples for sentence in example.sentences]
    vocab = Vocab.build(sentences, labels)
    model = build.model(cfg, vocab, {}, build.elmo(cfg))
    return model, build.task_files(cfg).collate(examples, vocab)


@pytest.mark.parametrize("task", ONE_WORD)
def test_every_task_runs(tmp_path, task):
    """On the sample corpus, whose recipes set the sizes of RNNs."""
    model, batch = built(tmp_path, task, "data=sample")
    assert isinstance(model.backbone.rnn, Identity)
    assert not [*model.backbone.rnn.parameters()]
    loss = model.loss(model(batch), batch)
    loss.backward()
    assert loss.isfinite()
    assert model.eval().decode(model(batch), batch)


@pytest.mark.parametrize("task", LINEAR)
def test_a_linear_head(tmp_path, task):
    """Nothing stands between the vectors [x_k; ELMo_k] and the scores but one linear layer."""
    model, batch = built(tmp_path, task, "task.model.hidden_size=null")
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {
        "backbone",
        *({"output", "crf"} if task == "ner" else {"classifier"}),
    }
    backbone = model.eval().backbone
    x = torch.cat([backbone.embed(batch.tokens), backbone.read_elmo(batch.tokens).input], -1)
    (linear,) = (
        part
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and "backbone" not in name
    )
    if task == "ner":
        expected = linear(x) * batch.tokens.mask[..., None]
        given = model(batch) * batch.tokens.mask[..., None]
    else:
        lengths = batch.tokens.mask.sum(1).tolist()
        means = [row[:length].mean(0) for row, length in zip(x, lengths, strict=True)]
        width = backbone.dim - x.shape[-1]  # ELMo at the RNN's output, too
        outputs = backbone.read_elmo(batch.tokens).output
        means = [
            torch.cat([mean, row[:length].mean(0)])
            for mean, row, length in zip(means, outputs, lengths, strict=True)
        ]
        assert outputs.shape[-1] == width
        expected, given = linear(torch.stack(means)), model(batch)
    torch.testing.assert_close(given, expected)


def test_identity():
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True, True, True], [True, False, False]])
    identity = Identity(input_size=4, dropout=0.5, hidden_size=7)
    assert identity.dim == 4
    assert torch.equal(identity.eval()(x, mask), x * mask[..., None])
    ones = identity.train()(torch.ones(2, 3, 400), mask)
    assert set(ones[0].unique().tolist()) == {0.0, 2.0}
    assert ones[1, 1:].abs().sum() == 0
