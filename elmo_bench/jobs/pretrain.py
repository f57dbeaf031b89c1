"""`job=pretrain`: a biLM from scratch on a text, and its model card."""

import logging
import math
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from elmo_bench.elmo import BiLm, Corpus, LanguageModel, save, save_softmax
from elmo_bench.text import read_lines

from .build import instantiate

log = logging.getLogger(__name__)


def pretrain(cfg: DictConfig) -> dict[str, float]:
    """Train, keep the epoch that is best on the dev text: `options.json`, weights and softmax (fp16), vocabulary, `README.md`."""
    started = time.perf_counter()
    pl.seed_everything(cfg.seed, verbose=False)
    files = instantiate(cfg.text.files)
    corpus = Corpus(sentences(files["train"]))
    dev, test = (list(sentences(files[split])) for split in ("dev", "test"))
    settings = cfg.pretrain
    vocabulary = corpus.vocabulary(settings.vocabulary)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = LanguageModel(BiLm(instantiate(cfg.bilm), dropout=settings.dropout), vocabulary).to(device)
    size = sum(parameter.numel() for parameter in model.bilm.parameters())
    log.info(
        "%s tokens, %d words to predict, a biLM of %s parameters",
        f"{corpus.num_tokens:,}",
        len(vocabulary),
        f"{size:,}",
    )

    steps = settings.epochs * corpus.num_windows(batch_size=settings.batch_size, unroll=settings.unroll)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    weights, best = Path(cfg.out, "weights.safetensors"), math.inf
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns) as progress:
        bar = progress.add_task("pretraining", total=steps)
        for epoch in range(settings.epochs):
            begun, tokens = time.perf_counter(), 0
            for loss, count in train_epoch(model, corpus, settings, optimizer, np.random.default_rng((cfg.seed, epoch))):
                schedule.step()
                tokens += count
                speed = tokens / (time.perf_counter() - begun)
                progress.update(bar, advance=1, description=f"epoch {epoch + 1}  loss {loss:.3f}  {speed:,.0f} tokens/s")
            forward, backward = model.perplexity(dev)
            log.info(
                "epoch %d: dev perplexity forward %.2f, backward %.2f (%.0f tokens/s)",
                epoch + 1,
                forward,
                backward,
                speed,
            )
            if math.sqrt(forward * backward) < best:
                best = math.sqrt(forward * backward)
                save(model.bilm, weights, dtype=torch.float16)
                save_softmax(model, cfg.out)
                tested = model.perplexity(test)
    figures = {"dev": best, "test/forward": tested[0], "test/backward": tested[1]}
    write_card(cfg, corpus, size, device, figures, time.perf_counter() - started)
    log.info("test perplexity forward %.2f, backward %.2f; %s", *tested, weights)
    return figures


def sentences(path: str | Path) -> Iterator[Sequence[str]]:
    """The sentences of a text, one a line, words between spaces."""
    for _, line in read_lines(path):
        yield line.split()


def train_epoch(
    model: LanguageModel,
    corpus: Corpus,
    settings: DictConfig,
    optimizer: torch.optim.Optimizer,
    rng: np.random.Generator,
) -> Iterator[tuple[float, int]]:
    """Run over the text once; yields the loss (nats a prediction, mean of both directions) and the tokens of each step."""
    frames = corpus.frames(model.bilm.options.max_characters)
    targets_of = np.array([model.number(word) for word in corpus.words])
    device = model.softmax.weight.device
    state = model.bilm.zero_state(settings.batch_size)
    shape = {"batch_size": settings.batch_size, "unroll": settings.unroll}
    for windows in zip(*(corpus.windows(direction, **shape, rng=rng) for direction in range(2)), strict=True):
        losses, after = [], []
        for direction, (inputs, targets) in enumerate(windows):
            types, places = np.unique(inputs, return_inverse=True)
            arrays = (frames[types].astype(np.int64), places.reshape(inputs.shape), targets_of[targets])
            words, rows, predicted = (torch.from_numpy(array).to(device) for array in arrays)
            loss, now = model.loss(direction, words, rows, predicted, state)
            losses.append(loss)
            after.append(now)
        total = (losses[0] + losses[1]) / 2
        if not torch.isfinite(total):
            raise FloatingPointError(f"the loss is {total.item()}; try a lower pretrain.lr than {settings.lr}")
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
        optimizer.step()
        state = type(state)(*(torch.stack(parts).detach() for parts in zip(*after, strict=True)))
        yield total.item(), inputs.size


def write_card(
    cfg: DictConfig, corpus: Corpus, size: int, device: torch.device, figures: dict[str, float], seconds: float
) -> None:
    """The model card: what this biLM is, how it was made, how well it predicts."""
    counts = f"{corpus.num_tokens:,} tokens, {len(corpus.sentences):,} sentences, {len(corpus.words) - 2:,} word types"
    settings = ", ".join(f"{key} {value}" for key, value in cfg.pretrain.items())
    threads = f", {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    rows = {
        "command": f"`{shlex.join(['python', 'run.py', *sys.argv[1:]])}`",
        "text": f"{cfg.text.name}: {counts}",
        "parameters": f"{size:,} (fp16), without the softmax",
        "training": f"{settings}; seed {cfg.seed}",
        "time": f"{seconds / 60:.1f} minutes on {device.type}{threads}; torch {torch.__version__}",
        "perplexity on held-out text": f"forward {figures['test/forward']:.2f}, backward {figures['test/backward']:.2f} "
        "(full softmax, zero state at each sentence, all unknown words are one word)",
    }
    lines = ["# A biLM of elmo-bench", "", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())]
    lines += ["", "Sizes are in `options.json`, in the form that every reader of ELMo knows.", ""]
    Path(cfg.out, "README.md").write_text("\n".join(lines), encoding="utf-8")
