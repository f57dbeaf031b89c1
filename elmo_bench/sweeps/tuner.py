"""`sweep=tune`: every side of a comparison gets the same number of random draws of settings
(Bergstra and Bengio 2012), dev selects one draw of each, and only its runs with fresh seeds are
tested. `elmo_bench/report/tuning.py` reports what the draws say.
"""

import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from elmo_bench.runs import leaves
from elmo_bench.settings.command import quoted
from elmo_bench.terminal import counted_noun

from .launcher import ProcessLauncher
from .sweeper import Sweeper

log = logging.getLogger(__name__)
SPACES = "interval(LOW,HIGH), tag(log,interval(LOW,HIGH)), choice(A,B) or range(LOW,HIGH)"
Overrides = Mapping[str, Override]  # by key


class Side(NamedTuple):
    """A side of a comparison: its overrides, and the space of each key that is drawn."""

    overrides: list[str]
    space: Overrides

    def trial(self, number: int, draw_seed: int | None) -> list[str]:
        """Return the overrides of a draw; a value depends on its key, the number and the seed."""
        seed = "" if draw_seed is None else f" {draw_seed}"
        drawn = [f"{key}={value(one, f'{key} {number}{seed}')}" for key, one in self.space.items()]
        return [*self.overrides, *drawn]


class Tuner(Sweeper):
    """Sweeps over the sides of a command, and over the draws of each.

    A sweep in the command makes sides, unless its key is in the space (the `tune` group) or it is
    an interval: then it is the space of its key. KEY=VALUE fixes a key.
    """

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Train the draws of all sides, choose one of each, and train it with fresh seeds.

        Raises ValueError for a wrong command, for a side none of whose draws has a score on dev,
        and for a run with a fresh seed that failed.
        """
        sides = self.sides([*self._parse_config(), *arguments])
        if type(self.launcher).launch is not ProcessLauncher.launch:
            said = "sweep=tune has a launcher of its own: leave hydra/launcher and job=card out"
            raise ValueError(said)
        draw_seed = self.config.draw_seed
        config, *_ = self.launcher.composed([side.trial(0, draw_seed) for side in sides])
        each = f"{counted_noun(len(sides), 'side')}, {counted_noun(config.budget, 'draw')} of each"
        said = "%s, with seed %d; then the best on dev with %d other seeds"
        log.info(said, each, config.seed, config.seeds)
        draws, fresh = range(config.budget), range(config.seed + 1, config.seed + 1 + config.seeds)
        trials = [
            [*side.trial(number, draw_seed), f"trial={number}"]
            for number in draws
            for side in sides
        ]
        self.launcher.later = len(sides) * config.seeds
        returned, runs = self.launcher.launch(trials, 0), list[list[str]]()
        for first, side in enumerate(sides):
            number = best(side, returned[first :: len(sides)], draw_seed)
            chosen = side.trial(number, draw_seed)
            runs += [[*chosen, f"seed={seed}"] for seed in fresh]
        last = self.launcher.launch(runs, len(trials))
        for each in last:
            _ = each.return_value  # raises what a run raised
        return [*returned, *last]

    def sides(self, arguments: Sequence[str]) -> list[Side]:
        """Return the sides of a command; raises ValueError for a wrong space."""
        overrides = {each.key_or_group: each for each in self._parsed(arguments)}
        if "seed" in overrides and overrides["seed"].is_sweep_override():
            said = "but all draws have one seed; seeds=5 is the number of runs of the choice"
            raise ValueError(f"{overrides['seed'].input_line}, {said}")
        sides = {key: each for key, each in overrides.items() if not each.is_interval_sweep()}
        drawn = {key for config in self._configs(sides) for key in self._space(config)}
        sides = {k: v for k, v in sides.items() if not (v.is_sweep_override() and k in drawn)}
        own = {key: each for key, each in overrides.items() if key not in sides}
        # In the settings of the runs, where a report looks for the space or the fixed value.
        spaces = {key: each for key, each in overrides.items() if key in drawn or key in own}
        recorded = [f"++tune.{k}={quoted(v.get_value_string())}" for k, v in spaces.items()]
        named = list[Side]()
        for combination, config in zip(self._split(sides), self._configs(sides), strict=True):
            space = self._space(config)
            _check_space({k: each for k, each in space.items() if k not in overrides}, config)
            drawn_keys = {key: each for key, each in (space | own).items() if key not in sides}
            named.append(Side([*combination, *recorded], drawn_keys))
        return named

    def _split(self, sides: Overrides) -> list[list[str]]:
        """Return the overrides of each combination of values."""
        return self.split_arguments([*sides.values()], None)[0]

    def _configs(self, sides: Overrides) -> Iterator[Any]:
        """Yield the settings of each combination of values."""
        for overrides in self._split(sides):
            yield self.hydra_context.config_loader.load_sweep_config(self.config, overrides)

    def _space(self, config: Any) -> dict[str, Override]:
        raw: Any = OmegaConf.to_container(config)
        texts = dict(leaves(raw.get("tune") or {}))
        return dict(zip(texts, self._parsed([f"{k}={v}" for k, v in texts.items()]), strict=True))

    def _parsed(self, lines: Sequence[str]) -> list[Override]:
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        return parser.parse_overrides([*lines])


def _check_space(space: Overrides, config: Any) -> None:
    """Raise ValueError for a space that is for models with other settings."""
    raw: Any = OmegaConf.to_container(config)
    for key, each in space.items():
        sweep: Any = each.value()
        is_known, is_interval = key in dict(leaves(raw)), isinstance(sweep, IntervalSweep)
        rate = OmegaConf.select(config, key) if key == "task.optimizer.lr" and is_interval else None
        if not is_known or (rate is not None and not sweep.start <= rate <= sweep.end):
            has = f"has {key}={rate}" if is_known else "does not have this setting"
            raise ValueError(
                f"tune draws {each.input_line}, but the model {has}: choose another space (tune="
                f"bert for experiment=bert/...), or give one: '{key}=interval(LOW,HIGH)'"
            )


def value(space: Override, draw: str) -> str:
    """Return a value from a space, the same for the same draw, as an override has it."""
    share, sweep = random.Random(draw).random(), space.value()
    if not space.is_sweep_override() or getattr(sweep, "shuffle", False):
        raise ValueError(f"tune: {space.input_line}, but it must be {SPACES}")
    if not isinstance(sweep, IntervalSweep):
        values = [*space.sweep_string_iterator()]
        return values[int(share * len(values))]
    low, high, is_log = sweep.start or 0.0, sweep.end or 0.0, "log" in sweep.tags
    if not low < high or (is_log and low <= 0):
        raise ValueError(f"tune: {space.input_line}: LOW < HIGH, and 0 < LOW with log")
    if is_log:
        return f"{low * (high / low) ** share:.3g}"
    return f"{low + (high - low) * share:.3g}"


def best(side: Side, trials: Sequence[JobReturn], draw_seed: int | None) -> int:
    """Return the number of the draw with the best score on dev, and log it."""
    done = {n: each for n, each in enumerate(trials) if each.status == JobStatus.COMPLETED}
    scores = {n: each.return_value for n, each in done.items() if each.return_value is not None}
    if not scores:
        said = f"none of its {len(trials)} draws has a score on dev; their error.txt says why"
        raise ValueError(f"{' '.join(side.overrides)}: {said}")
    number = max(scores, key=scores.__getitem__)
    failed, settings = len(trials) - len(scores), " ".join(side.trial(number, draw_seed))
    said = "draw %d of %d (%d failed) is the best on dev, with %.2f: %s"
    log.info(said, number, len(trials), failed, 100 * scores[number], settings)
    return number
