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

from elmo_bench.runs import drawn_space, leaves
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
        overrides = list(self.overrides)
        for key, space in self.space.items():
            drawn = value(space, f"{key} {number}{seed}")
            overrides.append(f"{key}={drawn}")
        return overrides


class Tuner(Sweeper):
    """Sweeps over the sides of a command, and over the draws of each.

    A sweep in the command makes sides, unless its key is in the space (`tune`) or it is an
    interval: then it is the space of its key. KEY=VALUE fixes a key.
    """

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Train the draws of all sides, choose one of each, and train it with fresh seeds.

        Raises ValueError for a wrong command, for a side none of whose draws has a score on dev,
        and for a run with a fresh seed that failed.
        """
        sides = self.sides(list(self._parse_config()) + arguments)
        if type(self.launcher).launch is not ProcessLauncher.launch:
            raise ValueError(
                "sweep=tune has a launcher of its own: leave hydra/launcher and job=card out"
            )
        draw_seed = self.config.draw_seed
        first_trials = [side.trial(0, draw_seed) for side in sides]
        config = self.launcher.composed(first_trials)[0]
        log.info(
            "%s, %s of each, with seed %d; then the best on dev with %d other seeds",
            counted_noun(len(sides), "side"),
            counted_noun(config.budget, "draw"),
            config.seed,
            config.seeds,
        )
        trials = list[list[str]]()
        for number in range(config.budget):
            for side in sides:
                trial = side.trial(number, draw_seed)
                trial.append(f"trial={number}")
                trials.append(trial)
        self.launcher.later = len(sides) * config.seeds
        returned = self.launcher.launch(trials, 0)
        runs = list[list[str]]()
        first_seed = config.seed + 1
        for first, side in enumerate(sides):
            number = best(side, returned[first :: len(sides)], draw_seed)
            for seed in range(first_seed, first_seed + config.seeds):
                run = side.trial(number, draw_seed)
                run.append(f"seed={seed}")
                runs.append(run)
        last = self.launcher.launch(runs, len(trials))
        for outcome in last:
            _ = outcome.return_value  # raises what a run raised
        return list(returned) + list(last)

    def sides(self, arguments: Sequence[str]) -> list[Side]:
        """Return the sides of a command; raises ValueError for a wrong space.

        If the task's space has `fit.batch_size` and `elmo.l2`, the command
        `encoder=none,mini fit.batch_size=16,32` has the sides none and mini; each draws
        `fit.batch_size` from 16 and 32, and `elmo.l2` from the task's space.
        """
        overrides = {override.key_or_group: override for override in self._parsed(arguments)}
        seed = overrides.get("seed")
        if seed is not None and seed.is_sweep_override():
            raise ValueError(
                f"{seed.input_line}, but all draws have one seed; seeds=5 is the number of runs "
                "of the choice"
            )
        without_intervals = dict[str, Override]()
        for key, override in overrides.items():
            if not override.is_interval_sweep():
                without_intervals[key] = override
        drawn_keys = set[str]()
        for config in self._configs(without_intervals):
            drawn_keys.update(self._space(config))
        sides = dict[str, Override]()  # what makes a side: all but the command's own spaces
        own_space = dict[str, Override]()
        # In the settings of the runs, where a report looks for the space or the fixed value.
        recorded = list[str]()
        for key, override in overrides.items():
            is_drawn = key in drawn_keys
            is_space = override.is_sweep_override() and is_drawn
            if key in without_intervals and not is_space:
                sides[key] = override
            else:
                own_space[key] = override
            if is_drawn or key in own_space:
                recorded.append(f"++tune.{key}={quoted(override.get_value_string())}")
        named = list[Side]()
        for combination, config in zip(self._split(sides), self._configs(sides), strict=True):
            space = self._space(config)
            option_space = {key: space[key] for key in space if key not in overrides}
            _check_space(option_space, config)
            whole = space | own_space
            drawn = {key: whole[key] for key in whole if key not in sides}
            named.append(Side(combination + recorded, drawn))
        return named

    def _split(self, sides: Overrides) -> list[list[str]]:
        """Return the overrides of each combination of values."""
        return self.split_arguments(list(sides.values()), None)[0]

    def _configs(self, sides: Overrides) -> Iterator[Any]:
        """Yield the settings of each combination of values."""
        for overrides in self._split(sides):
            yield self.hydra_context.config_loader.load_sweep_config(self.config, overrides)

    def _space(self, config: Any) -> dict[str, Override]:
        raw: Any = OmegaConf.to_container(config)
        spaces = drawn_space(raw)
        parsed = self._parsed([f"{key}={space}" for key, space in spaces.items()])
        return dict(zip(spaces, parsed, strict=True))

    def _parsed(self, lines: Sequence[str]) -> list[Override]:
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        return parser.parse_overrides(list(lines))


def _check_space(space: Overrides, config: Any) -> None:
    """Raise ValueError for a space that is for models with other settings."""
    raw: Any = OmegaConf.to_container(config)
    keys = dict(leaves(raw)).keys()
    for key, override in space.items():
        sweep: Any = override.value()
        is_setting = key in keys
        rate = None
        if key == "task.optimizer.lr" and isinstance(sweep, IntervalSweep):
            rate = OmegaConf.select(config, key)
        if not is_setting:
            raise ValueError(
                f"tune draws {override.input_line}, but the model does not have this setting: "
                f"leave it out, '++tune={{{key}:null}}'"
            )
        if rate is not None and not sweep.start <= rate <= sweep.end:
            raise ValueError(
                f"tune draws {override.input_line}, but the model has {key}={rate}: give another "
                f"space, '{key}=interval(LOW,HIGH)'"
            )


def value(space: Override, draw: str) -> str:
    """Return a value from a space, the same for the same draw, as an override has it."""
    share = random.Random(draw).random()
    sweep = space.value()
    if not space.is_sweep_override() or getattr(sweep, "shuffle", False):
        raise ValueError(f"tune: {space.input_line}, but it must be {SPACES}")
    if not isinstance(sweep, IntervalSweep):
        values = list(space.sweep_string_iterator())
        return values[int(share * len(values))]
    low = sweep.start or 0.0
    high = sweep.end or 0.0
    is_log = "log" in sweep.tags
    if not low < high or (is_log and low <= 0):
        raise ValueError(f"tune: {space.input_line}: LOW < HIGH, and 0 < LOW with log")
    if is_log:
        return f"{low * (high / low) ** share:.3g}"
    return f"{low + (high - low) * share:.3g}"


def best(side: Side, trials: Sequence[JobReturn], draw_seed: int | None) -> int:
    """Return the number of the draw with the best score on dev, and log it."""
    scores = dict[int, float]()
    for number, trial in enumerate(trials):
        if trial.status == JobStatus.COMPLETED and trial.return_value is not None:
            scores[number] = trial.return_value
    if not scores:
        raise ValueError(
            f"{' '.join(side.overrides)}: none of its {len(trials)} draws has a score on dev; "
            "their error.txt says why"
        )
    chosen = max(scores, key=scores.__getitem__)
    log.info(
        "draw %d of %d (%d failed) is the best on dev, with %.2f: %s",
        chosen,
        len(trials),
        len(trials) - len(scores),
        100 * scores[chosen],
        " ".join(side.trial(chosen, draw_seed)),
    )
    return chosen
