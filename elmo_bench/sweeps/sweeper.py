"""Hydra's sweeper of a plain sweep: one run for every combination of the values.

A setting that only some of the swept options have, such as `encoder.model` in
`encoder=none,mini,transformer encoder.model=X`, is given to the runs that have it. A setting that
no run has is an error.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from elmo_bench.runs import key_of, leaves
from elmo_bench.settings.advice import refused_key, unknown_key
from elmo_bench.settings.check import faults
from elmo_bench.terminal import listed

from .launcher import ProcessLauncher

log = logging.getLogger(__name__)


class Sweeper(BasicSweeper):
    """Sweeps over the combinations of a command's values, each with the settings that it has."""

    config: Any
    hydra_context: Any
    launcher: Any
    runs: "Runs | None" = None

    def split_arguments(  # type: ignore[override]  # Hydra's is static, and called with `self`
        self, overrides: list[Override], max_batch_size: int | None
    ) -> list[list[list[str]]]:
        """Return the batches of runs: the overrides of each.

        Raises ValueError for a setting that no run has.
        """
        batches = super().split_arguments(overrides, max_batch_size)
        if self.runs is None:  # sweep=tune asks several times
            self.runs = Runs(self.hydra_context.config_loader, self.config)
        fitted = list[list[list[str]]]()
        for batch in batches:
            fitted.append([self.runs.fitted(overrides) for overrides in batch])
        self.runs.check()
        return fitted

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Compose the runs, unless our launcher does so, too."""
        if not isinstance(self.launcher, ProcessLauncher):
            super().validate_batch_is_legal(batch)


class Runs:
    """The runs of a sweep, and which of its settings the options of each run lack."""

    def __init__(self, loader: Any, config: Any) -> None:
        self.loader = loader
        self.config = config
        self.absent: dict[tuple[str, ...], set[str]] = {}  # by the options of a run
        self.configs: list[Any] = []
        self.logged = set[str]()
        self.keys: dict[str, None] = {}  # keys that some run has
        self.settings: dict[str, str] = {}  # the values of what some run lacks, as first given
        self.has: dict[str, bool] = {}  # whether some run reads such a setting
        self.without: dict[str, list[str]] = {}  # the runs' own options, for what they lack

    def fitted(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides of a run without the settings that its options do not have."""
        options = self._options(overrides)
        if options not in self.absent:
            self.absent[options] = self._absent(overrides)
        absent = self.absent[options]
        kept = list[str]()
        for override in overrides:
            key, _, value = override.partition("=")
            if key not in absent:
                kept.append(override)
            elif override not in options and not override.startswith(("+", "~")):
                self.settings.setdefault(key, value)
                self._note_lack(key, options)
        return kept

    def _note_lack(self, key: str, options: Sequence[str]) -> None:
        """Note that the runs with some options lack a setting: by those of its group, if any."""
        group = key.partition(".")[0]
        of_group = [option for option in options if option.startswith(f"{group}=")]
        lacking = " ".join(of_group or options)
        noted = self.without.setdefault(key, [])
        if lacking not in noted:
            noted.append(lacking)

    def check(self) -> None:
        """Raise ValueError for settings that no run has; log those that some lack."""
        wrong = [key for key in self.settings if not self.has.get(key)]
        if wrong:
            lines = [unknown_key(key, self.settings[key], list(self.keys)) for key in wrong]
            for config in self.configs:
                lines += faults(config)
            raise ValueError("\n".join(dict.fromkeys(lines)))
        for key, options in self.without.items():
            lacking = listed(options, "or")
            line = f"{key} is not given to the runs with {lacking}, which have no such setting"
            if line not in self.logged:
                log.info(line)
                self.logged.add(line)

    def _options(self, overrides: Iterable[str]) -> tuple[str, ...]:
        """Return the overrides that choose options of groups, or that add or delete."""
        groups = self.config.hydra.runtime.choices
        options = list[str]()
        for override in overrides:
            if override.startswith(("+", "~")) or key_of(override) in groups:
                options.append(override)
        return tuple(options)

    def _absent(self, overrides: Sequence[str]) -> set[str]:
        """Return the keys that these overrides set and that the run's options do not have."""
        absent = set[str]()
        while True:
            kept = [each for each in overrides if each.partition("=")[0] not in absent]
            kept_keys = [override.partition("=")[0] for override in kept]
            try:
                config = self.loader.load_sweep_config(self.config, kept)
                break
            except ConfigCompositionException as error:
                key = refused_key(error)
                if key not in kept_keys:
                    raise
                absent.add(key)
        self.configs.append(config)
        content: Any = OmegaConf.to_container(config)
        del content["hydra"]
        self.keys |= dict.fromkeys(dict(leaves(content)))
        is_baseline = "_target_" not in (content.get("encoder") or {})
        for key in kept_keys:
            # The baseline has keys of encoders, which it does not read.
            if not (is_baseline and key.startswith("encoder.")):
                self.has[key] = True
        return absent
