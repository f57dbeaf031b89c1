"""Train a pretrained biLM further on a task's text, without labels (Peters et al. 2018, section
3.4; theirs trains for one epoch).
"""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_bench.encoders.bilm import Direction, load, save
from elmo_bench.terminal import watched

from .corpus import Corpus
from .model import SOFTMAX, VOCABULARY, LanguageModel, load_language_model, save_softmax
from .training import Trainer, Training

log = logging.getLogger(__name__)


class BilmFiles(NamedTuple):
    """The files of a pretrained biLM, and the directions that are used (None: all that it has)."""

    options: str
    weights: str
    directions: Sequence[Direction] | None = None


def adapted_name(
    files: BilmFiles, corpus: Corpus, dev: Sequence[Sequence[str]], settings: Any, *, tf32: bool
) -> str:
    """Return a name for the adapted biLM: equal for the same biLM, texts and settings."""
    softmax = Path(files.weights).with_name(SOFTMAX)
    words = Path(files.weights).with_name(VOCABULARY)
    facts: list[Any] = [
        load(files.options, files.weights, directions=files.directions).fingerprint(),
        softmax.read_bytes() if softmax.is_file() else b"",
    ]
    if softmax.is_file() and words.is_file():
        facts.append(words.read_bytes())
    facts += [corpus.digest(), dev, sorted(settings.items())]
    if tf32:
        facts.append("tf32")
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def adapt(
    files: BilmFiles,
    corpus: Corpus,
    dev: Sequence[Sequence[str]],
    settings: Any,
    device: str,
    folder: Path,
) -> dict[str, float]:
    """Train a biLM on the corpus, save it and its softmax to `folder`, and return its perplexities
    on dev before and after, such as `before/forward`.

    `settings` has the values of `adapt`: `epochs`, `seed`, `dropout` and those of `Training`.
    """
    model = language_model(files, corpus, settings, device)
    before = model.perplexity(dev)
    _train(model, corpus, settings, "adapting")
    after = model.perplexity(dev)
    save(model.bilm, folder / "weights.safetensors")
    save_softmax(model, folder, dtype=torch.float32)
    changes = [f"{way} {before[way]:.2f} before, {after[way]:.2f} after" for way in before]
    log.info("dev perplexity: %s; %s", "; ".join(changes), folder)
    figures = {f"before/{way}": value for way, value in before.items()}
    figures |= {f"after/{way}": value for way, value in after.items()}
    return figures


def language_model(files: BilmFiles, corpus: Corpus, settings: Any, device: str) -> LanguageModel:
    """Return the biLM with its softmax; without a file of one, a softmax is trained first."""
    if Path(files.weights).with_name(SOFTMAX).is_file():
        model = load_language_model(files.options, files.weights, directions=files.directions)
        model.bilm.dropout = settings.dropout
        return model.to(device)
    bilm = load(files.options, files.weights, directions=files.directions)
    bilm.dropout = settings.dropout
    torch.manual_seed(settings.seed)
    model = LanguageModel(bilm, corpus.vocabulary(min_count=2)).to(device)
    size = f"{len(model.vocabulary):,}"
    log.info("the biLM has no softmax file; training one for %s words first", size)
    model.start_from(corpus)
    bilm.requires_grad_(False)
    _train(model, corpus, settings, "a new softmax")
    bilm.requires_grad_(True)
    return model


def _train(model: LanguageModel, corpus: Corpus, settings: Any, description: str) -> None:
    """Train on the text for `settings.epochs` epochs."""
    plan = Training.of(settings, len(model.vocabulary))
    trainer = Trainer(model, corpus, plan, dense=torch.optim.Adam, sparse=torch.optim.SparseAdam)
    title = f"{description}, {corpus.num_tokens:,} tokens"
    for _ in watched(trainer.run(), title, trainer.num_steps):
        pass
