"""The cells of the board: runs of its three recipes, in which nothing but the encoder, its layers
and the seed may differ. `results/cells.csv` has a line for each.

python results/cells.py           # writes it; results/refresh.py does so, too
python results/cells.py --check   # is it what the archives give?
"""

import argparse
import csv
import hashlib
import io
import json
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from elmo_bench import CONF
from elmo_bench.files import read_arrays, write_text
from elmo_bench.report.comparison import SPLITS, metric_of
from elmo_bench.runs import (
    ENCODER,
    MIX,
    SHORT,
    SUFFIX,
    Run,
    collect,
    figure,
    identity_of,
    read_counts,
    run_folders,
    text,
    values,
)
from elmo_bench.settings.hydra_private import OF_VERSION

log = logging.getLogger(__name__)
CACHE = os.environ.get("ELMO_BENCH_CACHE", "~/.cache/elmo-bench")
FOLDER = Path(__file__).parent
FILE = FOLDER / "cells.csv"
ADDED = FOLDER / "board"  # archives of others
SWEEP = FOLDER / "conf" / "sweep" / "board.yaml"
WITHOUT_EFFECT = ("adapt", "logger", "published", "text", "tune")  # sections, in these recipes
HEADS = ["corpus", "encoder", "layers", "seed", "dev", "test", "commit", "device"]
HEADS += ["identity", "counts"]


class Name(NamedTuple):
    """What an entry of the board is called: an encoder, and which of its layers are read."""

    encoder: str
    layers: str  # elmo.mix as it is typed

    def __str__(self) -> str:
        if self.encoder == "none":
            return "no encoder"
        return f"{self.encoder}, {'mix' if self.layers == 'all' else self.layers_told}"

    @property
    def layers_told(self) -> str:
        """Such as "layer 3" or "layers top"."""
        return f"layer {self.layers}" if self.layers.isdigit() else f"layers {self.layers}"


Entry = dict[str, list[Run]]  # the runs of an entry by corpus, in the order of their seeds


def sweep() -> dict[str, list[str]]:
    """Return the experiments and the seeds of `sweep=board`."""
    params: Any = OmegaConf.load(SWEEP).hydra.sweeper.params
    return {key: str(params[key]).split(",") for key in ("experiment", "seed")}


def seeds() -> list[int]:
    """Return the seeds of every entry."""
    return [int(seed) for seed in sweep()["seed"]]


@cache
def recipes() -> dict[str, dict[str, Any]]:
    """Return the config of each corpus's recipe, with an encoder's mix, by the corpus's name."""
    search = f"hydra.searchpath=[file://{FOLDER / 'conf'}]"
    configs: dict[str, dict[str, Any]] = {}
    for experiment in sweep()["experiment"]:
        settings = [search, f"experiment={experiment}", "encoder=wiki", "elmo.mix=all"]
        # The vectors' name is no part of a recipe, but that there are some is.
        settings += ["vocab.vectors=GLOVE", "run_dir=here"]
        with initialize_config_dir(str(CONF), **OF_VERSION):
            config: Any = OmegaConf.to_container(compose("config", settings), resolve=True)
        config["data"].pop("downloads", None)
        for section in WITHOUT_EFFECT:
            config.pop(section, None)
        configs[config["data"]["name"]] = config
    return configs


def expected(config: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's config with the encoder, the layers and the seed of a run's config."""
    whole = {key: value for key, value in recipe.items() if key != "hydra"}
    whole["encoder"] = config["encoder"]
    whole["elmo"] = recipe["elmo"] | {"mix": config["elmo"]["mix"]}
    whole["seed"] = config["seed"]
    return whole


def identities(config: Mapping[str, Any], inputs: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yield the identities that a run of this config may have: an archive does not say how many
    layers the encoder has, by which its top layer has two names.

    `folder` is any folder: it stands for that of a model whose files have hashes.
    """
    content = dict(config)
    encoder = dict(config["encoder"])
    for key, file in (("model", "config.json"), ("adapter", "adapter_model.safetensors")):
        if encoder.get(key) and f"encoder.{file}" in inputs:
            encoder[key] = str(folder)
    content["encoder"] = encoder
    mix = config["elmo"]["mix"]
    layers = mix if isinstance(mix, list) else [mix]
    numbers: list[int | None] = [None, 1]
    if all(isinstance(layer, int) for layer in layers):
        numbers.append(max(layers) + 1)
    of_config = json.dumps(content)
    of_files = json.dumps(inputs)
    for number in numbers:
        yield _identity(of_config, of_files, number)


@cache  # which takes 50 ms, and tests ask again and again
def _identity(config: str, inputs: str, num_layers: int | None) -> str:
    """Return the identity of a config and the hashes of its files, both as JSON."""
    return identity_of(OmegaConf.create(json.loads(config)), json.loads(inputs), num_layers)


def recipe_of(run: Run) -> str | None:
    """Return the corpus whose recipe a run has; None if it has none of them."""
    corpus = str(run.settings.get("data.name"))
    recipe = recipes().get(corpus)
    if recipe is None or not {"encoder", "elmo", "seed"} <= run.config.keys():
        return None
    config = expected(run.config, recipe)
    if changes(run, config):  # which is sooner found than an identity
        return None
    return corpus if run.identity in identities(config, run.inputs, FOLDER) else None


def changes(run: Run, config: Mapping[str, Any]) -> list[str]:
    """Return what a run has in another way than a config, such as "fraction=1.0, not 0.1".

    Keys that one of them lacks are not told: an older run may lack a setting, and its identity
    decides.
    """
    wanted = Run(run.folder, dict(config))
    changed: list[str] = []
    for key in sorted(run.acting & wanted.acting):
        ours = values(run, [key])[0]
        theirs = values(wanted, [key])[0]
        if ours != theirs and key != "vocab.vectors":  # a name; the content of the file counts
            changed.append(f"{key}={text(ours)}, not {text(theirs)}")
    return changed


def name_of(run: Run) -> Name:
    """Return the name of the entry that a run belongs to."""
    if run.is_baseline:
        return Name("none", "none")
    return Name(str(run.settings[ENCODER]), text(run.settings[MIX]))


def archives() -> list[Path]:
    """Return the archives of the board: ours, and those that others have added."""
    return [*sorted(FOLDER.glob(f"*{SUFFIX}")), *sorted(ADDED.glob(f"*{SUFFIX}"))]


def board_runs(cache_dir: str | Path, paths: Sequence[Path] | None = None) -> list[Run]:
    """Return the runs of the board's recipes in archives, by default all of them, sorted."""
    folders = run_folders(archives() if paths is None else paths, cache_dir)
    runs = [run for run in collect(folders) if recipe_of(run)]

    def place(run: Run) -> tuple[str, Name, int]:
        return str(run.settings["data.name"]), name_of(run), run.seed

    return sorted(runs, key=place)


def entries(runs: Iterable[Run]) -> dict[Name, Entry]:
    """Return the entries of runs that have the board's recipes: on each corpus the runs with the
    board's seeds, if none is missing.
    """
    wanted = seeds()
    by_place: dict[tuple[Name, str], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        by_place[name_of(run), str(run.settings["data.name"])].setdefault(run.seed, run)
    whole: dict[Name, Entry] = defaultdict(dict)
    for corpus in recipes():
        for (name, of_corpus), by_seed in by_place.items():
            if of_corpus == corpus and all(seed in by_seed for seed in wanted):
                whole[name][corpus] = [by_seed[seed] for seed in wanted]
    return dict(sorted(whole.items(), key=lambda entry: rank(entry[0])))


def rank(name: Name) -> tuple[bool, str, bool, str]:
    """Return what sorts entries: no encoder first, then encoders, each with its mix first."""
    return name.encoder != "none", name.encoder, name.layers != "all", name.layers


def counts_hash(run: Run) -> str:
    """Return a hash of the counts of dev and test: of the arrays, not of how they are packed."""
    hashed = hashlib.sha256()
    for split in SPLITS:
        arrays = read_arrays(run.folder / "counts" / f"{split}.npz")
        for name in sorted(arrays):
            array = arrays[name]
            hashed.update(f"{split} {name} {array.dtype.str} {array.shape}\n".encode())
            hashed.update(array.tobytes())
    return hashed.hexdigest()[:SHORT]


def score(run: Run, split: str) -> float:
    """Return a run's score, a fraction of 1, from its counts; ValueError if it has none."""
    metric = metric_of(run, None)
    counts = read_counts(run.folder / "counts" / f"{split}.npz", metric)
    if counts is None:
        raise ValueError(f"{run.folder.name}: counts/{split}.npz has no {metric}")
    return float(figure(counts.rows.sum(0)))


def as_csv(runs: Iterable[Run]) -> str:
    """Return the lines of `cells.csv`."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADS)
    for run in runs:
        encoder, layers = name_of(run)
        scores = [f"{score(run, split):.6f}" for split in SPLITS]
        commit = (run.commit or "")[:SHORT] + ("+" if (run.commit or "").endswith("+") else "")
        of_run = [commit, run.device, run.identity, counts_hash(run)]
        writer.writerow([run.settings["data.name"], encoder, layers, run.seed, *scores, *of_run])
    return file.getvalue()


def text_of_file() -> str:
    """Return what `cells.csv` says now; "" if there is none."""
    return FILE.read_text(encoding="utf-8") if FILE.exists() else ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--cache-dir", default=CACHE)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    new = as_csv(board_runs(options.cache_dir))
    if not options.check:
        write_text(FILE, new)
    elif new != text_of_file():
        raise ValueError(f"{FILE}: not what the archives give; python results/cells.py writes it")
    log.info("%s: %s", "up to date" if options.check else "written", FILE)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"{error}")
