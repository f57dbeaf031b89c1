"""Every setting that can change a number tells runs apart: no report averages two values of it, or
leaves out the runs of one, without a word.
"""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from elmo_bench.report import report
from elmo_bench.runs import Run, as_baseline, identity_of, is_baseline, leaves
from elmo_bench.runs.query import HYDRAS
from elmo_bench.settings.schema import keys
from tests.conftest import composed

# Commands whose settings, together, are all settings of a training that can change a number.
COMMANDS = {
    "mix": "task=ner encoder=mini elmo.adapt=true",
    "vectors": "task=ner encoder=mini vocab.vectors=v.txt store.dtype=float16",
    "lora": "task=ner encoder=bert_base finetune=lora schedule=linear_warmup",
    "joint": "task=classify data=files data.files.train=a.tsv data.files.dev=b.tsv "
    "encoder=transformer encoder.model=org/m task.joint=true head=pooled",
    "own": "task=sst5 encoder=files encoder._target_=mine.Encoder trainer.precision=bf16-true",
    "parse": "task=parse encoder=mini",
    "squad": "task=squad encoder=mini",
    "coref": "task=coref encoder=mini",
    "srl": "task=srl encoder=mini",
    "snli": "task=snli encoder=mini",
    "limits": "task=ner encoder=mini trainer=overfit +trainer.limit_train_batches=0.5 "
    "+trainer.limit_val_batches=0.5 +trainer.limit_test_batches=0.5 +trainer.num_nodes=1 "
    "+trainer.accumulate_grad_batches=2 +trainer.strategy=ddp",
    "tuned": "task=ner encoder=mini sweep=tune",
    "baseline": "task=ner encoder=none",
}
# What changes no number, and why.
HARMLESS = {
    "where a run is": ("run_dir", "outputs_dir", "data_dir", "cache_dir", "out"),
    "how a run is started and shown": (
        *("resume", "dry_run", "logger", "num_workers", "oversubscribe", "job"),
        *("trainer.accelerator", "trainer.profiler", "trainer.log_every_n_steps"),
        *("trainer.enable_progress_bar", "trainer.enable_model_summary"),
        *("trainer.num_sanity_val_steps", "fit.save_minutes", "store.max_bytes"),
    ),
    "with a store and without, layers are the same": ("store.mode",),
    "names of files, whose contents count": ("data.files", "vocab.vectors", "encoder.vectors"),
    "words for people": (
        *("data.origin", "data.note", "data.tasks", "data.downloads", "vocab.origin"),
        *("task.title", "task.monitor_title", "task.suffix", "task.published", "published"),
    ),
    "only other settings read it, by reference": (
        *("task.gradient_clip", "task.gradient_clip_algorithm", "task.esim", "by_finetune"),
        *("task.gold_without", "task.by_gold", "data.metric"),
    ),
    "a text to compare the corpus with": ("text",),
    "what a sweep does, and not a run": ("budget", "seeds"),
    "seeds are what a cell is a mean of": ("seed", "trial"),
    "the options of files that ship": ("encoder.options", "encoder.weights"),
}


def harmless(key: str) -> bool:
    if key.endswith(HYDRAS):
        return True  # how Hydra builds what the section names
    return any(f"{key}.".startswith(f"{each}.") for group in HARMLESS.values() for each in group)


def resolved(command: str) -> dict[str, Any]:
    cfg = composed(*command.split())
    OmegaConf.set_struct(cfg, False)
    cfg.run_dir = None
    config = OmegaConf.to_container(cfg, resolve=True)
    if is_baseline(config):
        as_baseline(config)  # as `job=train` does
    return config


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    return {name: resolved(command) for name, command in COMMANDS.items()}


def another(value: Any) -> Any:
    """A value of the same kind that is not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value > 1 else value / 2 if value else 0.25
    if value is None:
        return 0.125
    if isinstance(value, list):
        return value[:-1] if len(value) > 1 else [*value, *map(another, value[:1])]
    return f"{value}x"


def changed(config: dict[str, Any], key: str) -> dict[str, Any]:
    config = copy.deepcopy(config)
    section, name = config, key
    while name not in section:  # a space of `tune` has a name with dots
        head, _, name = name.partition(".")
        section = section[head]
    section[name] = another(section[name])
    return config


def runs_of(config: dict[str, Any], seeds: range, f1: float) -> list[Run]:
    """Runs that differ in nothing but their seeds."""
    runs = []
    for seed in seeds:
        own = config | {"seed": seed}
        metrics = {f"test/{own['task']['monitor']}": f1}
        about = {"config": own, "seed": seed, "metrics": metrics, "inputs": {"data.train": "0"}}
        runs.append(Run(Path(f"{f1}/{seed}"), **about))
    return runs


def are_told_apart(runs: list[Run], others: list[Run], key: str) -> bool:
    """Whether a report has both values of a setting, each in a cell of its own, or names it."""
    try:
        cells = report([*runs, *others], None, ["encoder.name"]).cells
    except ValueError as error:
        return key in str(error)
    return sorted(cell.figures for cell in cells) == [(0.5, 0.5), (0.75, 0.75)]


def settings_once(configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Each setting that can change a number, with the first of these commands in which it acts."""
    first: dict[str, str] = {}
    for name, config in configs.items():
        without_effect = Run(Path(), config).without_effect
        for key, _ in leaves(config):
            if key not in without_effect and not harmless(key):
                first.setdefault(key, name)
    return first


def test_no_two_values_of_a_setting_are_in_one_cell(configs):
    """Nor do the runs of one drop out, whether they have the same seeds or others."""
    silent, copies = [], []
    runs = {name: runs_of(config, range(2), 0.5) for name, config in configs.items()}
    for key, name in settings_once(configs).items():
        config, other = configs[name], changed(configs[name], key)
        if identity_of(OmegaConf.create(config), {}) == identity_of(OmegaConf.create(other), {}):
            copies.append(key)  # a report and resume=true would take one for the other
        others = runs_of(other, range(4), 0.75)
        for with_seeds in (others[:2], others[2:]):  # the same, and others
            if not are_told_apart(runs[name], with_seeds, key):
                silent.append(key)
    assert (silent, copies) == ([], [])


def test_every_setting_is_in_one_of_these_commands(configs):
    """And has an effect in it."""
    acting = {*settings_once(configs)}
    sections = {".".join(key.split(".")[:depth]) for key in acting for depth in (1, 2)}
    missing = {key for key in keys() if not harmless(key)} - acting - sections
    # An option that sets other keys, one that has a single value, a section without keys, and the
    # fold, which goes with the seed.
    assert missing <= {"optimizer", "trainer.fast_dev_run", "data.read", "data.fold"}


@pytest.mark.parametrize("name", ["mix", "vectors", "lora", "joint"])
def test_sides_that_differ_are_named(configs, name):
    """What differs between a baseline and an encoder's side stands in a note, if both have it."""
    config = configs[name]
    baseline = copy.deepcopy(config)
    baseline["encoder"], baseline["elmo"]["mix"] = {"name": "none"}, "none"
    of_both = {key for key, _ in leaves(baseline)} - Run(Path(), baseline).without_effect
    of_both -= Run(Path(), config).without_effect
    silent = []
    for key in of_both:
        if harmless(key) or key.startswith(("encoder", "elmo", "task.name", "tune", "data.")):
            continue  # a baseline is another encoder and mix; another task or corpus is a row
        runs = [*runs_of(baseline, range(2), 0.5), *runs_of(changed(config, key), range(2), 0.75)]
        try:
            notes = report(runs, ["task.name"], ["encoder.name"], baseline=("none",)).notes
        except ValueError as error:
            notes = [str(error)]
        if not any(re.search(rf"\b{re.escape(key)}\b", note) for note in notes):
            silent.append(key)
    assert silent == []
