"""`elmo.adapt=true`: train a pretrained biLM further on a task's training text, without labels,
for `adapt.epochs` epochs (Peters et al. 2018, section 3.4; theirs has one).
"""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from elmo_bench.encoders.bilm import load, save
from elmo_bench.files import alone, watched, write_json
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
from elmo_bench.training.data import TaskData

from . import build, encoders, hardware
from .task_format import reader

log = logging.getLogger(__name__)
MARK = "adaptation.json"  # is written last, and so marks a complete folder


def adapted(cfg: DictConfig) -> DictConfig:
    """Return the config with an adapted biLM as encoder.

    The adapted biLM is cached below cache_dir, for all runs with the same biLM, text and settings,
    with the perplexities before and after in `adaptation.json`. It reads all of the training text,
    which has no labels, whatever the `fraction` and `seed` of the run.
    """
    options, weights = encoders.bilm_files(cfg)
    same = {"fraction": 1.0, "seed": cfg.adapt.seed}  # for all runs; a seed orders the text
    data = whole_sentences(OmegaConf.merge(cfg, same))  # type: ignore[arg-type]
    softmax, words = (Path(weights).with_name(name) for name in (SOFTMAX, VOCABULARY))
    corpus, dev = Corpus(text(data, "train")), text(data, "dev")
    facts = [
        load(options, weights, directions=cfg.encoder.get("directions")).fingerprint(),
        softmax.read_bytes() if softmax.is_file() else b"",
        *([words.read_bytes()] if softmax.is_file() and words.is_file() else []),
        corpus.digest(),
        dev,
        sorted(cfg.adapt.items()),
        *["tf32"] * cfg.tf32,
    ]
    name = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    folder = Path(cfg.cache_dir).expanduser() / "adapted" / name
    with alone(folder, "another run is adapting the biLM to this text: waiting for it"):
        if not (folder / MARK).is_file():
            _adapt(cfg, corpus, dev, folder)
    log.info("elmo.adapt=true: using the biLM in %s", folder)
    files = {"options": f"{folder}/options.json", "weights": f"{folder}/weights.safetensors"}
    return OmegaConf.merge(cfg, {"encoder": files})  # type: ignore[return-value]


def _adapt(cfg: DictConfig, corpus: Corpus, dev: Sequence[Sequence[str]], folder: Path) -> None:
    """Adapt the biLM of `cfg.encoder` and save it to `folder`."""
    model = language_model(cfg, corpus)
    before = model.perplexity(dev)
    train_on(cfg, model, corpus, "adapting")
    after = model.perplexity(dev)
    figures = {f"before/{way}": value for way, value in before.items()}
    figures |= {f"after/{way}": value for way, value in after.items()}
    save(model.bilm, folder / "weights.safetensors")
    save_softmax(model, folder, dtype=torch.float32)
    summary = {
        "task": cfg.task.name,
        "data": cfg.data.name,
        "encoder": cfg.encoder.name,
        "settings": OmegaConf.to_container(cfg.adapt),
        "train_tokens": corpus.num_tokens,
        "dev_tokens": sum(map(len, dev)),
        "perplexity": figures,
    }
    write_json(folder / MARK, summary)
    changes = [f"{way} {before[way]:.2f} before, {after[way]:.2f} after" for way in before]
    log.info("dev perplexity: %s; %s", "; ".join(changes), folder)


def whole_sentences(cfg: DictConfig) -> TaskData:
    """Return the task's data with the training file read like dev: SST without its phrases."""
    read = reader(cfg, "dev")
    return build.data(cfg, read={"train": read, "dev": read, "test": read})


def text(data: TaskData, split: str) -> Sequence[Sequence[str]]:
    """Return the distinct sentences of a split: SNLI repeats a premise for each hypothesis."""
    return list(dict.fromkeys(tuple(sentence) for sentence in data.sentences(split) if sentence))


def language_model(cfg: DictConfig, corpus: Corpus) -> LanguageModel:
    """Return the biLM of `cfg.encoder` with its softmax; without a file, one is trained first."""
    (options, weights), directions = encoders.bilm_files(cfg), cfg.encoder.get("directions")
    if Path(weights).with_name(SOFTMAX).is_file():
        model = load_language_model(options, weights, directions=directions)
        model.bilm.dropout = cfg.adapt.dropout
        return model.to(hardware.device(cfg))
    bilm = load(options, weights, directions=directions)
    bilm.dropout = cfg.adapt.dropout
    torch.manual_seed(cfg.adapt.seed)
    model = LanguageModel(bilm, corpus.vocabulary(min_count=2)).to(hardware.device(cfg))
    size = f"{len(model.vocabulary):,}"
    log.info("the biLM has no softmax file; training one for %s words first", size)
    model.start_from(corpus)
    bilm.requires_grad_(False)
    train_on(cfg, model, corpus, "a new softmax")
    bilm.requires_grad_(True)
    return model


def train_on(cfg: DictConfig, model: LanguageModel, corpus: Corpus, description: str) -> None:
    """Train on the text for `adapt.epochs` epochs."""
    plan = Training.of(cfg.adapt, len(model.vocabulary))
    adam = {"dense": torch.optim.Adam, "sparse": torch.optim.SparseAdam}
    trainer = Trainer(model, corpus, plan, **adam)
    title = f"{description}, {corpus.num_tokens:,} tokens"
    for _ in watched(trainer.run(), title, trainer.num_steps):
        pass
