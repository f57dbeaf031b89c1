"""`job=perplexity`: a biLM's perplexity on a text, with its trained softmax."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from elmo_bench.config import build
from elmo_bench.files import Bars, atomic, begins, check_output
from elmo_bench.lm import (
    LanguageModel,
    Likelihoods,
    load_language_model,
    perplexity_of,
    sentence_likelihoods,
    text_likelihoods,
)
from elmo_bench.text import read_sentences

Scored = tuple[int, Sequence[str], Likelihoods]  # number from 1, tokens, log p (nats)
OWN = r'\{"line": \d+, "tokens": \[[^\n]*"unknown": \['  # the beginning of an earlier output


def perplexity(cfg: DictConfig) -> dict[str, float]:
    """Print the perplexities as one JSON object, the only standard output, and return them.

    `forward` and `backward` are exp of the mean negative log likelihood (nats) of a direction's
    predictions under the full softmax; a direction predicts the words and one boundary of each
    sentence. `mean` is the perplexity over both directions; a biLM with one direction has only
    that direction's figure. `unknown` is the share of words outside the vocabulary. They are
    predicted as <UNK>, which makes texts with many of them look easier. Blank lines are skipped.
    """
    model = check(cfg).to(build.device(cfg))
    totals, words, unknown, sentences = dict.fromkeys(model.directions, 0.0), 0, 0, 0
    columns = [SpinnerColumn(), TextColumn("{task.completed:,} sentences"), TimeElapsedColumn()]
    with ExitStack() as stack, Bars(*columns, console=Console(stderr=True)) as bars:
        file = None
        if cfg.per_token:
            part = stack.enter_context(atomic(cfg.per_token))
            file = part.open("w", encoding="utf-8", errors="backslashreplace")
            stack.enter_context(file)
        for number, tokens, scores in bars.track(likelihoods(model, cfg), description="sentences"):
            missing = [place for place, token in enumerate(tokens) if token not in model.numbers]
            for direction, values in scores.items():
                totals[direction] += float(values.sum(dtype=np.float64))
            words, unknown, sentences = words + len(tokens), unknown + len(missing), sentences + 1
            if file:
                record = describe(number, tokens, missing, scores, model.source)
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if not sentences:  # of a pipe, which can be read once
            raise ValueError(f"input={cfg.input} contains only blank lines")
    figures: dict[str, Any] = perplexities(totals, words + sentences, model.source)
    figures |= {"tokens": words, "sentences": sentences}
    figures |= {"unknown": unknown / max(words, 1), "state": cfg.state}
    Console(soft_wrap=True, highlight=False, markup=False, emoji=False).print(json.dumps(figures))
    return figures


def check(cfg: DictConfig) -> LanguageModel:
    """Read the whole input, check the output, and return the language model."""
    if cfg.per_token:
        check_output("per_token", cfg.per_token, {"input": cfg.input}, begins(OWN))
    if Path(cfg.input).is_file() and not sum(map(bool, read_sentences(cfg.input))):
        raise ValueError(f"input={cfg.input} contains only blank lines")
    return language_model(cfg)


def language_model(cfg: DictConfig) -> LanguageModel:
    """Return the biLM of `cfg.encoder` with the softmax from its weights' folder."""
    files = build.bilm_files(cfg)
    plain = {"encoder.pretrained": True, "encoder.precision": "float32", "elmo.adapt": False}
    for key, wanted in plain.items():
        if (value := OmegaConf.select(cfg, key, default=wanted)) != wanted:
            raise ValueError(
                f"{key}={value} requires a run with a task: job=perplexity reads the files "
                "of a biLM without changes, in float32"
            )
    return load_language_model(*files, directions=cfg.encoder.get("directions"))


def likelihoods(model: LanguageModel, cfg: DictConfig) -> Iterator[Scored]:
    """Yield every sentence with its log p; state=carried needs the whole text in memory."""
    numbered = enumerate(read_sentences(cfg.input), 1)
    lines, read = tee((number, tokens) for number, tokens in numbered if tokens)
    texts = (tokens for _, tokens in read)
    scores: Iterable[Likelihoods]
    if cfg.state == "carried":
        scores = text_likelihoods(model, list(texts), streams=cfg.streams)
    else:
        scores = sentence_likelihoods(model, texts, batch_tokens=cfg.batch_tokens)
    # The lines that are read but not yet scored wait in `lines`.
    yield from (
        (number, tokens, parts) for parts, (number, tokens) in zip(scores, lines, strict=True)
    )


def describe(
    number: int, tokens: Sequence[str], unknown: Sequence[int], scores: Likelihoods, source: str
) -> dict[str, Any]:
    """Return a record of the per-token file: log p (nats) of the tokens, in order.

    The boundaries have keys of their own: `end` (forward) and `begin` (backward).
    """
    record: dict[str, Any] = {"line": number, "tokens": tokens, "unknown": unknown}
    rounded = {d: [round(value, 6) for value in part.tolist()] for d, part in scores.items()}
    if "forward" in rounded:
        *values, record["end"] = rounded["forward"]
        record["forward"] = values
    if "backward" in rounded:
        record["begin"], *values = rounded["backward"]
        record["backward"] = values
    totals = {direction: float(part.sum()) for direction, part in scores.items()}
    return record | {"perplexity": perplexities(totals, len(tokens) + 1, source)}


def perplexities(totals: Mapping[str, float], count: int, source: str = "") -> dict[str, float]:
    """Return perplexities from the sum of log p of each direction, over `count` predictions each.

    With two directions the result also has "mean".
    """
    means = {direction: total / count for direction, total in totals.items()}
    if len(means) > 1:
        means["mean"] = sum(means.values()) / len(means)
    return {name: perplexity_of(-value, source) for name, value in means.items()}
