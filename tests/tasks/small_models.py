"""The model of a config with a batch of all examples, and a training that learns them by heart."""

import torch
from torch import nn

from elmo_bench import build
from elmo_bench.build.task_format import task_format
from elmo_bench.text import Vocab


def built(cfg, examples, labels=()):
    """The model of a config, its vocabulary, and a batch of all examples."""
    labels = labels or [label for example in examples for label in example.labels]
    vocab = Vocab.build([each for example in examples for each in example.sentences], labels)
    model = build.model(cfg, vocab, {}, build.elmo(cfg))
    return model, vocab, task_format(cfg).collate(examples, vocab)


def learnt(model, batch, *, lr, steps):
    """What a model says of a batch after so many steps on it."""
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        optimizer.zero_grad()
        model.loss(model(batch), batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return model.eval().decode(model(batch), batch)
