"""`job=probe`: probe an encoder's layers for properties of words (Peters et al. 2018, 5.3)."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench import probing
from elmo_bench.build import encoders, hardware
from elmo_bench.files import write_json
from elmo_bench.report import Terminal, probes_grid, typed
from elmo_bench.runs import code, hash_files, portable
from elmo_bench.settings import command, inputs


def probe(cfg: DictConfig) -> dict[str, float]:
    """Probe each layer for every property in the files, print a table and write `probe.json`.

    The table has each layer's test accuracy and a baseline without vectors. Trained probes also
    have the selectivity, the difference to the accuracy on a control task (Hewitt and Liang 2019).
    `probe.json` has the scores of each seed, as fractions of 1.

    Returns the mean accuracies: `pos/baseline`, `pos/0` ...
    Raises ValueError if the files have no property in common, or no sentences.
    """
    torch.manual_seed(cfg.seed)  # for encoders with random weights
    encoder, paths, sentences, names = prepare(cfg)
    fingerprint = encoder.fingerprint()
    device = hardware.device(cfg)
    encoder.to(device)
    seeds = list(range(cfg.seed, cfg.seed + cfg.probe.seeds))
    train = probing.encoded(encoder, sentences["train"])
    test = probing.encoded(encoder, sentences["test"])
    fit = partial(probing.linear, steps=cfg.probe.steps, lr=cfg.probe.lr, device=device)
    measured = {}
    for name in names:
        if name == "sense":
            measured[name] = probing.measure_senses(train, test)
        else:
            measured[name] = probing.measure_tags(name, train, test, fit, seeds)
    content: dict[str, Any] = {
        "encoder": portable(OmegaConf.to_container(cfg.encoder, resolve=True)),
        "fingerprint": fingerprint,
        "corpus": str(cfg.data.name),
        "data": _about(sentences, names, hash_files(paths)),
        "settings": {"steps": cfg.probe.steps, "lr": cfg.probe.lr},
        "seeds": seeds,
        "properties": measured,
        "command": typed(command.overrides(cfg)),
    }
    write_json(Path(cfg.run_dir, "probe.json"), content | code())
    Console().print(Terminal(probes_grid([content])))
    return _figures(measured)


def _figures(measured: Mapping[str, dict[str, Any]]) -> dict[str, float]:
    """Return the mean accuracies of each property: of the baseline, and of each layer."""
    figures = {}
    for name, probed in measured.items():
        figures[f"{name}/baseline"] = probed["baseline"]["accuracy"]
    for name, probed in measured.items():
        for layer, by_seed in enumerate(probed["layers"]):
            figures[f"{name}/{layer}"] = fmean(by_seed["accuracy"])
    return figures


def prepare(
    cfg: DictConfig,
) -> tuple[Any, dict[str, Path], dict[str, list[probing.Sentence]], Sequence[str]]:
    """Return the encoder, the files, their sentences, and the names of the properties."""
    paths = {split: inputs.corpus(cfg, [split])[split] for split in ("train", "test")}
    sentences = {}
    for split, path in paths.items():
        sentences[split] = list(islice(probing.read(path), cfg.probe.max_sentences))
        if not sentences[split]:
            raise ValueError(f"data.files.{split}: {path} has no sentences; give another")
    names = probing.properties(sentences["train"], sentences["test"])
    if not names:
        raise ValueError(
            f"data.files: {paths['train']} and {paths['test']} share no property to probe; both "
            "must have parts of speech, chunks, entities or senses of predicates"
        )
    return encoders.encoder(cfg), paths, sentences, names


def _about(
    sentences: Mapping[str, Sequence[Any]], names: Sequence[str], hashes: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return each file's hash, its sizes, and the number of labelled words of each property."""
    by_file = {}
    for split, part in sentences.items():
        labelled = {name: len(probing.labelled(part, name).rows) for name in names}
        by_file[split] = {
            "sha256": hashes[split],
            "sentences": len(part),
            "words": sum(len(sentence.words) for sentence in part),
            "labelled": labelled,
        }
    return by_file
