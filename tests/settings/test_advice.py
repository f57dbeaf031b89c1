"""Advice on wrong commands: the nearest setting, the group, the job, the quotation marks."""

import errno
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from elmo_bench.callback import ending
from elmo_bench.settings.advice import MENDABLE, before, help_of_job, message, no_cache
from elmo_bench.settings.check import faults
from elmo_bench.settings.hydra_private import OF_VERSION
from tests.commands import ROOT, run, said
from tests.conftest import CONF


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
        ("+my.key=3", "there is no setting my; job=train --help describes all settings"),
        ("encoder.model=b", "encoder.model is a setting of encoder=transformer: add that"),
        ("bilm=small", "bilm is a setting of job=pretrain: add that to the command"),
        ("+seed=3", "Either remove + prefix: 'seed=3'"),
        ("seed=1,2", "seed=1,2 has several values: add -m, which runs one after the other; a single list is seed=[1,2]"),
        ("task=nerr", "task=nerr, but it must be classify, coref, ner, parse, pos, snli, squad, srl or sst5; did you mean task=ner?"),
        ("encoder=bert", "did you mean encoder=bert_base?"),
        ("experiment=brt/nr", "experiment=brt/nr, but it must be "),
        ("experiment=brt/nr", "; did you mean experiment=bert/ner?"),
        ("experiment=wikigold", "experiment=wikigold is of RESULTS.md: add --config-dir "),
        ("head=spam", "did you mean head=span?"),
        ("tsk=ner", "there is no setting tsk; did you mean task=ner?"),
        ("model=bert", "there is no setting model; did you mean encoder=bert?"),
        ("data.files.valid=x", "did you mean data.files.dev=x?"),
        ("task.optimizr.lr=1", "did you mean task.optimizer.lr=1?"),
        ("adapt.btach_size=3", "did you mean adapt.batch_size=3?"),
        ("hydra.launcher.njobs=2", "did you mean hydra.launcher.n_jobs=2?"),
        ("+batch_size=1", "there is no setting batch_size; did you mean fit.batch_size=1?"),
        ("+optimizer.lr=1", "there is no setting optimizer.lr; did you mean task.optimizer.lr=1?"),
        ("elmo.at=input", "elmo.at=input, but it must be a list: elmo.at=[input]"),
        ("report", "report has no value: write job=report"),
        ("--dryrun", "no such option; settings are KEY=VALUE, without dashes; did you mean --dry-run?"),
        ("vocab.vectors=~/v.txt", "leave: 'vocab.vectors=\"~/v.txt\"'"),
        ("elmo.mix=[0,1", "elmo.mix=[0,1 cannot be read: a list is [a,b]"),
        ("=3", "=3 has no key: write KEY=3"),
        ("seed", "seed has no value: write seed=VALUE"),
        ("~seed", "seed is missing: set seed=VALUE"),
        ("~task/for", ""),
        ("recipe=foo", "recipe=foo, but it must be finetune_bert"),
        ("recipe=null", "recipe=null: in place of null, a group without an option has []: recipe=[]"),
        ("text=sample,null", "has []: text=[]"),
        ("text=[] vocab.vectors=null", ""),
        ("--multirn seed=1,2", "--multirn: there is no such option; settings are KEY=VALUE"),
        ("trainer.max_epochs=3", "trainer.max_epochs=3 repeats a setting: write fit.max_epochs=3"),
        ("task=ner data=snli", "data=snli is a corpus of task=snli, not of task=ner; data.tasks="),
        ("encoder=bert-base-uncased", "encoder=transformer encoder.model=bert-base-uncased"),
        ("encoder=roberta_base", "a model of the hub is encoder=transformer encoder.model=ID"),
        ("encoder=wki", "did you mean encoder=wiki?"),
        ("encoder=org/model", "is encoder=transformer encoder.model=org/model"),
        ("encoder=tests", "a folder with a model is encoder=transformer encoder.model=tests"),
        ("encoder=README.md", "vectors of a file are encoder=static encoder.vectors=README.md"),
        ("encoder=none, mini", "space after the comma, where the shell parts it: write encoder=none,mini"),
        ("seed=1, 2, 3", "write seed=1,2,3"),
        ("elmo.at=[input, output]", "write 'elmo.at=[input,output]'"),
        ("encoder=none,mini", "encoder=none,mini has several values: add -m, which runs one after the other"),
        ("seed=choice(1,2)", "seed=choice(1,2) has several values: add -m"),
        ("fraction=10 fit.epochs=3", "did you mean fit.max_epochs=3?"),
        ("fraction=10 fit.epochs=3", "fraction=10, but it must be less than or equal to 1"),
        ("lr=1 fit.epochs=3", "did you mean fit.max_epochs=3?"),
        ("lr=1 fit.epochs=3", "did you mean task.optimizer.lr=1?"),
        ("--runs X", "settings are KEY=VALUE, without dashes: runs=VALUE"),
        ("--task ner", "without dashes: task=VALUE"),
        ("outputs_dir=README.md", "outputs_dir=README.md is a file, but it must be a folder"),
        ("hydra.job.chdir=true", "hydra.job.chdir=true would look for relative paths in the folder"),
        # What a + or another option is for.
        ("trainer=smoke trainer.max_epochs=2", ""),
        ("+trainer.logger=true", "trainer.logger would not be read: set logger"),
        ("job=pretrain text=files text.files.train=a", ""),
        ("data=snli task=ner data.tasks=[ner]", ""),
    ],
)  # fmt: skip
def test_what_a_command_is_told(command, answer):
    found = said(command.split())
    assert answer in found if answer else not found


def test_an_error_without_words_is_named():
    assert message(MemoryError(), []) == "MemoryError"
    with pytest.raises(SystemExit, match="MemoryError"), ending(OmegaConf.create()):
        raise MemoryError


def test_a_carriage_return_is_of_the_script():
    (line,) = before(["seed=1\r", "--dry-run\r"])
    assert line.startswith(r"seed=1\r has a carriage return")
    assert line.endswith(r"sed -i 's/\r$//' SCRIPT")


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    config = OmegaConf.create({"cache_dir": f"{tmp_path}/cache"})
    error = OSError(errno.EROFS, "Read-only file system")
    assert no_cache(error, config) == ""
    inside = PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/cache/sample")
    assert "set cache_dir=FOLDER" in no_cache(inside, config)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert f"cache_dir={tmp_path}/cache: set cache_dir=FOLDER" in no_cache(error, config)
    assert "ELMO_BENCH_CACHE=FOLDER" in no_cache(error, config)
    assert no_cache(ValueError("x"), config) == ""


def test_no_control_character_in_a_name():
    with initialize_config_dir(str(ROOT / "conf"), **OF_VERSION):
        config = compose("config", ['data.name="a\x07b"'], return_hydra_config=True)
    assert faults(config) == [r"data.name=a\x07b has a control character: leave it out"]


def test_a_tab_in_yaml(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: x\nfiles:\n\ttrain: a\n")
    with pytest.raises(MENDABLE) as raised, path.open() as file:
        yaml.safe_load(file)
    told = message(raised.value, [])
    assert told == f"{path}:3: column 1: a tab, but YAML takes no tabs: indent with spaces"


def test_what_a_sweep_over_options_is_told():
    refused = ConfigCompositionException("Could not override 'batch_size'.")
    with initialize_config_dir(str(ROOT / "conf"), **OF_VERSION):
        told = message(refused, ["-m", "task=glob(*)", "encoder=mini,none", "batch_size=3"])
        assert told == "there is no setting batch_size; did you mean fit.batch_size=3?"
        refused = ConfigCompositionException("Could not override 'task.model.dropout'.")
        told = message(refused, ["sweep=tune", "task=ner,pos", "task.model.dropout=0"])
        assert told == "there is no setting task.model.dropout; did you mean elmo.dropout=0?"


@pytest.mark.parametrize("name", sorted(path.stem for path in CONF.glob("job/*.yaml")))
def test_help_of_a_job(name):
    """It has each setting of the job's file, with its comment, and nothing of Hydra's."""
    said, text = help_of_job(name), (CONF / "job" / f"{name}.yaml").read_text()
    for line in text.splitlines():
        setting, mark, comment = line.partition("# ")
        if mark and "@package" not in comment:
            assert comment in said
            assert setting.removeprefix("  - override /").removeprefix("  - /").rstrip() in said
    assert not re.search(r"(hydra|job):$|@package|_target_|run_dir: null", said, re.M)
    assert ("??? stands for" in said) == ("???" in text)


def test_without_the_environment():
    """One line with the command that makes it; `-S` hides all installed packages."""
    command = [sys.executable, "-S", str(ROOT / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        "python3 -m venv .venv && .venv/bin/pip install -e . && source .venv/bin/activate"
    )


def test_matplotlib_does_not_tell_of_its_fonts():
    code = "import logging, sys; sys.argv = ['elmo-bench', '--version']; from elmo_bench.cli import main"
    code += "; main(); print(logging.getLogger('matplotlib.font_manager').getEffectiveLevel())"
    done = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)
    assert int(done.split()[-1]) == logging.ERROR


def test_help_of_jobs_with_settings_of_others():
    assert "\nbaseline: null " in help_of_job("paper")
    assert "\nencoder: wiki  " in help_of_job("train")
    assert "\n  batch_size: 32  " in help_of_job("train")
    assert help_of_job("reprot").endswith("score or train; did you mean job=report?")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc, in which nobody writes")
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
