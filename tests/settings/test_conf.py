"""Every option of every config group is composed, and every `_target_` in it exists."""

import re
from pathlib import Path

import pytest
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from elmo_bench.settings.check import faults
from elmo_bench.settings.types import arguments
from tests import conftest
from tests.conftest import OF_RESULTS

CONF = Path(__file__).parents[2] / "conf"
OPTIONS = sorted(
    (path.parent.name, path.stem)
    for path in CONF.glob("*/*.yaml")
    if path.parent.name not in ("recipe", "experiment", "sweep", "head")
)
PAPER = {
    path.stem: OmegaConf.load(path).hydra.sweeper.params.task
    for path in sorted(CONF.glob("sweep/*[0-9].yaml"))
}
TASKS = sorted(path.stem for path in CONF.glob("task/*.yaml"))
EXPERIMENTS = sorted(path.stem for path in CONF.parent.glob("results/conf/experiment/*.yaml"))
FOR_CORPORA = sorted(
    "/".join(path.parts[-2:])[: -len(".yaml")] for path in CONF.glob("task/for/*/*.yaml")
)
BERT = sorted(path.stem for path in CONF.glob("experiment/bert/*.yaml"))
# Groups that one job alone brings in.
ONLY_WITH = {group: ["job=pretrain"] for group in ("bilm", "text", "bilm_optimizer")}


def composed(*overrides):
    return conftest.composed(*overrides, "run_dir=here")


def targets(node):
    if isinstance(node, DictConfig):
        if "_target_" in node:
            yield node._target_
        for key in node:
            if not OmegaConf.is_missing(node, key) and not OmegaConf.is_interpolation(node, key):
                yield from targets(node[key])


@pytest.mark.parametrize(("group", "option"), OPTIONS, ids=["=".join(pair) for pair in OPTIONS])
def test_every_option(group, option):
    needed = [*ONLY_WITH.get(group, ())]
    if group == "data" and (tasks := OmegaConf.load(CONF / "data" / f"{option}.yaml").get("tasks")):
        needed = [f"task={tasks[0]}"]
    cfg = composed(*needed, f"{group}={option}")
    assert cfg[group] if group != "optimizer" else cfg.task.optimizer
    found = set(targets(cfg))
    assert found
    for target in found:
        assert callable(get_object(target)), target
    assert [line for line in faults(cfg) if "is missing" not in line] == []


HEADS = {
    "bcn": "sst5",
    "esim": "snli",
    "linear": "ner",
    "span": "squad",
}  # others are of `classify`


@pytest.mark.parametrize("head", sorted(path.stem for path in CONF.glob("head/*.yaml")))
def test_every_head(head):
    task = f"task={HEADS.get(head, 'classify')}"
    cfg = composed(task, "data=files", f"head={head}", "encoder=transformer", "encoder.model=any")
    assert callable(get_object(cfg.task.model._target_))
    assert faults(cfg) == []


ADAMW = {"_target_": "torch.optim.AdamW", "_partial_": True, "weight_decay": 0.01}
ADAM, ADADELTA = ("Adam", 0.001, None, None, None), ("Adadelta", 1.0, 0.95, 1e-6, None)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["task=snli", "data=snli", "optimizer=adadelta", "task.optimizer.lr=1"], ADADELTA),
        (["task=srl"], ADAM),
        (["task=srl", "~task/for"], ADADELTA),
        (["task=srl", "optimizer=adamw"], ("AdamW", 0.001, None, None, 0.01)),
        (["task=squad", "data=squad1"], ("Adadelta", 1.0, 0.95, 1e-8, None)),
        (["task=squad", "data=squad1", "optimizer=adam"], ADAM),
    ],
)
def test_an_optimizer_comes_whole(overrides, expected):
    """Its learning rate and arguments are its own: nothing of the one that it replaces stays."""
    optimizer = composed(*overrides).task.optimizer
    name = optimizer._target_.removeprefix("torch.optim.")
    keys = ("lr", "rho", "eps", "weight_decay")
    assert (name, *(optimizer[key] for key in keys)) == expected
    assert optimizer.betas is None


@pytest.mark.parametrize("of_corpus", FOR_CORPORA)
def test_settings_for_one_corpus(of_corpus):
    """They change the task's settings, none of which they invent; `~task/for` and other corpora
    leave these as they are.
    """
    corpus, task = of_corpus.split("/")
    changed = composed(f"data={corpus}", f"task={task}")
    without = composed(f"data={corpus}", f"task={task}", "~task/for")
    assert changed != without
    assert keys(changed) <= keys(without)
    other = composed("data=wikigold", f"task={task}")  # before a task reads its corpus's columns
    assert OmegaConf.to_container(without.task) == OmegaConf.to_container(other.task)


@pytest.mark.parametrize("corpus", EXPERIMENTS)
def test_an_experiment_is_a_whole_setting(corpus):
    """It says which task, and trains for no more epochs than the task does."""
    cfg = composed(OF_RESULTS, f"experiment={corpus}")
    data = "ud" if "treebank" in cfg.data else cfg.data.name.removesuffix("_subset")
    task = composed(f"task={cfg.task.name}", f"data={data}", "~task/for")
    of_embed = {key for key in keys(cfg) if key.startswith("embed.")}  # which an experiment chooses
    own = keys(cfg) - keys(task) - of_embed
    assert own <= {"published", "published.table", "task.callbacks"}
    assert keys(task) <= keys(cfg)
    assert cfg.fit.max_epochs <= task.fit.max_epochs
    assert faults(cfg) == []


@pytest.mark.parametrize("finetune", ["none", "lora", "full"])
@pytest.mark.parametrize("task", BERT)
def test_an_experiment_as_in_berts_paper(task, finetune):
    """Linear layers over the top layer and nothing else, with one rate for all that trains."""
    cfg = composed(f"experiment=bert/{task}", f"finetune={finetune}")
    assert faults(cfg) == []
    assert (cfg.elmo.mix, cfg.elmo.at, cfg.elmo.norm) == ("top", ["input"], "none")
    assert (cfg.embed._target_, cfg.embed.word_dim) == ("elmo_bench.nn.Words", 0)
    assert (cfg.rnn._target_, cfg.encoder.name) == ("elmo_bench.nn.Identity", "bert_base")
    lr = {"none": 5e-3, "lora": 5e-4, "full": 5e-5}[finetune]
    assert (cfg.finetune.name, cfg.finetune.lr, cfg.task.optimizer.lr) == (finetune, lr, lr)
    assert (cfg.fit.batch_size, cfg.schedule.name) == (32, "linear_warmup")
    assert cfg.fit.patience == cfg.fit.max_epochs == (20 if finetune == "none" else 3)
    if finetune == "lora":  # no setting is invented
        own = [f"task={cfg.task.name}", f"data={cfg.data.name}", "encoder=bert_base"]
        known = keys(composed(*own, "recipe=finetune_bert", "finetune=lora"))
        own = ("task.model.", "by_finetune", "tune.")
        assert {key for key in keys(cfg) - known if not key.startswith(own)} == set()


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_for_fine_tuning_is_for_every_task(task):
    """It trains the encoder, by a schedule, and invents no setting but those of heads that a task
    may lack.
    """
    cfg = composed(f"task={task}", "~task/for", "recipe=finetune_bert")
    without = composed(f"task={task}", "~task/for", "rnn=identity")
    assert cfg.finetune.name == "full"
    assert keys(cfg.rnn) == keys(without.rnn)
    assert cfg.finetune.lr < cfg.task.optimizer.lr
    assert keys(cfg.elmo) <= keys(without.elmo)
    of_esim = {"esim", "esim.attention_dropout", "esim.l2"}
    assert keys(cfg.task) - keys(without.task) <= {"model.dropout", *of_esim}
    assert keys(cfg.fit) == keys(without.fit)
    assert "_target_" in cfg.schedule
    assert cfg.fit.patience >= cfg.fit.max_epochs


# Dropout and penalties of a task's layers that are left with recipe=finetune_bert, and with the one
# of experiment=bert/...
OF_LAYERS = {
    "classify": ({"dropout": 0.1}, {"dropout": 0.0}),
    "coref": (
        {"dropout": 0.1, "lexical_dropout": 0.5},  # the second is that of x_k
        {"dropout": 0.0, "lexical_dropout": 0.5},
    ),
    "ner": ({"dropout": 0.1, "output_dropout": 0.0}, {"dropout": 0.0, "output_dropout": 0.0}),
    "parse": ({"dropout": 0.1}, {"dropout": 0.0}),
    "pos": ({}, {}),
    "snli": (
        {"dropout": 0.1, "attention_dropout": 0.1, "l2": 0.0},
        {"dropout": 0.0, "attention_dropout": 0.0, "l2": 0.0},
    ),
    "squad": ({"dropout": 0.1}, {"dropout": 0.0}),
    "srl": ({}, {}),
    "sst5": ({"dropout": 0.1}, {"dropout": 0.1}),  # on the command line, with the head
}
MONITORS = dict.fromkeys(TASKS, "f1") | {"parse": "las"}
MONITORS |= dict.fromkeys(("classify", "pos", "snli", "sst5"), "accuracy")


@pytest.mark.parametrize(("place", "recipe"), [(0, "finetune_bert"), (1, "shared/linear_bert")])
@pytest.mark.parametrize("task", TASKS)
def test_what_a_recipe_of_bert_leaves(task, place, recipe):
    """The settings of Devlin et al., whatever the task's own are; the score stays the task's."""
    linear = {"ner": ["head=linear"], "sst5": ["head=pooled", "task.model.dropout=0.1"]}.get(
        task, []
    )
    cfg = composed(f"task={task}", "data=files", f"recipe={recipe}", "encoder=transformer", *linear)
    elmo = [cfg.elmo[key] for key in ("mix", "at", "norm", "l2", "dropout")]
    assert elmo == ["top", ["input"], "none", 0, 0.1]
    assert (cfg.rnn._target_, cfg.rnn.dropout) == ("elmo_bench.nn.Identity", 0)
    read = {key: cfg.task.model.get(key) for key in arguments(cfg.task.model._target_)}
    of_layers = {key: read[key] for key in read if "dropout" in key or key == "l2"}
    assert of_layers == OF_LAYERS[task][place]
    optimizer = {key: value for key, value in cfg.task.optimizer.items() if value is not None}
    lr = (0.001, 5e-5)[place]
    assert optimizer == ADAMW | {"lr": lr}
    assert cfg.finetune.lr == (2e-5, 5e-5)[place]
    assert (cfg.task.gradient_clip, cfg.task.gradient_clip_algorithm) == (1, "norm")
    assert (cfg.schedule.name, cfg.schedule.warmup) == ("linear_warmup", 0.1)
    assert cfg.fit.max_epochs == cfg.fit.patience == (4, 3)[place]
    assert cfg.task.monitor == MONITORS[task]


SCORES = {
    "cola": ("matthews", "Matthews' correlation", None),
    "mrpc": ("accuracy_f1", "mean of accuracy and F1", "1"),
    "qqp": ("accuracy_f1", "mean of accuracy and F1", "1"),
    "stsb": ("pearson_spearman", "mean of Pearson's and Spearman's correlation", None),
    "rte": ("accuracy", "accuracy", None),
}
WAYS = ["task=classify", "recipe=finetune_bert task=classify", "experiment=bert/classify"]
WAYS += [f"{OF_RESULTS} experiment=classify"]


@pytest.mark.parametrize("corpus", SCORES)
@pytest.mark.parametrize("way", WAYS)
def test_the_score_of_a_corpus_is_its_own(way, corpus):
    """GLUE's, whatever trains on it."""
    cfg = composed(*way.split(), f"data={corpus}", "encoder=transformer", "encoder.model=any")
    assert (cfg.task.monitor, cfg.task.monitor_title, cfg.task.metric.positive) == SCORES[corpus]
    assert faults(cfg) == []


def test_the_command_line_wins_over_the_score_of_a_corpus():
    own = ["task.monitor=macro_f1", "task.monitor_title=mine", "task.metric.positive=0"]
    task = composed("task=classify", "data=mrpc", *own).task
    assert (task.monitor, task.monitor_title, task.metric.positive) == ("macro_f1", "mine", 0)


def test_the_command_line_may_change_a_recipe_for_fine_tuning():
    assert composed("recipe=finetune_bert", "finetune=lora").finetune.lr == 5e-4
    cfg = composed("recipe=finetune_bert", "schedule=constant", "finetune.lr=0.5", "rnn=bilstm")
    assert cfg.finetune.lr == 0.5
    assert "_target_" not in cfg.schedule
    assert cfg.task.model.hidden_size == 100


def test_a_task_without_an_rnn_keeps_its_layers():
    """`head=linear` removes the upper RNN of NER."""
    for task in TASKS:
        assert composed(f"task={task}", "rnn=identity").task == composed(f"task={task}").task
    assert composed("rnn=identity", "head=linear").task.model.hidden_size is None


@pytest.mark.parametrize(
    ("sweep", "task"), [(sweep, task) for sweep in PAPER for task in PAPER[sweep].split(",")]
)
def test_a_sweep_of_the_paper_is_the_papers(sweep, task):
    """It says no more of the model than which biLM it has, its corpus and its word vectors; one
    command runs all on another corpus, with another biLM.
    """
    cfg = composed(f"sweep={sweep}", f"task={task}")
    assert cfg.published == {sweep[:-1]: int(sweep[-1])}
    own = composed(f"task={task}", f"data={cfg.data.name}", "encoder=original")
    for group in ("data", "encoder", "embed", "rnn", "fit"):
        assert cfg[group] == own[group]
    own.elmo.adapt = task in ("ner", "snli", "squad", "sst5")  # not CoNLL-2012's, as in the paper
    own.elmo.at = ["input"] if task == "sst5" else own.elmo.at
    assert cfg.elmo == own.elmo
    assert all(cfg.vocab[key] == own.vocab[key] for key in own.vocab if key != "vectors")
    assert cfg.task.model == own.task.model
    here = composed("data=sample", "encoder=mini", f"sweep={sweep}", f"task={task}")
    assert (here.data.name, here.encoder.name) == ("sample", "mini")
    assert here.fit.max_epochs < cfg.fit.max_epochs  # by task/for/sample
    assert (here.vocab.vectors, here.elmo.adapt) == (None, False)
    assert faults(cfg) == []


@pytest.mark.parametrize("data", ["data=paper", "data=sample"])
def test_the_papers_baseline_lacks_what_came_with_elmo(data):
    """In its own sweeps alone, and where the command line does not say otherwise."""

    def regularisation(*overrides):
        model = composed("task=snli", data, *overrides).task.model
        return model.attention_dropout, model.l2

    own = regularisation()
    assert own == ((0.5, 1e-4) if data == "data=paper" else (0.2, 0.0))
    for overrides in (
        ["elmo.mix=none"],
        *(["sweep=table1", f"elmo.mix={mix}"] for mix in ("all", "top", "0", "[0,1]")),
    ):
        assert regularisation(*overrides) == own
    assert regularisation("sweep=table2", "elmo.mix=none") == (0, 0)
    assert regularisation("sweep=table2", "elmo.mix=none", "task.model.l2=0.3") == (0, 0.3)


@pytest.mark.parametrize("task", ["coref", "snli", "sst5"])
def test_the_variants_in_the_comments_are_allennlps(task):
    """By training_config/ of its version 0.9.0."""
    text = (CONF / f"task/{task}.yaml").read_text(encoding="utf-8")
    (line,) = re.findall("^# AllenNLP's variant.*?: (.*)$", text, re.M)
    cfg = composed("data=paper", f"task={task}", *line.split())
    assert faults(cfg) == []
    elmo = [cfg.elmo[key] for key in ("at", "l2", "dropout", "norm")]
    assert elmo == [["input"], 0, 0.5 if task == "coref" else 0, "none"]
    assert cfg.vocab.vectors is None
    if task == "snli":
        assert cfg.embed.word_dim == 0


LARGE = "glove.840B.300d.txt"


@pytest.mark.parametrize(
    ("task", "corpus", "files", "freeze", "lowercase", "unit"),
    [
        ("coref", "conll2012", [LARGE, "turian.50d.txt"], True, False, True),
        ("ner", "conll2003", ["glove.6B.50d.txt"], False, True, False),
        ("snli", "snli", [LARGE], True, False, False),
        ("squad", "squad1", [LARGE], True, "fallback", False),
        ("srl", "ontonotes5", ["glove.6B.100d.txt"], False, True, False),
        ("sst5", "sst", [LARGE], True, False, False),
    ],
)
def test_corpora_and_word_vectors_of_the_paper(task, corpus, files, freeze, lowercase, unit):
    """So that no table trains random vectors unless it is told to."""
    assert composed("data=paper", f"task={task}").data.name == corpus
    cfg = composed("sweep=table1", f"task={task}")
    paths = [f"data/vectors/{file}" for file in files]
    assert cfg.vocab.vectors == (paths if len(paths) > 1 else paths[0])
    read = cfg.embed.freeze, cfg.vocab.lowercase, cfg.vocab.unit_vectors
    assert read == (freeze, lowercase, unit)
    assert composed("sweep=table1", f"task={task}", "vocab.vectors=null").vocab.vectors is None


def keys(node, prefix=""):
    found = set()
    for key, value in node.items_ex(resolve=False):
        found |= {f"{prefix}{key}"}
        found |= keys(value, f"{prefix}{key}.") if isinstance(value, DictConfig) else set()
    return found
