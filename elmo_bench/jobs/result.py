"""What a run leaves: `result.json`, and a table on the terminal."""

import dataclasses
import hashlib
import importlib.metadata
import json
import logging
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from elmo_bench.files import atomic

log = logging.getLogger(__name__)
INCIDENTAL = (
    "run_dir",
    "outputs_dir",
    "data_dir",
    "cache_dir",
    "resume",
    "num_workers",
    "logger",
)  # where and how a run is, not what


@dataclasses.dataclass(frozen=True)
class Result:
    """The figures of one run; metrics are fractions of 1."""

    task: str
    seed: int
    metrics: dict[str, float]
    mix: dict[str, float]
    parameters: dict[str, int]
    seconds: dict[str, float]
    epochs: int
    examples_per_second: float
    device: str


def write_result(result: Result, cfg: DictConfig) -> None:
    """Write `result.json`, whole or not at all: the figures, the config, the versions and the commit."""
    packages = ("torch", "pytorch-lightning", "hydra-core", "elmo-bench")
    content = dataclasses.asdict(result) | {
        "choices": dict(HydraConfig.get().runtime.choices) if HydraConfig.initialized() else {},
        "identity": identity(cfg),
        "config": OmegaConf.to_container(cfg, resolve=True),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "commit": _commit(),
    }
    with atomic(Path(cfg.run_dir, "result.json")) as part:
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def identity(cfg: DictConfig) -> str:
    """A digest of all settings that make a run what it is, wherever it reads and writes; of a config as it was composed."""
    content = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    OmegaConf.set_struct(content, False)
    content.update(dict.fromkeys(INCIDENTAL))
    return hashlib.sha256(json.dumps(OmegaConf.to_container(content, resolve=True), sort_keys=True).encode()).hexdigest()


def finished(folders: Iterable[Path]) -> dict[str, Path]:
    """The folders of all finished runs at or below some folders, by what they are."""
    found: dict[str, Path] = {}
    for path in (path for folder in folders for path in sorted(folder.rglob("result.json"))):
        try:
            found.setdefault(json.loads(path.read_text(encoding="utf-8"))["identity"], path.parent)
        except (ValueError, KeyError, TypeError):
            log.warning("%s: not a result of elmo-bench, or of an earlier one; passed over", path)
    return found


def dev_figure(folder: Path) -> float | None:
    """What a finished run's task monitors, on dev, as a fraction of 1; None where no model was trained."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["metrics"].get(f"val/{content['config']['task']['monitor']}")


def _commit() -> str | None:
    """The commit of the code that ran, with a + if it was changed since; None outside a checkout."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def print_result(result: Result, cfg: DictConfig) -> None:
    """The test figures by type and overall, the mix, the time."""
    print_metrics(result.metrics, "test", f"{result.task} on {cfg.data.name}, elmo={cfg.elmo.name}, seed {result.seed}: test")
    console = Console(markup=False, emoji=False)
    if result.mix:
        console.print("mix: " + "   ".join(f"{name.removeprefix('elmo/')} {value:.3f}" for name, value in result.mix.items()))
    console.print(
        f"{result.epochs} epochs in {result.seconds['training']:.0f} s of training "
        f"({result.examples_per_second:.0f} examples/s), {result.seconds['total']:.0f} s in all; {cfg.run_dir}/result.json"
    )


def print_metrics(metrics: Mapping[str, float], split: str, title: str) -> None:
    """A table of a split's figures in percent: a row for each type, and one for all."""
    names = [name.removeprefix(f"{split}/") for name in metrics if name.startswith(f"{split}/")]
    groups = list(dict.fromkeys(name.rpartition("/")[0] for name in names))
    kinds = list(dict.fromkeys(name.rpartition("/")[2] for name in names))
    table = Table()
    table.add_column("")
    for kind in kinds:
        table.add_column(kind, justify="right")
    for group in sorted(groups, key=lambda group: (group == "", group)):
        figures = (metrics.get("/".join(filter(None, (split, group, kind)))) for kind in kinds)
        cells = ("" if figure is None else f"{100 * figure:.2f}" for figure in figures)
        table.add_row(group or "all", *cells, style="" if group else "bold")
    console = Console(markup=False, emoji=False)
    console.print(f"\n{title}, in percent")
    console.print(table)
