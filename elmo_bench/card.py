"""`job=card`: an encoder on some tasks with some seeds, as a folder to share.

The runs are those of a sweep over `elmo.mix`, which `hydra_plugins/cards.py` launches. The folder
has what a report reads of them, without checkpoints, texts and paths of this machine.
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

from elmo_bench import inputs
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
    today,
)

log = logging.getLogger(__name__)
ABOUT, RUNS, README = "card.json", "runs", "README.md"
REPORTS = ("index.html", "tables.md", "tables.tex", "tables.csv", "tables.json")
OWN = (ABOUT, RUNS, README, *REPORTS)
# What the command of a run alone does not say.
OF_THE_CARD = ("job", "out", "resume", "outputs_dir", "cache_dir")
OF_A_RUN = ("seed", "folder", "command", "identity", "metrics", "device", "commit", "versions")
DIGITS = 12  # of a hash, as a table shows it
Encoders = Mapping[str, dict[str, Any]]  # what is said of each, by its settings
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
    """The folder to share. Raises ValueError where there is something else in it."""
    names = dict.fromkeys(str(config.encoder.name) for config in configs)
    path = Path(configs[0].out or Path(configs[0].outputs_dir, "card", "+".join(names)))
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
    """Each encoder's number of layers, width and fingerprint; nothing with `--dry-run`, since a
    model might have to be downloaded. Raises ValueError for `none`, and what loading one raises.
    """
    from elmo_bench import build  # torch is paid for where an encoder is built

    built: dict[str, dict[str, Any]] = {}
    for config in configs:
        key = _key(OmegaConf.to_container(config.encoder, resolve=True))
        if key in built or config.dry_run:
            continue
        config = config.copy()
        config.elmo.adapt = False  # an adapted one has as many layers
        encoder = build.encoder(config)
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
    """The overrides of what is compared: no layers, their learned mix, each alone; none where the
    command says which.
    """
    if "elmo.mix" in inputs.overridden(config):
        return [[]]
    about = encoders.get(_key(OmegaConf.to_container(config.encoder, resolve=True)))
    layers = about["layers"] if about else 2
    # The last one has the name that sweep=layers gives it; a single one is the mix.
    alone = [*range(layers - 1), "top"] if layers > 1 else []
    return [[f"elmo.mix={value}"] for value in ("none", "all", *alone)]


def write(
    folder: Path, outcomes: Iterable[Outcome], encoders: Encoders, report: Callable[..., None]
) -> None:
    """Write the folder anew, with what `report` makes of the runs; nothing where none finished."""
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
    """Make the folder `part` with all that is shared."""
    (part / RUNS).mkdir(parents=True)
    finished = {outcome.folder: outcome for outcome in outcomes if outcome.folder}
    runs = [_copy(source, part, outcome, encoders) for source, outcome in finished.items()]
    for outcome in outcomes:
        if outcome.left:
            _copy_begun(outcome.left, part)
    has_baseline = any(run["config"]["elmo"]["mix"] == "none" for run in runs)
    baseline = "none" if has_baseline else None
    report(part, runs=RUNS, columns="elmo.mix", baseline=baseline, output=[*REPORTS])
    about = {
        "command": command(portable_overrides(sys.argv[1:])),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "encoders": [*encoders.values()],
        "cells": [*_cells(runs)],
        "failed": [command(_own(outcome)) for outcome in outcomes if not outcome.folder],
    }
    (part / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    (part / README).write_text(_readme(about, runs), encoding="utf-8")


def command(overrides: Iterable[str]) -> str:
    """What is typed for these overrides."""
    return shlex.join([*COMMAND, *overrides])


def _own(outcome: Outcome) -> list[str]:
    """The overrides of a run alone."""
    said = portable_overrides(outcome.overrides)
    return [each for each in said if each.partition("=")[0] not in OF_THE_CARD]


def _copy(source: Path, part: Path, outcome: Outcome, encoders: Encoders) -> dict[str, Any]:
    """Copy what a report reads of a run into a folder of its own below `part`: its result, with
    the name of that `folder`, its `command` and the `fingerprint` of its encoder.
    """
    config = result_of(source)["config"]
    today(config)  # one of an earlier version is in a sweep that is resumed
    encoder = encoders.get(_key(config["encoder"]), {})
    name = _folder(config, part)
    result = copy_run(source, part / name, _own(outcome))
    about = {"command": command(_own(outcome)), "fingerprint": encoder.get("fingerprint")}
    return result | about | {"folder": name}


def _copy_begun(source: Path, part: Path) -> None:
    """Copy what a run that failed has left at its start, so that a report counts it."""
    for begun in failures([source], ()):
        copy_begun(begun, part / _folder(begun["config"], part))


def _folder(config: Mapping[str, Any], part: Path) -> str:
    """A free name below `part` for the folder of a run with this config."""
    stem = folder_name(config)
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))  # other settings
    return next(name for each in names if not (part / (name := f"{RUNS}/{each}")).exists())


def _cells(runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of runs that differ by their seed alone: what they are, what they read, their figures."""
    cells = defaultdict(list)
    for run in runs:
        cells[experiment(run["config"]), *run["inputs"].values()].append(run)
    for same in cells.values():
        first = same[0]
        config, names = first["config"], [name for name in OF_A_RUN if name in first]
        # A figure may be of some runs alone, such as that of a label which only they predict.
        shared = [name for name in first["metrics"] if all(name in run["metrics"] for run in same)]
        yield {
            "task": config["task"]["name"],
            "data": config["data"]["name"],
            "encoder": config["encoder"]["name"],
            "elmo.mix": config["elmo"]["mix"],
            "fingerprints": {"encoder": first["fingerprint"], **first["inputs"]},
            "mean": {
                name: statistics.fmean(run["metrics"][name] for run in same) for name in shared
            },
            "runs": [{name: run[name] for name in names} for run in same],
        }


def _readme(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """What the folder is, for whoever gets it."""

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
