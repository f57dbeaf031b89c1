"""The shortest example of every task, one word, goes all the way: read, batch, model, prediction
file, score.
"""

import pytest
import torch

from elmo_bench import build
from elmo_bench.build.task_format import reader, task_format
from tests.conftest import composed
from tests.tasks.small_models import built

ROW = "nw/x 0 0 Run VB * run 01 - - *"
ONE_WORD = {
    "ner": "Ann I-PER\n",
    "srl": f"#begin document (nw/x); part 000\n{ROW} (V*) -\n#end document\n",
    "coref": f"#begin document (nw/x); part 000\n{ROW} (0)\n#end document\n",
    "squad": '{"data": [{"paragraphs": [{"context": "Ann", "qas": [{"id": "q", "question": "Who",'
    ' "answers": [{"text": "Ann", "answer_start": 0}]}]}]}]}',
    "snli": '{"gold_label": "neutral", "sentence1": "Rain", "sentence2": "Snow"}\n',
    "sst5": "(3 Bravo)\n",
    **dict.fromkeys(("pos", "parse"), "1\tRun\t_\tVERB\t_\t_\t0\troot\t_\t_\n"),
}


@pytest.mark.parametrize(
    "settings",
    [
        ["encoder=mini", "rnn.hidden_size=8"],
        ["encoder=mini", "rnn=identity", "data=sample"],  # its recipes set the sizes of RNNs
    ],
)
@pytest.mark.parametrize("task", ONE_WORD)
def test_one_word(tmp_path, task, settings):
    (tmp_path / "gold").write_text(ONE_WORD[task])
    cfg = composed(f"task={task}", "run_dir=here", *settings)
    examples = list(reader(cfg, "test")(tmp_path / "gold"))
    assert {len(sentence) for example in examples for sentence in example.sentences} == {1}
    model, vocab, batch = built(cfg, examples)
    loss = model.loss(model(batch), batch)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    predicted, path = model.eval().decode(model(batch), batch), tmp_path / "predicted"
    form = task_format(cfg)
    form.write(examples, predicted, path)
    metric = build.metric(cfg, vocab.labels)
    metric.update(form.read_predictions(path, examples), [example.gold for example in examples])
    assert 0 <= metric.compute()[cfg.task.monitor] <= 1
