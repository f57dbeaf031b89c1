"""What a model says of a record does not depend on the records beside it: alone and in a batch of
64, all six tasks.
"""

from itertools import islice

import pytest
import torch

from elmo_bench.config.task_format import reader, task_format
from elmo_bench.sample import files as sample
from tests.conftest import composed
from tests.jobs.small import SMALL
from tests.tasks.small import built


def answers(output, place):
    """The scores of one example, and those alone, out of a model's output for a batch."""
    if isinstance(output, list):  # a ranking for each document
        return [part.float() for part in output[place]]
    return [part[place] for part in (output if isinstance(output, tuple) else (output,))]


@pytest.mark.parametrize("task", SMALL)
def test_alone_and_in_a_batch_of_64(tmp_path_factory, task):
    settings = [*SMALL[task], "elmo.norm=batch", "elmo.at=[input,output]", "run_dir=here"]
    cfg = composed(f"task={task}", *settings)
    path = sample(task=task, root=tmp_path_factory.getbasetemp(), size=80)["train"]
    form, examples = task_format(cfg), list(islice(reader(cfg, "test")(path), 64))
    assert len(examples) == 64
    model, vocab, batch = built(cfg, examples)
    with torch.no_grad():
        model(form.collate(examples[::2], vocab))  # a training batch, whose statistics stay
        model.eval()
        together = model(batch)
        for place in (0, 31, 63):
            lone = form.collate(examples[place : place + 1], vocab)
            alone = model(lone)
            assert model.decode(alone, lone) == model.decode(together, batch)[place : place + 1]
            for ours, theirs in zip(answers(alone, 0), answers(together, place), strict=True):
                kept = theirs[tuple(map(slice, ours.shape))]  # without the padding
                torch.testing.assert_close(ours, kept, atol=1e-5, rtol=0)
        parts = [form.collate(part, vocab) for part in (examples[:4], *([e] for e in examples[:4]))]
        whole, *each = (model.loss(model(part), part) for part in parts)
        sums = getattr(model, "sums_losses", False)
        torch.testing.assert_close(whole / (4 if sums else 1), torch.stack(each).mean())
