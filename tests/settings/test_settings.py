"""Every setting is compared with its type before anything is read or written."""

import pytest

from elmo_bench import callback
from elmo_bench.settings import check, types
from elmo_bench.settings.check import about_sweep, applied_options, expand_home, faults
from tests import conftest
from tests.commands import run
from tests.conftest import OF_RESULTS


def composed(*overrides):
    return conftest.composed(*overrides, whole=True)


STEPS = (  # torch has the type of the milestones for type checkers only
    "+task.scheduler={_target_:torch.optim.lr_scheduler.MultiStepLR,_partial_:true,milestones:[5]}"
)
WRONG = [
    # What passed in silence.
    ("seed=null", "seed=null, but it must be an integer"),
    ("elmo.at=[]", "elmo.at=[], but it must have at least 1 item"),
    ("embed.word_dim=0 encoder=none embed=words", "embed.word_dim=0 without an encoder at"),
    ("embed=words embed.word_dim=0 elmo.at=[output]", "embed.word_dim=0 without an encoder at"),
    ("+task.elmo.mix=top", "there is no setting task.elmo; "),
    ("job=pretrain text=sample out=a trainer.devices=2", "trainer.devices=2, but job=pretrain uses"),
    ("job=pretrain text=sample out=a fit.max_epochs=3", "fit.max_epochs is not read by job=pretrain"),
    ("+data.read.ner.annotated=true", "data.read.ner: annotated is none of its splits with opti"),
    ("+data.read=foo", "data.read=foo, but it must be {KEY:VALUE}"),
    ("+data.read.ner.train.annotated=yes", "data.read.ner.train.annotated=yes, but it must be true or false"),
    ("+data.read.ner.dev.anotated=true", "data.read.ner.dev.anotated=true, but the arguments"),
    ("+trainer.limit_val_batches=0", "trainer.limit_val_batches=0, but it must be greater than"),
    ("embed.word_dim=0 vocab.vectors=a", "embed.word_dim=0 with vocab.vectors: vocab.vectors=null"),
    (f"{OF_RESULTS} experiment=squad optimizer=adadelta", "optimizer=adadelta sets task.optimizer.lr=1.0, but the experiment sets 0.002"),
    ("experiment=bert/ner optimizer=adam task.optimizer.lr=1 task.optimizer.weight_decay=0", "optimizer=adam sets task.optimizer._target_=torch.optim.Adam, but the experiment"),
    ("task=squad data=squad1 finetune=full", "finetune.lr=0.0001 is for Adam, but the task trains"),
    ("sweep=table1 encoder=bert_base", "elmo.adapt=true, but encoder=bert_base is no pretrained"),
    ("job=embed input=a output=b.h5 elmo.adapt=true", "elmo.adapt=true requires a run with a task"),
    ("job=perplexity input=a elmo.adapt=true", "elmo.adapt=true requires a run with a task"),
    ("job=probe elmo.adapt=true", "elmo.adapt=true requires a run with a task"),
    ("task/for=sample/nre", "task/for=sample/nre, but there is no conf/task/for/sample/nre.yaml; "),
    ("task=squad head=span", "encoder=mini reads texts apart, but tasks.squad.model.Span needs them"),
    ("task=squad task.joint=true", "task.joint=true, but tasks.squad.model.BiDafPlus needs"),
    ("task=squad head=span task.joint=false", "task.joint=false, but tasks.squad.model.Span needs"),
    ("task=classify data=cola head=bcn task.joint=true", "task.joint=true, but tasks.classify.bcn.Bcn needs task.joint=false"),
    ("head=span", "task.joint=true, but tasks.ner.data cannot read several texts in one sequence"),
    ("task=classify task.monitor=macro_f1", "task.monitor=macro_f1 would be 'accuracy' in reports: add task.monitor_title=NAME"),
    ("task.monitor=f2", "task.monitor=f2, but it must be precision, recall or f1"),
    ("fraction=0", "fraction=0, but it must be greater than 0"),
    ("+logger.foo.bar=1", "there is no setting logger.foo; "),
    ("+encoder.foo=1 encoder=none", "there is no setting encoder.foo; "),
    ("+bilm_optimizer.foo=1 job=pretrain", "there is no setting bilm_optimizer.foo; "),
    ("logger.csv=3", "logger.csv=3, but it must be {KEY:VALUE}"),
    ("outputs_dir=2024", "outputs_dir=2024, but it must be a string; quote a name that is a number"),
    ("vocab.lowercase=1", "vocab.lowercase=1, but it must be true or false, or 'fallback'"),
    ("elmo.l2=nan", "elmo.l2=nan, but it must be a finite number"),
    ("elmo.mix={a:1}", "elmo.mix={a:1}, but it must be 'all', 'top', 'uniform' or 'none', or an integer, or a list"),
    ("job=report runs={a:1}", "runs={a:1}, but it must be a string, or a list"),
    # What ended in a traceback.
    ("adapt.lr=word", "adapt.lr=word, but it must be a number"),
    ("rnn.num_layers=0", "rnn.num_layers=0, but it must be greater than or equal to 1"),
    ("tables={x:{where:a}} job=report", "tables.x.where=a, but it must be {KEY:VALUE}"),
    ("bilm.filters=[[0,2]] job=pretrain", "bilm.filters=[[0,2]], but it must be greater than or"),
    ("encoder.directions=[]", "encoder.directions=[], but it must be [forward], [backward] or ["),
    ("job=embed", "input is missing: set input=VALUE"),
    ("fit.batch_size=${foo.bar}", "fit.batch_size: Interpolation key 'foo.bar' not found"),
    ("+data.files.valid=a data=files", "there is no setting data.files.valid; did you mean"),
    ("+task.model.foo=3", "task.model.foo=3, but the arguments of tasks.ner.model.BiLstmCrf are"),
    ("task.model._target_=tasks.ner.model.Foo", "task.model._target_=tasks.ner.model.Foo, but"),
    ("+elmo.dropuot=0.1", "there is no setting elmo.dropuot; did you mean elmo.dropout=0.1?"),
    ("+trainer.fast_dev_run=true", "trainer.fast_dev_run=true, but it must be false"),
    ("trainer.devices=x", "trainer.devices=x, but it must be an integer, or 'auto' or -1, or a list"),
    ("fit=3", "trainer.max_epochs: ConfigTypeError"),
    ("task.optimizer.rho=0.5", "task.optimizer.rho=0.5, but the arguments of torch.optim.Adam are"),
    ("+seeds=5", "budget and seeds are settings of sweep=tune: add that"),
    ("+data.metric={monitor:f1,title:F1}", "data.metric has no effect on task=ner: set task.monitor"),
    ("task=classify +data.metric.monitor=macro_f1", "data.metric.title is missing"),
    ("task=classify data=cola data.metric.monitor=f2", "task.monitor=f2, but it must be accuracy, "),
    ("task=parse task.model.loss=trees", "task.model.loss=trees, but it must be 'words' or 'sentences'"),
    ("task=sst5 task.classes=4", "task.classes=4, but task.read.train.classes must be 2, 3 or 5"),
    ("data.folds=2", "data.folds=2, but it must be greater than or equal to 3"),
    ("data.fold=2", "data.fold=2 is one of data.folds: add data.folds=10, or leave it out"),
    ("data.folds=5 data.fold=6", "data.fold=6, but it must be from 1 to data.folds=5"),
    ("data.folds=5 trainer=overfit", "data.folds=5 has no effect with trainer=overfit"),
    ("task=classify data=cola data.folds=5 data.held_out=0.2", "data.held_out=0.2 has no effect with data.folds=5, of which one is dev"),
    ("job=evaluate checkpoint=a data.folds=5", "data.folds=5 is for training, but job=evaluate reads whole files"),
    ("job=probe data.folds=5", "data.folds=5 is for training, but job=probe reads whole files"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "said"), WRONG, ids=[overrides for overrides, _ in WRONG])
def test_a_wrong_setting_is_named(overrides, said):
    lines = faults(composed(*overrides.split()))
    assert any(line.startswith(said) for line in lines), lines


def test_all_faults_are_said_at_once():
    lines = faults(composed("job=embed", "seed=-1", "elmo.mix=[]", "dtype=float64"))
    keys = [line.partition("=")[0].partition(" ")[0] for line in lines]
    assert sorted(keys) == ["dtype", "elmo.mix", "input", "output", "seed"]


def test_a_value_that_others_repeat_is_named_once():
    (line,) = faults(composed("fit.max_epochs=0"))
    assert line.startswith("fit.max_epochs=0, ")
    (line,) = faults(composed("encoder=static", "encoder.vectors=[a,2]"))
    assert line == "encoder.vectors=[a,2], but it must be a string"


@pytest.mark.parametrize(
    "overrides",
    [
        ["elmo.mix=[0,2]", "elmo.at=[output]", "store.max_bytes=null", "fit.batch_tokens=null"],
        ["embed.word_dim=0", "fraction=1", "elmo.l2=0", "trainer.devices=2"],
        ["task=sst5", "task.phrases=1", "task.model.maxout=4", "~task/for", "task.classes=2"],
        ["job=report", "runs=[a,b]", "rows=task", "baseline=[none,0]", "where={task:ner}"],
        ["encoder=transformer", "encoder.model=bert", "encoder.pooling=mean", "encoder.window=8"],
        ["optimizer=adamw", "task.optimizer.betas=[0.9,0.99]", "trainer.precision=bf16-mixed"],
        ["+trainer.limit_train_batches=0.5", "vocab.vectors=[a,b]", "elmo.norm=word"],
        ["encoder=static", "vocab.vectors=[a,b]"],
        ["task=squad", "embed=words", "rnn=bilstm", "finetune=full", "finetune.lr=0"],
        ["trainer.precision=bf16", "trainer.devices=[0,1]", "+trainer.limit_val_batches=1"],
        ["trainer.precision=16", "trainer.devices=[0]", "data.name=2003", "recipe='finetune_bert'"],
        ["recipe=finetune_bert", "~task/for", "trainer.gradient_clip_val=0"],
        ["experiment=bert/ner", "task.optimizer.lr=3e-5", "fit.max_epochs=2"],
        ["embed.word_dim=${rnn.hidden_size}"],
        ["fit.patience=2", "optimizer=adadelta", "elmo.dropout=0.1"],
        ["trainer=overfit", "fit.patience=9"],
        ["task=classify", "data=cola", "data.folds=5", "data.fold=5"],
        [STEPS],
        [OF_RESULTS, "experiment=wikigold", "trainer=overfit", "fit={max_epochs:9,patience:9}"],
        ["+task.gates.one=0.3", "task.model.dropout=${task.gates.one}"],
        ["+data.read.ner.train.annotated=true", "+trainer.limit_test_batches=0.5"],
        [OF_RESULTS, "experiment=squad", "optimizer=adadelta", "task.optimizer.lr=0.5"],
        ["task=snli", "head=pooled", "task.esim.attention_dropout=0.3"],  # of another head
        ["task=squad", "data=squad1", "finetune=full", "optimizer=adam"],
    ],
    ids=" ".join,
)
def test_what_may_be_may_be(overrides):
    assert faults(composed(*overrides)) == []


def test_overfitting_decides_over_an_experiment():
    assert composed(OF_RESULTS, "experiment=wikigold", "trainer=overfit").fit.patience == 500


def test_of_a_class_of_ones_own_the_signature_counts(tmp_path):
    """What a user adds beside conf/ is compared as our own options are."""
    (tmp_path / "encoder").mkdir()
    own = "name: own\n_target_: elmo_bench.nn.BiLstm\nhidden_size: 0\nsize: 3\n"
    (tmp_path / "encoder" / "own.yaml").write_text(own)
    lines = faults(composed(f"hydra.searchpath=[file://{tmp_path}]", "encoder=own"))
    assert lines == [
        "encoder.hidden_size=0, but it must be greater than or equal to 1",
        "encoder.size=3, but the arguments of elmo_bench.nn.BiLstm are input_size, hidden_size, num_layers, dropout",
    ]


def test_an_argument_without_a_hint_may_be_anything(monkeypatch):
    monkeypatch.setattr("tasks.ner.model.own", lambda size: size, raising=False)
    hint = types.arguments("tasks.ner.model.own")["size"]
    assert types.misfits(100, hint) == types.misfits([{}], hint) == []


def test_settings_for_a_corpus_are_said():
    said = ["settings for this corpus: conf/task/for/sample/ner.yaml; ~task/for leaves them out"]
    assert applied_options(composed()) == applied_options(composed("recipe=finetune_bert")) == said
    apart = applied_options(composed("task=snli", "head=summary", "encoder=mini"))
    assert apart[-1] == "encoder=mini reads an example's texts apart: task.joint=false"
    for other in ("data=wikigold", "~task/for", "task=pos"):
        assert applied_options(composed(other)) == []


def test_what_cannot_be_compared_is_not_run(monkeypatch):
    """Hydra would make a warning of the exception, and go on."""
    monkeypatch.setattr(check, "faults", lambda _: 1 / 0)
    with pytest.raises(SystemExit, match="ZeroDivisionError"):
        callback.Check().on_run_start(composed())


def test_nothing_is_written_for_a_wrong_command(tmp_path):
    done = run("seed=x", f"outputs_dir={tmp_path}/outputs", "elmo.dropout=2")
    assert done.returncode == 1
    wrong = [line.partition(",")[0] for line in done.stderr.splitlines()]
    assert wrong == ["seed=x", "elmo.dropout=2"]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [[], ["-m", "seed=1,2"]], ids=["one run", "a sweep"])
def test_a_dry_run_runs_nothing(tmp_path, arguments):
    done = run(*arguments, "--dry-run", "data.size=4", f"outputs_dir={tmp_path}/outputs")
    assert done.returncode == 0, done.stderr
    assert "nothing was run" in done.stdout
    assert done.stdout.count("ner/train.txt: 16 examples") == 1
    assert "layer store: 0.00 GB of disk (" in done.stdout
    assert not list(tmp_path.rglob("*.*"))


def test_a_path_in_the_home_folder(monkeypatch):
    """The shell expands only some, and Hydra takes a ~ in quotes."""
    monkeypatch.setenv("HOME", "/home/me")
    cfg = composed("job=embed", "input='~/in.txt'", "output='~mine.h5'", "outputs_dir='~/runs'")
    expand_home(cfg)
    assert (cfg.input, cfg.output) == ("/home/me/in.txt", "~mine.h5")
    assert cfg.hydra.run.dir.startswith("/home/me/runs/")
    cfg = composed("job=report", "runs=['~/a',b/]", "columns=elmo.mix")
    expand_home(cfg)
    assert cfg.hydra.run.dir == "."
    assert cfg.runs == ["/home/me/a", "b/"]


def test_what_a_sweep_says_of_itself():
    """A dry run of a sweep shows it: the comment at the beginning of its file."""
    assert about_sweep(composed("sweep=seeds")) == [
        "sweep=seeds: Is the difference real? Five seeds: with fewer on a side, a difference is "
        "preliminary."
    ]
    assert about_sweep(composed()) == []
