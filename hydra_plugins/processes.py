"""The launchers of sweeps, where Hydra looks for plugins: in this package only."""

from elmo_bench.config import launcher
from elmo_bench.jobs import card


class Processes(launcher.ProcessLauncher):
    """The option `processes` of `hydra/launcher`."""


class Cards(card.CardLauncher):
    """The launcher of `job=card`."""
