"""A sweep of 30 NER runs with a frozen biLM: layers read from a store, or computed for every batch.

Measured are an epoch of some batches and the build of a store for them; the time of the sweep is
computed from these. The corpus is WikiGold if ELMO_BENCH_DATA names a folder that contains it
(conf/data/wikigold.yaml), else the generated one.
"""

import itertools
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from elmo_bench import build
from elmo_bench.build import hardware
from elmo_bench.elmo import Elmo
from elmo_bench.encoders import LayerStore, build_store, load_encoder
from elmo_bench.encoders.bilm import BiLm
from elmo_bench.settings.hydra_private import OF_VERSION
from elmo_bench.text import Vocab
from elmo_bench.training.batches import LengthBatches
from elmo_bench.training.data import Examples

from .tasks import step, there
from .timing import CONF, Comparison, Setting, seconds

RUNS, EPOCHS = 30, 10
STORE, EACH, NONE, BUILD = (
    "from the store",
    "the biLM on each batch",
    "encoder=none",
    "the store's build, once",
)


def compare(setting: Setting) -> Iterator[Comparison]:
    """For `wiki` and a biLM of each size: an epoch and the build of the store, then the sweep."""
    wikigold = Path(os.environ.get("ELMO_BENCH_DATA", ""), "ner/wikigold.train.txt").is_file()
    settings = [
        "task=ner",
        "data=wikigold" if wikigold else "data=sample",
        f"fit.batch_size={setting.batch_size}",
    ]
    with initialize_config_dir(str(CONF), **OF_VERSION):
        cfg = compose(
            "config",
            [
                *settings,
                "trainer=gpu" if setting.device == "cuda" else "trainer=cpu",
                f"cache_dir={setting.scratch}",
                f"run_dir={setting.scratch}",
            ],
        )
    examples = build.examples(cfg)
    vocab, _ = build.vocab(cfg, examples)
    for name in (*([] if setting.quick else ["wiki"]), *setting.sizes):
        bilm: Any = load_encoder("wiki") if name == "wiki" else setting.bilm(name)
        bilm.to(setting.device)
        yield from _of(f"{cfg.data.name}, biLM {name}", bilm, cfg, examples, vocab, setting)


def _of(
    title: str,
    bilm: BiLm,
    cfg: DictConfig,
    examples: Examples,
    vocab: Vocab,
    setting: Setting,
) -> Iterator[Comparison]:
    train = examples.by_split["train"]
    lengths = [sum(map(len, example.sentences)) for example in train]
    bounds = {key: cfg.fit[key] for key in ("batch_size", "batch_tokens", "batch_scores")}
    batches = LengthBatches(lengths, shuffle_seed=cfg.seed, **bounds)
    numbers = list(itertools.islice(batches, 1 if setting.quick else 8))
    sentences = [s for batch in numbers for n in batch for s in train[n].sentences]
    folders = (setting.scratch / f"sweep-{title}-{count}" for count in itertools.count())
    spent: dict[str, list[float]] = defaultdict(list)

    def noted(name: str, call: Callable[[], object]) -> Callable[[], object]:
        return lambda: spent[name].append(seconds(call))

    def build_one() -> LayerStore | None:
        return build_store(bilm, sentences, range(bilm.num_layers), next(folders))

    layers = {STORE: (bilm, build_one()), EACH: (bilm, None), NONE: (None, None)}
    epochs = {
        name: noted(name, _epoch(cfg, examples, vocab, numbers, *which))
        for name, which in layers.items()
    }
    epochs |= {BUILD: noted(BUILD, build_one)}
    yield Comparison(
        f"{title}: an epoch of {len(sentences)} sentences", epochs, len(sentences), "sentences"
    )

    def sweep(name: str) -> float:
        once, epoch = (statistics.median(spent[part][1:] or spent[part]) for part in (BUILD, name))
        return RUNS * EPOCHS * epoch + (once if name == STORE else 0)

    totals: Any = {f"{name}, worked out": lambda name=name: sweep(name) for name in layers}
    title = f"{title}: {RUNS} runs of {EPOCHS} epochs"
    yield Comparison(title, totals, measure=lambda call: float(str(call())))


def _epoch(
    cfg: DictConfig,
    examples: Examples,
    vocab: Vocab,
    numbers: list[list[int]],
    bilm: BiLm | None,
    store: LayerStore | None,
) -> Callable[[], None]:
    """Train on the batches, collating each as it is needed."""
    torch.manual_seed(0)
    elmo = Elmo(bilm, dropout=cfg.elmo.dropout, l2=cfg.elmo.l2)
    device = torch.device(hardware.device(cfg))
    module = build.module(cfg, build.model(cfg, vocab, {}, elmo), vocab).train()  # type: ignore[arg-type]
    module.to(device)
    optimizer = module.configure_optimizers()["optimizer"]
    data = build.data(cfg, examples, vocab, module.model.backbone, store)

    def train() -> None:
        for batch in numbers:
            step(module, optimizer, there(data.batch("train", batch), device))

    return train
