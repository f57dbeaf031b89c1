"""An encoder that is trained with its task: what each group's learning rate is at each step, what
decays; from the files again, and after a kill.
"""

import json
import math
from pathlib import Path

import pytest
import torch

from elmo_bench.build import hardware
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.train import train
from elmo_bench.training.module import TaskModule
from tests.tasks.small_files import RECORDS

TUNED = [
    "finetune=full",
    "finetune.lr_decay=0.5",
    "finetune.lr=0.02",
    "schedule=linear_warmup",
    "optimizer=adamw",
    "fit.batch_size=1",
    "fit.max_epochs=4",
]


def watched(monkeypatch):
    """What a run's optimizer is given before each step."""
    steps = []

    def look(self, optimizer):
        groups = optimizer.param_groups
        steps.append({each["name"]: (each["lr"], each["weight_decay"]) for each in groups})

    monkeypatch.setattr(TaskModule, "on_before_optimizer_step", look)
    return steps


def test_rates(tiny_ner, monkeypatch):
    """By a plain loop: discriminative rates and a warm-up."""
    steps = watched(monkeypatch)
    train(tiny_ner(*TUNED))
    total = len(steps)
    rise = math.ceil(0.1 * total)
    for step, seen in enumerate(steps):
        share = step / rise if step < rise else (total - step) / (total - rise)
        for name, (lr, decay) in seen.items():
            own = {"model": 0.001, "encoder-0": 0.02, "encoder-1": 0.01, "encoder-2": 0.005}
            group = name.removesuffix(" without decay")
            assert lr == pytest.approx(share * own[group])
            assert decay == (0.0 if "without" in name else 0.01)


def test_decay_falls_on_matrices_alone(tiny_ner, monkeypatch):
    """Without gradients, only what decays moves: nothing with fewer than two axes does."""
    before = {}

    def no_gradients(self, optimizer):
        if not before:
            before.update({name: p.detach().clone() for name, p in self.named_parameters()})
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()

    monkeypatch.setattr(TaskModule, "on_before_optimizer_step", no_gradients)
    cfg = tiny_ner("optimizer=adamw", "finetune=full", "fit.max_epochs=1", "finetune.lr=0.001")
    train(cfg)
    after = torch.load(Path(cfg.run_dir, "best.ckpt"), weights_only=True)["state_dict"]
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert moved == {name for name, value in before.items() if value.ndim > 1 and value.any()}
    assert any("elmo.encoder" in name for name in moved)
    assert any("mixes" in name for name in before)


def test_a_schedule_takes_the_place_of_the_tasks_own(tiny_ner, monkeypatch):
    steps = watched(monkeypatch)
    half = "{_target_: torch.optim.lr_scheduler.StepLR, _partial_: true, step_size: 1, gamma: 0.5}"
    own = ["fit.max_epochs=1", "fit.batch_size=4", f"+task.scheduler={half}"]
    train(tiny_ner(*own))
    assert [seen["model"][0] for seen in steps] == [0.001 * 0.5**step for step in range(len(steps))]
    steps.clear()
    train(tiny_ner(*own, "schedule=linear_warmup", "schedule.warmup=0"))
    count, rates = len(steps), [seen["model"][0] for seen in steps]
    assert rates == pytest.approx([0.001 * (count - step) / count for step in range(count)])


@pytest.mark.parametrize("finetune", ["full", "none"])
@pytest.mark.parametrize("several", ["+trainer.num_nodes=2", "trainer.devices=2"])
def test_however_several_processes_are_asked_for(tiny_ner, several, finetune):
    """They expect parameters without gradients: of layers that are not mixed, or not trained yet."""
    cfg = tiny_ner("trainer=cpu", f"finetune={finetune}", "oversubscribe=true", several)
    settings = hardware.trainer(cfg, []).strategy._ddp_kwargs
    assert settings.get("find_unused_parameters", False) is (finetune == "full")


@pytest.mark.parametrize(("task", "way"), [("ner", "none"), ("squad", "lora"), ("snli", "full")])
def test_a_transformer_as_in_its_own_paper(new_run, random_bert, tmp_path, task, way):
    """Whether its texts were read in one sequence is in the result; the checkpoint gives the same
    scores, and answers. Of LoRA it has the adapters, and the encoder's own weights count as frozen.
    """
    settings = [f"experiment=bert/{task}", f"finetune={way}", "fit.max_epochs=1", "fit.patience=1"]
    given = ["encoder=transformer", f"encoder.model={random_bert}", "data=sample", "data.size=3"]
    scores = train(cfg := new_run(*settings, *given))
    result = json.loads(Path(cfg.run_dir, "result.json").read_text())
    assert result["config"]["task"].get("joint") is (None if task == "ner" else True)
    checkpoint = f"checkpoint={cfg.run_dir}/best.ckpt"
    evaluated = evaluate(new_run("job=evaluate", checkpoint, "split=test", "data=checkpoint"))
    assert evaluated == {name: scores[name] for name in evaluated}
    (tmp_path / "input.jsonl").write_text(json.dumps(RECORDS[task][0]))
    files = [f"input={tmp_path}/input.jsonl", f"output={tmp_path}/out.jsonl"]
    predict(new_run("job=predict", checkpoint, *files))
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    if task == "squad":
        start, end = (json.loads(line)[key] for key in ("start", "end"))
        assert json.loads(line)["answer"] == RECORDS[task][0]["context"][start:end] != ""
    if way == "lora":
        weights = torch.load(Path(cfg.run_dir, "best.ckpt"), weights_only=True)["state_dict"]
        adapters = [value.numel() for name, value in weights.items() if "lora_" in name]
        encoder = [value.numel() for name, value in weights.items() if ".encoder.model." in name]
        assert adapters
        frozen = result["parameters"]["frozen"]
        assert sum(encoder) - sum(adapters) <= frozen < sum(encoder)
