"""The sizes of a biLM, and the original's `options.json`, which holds them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

from elmo_bench.files import one_of, read_json, write_json

from .chars import NUM_CHARACTERS, WIDTH

DIRECTIONS = ("forward", "backward")
ACTIVATIONS = ("relu", "tanh")
KINDS = {int: "an integer", float: "a number", bool: "true or false"}


class Key(NamedTuple):
    """Where `options.json` holds a value, its type, and the least and the greatest that it may be:
    far beyond any biLM, and small enough to be counted.
    """

    path: str
    kind: type
    least: int | float = 0
    most: int | float = 1


KEYS = {
    "cell_size": Key("lstm.dim", int, 1, 1 << 16),
    "projection_size": Key("lstm.projection_dim", int, 1, 1 << 16),
    "num_layers": Key("lstm.n_layers", int, 1, 64),
    "cell_clip": Key("lstm.cell_clip", float, 1e-6, 1e30),
    "projection_clip": Key("lstm.proj_clip", float, 1e-6, 1e30),
    "skip_connections": Key("lstm.use_skip_connections", bool),
    "char_dim": Key("char_cnn.embedding.dim", int, 1, 1 << 16),
    "num_highway": Key("char_cnn.n_highway", int, 0, 64),
    "max_characters": Key("char_cnn.max_characters_per_token", int, 3, 1000),
}
MAX_FILTERS, MAX_FILTERS_OF_A_WIDTH = 64, 1 << 16


@dataclasses.dataclass(frozen=True)
class Options:
    """The sizes of a biLM: the content of the original's `options.json` with our names."""

    cell_size: int
    projection_size: int
    filters: Sequence[Sequence[int]]  # (width in characters, number of filters)
    num_layers: int = 2
    num_highway: int = 1
    char_dim: int = 16
    activation: str = "relu"
    cell_clip: float = 3.0
    projection_clip: float = 3.0
    skip_connections: bool = True
    max_characters: int = WIDTH
    directions: Sequence[str] = DIRECTIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", tuple((width, count) for width, count in self.filters))
        object.__setattr__(self, "directions", tuple(self.directions))
        if self.directions not in (DIRECTIONS, *((direction,) for direction in DIRECTIONS)):
            raise ValueError(
                f"directions={[*self.directions]}, "
                "but they must be [forward], [backward] or [forward,backward]"
            )
        one_of("char_cnn.activation", self.activation, ACTIVATIONS)
        for name, key in KEYS.items():
            _check(key.path, getattr(self, name), key.least, key.most)
        _check("char_cnn.filters: how many", len(self.filters), 1, MAX_FILTERS)
        for width, count in self.filters:
            _check("char_cnn.filters: a width", width, 1, self.max_characters)
            _check("char_cnn.filters: a number of filters", count, 1, MAX_FILTERS_OF_A_WIDTH)

    @classmethod
    def read(cls, path: str | Path) -> "Options":
        """Read the original's `options.json`; keys that only its training used are ignored.

        Raises ValueError, with the file, for a missing key or an invalid value.
        """
        raw = read_json(path)
        try:
            values: dict[str, Any] = {name: _value(raw, key) for name, key in KEYS.items()}
            cnn = raw["char_cnn"]
            values["filters"] = [*map(_filter, cnn["filters"])]
            values["activation"] = str(cnn.get("activation", "relu"))
            both = raw.get("bidirectional", True)
            values["directions"] = raw.get("directions", DIRECTIONS if both else DIRECTIONS[:1])
            # The original trains with 261 and predicts with 262, for the same model.
            if (count := cnn.get("n_characters", NUM_CHARACTERS)) not in (261, NUM_CHARACTERS):
                raise ValueError(f"char_cnn.n_characters={count}, but it must be 261 or 262")
            return cls(**values)
        except KeyError as error:
            raise ValueError(f"{path}: these biLM options lack the key {error}") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: not the options of a biLM: {error}") from error

    def write(self, path: str | Path) -> None:
        """Write the original's `options.json`, with one more key for a biLM of one direction."""
        raw: dict[str, Any] = {"lstm": {}, "char_cnn": {"embedding": {}}}
        for name, key in KEYS.items():
            *parents, last = key.path.split(".")
            node = raw
            for part in parents:
                node = node[part]
            node[last] = getattr(self, name)
        raw["char_cnn"] |= {
            "filters": [list(pair) for pair in self.filters],
            "activation": self.activation,
            "n_characters": NUM_CHARACTERS,
        }
        raw["bidirectional"] = self.directions == DIRECTIONS
        if self.directions != DIRECTIONS:  # our own key; the original always has both directions
            raw["directions"] = [*self.directions]
        write_json(path, raw)


def _check(key: str, value: int | float, least: int | float, most: int | float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key}={value}, but it must be {least:,} to {most:,}")


def _value(raw: Any, key: Key) -> Any:
    """Return a key's value. Raises KeyError if it is missing, and ValueError for another type."""
    value = raw
    for part in key.path.split("."):
        if not isinstance(value, dict) or part not in value:
            raise KeyError(key.path)
        value = value[part]
    is_number = key.kind is float and type(value) is int
    if type(value) is not key.kind and not is_number:
        raise ValueError(f"{key.path}={shown(value)}, but it must be {KINDS[key.kind]}")
    return key.kind(value)


def _filter(pair: Any) -> list[int]:
    if not isinstance(pair, list) or [type(number) for number in pair] != [int, int]:
        raise ValueError(
            f"char_cnn.filters has {shown(pair)}, but each must be [width, number of filters]"
        )
    return pair
