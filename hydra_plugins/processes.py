"""The launchers of sweeps, where Hydra looks for plugins: in this package only."""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore

from elmo_bench.config import launcher
from elmo_bench.jobs import card


@dataclass
class ProcessesConf:
    _target_: str = "hydra_plugins.processes.Processes"
    n_jobs: int = 1
    prefix: str = ""
    fork: bool = True


ConfigStore.instance().store(
    group="hydra/launcher", name="processes", node=ProcessesConf, provider="elmo_bench"
)


class Processes(launcher.ProcessLauncher):
    """The option `processes` of `hydra/launcher`."""


class Cards(card.CardLauncher):
    """The launcher of `job=card`."""
