"""Advice on wrong commands: the nearest setting, the group, the job, the quotation marks."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException

from elmo_bench.config.advice import before, message, settings_of_job
from elmo_bench.config.check import faults
from tests.test_run import run

ROOT = Path(__file__).parents[2]


def said(arguments: list[str]) -> str:
    """What a command ends with; empty if its settings are right."""
    if wrong := before(arguments):
        return "\n".join(wrong)
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        try:
            config = compose("config", arguments, return_hydra_config=True)
        except Exception as error:
            return message(error, arguments)
    return "\n".join(faults(config))


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("batch_size=16", "there is no setting batch_size; did you mean fit.batch_size=16?"),
        ("lr=1", "there is no setting lr; did you mean task.optimizer.lr=1?"),
        ("optimizer.lr=1", "there is no setting optimizer.lr; did you mean task.optimizer.lr=1?"),
        ("dropuot=1", "there is no setting dropuot; did you mean elmo.dropout=1?"),
        ("epochs=3", "there is no setting epochs; did you mean fit.max_epochs=3?"),
        ("job=pretrain epochs=3", "there is no setting epochs; did you mean pretrain.epochs=3?"),
        ("finetune.lr=1", "finetune.lr is a setting of finetune=full or finetune=lora"),
        ("encoder=none encoder.dir=/x", ""),
        ("+my.key=3", "there is no setting my; --help says how to list all settings"),
        ("encoder.model=b", "encoder.model is a setting of encoder=transformer: add that"),
        ("bilm=small", "bilm is a setting of job=pretrain: add that to the command"),
        ("+seed=3", "Either remove + prefix: 'seed=3'"),
        ("seed=1,2", "Ambiguous value for argument 'seed=1,2'"),
        (
            "task=net",
            "Could not find 'task/net'; the options are classify, coref, ner, parse, pos,",
        ),
        ("vocab.vectors=~/v.txt", "leave: 'vocab.vectors=\"~/v.txt\"'"),
        ("elmo.mix=[0,1", "elmo.mix=[0,1 cannot be read: a list is [a,b]"),
        ("=3", "=3 has no key: write KEY=3"),
        ("seed", "seed has no value: write seed=VALUE"),
        ("~seed", "seed is missing: set seed=VALUE"),
        ("~recipe", ""),
        ("--multirn seed=1,2", "--multirn: there is no such option; settings are KEY=VALUE"),
        ("trainer.max_epochs=3", "trainer.max_epochs=3 repeats a setting: write fit.max_epochs=3"),
        ("task=ner data=snli", "data=snli is a corpus of task=snli, not of task=ner; data.tasks="),
        # What a + or another option is for.
        ("+task.elmo.norm=word", ""),
        ("trainer=smoke trainer.max_epochs=2", ""),
        ("job=pretrain text=files text.files.train=a", ""),
        ("data=snli task=ner data.tasks=[ner]", ""),
    ],
)
def test_what_a_command_is_told(command, answer):
    found = said(command.split())
    assert answer in found if answer else not found


def test_what_a_sweep_over_options_is_told():
    refused = ConfigCompositionException("Could not override 'batch_size'.")
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        told = message(refused, ["-m", "task=glob(*)", "encoder=mini,none", "batch_size=3"])
    assert told == "there is no setting batch_size; did you mean fit.batch_size=3?"


def test_help_of_a_job():
    assert "\npredicted: ???" in settings_of_job("score")
    assert "must be one of archive, cache, card" in settings_of_job("net")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder that nobody writes to")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("data.size=2 -m seed=x,1", "seed=x, but it must be an integer"),
        ("-m seed=1,2 hydra.sweep.dir=/proc/sweep", "/proc/sweep"),
        ("encoder=none outputs_dir=/proc/outputs", "/proc/outputs"),
        ("job=score gold=/none predicted=/none run_dir=null", "/none: no such file"),
        ("job=evaluate", "checkpoint is missing: set checkpoint=VALUE"),
    ],
)
def test_one_line_and_no_more(command, said):
    done = run(*command.split())
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert said in line
