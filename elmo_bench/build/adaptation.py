"""`elmo.adapt=true`: the biLM of a run, adapted to the text of its task."""

import logging
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from elmo_bench.files import alone, write_json
from elmo_bench.lm import BilmFiles, Corpus, adapt, adapted_name
from elmo_bench.training.data import Examples

from . import encoders, hardware, objects
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
    files = BilmFiles(options, weights, cfg.encoder.get("directions"))
    same = {"fraction": 1.0, "seed": cfg.adapt.seed}  # for all runs; a seed orders the text
    examples = whole_sentences(OmegaConf.merge(cfg, same))  # type: ignore[arg-type]
    corpus = Corpus(text(examples, "train"))
    dev = text(examples, "dev")
    name = adapted_name(files, corpus, dev, cfg.adapt, tf32=cfg.tf32)
    folder = Path(cfg.cache_dir).expanduser() / "adapted" / name
    with alone(folder, "another run is adapting the biLM to this text: waiting for it"):
        if not (folder / MARK).is_file():
            figures = adapt(files, corpus, dev, cfg.adapt, hardware.device(cfg), folder)
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
    log.info("elmo.adapt=true: using the biLM in %s", folder)
    encoder = {"options": f"{folder}/options.json", "weights": f"{folder}/weights.safetensors"}
    return OmegaConf.merge(cfg, {"encoder": encoder})  # type: ignore[return-value]


def whole_sentences(cfg: DictConfig) -> Examples:
    """Return the task's examples with the training file read like dev: SST without its phrases."""
    read = reader(cfg, "dev")
    return objects.examples(cfg, read={"train": read, "dev": read, "test": read})


def text(examples: Examples, split: str) -> Sequence[Sequence[str]]:
    """Return the distinct sentences of a split: SNLI repeats a premise for each hypothesis."""
    sentences = examples.sentences(split)
    return list(dict.fromkeys(tuple(sentence) for sentence in sentences if sentence))
