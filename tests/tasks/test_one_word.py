"""The shortest example of every task, one word, goes all the way: read, batch, model, prediction
file, score.
"""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from elmo_bench.config import build
from elmo_bench.text import Vocab
from tests import conftest

ROW = "nw/x 0 0 Run VB * run 01 - - *"
ONE_WORD = {
    "ner": "Ann I-PER\n",
    "srl": f"#begin document (nw/x); part 000\n{ROW} (V*) -\n#end document\n",
    "coref": f"#begin document (nw/x); part 000\n{ROW} (0)\n#end document\n",
    "squad": '{"data": [{"paragraphs": [{"context": "Ann", "qas": [{"id": "q", "question": "Who",'
    ' "answers": [{"text": "Ann", "answer_start": 0}]}]}]}]}',
    "snli": '{"gold_label": "neutral", "pairID": "p", "sentence1": "Rain", "sentence2": "Snow"}\n',
    "sst5": "(3 Bravo)\n",
}


def composed(folder, task, elmo):
    (folder / "gold").write_text(ONE_WORD[task])
    return conftest.composed(f"task={task}", f"encoder={elmo}", "rnn.hidden_size=8", "run_dir=here")


@pytest.mark.parametrize("elmo", ["none", "mini"])
@pytest.mark.parametrize("task", ONE_WORD)
def test_one_word(tmp_path, task, elmo):
    cfg = composed(tmp_path, task, elmo)
    files = build.task_files(cfg)
    examples = list(build.reader(cfg, "test")(tmp_path / "gold"))
    assert {len(sentence) for example in examples for sentence in example.sentences} == {1}
    labels = [label for example in examples for label in example.labels]
    vocab = Vocab.build(
        [sentence for example in examples for sentence in example.sentences], labels
    )
    model, batch = build.model(cfg, vocab, {}, build.elmo(cfg)), files.collate(examples, vocab)
    loss = model.loss(model(batch), batch)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    predicted = model.eval().decode(model(batch), batch)
    files.write(examples, predicted, tmp_path / "predicted")
    metric = build.instantiate(cfg.task.metric)(vocab.labels)
    metric.update(
        files.read_predictions(tmp_path / "predicted", examples),
        [example.gold for example in examples],
    )
    assert 0 <= metric.compute()[cfg.task.monitor] <= 1


@pytest.mark.parametrize("task", ONE_WORD)
def test_scores_and_loss_are_float32_under_autocast(tmp_path, task):
    """Their values, too, have more than the 8 bits of precision of a bfloat16."""
    cfg = composed(tmp_path, task, "mini")
    examples = list(build.reader(cfg, "test")(tmp_path / "gold")) * 2
    labels = ["O", "U-PER", "B-V", "neutral", "entailment", "1", "3"]
    vocab = Vocab.build(
        [sentence for example in examples for sentence in example.sentences], labels
    )
    model, batch = (
        build.model(cfg, vocab, {}, build.elmo(cfg)),
        build.task_files(cfg).collate(examples, vocab),
    )
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(batch)
        loss = model.loss(scores, batch)
        model.decode(scores, batch)
    found = [x for x in tree_leaves(scores) if x.is_floating_point()] + [loss]
    assert {x.dtype for x in found} == {torch.float32}
    values = torch.cat([x.detach().flatten() for x in tree_leaves(scores) if x.is_floating_point()])
    values = values[values.isfinite() & (values != 0)]
    assert not len(values) or (values != values.bfloat16()).any()
