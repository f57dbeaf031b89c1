"""The launchers and sweepers, where Hydra looks for plugins: in this package only."""

from elmo_bench.sweeps import card, launcher, sweeper, tuner


class Processes(launcher.ProcessLauncher):
    """The option `processes` of `hydra/launcher`."""


class Cards(card.CardLauncher):
    """The launcher of `job=card`."""


class Grid(sweeper.Sweeper):
    """The option `grid` of `hydra/sweeper`."""


class Tuner(tuner.Tuner):
    """The sweeper of `sweep=tune`."""
