"""`job=perplexity`: a biLM's perplexity on a text, with its trained softmax."""

import json
from itertools import chain
from statistics import geometric_mean

from omegaconf import DictConfig

from elmo_bench.build import encoders, hardware
from elmo_bench.lm import LanguageModel, load_language_model
from elmo_bench.lm.corpus import UNKNOWN
from elmo_bench.report.result import print_line
from elmo_bench.text import read_sentences


def perplexity(cfg: DictConfig) -> dict[str, float]:
    """Print the perplexities as one JSON object, the only standard output, and return them.

    `forward` and `backward` are exp of the mean negative log likelihood (nats) of a direction's
    predictions under the full softmax, each sentence from a zero state; a direction predicts the
    words and one boundary of each sentence. `mean` is the perplexity over both directions; a biLM
    with one direction has only that direction's figure. `unknown` is the share of words outside the
    vocabulary. They are predicted as <UNK>, which makes texts with many of them look easier. Blank
    lines are skipped.
    """
    model, sentences = prepare(cfg)
    figures = model.to(hardware.device(cfg)).perplexity(sentences)
    if len(figures) > 1:
        figures["mean"] = geometric_mean(figures.values())
    words = list(chain.from_iterable(sentences))
    num_unknown = sum(1 for word in words if model.number(word) == model.number(UNKNOWN))
    figures["tokens"] = len(words)
    figures["sentences"] = len(sentences)
    figures["unknown"] = num_unknown / max(len(words), 1)
    print_line(json.dumps(figures))
    return figures


def prepare(cfg: DictConfig) -> tuple[LanguageModel, list[list[str]]]:
    """Return the biLM of `cfg.encoder` with its softmax, and the sentences of the input."""
    sentences = [sentence for sentence in read_sentences(cfg.input) if sentence]
    if not sentences:
        raise ValueError(f"input={cfg.input} contains only blank lines: give a text")
    files = encoders.bilm_files(cfg)
    precision = cfg.encoder.get("precision", "float32")
    if precision != "float32":
        raise ValueError(
            f"encoder.precision={precision} requires a run with a task: job=perplexity reads the "
            "files of a biLM without changes, in float32"
        )
    return load_language_model(*files, directions=cfg.encoder.get("directions")), sentences
