"""`trainer.precision=bf16-mixed` for all six tasks, and bf16-true for those that leave torch."""

import pytest
import torch
from omegaconf import OmegaConf
from torch.utils._pytree import tree_leaves

from elmo_bench import build
from elmo_bench.jobs.train import train
from elmo_bench.runs import figure, read_counts
from tests.conftest import composed
from tests.jobs.small_settings import SMALL


def config(folder, task):
    settings = [f"cache_dir={folder}", f"run_dir={folder}", "data.size=2", "encoder=mini"]
    settings += ["trainer=smoke", "trainer.accelerator=cpu", "fit.batch_size=1"]
    settings += ["trainer.enable_progress_bar=false", "trainer.precision=bf16-mixed"]
    return composed(f"task={task}", *settings, *SMALL[task])


@pytest.mark.parametrize("task", SMALL)
def test_a_batch(tmp_path, task):
    """The loss is near that of float32; scores, loss and gradients are float32, whose values, too,
    have more than the 8 bits of precision of a bfloat16.
    """
    cfg = config(tmp_path, task)
    torch.manual_seed(cfg.seed)
    elmo, examples = build.elmo(cfg), build.examples(cfg)
    vocab, vectors = build.vocab(cfg, examples)
    model = build.model(cfg, vocab, vectors, elmo)
    data = build.data(cfg, examples, vocab, model.backbone)
    batch = next(iter(data.train_dataloader())).batch
    losses = {}
    for is_bf16 in (False, True):
        with torch.random.fork_rng(), torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            losses[is_bf16] = model.loss(scores := model(batch), batch)
            model.decode(scores, batch)
    found = [x.detach() for x in tree_leaves(scores) if x.is_floating_point()]
    assert {x.dtype for x in [*found, losses[True]]} == {torch.float32}
    values = torch.cat([x.flatten() for x in found])
    values = values[values.isfinite() & (values != 0)]
    assert (values != values.bfloat16()).any()
    assert losses[True] != losses[False]
    assert losses[True].item() == pytest.approx(losses[False].item(), rel=0.02)
    losses[True].backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    assert gradients
    assert all(each.dtype == torch.float32 and each.isfinite().all() for each in gradients)


@pytest.mark.parametrize(
    ("task", "name"),
    [("ner", "f1"), ("srl", "f1"), ("parse", "las"), ("squad", "f1"), ("coref", "mentions/f1")],
)
def test_weights_in_bf16(tmp_path, task, name):
    """Decoding outside torch, which alone has this type, works too, and no score is rounded."""
    cfg = OmegaConf.merge(config(tmp_path, task), {"trainer": {"precision": "bf16-true"}})
    metrics = train(cfg)
    counts = read_counts(tmp_path / "counts" / "test.npz", name)
    assert metrics[f"test/{name}"] == pytest.approx(figure(counts.rows.sum(0)), abs=1e-6)
