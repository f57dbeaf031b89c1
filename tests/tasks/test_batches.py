"""What a model says of a record does not depend on the records beside it, all tasks; and it
learns a few by heart.
"""

from itertools import islice

import pytest
import torch

from elmo_bench import build
from elmo_bench.build.task_format import reader, task_format
from elmo_bench.sample import files as sample
from tests.conftest import composed
from tests.jobs.small_settings import SMALL
from tests.tasks.small_models import built, learnt


def answers(output, place):
    """The scores of one example, and those alone, out of a model's output for a batch."""
    if isinstance(output, list):  # a ranking for each document
        return [part.float() for part in output[place]]
    return [part[place] for part in (output if isinstance(output, tuple) else (output,))]


@pytest.mark.parametrize("task", SMALL)
def test_alone_and_in_a_batch_of_64(tmp_path_factory, task):
    settings = [*SMALL[task], "elmo.norm=batch", "elmo.at=[input,output]", "run_dir=here"]
    settings += ["task.model.loss=sentences"] if task == "parse" else []  # a mean over examples
    cfg = composed(f"task={task}", *settings)
    path = sample(task=task, root=tmp_path_factory.getbasetemp(), size=80)["train"]
    form, examples = task_format(cfg), list(islice(reader(cfg, "test")(path), 64))
    assert len(examples) == 64
    model, vocab, batch = built(cfg, examples)
    with torch.no_grad():
        model(form.collate(examples[::2], vocab))  # a training batch, whose statistics stay
        model.eval()
        together = model(batch)
        every = model.decode(together, batch)
        for place in (0, 31, 63):
            lone = form.collate(examples[place : place + 1], vocab)
            alone = model(lone)
            assert model.decode(alone, lone) == every[place : place + 1]
            for ours, theirs in zip(answers(alone, 0), answers(together, place), strict=True):
                kept = theirs[tuple(map(slice, ours.shape))]  # without the padding
                torch.testing.assert_close(ours, kept, atol=1e-5, rtol=0)
        parts = [form.collate(part, vocab) for part in (examples[:4], *([e] for e in examples[:4]))]
        whole, *each = (model.loss(model(part), part) for part in parts)
        sums = model.sums_losses
        torch.testing.assert_close(whole / (4 if sums else 1), torch.stack(each).mean())


@pytest.mark.parametrize(
    ("task", "count", "steps", "more"),
    [
        ("ner", 10, 80, ["task.model.hidden_size=32"]),
        ("srl", 10, 40, ["rnn.num_layers=2"]),
        ("squad", 3, 40, ["task.model.hidden_size=32"]),
        ("snli", 10, 20, ["task.model.hidden_size=32"]),
        ("sst5", 10, 40, ["task.model.hidden_size=32", "task.model.layer_sizes=[32,32]"]),
        ("pos", 10, 40, []),
        ("parse", 10, 80, ["task.model.head_size=32", "task.model.relation_size=32"]),
    ],
)
def test_a_few_examples_are_learnt_by_heart(tmp_path_factory, task, count, steps, more):
    """Without dropout; coreference has simpler documents for it."""
    cfg = composed(f"task={task}", "encoder=none", "run_dir=here", "rnn.hidden_size=32", *more)
    path = sample(task=task, root=tmp_path_factory.getbasetemp(), size=20)["train"]
    examples = list(reader(cfg, "test")(path))
    if task == "squad":  # short paragraphs, since the loops over GRUs take the time
        examples.sort(key=lambda example: len(example.paragraph.words))
    examples = examples[:count]
    model, vocab, batch = built(cfg, examples)
    found = learnt(model.eval(), batch, lr=0.01, steps=steps)
    metric = build.metric(cfg, vocab.labels)
    metric.update(found, [example.gold for example in examples])
    assert metric.compute()[cfg.task.monitor] == 1
