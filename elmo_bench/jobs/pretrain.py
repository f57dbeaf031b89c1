"""`job=pretrain`: train a biLM from scratch on a text, and write its model card.

The same command resumes a stopped training.
"""

import hashlib
import json
import logging
import math
import os
import shlex
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from omegaconf import DictConfig, OmegaConf
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from elmo_bench import COMMAND, text, training
from elmo_bench.config.build import device as device_kind
from elmo_bench.config.inputs import instantiate
from elmo_bench.encoders.bilm import BiLm, save, warn_of_bfloat16
from elmo_bench.files import (
    Bars,
    check_bilm_folder,
    counted,
    duration,
    remove_scratch,
    sole,
    watched,
    write_text,
)
from elmo_bench.lm import (
    SOFTMAX,
    VOCABULARY,
    Corpus,
    LanguageModel,
    Trainer,
    Training,
    load_language_model,
    save_softmax,
)
from elmo_bench.report import escape
from elmo_bench.runs.machine import check_cores
from elmo_bench.signals import put_off
from elmo_bench.text import read_text, text_files
from elmo_bench.training import from_first, rank, save_state

log = logging.getLogger(__name__)
LOCK, LAST = "pretrain", "last.ckpt"
# Settings that may change when a training resumes: those without effect on its steps (but
# validate_every decides which of them may be kept), and its length.
FREE = ("save_every", "validate_every", "resume", "epochs", "max_steps")
# The files of the tokenizer and the sentence splitter: a changed one never uses old encoded text.
SPLITTERS = [Path(text.__file__).with_name(name) for name in ("tokenize.py", "sentences.py")]


def pretrain(cfg: DictConfig) -> dict[str, float]:
    """Train a biLM; save options, weights and softmax (fp16) of the best step on dev, and a card.

    Returns the perplexities: `dev` (geometric mean of the directions) and `test/DIRECTION`.
    """
    with processes(cfg) as device, _held(Path(cfg.out)):
        dev = [*sentences(cfg, "dev")][: cfg.pretrain.dev_sentences]
        test = [*sentences(cfg, "test")]
        corpus = encoded(cfg)
        trainer = build(cfg, corpus, device)
        run = _Run(cfg, trainer, dev)
        run.train()
        if rank():
            return {}
        figures = {"dev": run.best} if dev else {}
        if test:
            files = (Path(cfg.out, name) for name in ("options.json", "weights.safetensors"))
            best = load_language_model(*files)
            watch = partial(watched, description="test perplexity")
            tested = best.to(device).perplexity(test, watch)
            figures |= {f"test/{direction}": value for direction, value in tested.items()}
            log.info("test perplexity %s", each(tested))
        write_card(cfg, trainer, figures, run.seconds)
        log.info("%s", Path(cfg.out, "weights.safetensors"))
        return figures


def check(cfg: DictConfig) -> None:
    """Raise what the job raises before it trains: of its output folder and of the whole text."""
    check_bilm_folder("out", Path(cfg.out), (f"{LOCK}.lock", LAST))
    for split in ("dev", "test", "train"):
        for _ in watched(sentences(cfg, split), f"text.files.{split}, sentences"):
            pass


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Lock the output folder; raises if another training uses it or it has another biLM."""
    if rank():
        yield
        return
    check_bilm_folder("out", out, (f"{LOCK}.lock", LAST))
    out.mkdir(parents=True, exist_ok=True)
    with sole(out / LOCK, f"out={out}", marks=True):
        yield


@contextmanager
def processes(cfg: DictConfig) -> Iterator[torch.device]:
    """Yield the device of this process; under `torchrun`, also connect to the other processes."""
    kind, _, number = device_kind(cfg).partition(":")
    number = os.environ.get("LOCAL_RANK", number or "0")
    device = torch.device(kind, int(number)) if kind == "cuda" else torch.device(kind)
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield device
        return
    if kind == "cpu" and not cfg.oversubscribe:
        check_cores("--nproc_per_node", int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    patience = timedelta(days=1)  # the others wait while the first process encodes the text
    if kind == "cuda":
        torch.cuda.set_device(device)  # otherwise NCCL takes cuda:0 in each process
        dist.init_process_group("nccl", timeout=patience, device_id=device)
    else:
        dist.init_process_group("gloo", timeout=patience)
    log.setLevel(logging.WARNING if dist.get_rank() else logging.INFO)  # only one process reports
    try:
        yield device
    finally:
        dist.destroy_process_group()


def encoded(cfg: DictConfig) -> Corpus:
    """Return the training text as numbers.

    The first process encodes it below cache_dir, unless the cache already has it.
    """
    files = text_files(instantiate(cfg.text.files)["train"])
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    rules = [file.read_bytes() for file in SPLITTERS] if cfg.text.tokenize else False
    name = hashlib.sha256(repr((facts, rules)).encode()).hexdigest()[:16]
    folder = Path(cfg.cache_dir).expanduser() / "corpora" / name
    if not folder.is_dir() and not rank():
        remove_scratch(folder.parent)
        Corpus.encode(watched(sentences(cfg, "train"), "reading the text, sentences"), folder)
    if dist.is_initialized():
        dist.barrier()
    return Corpus.open(folder)


def sentences(cfg: DictConfig, split: str) -> Iterator[Sequence[str]]:
    """Yield the sentences of a text; none if no file is given.

    Raises ValueError for a text without sentences.
    """
    if not (pattern := instantiate(cfg.text.files)[split]):
        return
    is_empty = True
    for sentence in read_text(text_files(pattern), raw=cfg.text.tokenize):
        is_empty = False
        yield sentence
    if is_empty:
        raise ValueError(f"text.files.{split}={pattern} contains only blank lines")


def build(cfg: DictConfig, corpus: Corpus, device: torch.device) -> Trainer:
    """Return the trainer of a new language model."""
    settings = cfg.pretrain
    vocabulary = corpus.vocabulary(settings.vocabulary, min_count=settings.min_count)
    is_large = len(vocabulary) > settings.full_up_to
    is_sampled = settings.softmax == "sampled" or (settings.softmax == "auto" and is_large)
    torch.manual_seed(cfg.seed)
    bilm = BiLm(instantiate(cfg.bilm), dropout=settings.dropout)
    model = LanguageModel(bilm, vocabulary).to(device)
    if settings.start == "frequencies":
        model.start_from(corpus)
    plan = Training.of(
        settings,
        samples=settings.samples if is_sampled else None,
        bf16=settings.precision == "bf16",
        seed=cfg.seed,
    )
    log.info(
        "%s tokens in %s sentences, %s words to predict (%s softmax), %s parameters",
        *(f"{number:,}" for number in (corpus.num_tokens, corpus.num_sentences, len(vocabulary))),
        "sampled" if is_sampled else "full",
        f"{size(model):,}",
    )
    if plan.bf16 and device.type == "cpu":
        warn_of_bfloat16("pretrain.precision=bf16")
    optimizers = {kind: instantiate(cfg.bilm_optimizer[kind]) for kind in ("dense", "sparse")}
    return Trainer(model, corpus, plan, **optimizers)


def each(perplexities: Mapping[str, float]) -> str:
    """Format the perplexity of each direction."""
    return ", ".join(f"{direction} {value:.2f}" for direction, value in perplexities.items())


def size(model: LanguageModel) -> int:
    """Return the number of the biLM's parameters, without its softmax."""
    return sum(parameter.numel() for parameter in model.bilm.parameters())


class _Run:
    """The training loop with progress, evaluation on dev and checkpoints."""

    def __init__(self, cfg: DictConfig, trainer: Trainer, dev: list[Sequence[str]]) -> None:
        self.cfg, self.trainer, self.dev = cfg, trainer, dev
        self.best, self.seconds = math.inf, 0.0
        self.looked: int | None = None  # the step of the last evaluation on dev
        self.out = Path(from_first(str(cfg.out)))  # each process's run_dir has its own time
        self.last = self.out / LAST
        self.identity = identity(cfg, trainer.corpus, dev)
        if cfg.pretrain.resume == "auto" and self.last.is_file():
            self._resume()
        elif not rank() and cfg.pretrain.resume == "never":
            # Files of an earlier training would look like results of this one.
            weights = ("options.json", "weights.safetensors", SOFTMAX, VOCABULARY)
            for name in (LAST, *weights, "README.md"):
                (self.out / name).unlink(missing_ok=True)

    def train(self) -> None:
        """Train to the end; Ctrl-C or SIGTERM ends the command when a step is done and saved."""
        with put_off(self.trainer.stop):
            is_stopped = self._steps()
        if is_stopped:
            sys.exit(128 + signal.SIGTERM)  # the signal went to another process
        if self.looked != self.trainer.step:  # it was shortened to the last step of a stopped one
            self._validate()
            self._save()

    def _steps(self) -> bool:
        """Train; return whether a process got a signal to stop."""
        trainer, settings, tokens = self.trainer, self.cfg.pretrain, 0
        columns = *Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn()
        earlier, begun = self.seconds, time.perf_counter()
        with Bars(*columns, disable=rank() > 0) as bars:
            bar = bars.add_task("pretraining", total=trainer.num_steps, completed=trainer.step)
            for step in trainer.run():
                tokens += step.num_tokens
                spent = time.perf_counter() - begun
                self.seconds = earlier + spent
                status = f"loss {step.loss:.3f}  {tokens / spent:,.0f} tokens/s"
                about = f"epoch {trainer.epoch}  {status}"
                bars.update(bar, completed=trainer.step, description=about)
                if self._is_due(settings.validate_every):
                    self._validate()
                if step.is_last or self._is_due(settings.save_every):
                    self._save()
                    log.info("%s", bars.line(bar))
                if step.is_last:
                    from_first(None)  # wait until it has saved: torchrun ends it with the others
                    return True
        return False

    def _is_due(self, every: int | None) -> bool:
        """Whether this step is one of every so many, or the last one of an epoch."""
        step, trainer = self.trainer.step, self.trainer
        is_end = step % trainer.epoch_steps == 0 or step == trainer.num_steps
        return is_end or bool(every and step % every == 0)

    def _validate(self) -> None:
        """Save the language model if it is the best so far on dev; without dev, always."""
        mean = math.inf
        if self.dev:
            watch = partial(counted, description="dev perplexity, batches")
            perplexities = self.trainer.model.perplexity(self.dev, watch)
            mean = statistics.geometric_mean(perplexities.values())
            log.info("step %d: dev perplexity %s", self.trainer.step, each(perplexities))
        if mean < self.best or not self.dev or self.looked is None:
            self.best = mean
            self._keep()
        self.looked = self.trainer.step

    def _keep(self) -> None:
        if not rank():
            save(self.trainer.model.bilm, self.out / "weights.safetensors", dtype=torch.float16)
            save_softmax(self.trainer.model, self.out)

    def _save(self) -> None:
        """Write last.ckpt; before the first evaluation on dev, save the model too."""
        content = self.trainer.state_dict() | {
            "best": self.best,
            "seconds": self.seconds,
            "identity": self.identity,
            "looked": self.looked,
            "num_steps": self.trainer.num_steps,
        }
        if rank():
            return
        if self.looked is None:
            self._keep()
        save_state(content, self.last)

    def _resume(self) -> None:
        try:
            saved = training.load(self.last)
            with training.refusing(self.last, "not the state of a training"):
                self._go_on(saved)
        except ValueError as error:
            raise ValueError(f"{error}; pretrain.resume=never starts again") from error

    def _go_on(self, saved: dict[str, Any]) -> None:
        before, now = saved["identity"], self.identity
        keys = sorted(before.keys() | now.keys())
        if different := [key for key in keys if before.get(key) != now.get(key)]:
            changes = "; ".join(
                f"{key} was {before.get(key)} and is now {now.get(key)}" for key in different
            )
            raise ValueError(
                f"{self.last} belongs to another training: {changes}. Choose another out="
            )
        trainer = self.trainer
        trainer.load_state_dict(saved)
        trainer.model.source = str(self.last)
        self.best, self.seconds, self.looked = (saved[key] for key in ("best", "seconds", "looked"))
        log.info("continuing after step %d of %d", trainer.step, trainer.num_steps)
        if saved["num_steps"] != trainer.num_steps:
            log.info("the learning rate follows the schedule of the new length")


def identity(cfg: DictConfig, corpus: Corpus, dev: list[Sequence[str]]) -> dict[str, Any]:
    """Return digests of the texts and all settings, except the length, that determine which weights
    are kept.

    A training can be resumed only with the same identity.
    """
    parts: Any = {
        part: OmegaConf.to_container(cfg[part], resolve=True)
        for part in ("bilm", "bilm_optimizer", "pretrain")
    }
    settings = {
        f"{part}.{key}": value
        for part, values in parts.items()
        for key, value in values.items()
        if key not in FREE
    }
    digest = hashlib.sha256(json.dumps(dev).encode()).hexdigest()
    texts = {"text": corpus.digest()[:16], "text of dev": digest[:16]}
    return settings | {"seed": cfg.seed} | texts


def write_card(
    cfg: DictConfig, trainer: Trainer, figures: dict[str, float], seconds: float
) -> None:
    """Write the model card to `README.md` in `out`: command, text, settings, time, perplexities."""
    corpus, directions = trainer.corpus, trainer.model.directions
    counts = (
        f"{corpus.num_tokens:,} tokens, {corpus.num_sentences:,} sentences, "
        f"{len(corpus.words) - 2:,} word types"
    )
    settings = ", ".join(
        f"{key} {value}" for key, value in cfg.pretrain.items() if key not in FREE[:3]
    )
    softmax = "sampled" if trainer.settings.samples else "full"
    rows = {
        "command": shlex.join([*COMMAND, *sys.argv[1:]]),
        "text": f"{cfg.text.name}: {counts}",
        "parameters": f"{size(trainer.model):,} (fp16), without the softmax",
        "training": f"optimizer {cfg.bilm_optimizer.name}, {settings}; seed {cfg.seed}",
        "seen": f"{trainer.step / trainer.epoch_steps:.2f} epochs, {trainer.step:,} steps",
        "softmax": f"{softmax}, {len(trainer.model.vocabulary):,} words to predict",
        "time": f"{duration(seconds)} on {trainer.num_processes} x {trainer.device.type}, "
        f"{torch.get_num_threads()} threads; torch {torch.__version__}",
    }
    conditions = "full softmax; zero state at each sentence; all unknown words count as one word"
    if "dev" in figures:
        average = "geometric mean of both directions" if len(directions) > 1 else directions[0]
        rows["perplexity on dev text"] = f"{figures['dev']:.2f} ({average}; {conditions})"
    if tested := {d: figures[f"test/{d}"] for d in directions if f"test/{d}" in figures}:
        rows["perplexity on held-out text"] = f"{each(tested)} ({conditions})"
    kind = "A biLM" if len(directions) > 1 else f"The {directions[0]} half of a biLM"
    table = "\n".join(f"| {key} | {escape.markdown(value)} |" for key, value in rows.items())
    card = (
        f"# {kind} of elmo-bench\n\n| | |\n|---|---|\n{table}\n\n"
        "Sizes are in `options.json`, in the form that every reader of ELMo knows. "
        "`softmax.safetensors` and\n`vocabulary.txt` are for predicting words alone.\n"
    )
    write_text(Path(cfg.out, "README.md"), card)
