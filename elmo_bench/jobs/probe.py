"""`job=probe`: probe the layers of an encoder for properties of words (Peters et al. 2018, section
5.3).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench.config import build, inputs
from elmo_bench.encoders.probing import (
    Heads,
    Probe,
    Senses,
    Sentence,
    Tags,
    Text,
    Training,
    encoded,
    labelled,
    measure,
    properties,
    read,
)
from elmo_bench.files import Bars, write_json
from elmo_bench.report import Terminal, probes_grid, read_probe, typed
from elmo_bench.runs import code, hash_files, portable


def probe(cfg: DictConfig) -> dict[str, float]:
    """Probe each layer for every property in the files, print a table and write `probe.json`.

    The table has each layer's test accuracy and a baseline without vectors. Trained probes also
    have the accuracy on a control task and the selectivity, the difference of the two (Hewitt and
    Liang 2019). `probe.json` has the figures of each seed, as fractions of 1.

    Returns the mean accuracies: `pos/baseline`, `pos/0` ...
    Raises ValueError if the files have no property in common, or no sentences.
    """
    torch.manual_seed(cfg.seed)  # for encoders with random weights
    encoder, paths, sentences, names = check(cfg)
    fingerprint = encoder.fingerprint()
    encoder.to(build.device(cfg))
    seeds = [*range(cfg.seed, cfg.seed + cfg.probe.seeds)]
    with Bars() as progress:
        texts = []
        for split, split_sentences in sentences.items():
            advance = _bar(progress, f"{split}: the encoder reads", len(split_sentences))
            texts.append(encoded(encoder, split_sentences, advance))
        measured = {}
        for name in names:
            built = _probe(cfg, name, *texts)
            probe_seeds = seeds if built.is_random else seeds[:1]
            advance = _bar(progress, f"{name}: the probes", encoder.num_layers * len(probe_seeds))
            measured[name] = measure(built, encoder.num_layers, probe_seeds, advance)
    content = {
        "encoder": portable(OmegaConf.to_container(cfg.encoder, resolve=True)),
        "fingerprint": fingerprint,
        "corpus": paths["test"].name if cfg.probe.test else str(cfg.data.name),
        "data": _about(sentences, names, hash_files(paths, cfg.cache_dir)),
        "settings": {"steps": cfg.probe.steps, "lr": cfg.probe.lr},
        "seeds": seeds,
        "properties": measured,
        "command": typed(HydraConfig.get().overrides.task if HydraConfig.initialized() else []),
    }
    path = Path(cfg.run_dir, "probe.json")
    write_json(path, content | code())
    Console().print(Terminal(probes_grid([read_probe(path)], controls=True)))
    figures = {}
    for name, probed in measured.items():
        figures[f"{name}/baseline"] = probed["baseline"]["accuracy"]
        layers = enumerate(probed["layers"])
        figures |= {f"{name}/{layer}": fmean(by_seed["accuracy"]) for layer, by_seed in layers}
    return figures


def check(
    cfg: DictConfig,
) -> tuple[Any, dict[str, Path], dict[str, list[Sentence]], Sequence[str]]:
    """Return the encoder, the files, their sentences, and the names of the properties."""
    paths = {
        split: Path(path).expanduser() if path else inputs.corpus(cfg, [split])[split]
        for split, path in (("train", cfg.probe.train), ("test", cfg.probe.test))
    }
    sentences = {}
    for split, path in paths.items():
        sentences[split] = [*islice(read(path), cfg.probe.max_sentences)]
        if not sentences[split]:
            raise ValueError(f"probe.{split}: {path} has no sentences")
    names = properties(sentences["train"], sentences["test"])
    if not names:
        raise ValueError(
            f"probe.train: {paths['train']} and {paths['test']} share no property to probe; both "
            "must have parts of speech, chunks, entities, heads or senses of predicates"
        )
    return build.encoder(cfg), paths, sentences, names


def _bar(progress: Bars, description: str, total: int) -> Callable[[], None]:
    """Add a progress bar and return the function that advances it."""
    return partial(progress.advance, progress.add_task(description, total=total))


def _probe(cfg: DictConfig, name: str, train: Text, test: Text) -> Probe:
    if name == "sense":
        return Senses(name, train, test)
    training = Training(cfg.probe.steps, cfg.probe.lr, build.device(cfg))
    return (Heads if name == "head" else Tags)(name, train, test, training)


def _about(
    sentences: Mapping[str, Sequence[Sentence]], names: Sequence[str], hashes: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return each file's hash, its sizes, and the number of labelled words of each property."""
    return {
        split: {
            "sha256": hashes[split],
            "sentences": len(part),
            "words": sum(len(sentence.words) for sentence in part),
            "labelled": {name: len(labelled(part, name).rows) for name in names},
        }
        for split, part in sentences.items()
    }
