"""The settings of every job and what each may be: a class for each section of the config.

The arguments of classes, also of a user's, are in their signatures; `check.py` compares both.
"""

from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, create_model

from elmo_bench.bounds import Count, Dropout, File, Folder, NotNegative, Positive, Seed, Share, Text

Natural = Annotated[int, Ge(0)]
Places = Annotated[list[Literal["input", "output"]], MinLen(1)]
Mix = Literal["all", "top", "uniform", "none"] | Natural | Annotated[list[Natural], MinLen(1)]
Keys = Text | Annotated[list[Text], MinLen(1)]
Values = str | int | float | bool | list[str | int | float | bool | list | None] | None
Pair = Annotated[list[str | int | list[int]], MinLen(2), MaxLen(2)]  # of a column's values
Files = File | Annotated[list[File], MinLen(1)]
Formatted = Literal["float32", "float16"]
Stored = Literal["float32", "bfloat16", "float16", "int8"]
Embedded = Literal["all", "top", "average"]
Split = Literal["train", "dev", "test"]
Betas = Annotated[list[Dropout], MinLen(2), MaxLen(2)]
Published = Literal["table1", "table2", "table3", "figure1", "figure2"]
Batches = Count | Annotated[float, Gt(0), Le(1)] | None  # 0 would train, select or test nothing
Precision = (
    Literal["32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true", "bf16"]
    | Literal[32, 16, 64, "transformer-engine", "transformer-engine-float16", None]
)


class Section(BaseModel):
    """A section has no other keys, unless it is of a class, whose signature decides."""

    model_config = ConfigDict(
        strict=True, allow_inf_nan=False, extra="forbid", protected_namespaces=()
    )


class Optimizer(Section):
    lr: Positive
    rho: Annotated[float, Ge(0), Le(1)] | None = None
    eps: Positive | None = None
    betas: Betas | None = None
    weight_decay: NotNegative | None = None


class Task(Section):
    name: Text
    title: Text
    data: Text  # a module such as tasks.ner.data
    suffix: Text
    joint: bool = False
    monitor: Text
    monitor_title: Text
    gradient_clip: NotNegative | None
    gradient_clip_algorithm: Literal["norm", "value"]
    optimizer: Optimizer
    scheduler: dict | None = None
    callbacks: list[dict] = []
    model: dict
    metric: dict
    esim: dict = {}  # what head=esim reads, whatever the recipe
    read: dict = {}
    parse: dict = {}
    pair: Any = None  # whether an example has two texts
    published: Any = None


class Fit(Section):
    batch_size: Count
    batch_tokens: Count | None
    batch_scores: Count | None
    max_epochs: Count
    patience: Count
    save_minutes: NotNegative
    overfit: Count = 1


class Store(Section):
    mode: Literal["auto", "memory", "off"]
    dtype: Stored
    max_bytes: NotNegative | None


class DataFiles(Section):
    train: File | None = None
    dev: File | None = None
    test: File | None = None


class CorpusMetric(Section):
    monitor: Text
    title: Text
    positive: Text | int | None = None


class Data(Section):
    name: Text | int | None = None
    origin: Text = ""
    held_out: Annotated[float, Gt(0), Lt(1)] | None = None
    folds: Annotated[int, Ge(3)] | None = None
    fold: Count | None = None
    note: Text = ""
    tasks: list[Text] = []
    read: dict = {}
    columns: dict = {}
    metric: CorpusMetric | None = None  # by which a corpus is scored, where the task reads it
    downloads: dict = {}
    size: Count = 1
    files: DataFiles


class Vocab(Section):
    vectors: Files | None
    origin: Text = ""
    lowercase: bool | Literal["fallback"]
    unit_vectors: bool
    min_count: Count


class Elmo(Section):
    mix: Mix
    at: Places
    l2: NotNegative
    dropout: Dropout
    mix_lr: Positive | None
    norm: Literal["none", "batch", "word"]
    adapt: bool


class FineTune(Section):
    name: Literal["none", "full", "lora"]
    lr: NotNegative = 0.0
    lr_decay: Share = 1.0
    rank: Annotated[int, Ge(1), Le(1024)] | None = None  # a checkpoint may set it


class BiLmTraining(Section):
    epochs: Count
    batch_size: Count
    unroll: Count
    lr: Positive
    warmup: Natural
    dropout: Dropout
    gradient_clip: Positive
    full_up_to: Natural
    samples: Count


class Adapt(BiLmTraining):
    bf16: bool
    seed: Seed


class Encoder(Section):
    name: Text
    dir: Folder | None = None
    # encoder=none may stand beside settings of others.
    options: Any = None
    weights: Any = None
    model: Any = None
    vectors: Any = None


class Schedule(Section):
    name: Text


class Trainer(Section):
    accelerator: Literal["auto", "cpu", "gpu", "cuda"]
    devices: Count | Literal["auto", -1] | list[Natural]
    num_nodes: Count = 1
    strategy: Text = "auto"
    precision: Precision
    max_epochs: Count
    gradient_clip_val: NotNegative | None
    gradient_clip_algorithm: Literal["norm", "value"]
    deterministic: bool | Literal["warn"]
    num_sanity_val_steps: Annotated[int, Ge(-1)]
    enable_progress_bar: bool
    log_every_n_steps: Natural
    limit_train_batches: Batches = None
    limit_val_batches: Batches = None
    limit_test_batches: Batches = None
    accumulate_grad_batches: Count = 1
    fast_dev_run: Literal[False] = False  # trainer=smoke also keeps and tests a checkpoint


class Logger(Section):
    csv: dict | None = None
    tensorboard: dict | None = None
    wandb: dict | None = None


class TextFiles(Section):
    train: File = ""
    dev: File | None = None


class TrainingText(Section):
    name: Text
    size: Count = 1
    tokenize: bool = False
    vocabulary: Count | None = None
    files: TextFiles


class Run(Section):
    """The settings of all jobs."""

    seed: Seed
    fraction: Share
    num_workers: Literal["auto"] | Annotated[int, Ge(0), Le(1024)]
    tf32: bool
    data_dir: Folder
    cache_dir: Folder
    outputs_dir: Folder
    run_dir: Folder | None
    resume: bool
    dry_run: bool | Literal["download"]
    oversubscribe: bool
    optimizer: None = None
    published: dict = {}
    tune: dict[str, Any] = {}  # what sweep=tune draws
    budget: Count = 1  # these four with sweep=tune
    seeds: Count = 1
    draw_seed: Natural | None = None
    trial: Natural | None = None
    by_finetune: dict = {}  # what other settings of a recipe refer to
    job: dict
    task: Task
    fit: Fit
    store: Store
    data: Data
    text: TrainingText | None = None
    vocab: Vocab
    elmo: Elmo
    finetune: FineTune
    adapt: Adapt
    embed: dict
    rnn: dict
    encoder: Encoder
    schedule: Schedule
    trainer: Trainer
    logger: Logger | None = None


class Table(Section):
    """A table of a report, which takes what it lacks from the report."""

    runs: Files = ""
    rows: Keys | None = None
    columns: Keys = ""
    baseline: Values = None
    where: dict | None = None
    split: Literal["test", "dev", "both"] | None = None
    metric: Text | None = None
    contrasts: list[Pair] | None = None
    paper: Published | None = None


class Probes(Section):
    max_sentences: Count
    seeds: Count
    steps: Count
    lr: Positive


class Pretraining(BiLmTraining):
    max_steps: Count | None
    state: Literal["zero", "carried"]
    vocabulary: Count | None
    precision: Literal[32, "bf16"]
    save_every: Count
    validate_every: Count | None
    dev_sentences: Count | None
    start: Literal["frequencies", "random"]
    cosine: bool
    loss_scale: Positive


class BiLmOptimizer(Section):
    name: Text
    dense: dict
    sparse: dict


def run(**hints: Any) -> type[Run]:
    """Return a job's settings: these and all jobs'; one that may be null may be absent."""
    fields: Any = {}
    for name, hint in hints.items():
        may_be_null = type(None) in get_args(hint)
        fields[name] = (hint, None if may_be_null else ...)
    return create_model("Job", __base__=Run, **fields)


PRETRAIN = {"pretrain": Pretraining, "bilm": dict, "bilm_optimizer": BiLmOptimizer}
REPORT = get_type_hints(Table, include_extras=True) | {"tables": dict[str, Table] | None}
JOBS: dict[str, type[Run]] = {
    "archive": run(runs=Files, output=File),
    "cache": run(clear=Text | list[Text]),
    "diff": run(a=Folder, b=Folder, split=Split, metric=Text | None, limit=Natural | None),
    "embed": run(input=File, output=File, layers=Embedded, dtype=Formatted, batch_tokens=Count),
    "evaluate": run(run_dir=Folder, checkpoint=File, split=Split),
    "ontonotes": run(ldc=Folder, skeletons=Folder, out=Folder),
    "perplexity": run(input=File),
    "predict": run(checkpoint=File, input=File, output=File),
    "pretrain": run(run_dir=Folder, text=TrainingText, out=Folder, **PRETRAIN),
    "probe": run(probe=Probes),
    "report": run(**REPORT, title=Text | None, output=Files | None),
    "score": run(gold=File, predicted=File),
    "train": run(run_dir=Folder, out=Folder | None),  # job=card has `out`
}
WITHOUT_A_MODEL = ("report", "archive", "score", "diff", "cache", "ontonotes")


@cache
def keys(section: type[Section] = Run) -> frozenset[str]:
    """Return the dotted keys of a section's settings, with those below it."""
    dotted: set[str] = set()
    for name, field in section.model_fields.items():
        hints = (field.annotation, *get_args(field.annotation))
        inner = [hint for hint in hints if isinstance(hint, type) and issubclass(hint, Section)]
        if inner:
            dotted |= {f"{name}.{key}" for key in keys(inner[0])}
        else:
            dotted.add(name)
    return frozenset(dotted)
