"""`job=card`: evaluate an encoder on tasks with several seeds, and write a folder to share.

The runs are a sweep over `elmo.mix`, which `hydra_plugins/cards.py` launches. The folder has the
files of the runs that a report reads, without checkpoints, texts and paths of this machine.
"""

import itertools
import json
import logging
import shlex
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.config import inputs
from elmo_bench.files import alone, scratch_path
from elmo_bench.installation import COMMAND
from elmo_bench.launch import Outcome
from elmo_bench.runs import (
    as_text,
    copy_begun,
    copy_run,
    experiment,
    failures,
    folder_name,
    portable_overrides,
    result_of,
)

log = logging.getLogger(__name__)
ABOUT, RUNS, README = "card.json", "runs", "README.md"
REPORTS = ("index.html", "tables.md", "tables.tex", "tables.csv", "tables.json")
OWN = (ABOUT, RUNS, README, *REPORTS)
# Overrides of the whole sweep, which the command of a single run omits.
OF_THE_CARD = ("job", "out", "resume", "outputs_dir", "cache_dir")
OF_A_RUN = ("seed", "folder", "command", "identity", "metrics", "device", "commit", "versions")
DIGITS = 12  # hexadecimal digits shown of a hash
Encoders = Mapping[str, dict[str, Any]]  # settings as JSON -> name, layers, dim, fingerprint
TEXT = """\
# {encoders} on {tasks}

{count} runs of elmo-bench, with the seeds {seeds} and `elmo.mix={mixes}`: no encoder (`none`), the
learned mix of the encoder's layers (`all`), a single layer (0 is the lowest).
`index.html` opens in any browser and says how to read it.

| file | |
|---|---|
| `index.html` | tables, plots, tests |
| `tables.md`, `.tex`, `.csv`, `.json` | the tables |
| `runs/` | of each run `result.json` (figures, settings, versions), `metrics.csv` (its epochs), |
| | `counts/` (its test examples, which the tests of significance need) |
| `card.json` | each setting, its figures, and fingerprints of what it read |

Beside other cards, or runs of yours (a run that is in two of them counts once):

    {program} job=report 'runs=[THIS_FOLDER,ANOTHER]' 'columns=[encoder,elmo.mix]' \\
        'baseline=[none,none]' output=both.html

## How it was made

    {command}

{failed}
| | |
|---|---|
{facts}

One command for each run:

{commands}
"""


def folder(configs: Sequence[DictConfig]) -> Path:
    """Return the folder to share; raises ValueError if it contains other files."""
    names = dict.fromkeys(str(config.encoder.name) for config in configs)
    path = Path(configs[0].out or Path(configs[0].outputs_dir, "card", "+".join(names)))
    path = path.expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError(f"out={path} is not a folder")
    present = {each.name for each in path.iterdir()} if path.is_dir() else set()
    if others := present - {*OWN} if ABOUT in present else present:
        raise ValueError(
            f"out={path} contains {min(others)}, which job=card did not write: choose "
            "another folder"
        )
    return path.absolute()


def encoders(configs: Iterable[DictConfig]) -> Encoders:
    """Return each encoder's name, number of layers, width and fingerprint.

    It lacks what `--dry-run` would have to download. Raises ValueError for encoder=none, and any
    error from loading an encoder.
    """
    from elmo_bench.config import build  # imports torch, which is slow

    built: dict[str, dict[str, Any]] = {}
    for config in configs:
        key = _key(OmegaConf.to_container(config.encoder, resolve=True))
        if key in built:
            continue
        config = config.copy()
        config.elmo.adapt = False  # adapting does not change the number of layers
        try:
            encoder = build.encoder(config)
        except inputs.NotHereError:
            continue
        built[key] = {
            "name": config.encoder.name,
            "layers": encoder.num_layers,
            "dim": encoder.dim,
            "fingerprint": encoder.fingerprint(),
        }
    return built


def _key(encoder: Any) -> str:
    return json.dumps(encoder, sort_keys=True)


def mixes(config: DictConfig, encoders: Encoders) -> list[list[str]]:
    """Return the overrides of the compared mixes: no layers, the learned mix, each single layer.

    If the command overrides `elmo.mix`, nothing is added.
    """
    if "elmo.mix" in inputs.overridden(config):
        return [[]]
    encoder = encoders.get(_key(OmegaConf.to_container(config.encoder, resolve=True)))
    layers = encoder["layers"] if encoder else 2
    # The last layer is called "top", as in sweep=layers. A single layer equals the mix.
    single_layers = [*range(layers - 1), "top"] if layers > 1 else []
    return [[f"elmo.mix={value}"] for value in ("none", "all", *single_layers)]


def write(
    folder: Path, outcomes: Iterable[Outcome], encoders: Encoders, report: Callable[..., None]
) -> None:
    """Write the folder with the runs and their report, replacing an earlier card.

    Nothing is written if no run has finished.
    """
    outcomes = [outcome for outcome in outcomes if outcome.same_as is None]
    if not any(outcome.folder for outcome in outcomes):
        log.warning("no run has finished; %s is not written", folder)
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    waiting = f"another process is writing {folder}: waiting for it"
    with alone(folder.with_name(f".{folder.name}"), waiting), scratch_path(folder) as part:
        _write(part, [*outcomes], encoders, report)
        folder.mkdir(exist_ok=True)
        for name in OWN:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            (part / name).rename(path)
    log.info("written, ready to share: %s", folder)


def _write(
    part: Path, outcomes: Sequence[Outcome], encoders: Encoders, report: Callable[..., None]
) -> None:
    """Write all shared files to the folder `part`."""
    (part / RUNS).mkdir(parents=True)
    finished = {outcome.folder: outcome for outcome in outcomes if outcome.folder}
    runs = [_copy(source, part, outcome, encoders) for source, outcome in finished.items()]
    for outcome in outcomes:
        if outcome.left:
            _copy_begun(outcome.left, part)
    has_baseline = any(run["config"]["elmo"]["mix"] == "none" for run in runs)
    baseline = "none" if has_baseline else None
    report(part, runs=RUNS, columns="elmo.mix", baseline=baseline, output=[*REPORTS])
    card = {
        "command": command(portable_overrides(sys.argv[1:])),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "encoders": [*encoders.values()],
        "cells": [*_cells(runs)],
        "failed": [command(_own(outcome)) for outcome in outcomes if not outcome.folder],
    }
    (part / ABOUT).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (part / README).write_text(_readme(card, runs), encoding="utf-8")


def command(overrides: Iterable[str]) -> str:
    """Return the command line with these overrides."""
    return shlex.join([*COMMAND, *overrides])


def _own(outcome: Outcome) -> list[str]:
    """Return the overrides that repeat a single run."""
    run_overrides = portable_overrides(outcome.overrides)
    return [each for each in run_overrides if each.partition("=")[0] not in OF_THE_CARD]


def _copy(source: Path, part: Path, outcome: Outcome, encoders: Encoders) -> dict[str, Any]:
    """Copy the files of a run that a report reads into a folder below `part`.

    Returns the run's result, with the name of that `folder`, the run's `command` and the
    `fingerprint` of its encoder.
    """
    config = result_of(source)["config"]
    encoder = encoders.get(_key(config["encoder"]), {})
    name = _folder(config, part)
    result = copy_run(source, part / name, _own(outcome))
    additions = {"command": command(_own(outcome)), "fingerprint": encoder.get("fingerprint")}
    return result | additions | {"folder": name}


def _copy_begun(source: Path, part: Path) -> None:
    """Copy the first files of a failed run, so that a report counts it."""
    for begun in failures([source], ()):
        copy_begun(begun, part / _folder(begun["config"], part))


def _folder(config: Mapping[str, Any], part: Path) -> str:
    """Return a free folder name below `part` for a run with this config."""
    stem = folder_name(config)
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))  # other settings
    return next(name for each in names if not (part / (name := f"{RUNS}/{each}")).exists())


def _cells(runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield settings, fingerprints and figures of each group of runs that differ only in seed."""
    cells = defaultdict(list)
    for run in runs:
        cells[experiment(run["config"]), *run["inputs"].values()].append(run)
    for group in cells.values():
        first = group[0]
        config, names = first["config"], [name for name in OF_A_RUN if name in first]
        # Some runs may have more figures, such as that of a label which only they predict.
        shared = [name for name in first["metrics"] if all(name in run["metrics"] for run in group)]
        yield {
            "task": config["task"]["name"],
            "data": config["data"]["name"],
            "encoder": config["encoder"]["name"],
            "elmo.mix": config["elmo"]["mix"],
            "fingerprints": {"encoder": first["fingerprint"], **first["inputs"]},
            "mean": {
                name: statistics.fmean(run["metrics"][name] for run in group) for name in shared
            },
            "runs": [{name: run[name] for name in names} for run in group],
        }


def _readme(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the folder's README."""

    def several(values: Iterable[Any]) -> str:
        return ", ".join(dict.fromkeys(map(str, values)))

    facts = {
        "encoder": several(
            f"{each['name']}: {each['layers']} layers of {each['dim']} numbers, fingerprint "
            f"{each['fingerprint'][:DIGITS]}"
            for each in about["encoders"]
        ),
        "data": several(
            f"{run['config']['data']['name']}, {run['config']['task']['name']} "
            f"{name.partition('.')[2]} {digest[:DIGITS]}"
            for run in runs
            for name, digest in run["inputs"].items()
            if name.startswith("data.")
        ),
        "device": several(run["device"] for run in runs),
        "commit": several(run.get("commit") for run in runs),
    }
    for name in dict.fromkeys(name for run in runs for name in run.get("versions", {})):
        facts[name] = several(
            run["versions"][name] for run in runs if name in run.get("versions", {})
        )
    failed = "".join(f"    {each}\n" for each in about["failed"])
    return TEXT.format(
        encoders=several(each["name"] for each in about["encoders"]),
        tasks=several(run["config"]["task"]["name"] for run in runs),
        count=len(runs),
        seeds=several(run["seed"] for run in runs),
        mixes=several(as_text(run["config"]["elmo"]["mix"]) for run in runs).replace(" ", ""),
        program=shlex.join(COMMAND),
        command=about["command"],
        failed=f"Of these runs {len(about['failed'])} did not finish:\n\n{failed}" * bool(failed),
        facts="\n".join(f"| {name} | {value} |" for name, value in facts.items()),
        commands="".join(f"    {run['command']}\n" for run in runs),
    )
