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
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from elmo_bench import COMMAND, checkpoint_file, text
from elmo_bench.config.build import device as device_kind
from elmo_bench.config.build import instantiate
from elmo_bench.encoders.bilm import BiLm, save, warn_of_bfloat16
from elmo_bench.files import (
    Bars,
    atomic,
    check_bilm_folder,
    counted,
    duration,
    remove_scratch,
    sole,
    watched,
)
from elmo_bench.lm import (
    Corpus,
    LanguageModel,
    Trainer,
    Training,
    load_language_model,
    save_softmax,
)
from elmo_bench.lm.softmax import SOFTMAX, VOCABULARY
from elmo_bench.report import escape
from elmo_bench.runs.machine import check_cores
from elmo_bench.signals import Stopped, stopped_behind
from elmo_bench.text import read_text, text_files

log = logging.getLogger(__name__)
LOCK = "pretrain"
# Settings without effect on the training; validate_every decides which of its steps may be kept.
ASIDE = ("save_every", "validate_every", "resume")
# The files of the tokenizer and the sentence splitter: a changed one never uses old encoded text.
SPLITTERS = [Path(text.__file__).with_name(name) for name in ("tokenize.py", "sentences.py")]
CLASS = "bilm._target_"
LENGTH = ("epochs", "max_steps")  # these and ASIDE may change when a training resumes


def pretrain(cfg: DictConfig) -> dict[str, float]:
    """Train a biLM; save options, weights and softmax (fp16) of the best step on dev, and a card.

    Returns the perplexities: `dev` (geometric mean of the directions) and `test/DIRECTION`.
    """
    with processes(cfg) as device, _held(Path(cfg.out)):
        files = instantiate(cfg.text.files)
        for pattern in filter(None, (files["dev"], files["test"])):
            text_files(pattern)  # they exist: encoding the training text may take hours
        corpus = encoded(cfg, files["train"])
        dev = held_out(cfg, files, "dev")[: cfg.pretrain.dev_sentences]
        held_out(cfg, files, "test")  # it can be read: it is needed only after training
        trainer = build(cfg, corpus, device)
        run = _Run(cfg, trainer, dev)
        run.train()
        if not run.is_first:
            return {}
        figures = {"dev": run.best} if dev else {}
        if test := held_out(cfg, files, "test"):
            best = load_language_model(
                Path(cfg.out, "options.json"), Path(cfg.out, "weights.safetensors")
            )
            watch = partial(watched, description="test perplexity")
            tested = best.to(device).perplexity(test, watch)
            figures |= {f"test/{direction}": value for direction, value in tested.items()}
            log.info("test perplexity %s", each(tested))
        write_card(cfg, trainer, figures, run.seconds)
        log.info("%s", Path(cfg.out, "weights.safetensors"))
        return figures


def check(cfg: DictConfig) -> None:
    """Raise what the job raises before it trains: of its output folder and of the whole text."""
    check_bilm_folder("out", Path(cfg.out), (f"{LOCK}.lock", "last.ckpt"))
    files = instantiate(cfg.text.files)
    for split in ("dev", "test"):
        held_out(cfg, files, split)
    sentences = read_text(text_files(files["train"]), raw=cfg.text.tokenize)
    for _ in _watched(sentences, f"text.files.train={files['train']}"):
        pass


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Lock the output folder; raises if another training uses it or it has another biLM."""
    if dist.is_initialized() and dist.get_rank():
        yield
        return
    check_bilm_folder("out", out, (f"{LOCK}.lock", "last.ckpt"))
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


def encoded(cfg: DictConfig, pattern: str | Path) -> Corpus:
    """Return the training text as numbers.

    The first process encodes it below cache_dir, unless the cache already has it.
    """
    files = text_files(pattern)
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    rules = [file.read_bytes() for file in SPLITTERS] if cfg.text.tokenize else False
    name = hashlib.sha256(repr((facts, rules)).encode()).hexdigest()[:16]
    folder = Path(cfg.cache_dir).expanduser() / "corpora" / name
    if not folder.is_dir() and not (dist.is_initialized() and dist.get_rank()):
        remove_scratch(folder.parent)
        sentences = read_text(files, raw=cfg.text.tokenize)
        Corpus.encode(_watched(sentences, f"text.files.train={pattern}"), folder)
    if dist.is_initialized():
        dist.barrier()
    return Corpus.open(folder)


def _watched(sentences: Iterator[Sequence[str]], setting: str) -> Iterator[Sequence[str]]:
    """Yield the sentences and show the number of tokens read.

    Raises ValueError, with the setting, if there are none.
    """
    with Bars(
        TextColumn("reading the text: {task.completed:,.0f} tokens"),
        TimeElapsedColumn(),
        transient=True,
    ) as progress:
        bar, tokens = progress.add_task("reading the text, tokens", total=None), 0
        for number, sentence in enumerate(sentences):
            tokens += len(sentence)
            if not number % 10_000:
                progress.update(bar, completed=tokens)
            yield sentence
    if not tokens:
        raise ValueError(f"{setting} contains only blank lines")


def held_out(
    cfg: DictConfig, files: Mapping[str, str | Path | None], split: str
) -> list[Sequence[str]]:
    """Return the sentences of a held-out text; an empty list if none is given.

    Raises ValueError for a text without sentences.
    """
    if not (pattern := files[split]):
        return []
    sentences = list(read_text(text_files(pattern), raw=cfg.text.tokenize))
    if not sentences:
        raise ValueError(f"text.files.{split}={pattern} contains only blank lines")
    return sentences


def build(cfg: DictConfig, corpus: Corpus, device: torch.device) -> Trainer:
    """Return the trainer of a new language model."""
    settings = cfg.pretrain
    vocabulary = corpus.vocabulary(settings.vocabulary, min_count=settings.min_count)
    is_large = len(vocabulary) > settings.full_up_to
    is_sampled = settings.softmax == "sampled" or (settings.softmax == "auto" and is_large)
    torch.manual_seed(cfg.seed)
    model = LanguageModel(BiLm(instantiate(cfg.bilm), dropout=settings.dropout), vocabulary).to(
        device
    )
    if settings.start == "frequencies":
        model.start_from(corpus)
    chosen: dict[str, Any] = {
        key: settings[key]
        for key in ("epochs", "batch_size", "unroll", "max_steps", "warmup", "cosine", "state")
    }
    chosen |= {key: float(settings[key]) for key in ("lr", "gradient_clip", "loss_scale")}
    plan = Training(
        **chosen,
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
    """The training loop with progress, evaluation on dev, checkpoints and signals."""

    def __init__(self, cfg: DictConfig, trainer: Trainer, dev: list[Sequence[str]]) -> None:
        self.cfg, self.trainer, self.dev = cfg, trainer, dev
        self.dev_digest = hashlib.sha256(json.dumps(dev).encode()).hexdigest()[:16]
        self.best, self.seconds = math.inf, 0.0
        self.looked: int | None = None  # the step of the last evaluation on dev
        self.is_first = trainer.rank == 0
        self.out = Path(_from_first(str(cfg.out)))
        self.last = self.out / "last.ckpt"
        self.identity = identity(cfg, trainer.corpus)
        if cfg.pretrain.resume == "auto" and self.last.is_file():
            self._resume()
        elif self.is_first and cfg.pretrain.resume == "never":
            # Files of an earlier training would look like results of this one.
            weights = ("options.json", "weights.safetensors", SOFTMAX, VOCABULARY)
            for name in ("last.ckpt", *weights, "README.md"):
                (self.out / name).unlink(missing_ok=True)

    def train(self) -> None:
        """Train to the end; raises Stopped after saving if a signal asked the process to stop."""
        trainer, settings = self.trainer, self.cfg.pretrain
        self.out.mkdir(parents=True, exist_ok=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        begun, tokens, first_step, earlier = time.perf_counter(), 0, trainer.step, self.seconds
        with (
            Bars(*columns, disable=not self.is_first) as progress,
            _stop_signals(trainer) as received,
        ):
            bar = progress.add_task("pretraining", total=trainer.num_steps, completed=trainer.step)
            for step in trainer.run():
                tokens += step.num_tokens
                spent = time.perf_counter() - begun
                seconds_left = (
                    spent * (trainer.num_steps - trainer.step) / (trainer.step - first_step)
                )
                self.seconds = earlier + spent
                status = f"loss {step.loss:.3f}  {tokens / spent:,.0f} tokens/s"
                progress.update(
                    bar, completed=trainer.step, description=f"epoch {trainer.epoch}  {status}"
                )
                is_epoch_end = (
                    trainer.step % trainer.epoch_steps == 0 or trainer.step == trainer.num_steps
                )
                if is_epoch_end or (
                    settings.validate_every and trainer.step % settings.validate_every == 0
                ):
                    self._validate()
                if is_epoch_end or step.stop or trainer.step % settings.save_every == 0:
                    self._save()
                    log.info(
                        "step %d of %d: %s, %s left",
                        trainer.step,
                        trainer.num_steps,
                        status,
                        duration(seconds_left),
                    )
                # The signal may have gone to another process, or have come since the last step.
                if step.stop or (received and trainer.step == trainer.num_steps):
                    log.warning(
                        "stopped after step %d; the same command continues the training",
                        trainer.step,
                    )
                    raise Stopped(128 + (received or [signal.SIGTERM])[0])
        if self.looked != trainer.step:  # the user shortened a stopped training to its last step
            self._validate()
            self._save()

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
        if self.is_first:
            save(self.trainer.model.bilm, self.out / "weights.safetensors", dtype=torch.float16)
            save_softmax(self.trainer.model, self.out)

    def _save(self) -> None:
        """Write last.ckpt atomically; before the first evaluation on dev, save the model too."""
        content = self.trainer.state_dict() | {
            "best": self.best,
            "seconds": self.seconds,
            "identity": self.identity,
        }
        content |= {"looked": self.looked, "num_steps": self.trainer.num_steps}
        content["dev"] = self.dev_digest
        if not self.is_first:
            return
        if self.looked is None:
            self._keep()
        try:
            with atomic(self.last) as part, part.open("wb") as file:
                torch.save(content, file)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError for failed writes
            if stopped := stopped_behind(error):
                raise stopped from None
            raise OSError(
                f"cannot write {self.last} after step {self.trainer.step}: {error}; the "
                "previous one is kept"
            ) from error

    def _resume(self) -> None:
        try:
            saved = checkpoint_file.load(self.last)
            with checkpoint_file.refusing(self.last, "not the state of a training"):
                self._go_on(saved)
        except ValueError as error:
            raise ValueError(f"{error}; pretrain.resume=never starts again") from error

    def _go_on(self, saved: dict[str, Any]) -> None:
        for key in ("step", "best", "seconds"):
            if type(saved[key]) not in (int, float):
                raise ValueError(f"{key} is a {type(saved[key]).__name__}, but it must be a number")
        before = saved["identity"]
        keys = sorted({*before, *self.identity})
        different = [key for key in keys if before.get(key) != self.identity.get(key)]
        if different:
            changes = "; ".join(
                f"{key} was {before.get(key)} and is now {self.identity.get(key)}"
                for key in different
            )
            raise ValueError(
                f"{self.last} belongs to another training: {changes}. Choose another out="
            )
        self.trainer.load_state_dict(saved)
        self.trainer.model.source = str(self.last)
        self.best, self.seconds = saved["best"], saved["seconds"]
        self.looked = saved["looked"]
        if saved["dev"] != self.dev_digest:
            log.info("the dev text is another one: the best step on it is sought from now on")
            self.best, self.looked = math.inf, None
        step, num_steps = self.trainer.step, self.trainer.num_steps
        log.info("continuing after step %d of %d", step, num_steps)
        if (planned := saved["num_steps"]) != num_steps:
            rate = self.trainer.settings.lr_at(min(step, num_steps), num_steps)
            log.info(
                "the length was %d steps; the learning rate now follows the schedule for "
                "%d steps, %.2g",
                planned,
                num_steps,
                rate,
            )
        if step > num_steps:
            log.warning(
                "step %d is already past step %d, the end of this training: it trains no further",
                step,
                num_steps,
            )


def identity(cfg: DictConfig, corpus: Corpus) -> dict[str, Any]:
    """Return the text's digest and all settings, except the length, that determine the weights of
    each step.

    A training can be resumed only with the same identity.
    """

    def flat(node: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    parts: Any = {
        part: OmegaConf.to_container(cfg[part], resolve=True)
        for part in ("bilm", "bilm_optimizer", "pretrain")
    }
    parts["pretrain"] = {
        key: value for key, value in parts["pretrain"].items() if key not in ASIDE + LENGTH
    }
    settings = {key: value for key, value in flat(parts, "") if key != CLASS}
    return settings | {"seed": cfg.seed, "text": corpus.digest()[:16]}


def _from_first(value: str) -> str:
    """Return the first process's value, since each process's run_dir has its own time."""
    values = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(values)
    return values[0]


@contextmanager
def _stop_signals(trainer: Trainer) -> Iterator[list[int]]:
    """Let SIGTERM and Ctrl-C stop the training after the current step, so that it can be saved.

    Yields the list of received signals. A second signal has its usual effect at once. Ignored
    signals, as under `nohup`, remain ignored.
    """
    handlers: dict[int, Any] = {}
    received: list[int] = []

    def stop(number: int, _: Any) -> None:
        trainer.stop = True
        received.append(number)
        signal.signal(number, handlers[number])

    for kind in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(kind) is not signal.SIG_IGN:
            handlers[kind] = signal.signal(kind, stop)
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def write_card(
    cfg: DictConfig, trainer: Trainer, figures: dict[str, float], seconds: float
) -> None:
    """Write the model card to `README.md` in `out`: command, text, settings, time, perplexities."""
    corpus, plan = trainer.corpus, trainer.settings
    types = len(corpus.words) - 2
    counts = (
        f"{corpus.num_tokens:,} tokens, {corpus.num_sentences:,} sentences, {types:,} word types"
    )
    settings = ", ".join(
        f"{key} {value}" for key, value in cfg.pretrain.items() if key not in ASIDE
    )
    device = trainer.device.type
    threads = f", {torch.get_num_threads()} threads" if device == "cpu" else ""
    epochs = trainer.step / trainer.epoch_steps
    softmax = "sampled" if plan.samples else "full"
    rows = {
        "command": shlex.join([*COMMAND, *sys.argv[1:]]),
        "text": f"{cfg.text.name}: {counts}",
        "parameters": f"{size(trainer.model):,} (fp16), without the softmax",
        "training": f"optimizer {cfg.bilm_optimizer.name}, {settings}; seed {cfg.seed}",
        "seen": f"{epochs:.2f} epochs, {trainer.step:,} steps",
        "softmax": f"{softmax}, {len(trainer.model.vocabulary):,} words to predict",
        "time": f"{duration(seconds)} on {trainer.num_processes} x {device}{threads}; "
        f"torch {torch.__version__}",
    }
    conditions = "full softmax; zero state at each sentence; all unknown words count as one word"
    directions = trainer.model.directions
    if "dev" in figures:
        average = "geometric mean of both directions" if len(directions) > 1 else directions[0]
        rows["perplexity on dev text"] = f"{figures['dev']:.2f} ({average}; {conditions})"
    if tested := {d: figures[f"test/{d}"] for d in directions if f"test/{d}" in figures}:
        rows["perplexity on held-out text"] = f"{each(tested)} ({conditions})"
    kind = "A biLM" if len(directions) > 1 else f"The {directions[0]} half of a biLM"
    lines = [
        f"# {kind} of elmo-bench",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {escape.markdown(value)} |" for key, value in rows.items()),
    ]
    lines += [
        "",
        "Sizes are in `options.json`, in the form that every reader of ELMo knows. "
        "`softmax.safetensors` and",
    ]
    lines += ["`vocabulary.txt` are for predicting words alone.", ""]
    with atomic(Path(cfg.out, "README.md")) as part:
        part.write_text("\n".join(lines), encoding="utf-8")
