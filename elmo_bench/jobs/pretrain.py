"""`job=pretrain`: train a biLM from scratch on a text, and write its model card.

If it names `out`, the same command resumes a stopped training.
"""

import hashlib
import json
import logging
import math
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from elmo_bench import COMMAND
from elmo_bench.build.hardware import device
from elmo_bench.build.texts import sentences
from elmo_bench.encoders.bilm import BiLm, save
from elmo_bench.files import sole, write_text
from elmo_bench.lm import Corpus, LanguageModel, Trainer, Training, save_softmax
from elmo_bench.report import escape
from elmo_bench.settings.targets import instantiate
from elmo_bench.terminal import Bars, duration, watched
from elmo_bench.training.checkpoint import load, refusing
from elmo_bench.training.outputs import device_name
from elmo_bench.training.resume import save_state

log = logging.getLogger(__name__)
LOCK = "pretrain"
LAST = "last.ckpt"
OF_RUNS = ("run.json", "result.json", "best.ckpt")
# Settings that may change when a training resumes: those without effect on its steps (but
# validate_every decides which of them may be kept), and its length.
UNSEEN = ("save_every", "validate_every")  # of no interest to a reader of the card
FREE = (*UNSEEN, "epochs", "max_steps")


def pretrain(cfg: DictConfig) -> dict[str, float]:
    """Train a biLM; save options, weights and softmax (fp16) of the best step on dev, and a card.

    Returns its perplexity `dev`, the geometric mean of the directions, if there is a dev text.
    """
    out = Path(cfg.out)
    _check_folder(out)
    with sole(out / LOCK, f"out={out}", marks=True):
        dev = list(sentences(cfg, "dev"))[: cfg.pretrain.dev_sentences]
        corpus = Corpus(watched(sentences(cfg, "train"), "reading the text, sentences"))
        run = _Run(cfg, build(cfg, corpus), dev)
        run.train()
        write_card(cfg, run)
        log.info("%s", out / "weights.safetensors")
        return {"dev": run.best} if dev else {}


def prepare(cfg: DictConfig) -> None:
    """Raise what the job raises before it trains: of its output folder and of the whole text."""
    _check_folder(Path(cfg.out))
    for _ in watched(sentences(cfg, "dev"), "text.files.dev, sentences"):
        pass
    corpus = Corpus(watched(sentences(cfg, "train"), "text.files.train, sentences"))
    corpus.num_windows(batch_size=cfg.pretrain.batch_size, unroll=cfg.pretrain.unroll)


def _check_folder(out: Path) -> None:
    """Raise ValueError if the folder has the files of a run, or others and none of those that this
    job writes before any other file.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"out={out} is not a folder")
    names = sorted(path.name for path in out.glob("[!.]*"))
    is_own = f"{LOCK}.lock" in names or LAST in names
    for name in names:
        if name in OF_RUNS or not is_own:
            raise ValueError(
                f"out={out} contains {name}, which this job did not write: choose another folder"
            )


def build(cfg: DictConfig, corpus: Corpus) -> Trainer:
    """Return the trainer of a new language model."""
    settings = cfg.pretrain
    torch.manual_seed(cfg.seed)
    bilm = BiLm(instantiate(cfg.bilm, _convert_="all"), dropout=settings.dropout)
    model = LanguageModel(bilm, corpus.vocabulary(settings.vocabulary)).to(device(cfg))
    if settings.start == "frequencies":
        model.start_from(corpus)
    is_bf16 = settings.precision == "bf16"
    plan = Training.of(settings, len(model.vocabulary), bf16=is_bf16, seed=cfg.seed)
    dense = instantiate(cfg.bilm_optimizer.dense)
    sparse = instantiate(cfg.bilm_optimizer.sparse)
    trainer = Trainer(model, corpus, plan, dense=dense, sparse=sparse)
    log.info("%s", "; ".join(f"{key}: {value}" for key, value in describe(trainer).items()))
    return trainer


def describe(trainer: Trainer) -> dict[str, str]:
    """Describe the text, the biLM and the softmax."""
    corpus = trainer.corpus
    model = trainer.model
    size = sum(parameter.numel() for parameter in model.bilm.parameters())
    kind = "sampled" if trainer.settings.samples else "full"
    return {
        "text": f"{corpus.num_tokens:,} tokens, {corpus.num_sentences:,} sentences, "
        f"{len(corpus.words) - 2:,} word types",
        "parameters": f"{size:,} without the softmax",
        "softmax": f"{len(model.vocabulary):,} words to predict, {kind}",
    }


class _Run:
    """The training loop with progress, evaluation on dev and checkpoints."""

    def __init__(self, cfg: DictConfig, trainer: Trainer, dev: list[Sequence[str]]) -> None:
        self.cfg = cfg
        self.trainer = trainer
        self.dev = dev
        self.best = math.inf  # the lowest perplexity on dev so far
        self.seconds = 0.0  # of training so far, also in earlier processes
        self.out = Path(cfg.out)
        self.last = self.out / LAST
        self.identity = identity(cfg, trainer.corpus, dev)
        if self.last.is_file():
            with refusing(self.last, "not the state of a training"):
                self._resume(load(self.last))

    def train(self) -> None:
        """Train to the end."""
        trainer = self.trainer
        settings = self.cfg.pretrain
        first = trainer.step
        earlier = self.seconds
        begun = time.perf_counter()
        with Bars() as bars:
            bar = bars.add_task("pretraining", total=trainer.num_steps, completed=first)
            for loss in trainer.run():
                spent = time.perf_counter() - begun
                self.seconds = earlier + spent
                tokens = (trainer.step - first) * settings.batch_size * settings.unroll
                about = f"loss {loss:.3f}  {tokens / spent:,.0f} tokens/s"
                bars.update(bar, completed=trainer.step, description=about)
                if self._is_due(settings.validate_every):
                    self._validate()
                if self._is_due(settings.save_every):
                    self._save()
                    log.info("saved after %d of %d steps", trainer.step, trainer.num_steps)
        if math.isinf(self.best):  # a stopped training is to end where it was stopped
            self._validate()
            self._save()

    def _is_due(self, every: int | None) -> bool:
        """Whether this step is one of every so many, or the last one of an epoch."""
        step = self.trainer.step
        is_end = step % self.trainer.epoch_steps == 0 or step == self.trainer.num_steps
        return is_end or bool(every and step % every == 0)

    def _validate(self) -> None:
        """Save the language model if it is the best so far on dev; without dev, always."""
        if self.dev:
            by_direction = self.trainer.model.perplexity(self.dev)
            shown = ", ".join(f"{name} {value:.2f}" for name, value in by_direction.items())
            log.info("step %d: dev perplexity %s", self.trainer.step, shown)
            mean = statistics.geometric_mean(by_direction.values())
            if mean >= self.best:
                return
            self.best = mean
        self._keep()

    def _keep(self) -> None:
        save(self.trainer.model.bilm, self.out / "weights.safetensors", dtype=torch.float16)
        save_softmax(self.trainer.model, self.out)

    def _save(self) -> None:
        """Write last.ckpt; before the first score on dev, save the model too."""
        if math.isinf(self.best):
            self._keep()
        own = {"best": self.best, "seconds": self.seconds, "identity": self.identity}
        save_state(self.trainer.state_dict() | own, self.last)

    def _resume(self, saved: dict[str, Any]) -> None:
        before = saved["identity"]
        changes = []
        for key in sorted(before.keys() | self.identity.keys()):
            old = before.get(key)
            new = self.identity.get(key)
            if old != new:
                changes.append(f"{key} was {old} and is now {new}")
        if changes:
            raise ValueError(
                f"{self.last} belongs to another training: {'; '.join(changes)}. Choose another "
                "out="
            )
        self.trainer.load_state_dict(saved)
        self.trainer.model.source = str(self.last)
        self.best = saved["best"]
        self.seconds = saved["seconds"]
        log.info("continuing after step %d of %d", self.trainer.step, self.trainer.num_steps)


def identity(cfg: DictConfig, corpus: Corpus, dev: list[Sequence[str]]) -> dict[str, Any]:
    """Return digests of the texts and all settings, except the length, that determine which weights
    are kept.

    A training can be resumed only with the same identity.
    """
    same = {"seed": cfg.seed, "tf32": cfg.tf32, "text": corpus.digest()[:16]}
    same["text of dev"] = hashlib.sha256(json.dumps(dev).encode()).hexdigest()[:16]
    for part in ("bilm", "bilm_optimizer", "pretrain"):
        settings: Any = OmegaConf.to_container(cfg[part], resolve=True)
        for key, value in settings.items():
            if key not in FREE:
                same[f"{part}.{key}"] = value
    return same


def write_card(cfg: DictConfig, run: _Run) -> None:
    """Write the model card to `README.md` in `out`: command, text, settings, time, perplexity."""
    trainer = run.trainer
    settings = ", ".join(f"{k} {v}" for k, v in cfg.pretrain.items() if k not in UNSEEN)
    rows = {"command": shlex.join(list(COMMAND) + sys.argv[1:])}
    rows |= describe(trainer)
    rows["text"] = f"{cfg.text.name}: {rows['text']}"
    rows["training"] = f"optimizer {cfg.bilm_optimizer.name}, {settings}; seed {cfg.seed}"
    rows["seen"] = f"{trainer.step / trainer.epoch_steps:.2f} epochs, {trainer.step:,} steps"
    device = device_name(trainer.device)
    rows["time"] = f"{duration(run.seconds)} on {device}; torch {torch.__version__}"
    if run.dev:
        rows["perplexity on dev text"] = (
            f"{run.best:.2f} (its first {len(run.dev):,} sentences; geometric mean of the "
            "directions; full softmax; zero state at each sentence; all unknown words count as "
            "one word)"
        )
    directions = trainer.model.directions
    kind = "A biLM" if len(directions) > 1 else f"The {directions[0]} half of a biLM"
    table = "\n".join(f"| {key} | {escape.markdown(value)} |" for key, value in rows.items())
    card = (
        f"# {kind} of elmo-bench\n\n| | |\n|---|---|\n{table}\n\n"
        "Sizes are in `options.json`, in the form that every reader of ELMo knows. "
        "`softmax.safetensors` and\n`vocabulary.txt` are only for predicting words.\n"
    )
    write_text(run.out / "README.md", card)
