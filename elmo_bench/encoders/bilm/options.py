"""The sizes of a biLM, and the original's `options.json`, which holds them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from elmo_bench.files import one_of, read_json, write_json
from elmo_bench.text.chars import NUM_CHARACTERS, WIDTH

DIRECTIONS = ("forward", "backward")
ACTIVATIONS = ("relu", "tanh")
KINDS: dict[Any, str] = {int: "an integer", float: "a number", bool: "true or false"}
# Where `options.json` holds a value, and the least and the greatest that it may be: far beyond any
# biLM, and small enough to be counted.
KEYS = {
    "cell_size": ("lstm.dim", 1, 1 << 16),
    "projection_size": ("lstm.projection_dim", 1, 1 << 16),
    "num_layers": ("lstm.n_layers", 1, 64),
    "cell_clip": ("lstm.cell_clip", 1e-6, 1e30),
    "projection_clip": ("lstm.proj_clip", 1e-6, 1e30),
    "skip_connections": ("lstm.use_skip_connections", False, True),
    "char_dim": ("char_cnn.embedding.dim", 1, 1 << 16),
    "num_highway": ("char_cnn.n_highway", 0, 64),
    "max_characters": ("char_cnn.max_characters_per_token", 3, 1000),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The sizes of a biLM: the content of the original's `options.json` with our names.

    Raises ValueError, with the key of that file, for a value of another type or out of its limits.
    """

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
        for name in KEYS:
            _checked(name, getattr(self, name))
        try:
            filters = tuple((width, count) for width, count in self.filters)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"char_cnn.filters={shown(self.filters)}, but they must be pairs of a width and a "
                "number of filters"
            ) from error
        _check("char_cnn.filters: how many", len(filters), int, 1, 64)
        for width, count in filters:
            _check("char_cnn.filters: a width", width, int, 1, self.max_characters)
            _check("char_cnn.filters: a number of filters", count, int, 1, 1 << 16)
        one_of("char_cnn.activation", self.activation, ACTIVATIONS)
        object.__setattr__(self, "filters", filters)
        directions = tuple(self.directions) if isinstance(self.directions, Sequence) else ()
        if directions not in (DIRECTIONS, DIRECTIONS[:1], DIRECTIONS[1:]):
            raise ValueError(
                f"directions={self.directions}, but they must be [forward], [backward] or "
                "[forward,backward]"
            )
        object.__setattr__(self, "directions", directions)

    @classmethod
    def read(cls, path: str | Path) -> "Options":
        """Read the original's `options.json`; keys that only its training used are ignored.

        Raises ValueError, with the file, for a missing key or an invalid value.
        """
        raw = read_json(path)
        try:
            values = {name: _checked(name, _value(raw, key)) for name, (key, *_) in KEYS.items()}
            cnn, both = raw["char_cnn"], raw.get("bidirectional", True)
            values["filters"] = cnn["filters"]
            values["activation"] = str(cnn.get("activation", "relu"))
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
        cnn = {
            "filters": [list(pair) for pair in self.filters],
            "activation": self.activation,
            "n_characters": NUM_CHARACTERS,
            "embedding": {},
        }
        raw: dict[str, Any] = {"lstm": {}, "char_cnn": cnn}
        for name, (key, *_) in KEYS.items():
            parent, _, last = key.rpartition(".")
            _value(raw, parent)[last] = getattr(self, name)
        raw["bidirectional"] = self.directions == DIRECTIONS
        if self.directions != DIRECTIONS:  # our own key; the original always has both directions
            raw["directions"] = [*self.directions]
        write_json(path, raw)


def _checked(name: str, value: Any) -> Any:
    """Return an option's value in its type."""
    key, least, most = KEYS[name]
    kind = Options.__annotations__[name]
    _check(key, value, kind, least, most)
    return kind(value)


def _check(key: str, value: Any, kind: Any, least: int | float, most: int | float) -> None:
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"{key}={shown(value)}, but it must be {KINDS[kind]}")
    if not least <= value <= most:
        raise ValueError(f"{key}={value}, but it must be {least:,} to {most:,}")


def _value(raw: Any, key: str) -> Any:
    """Return the value of a key with dots. Raises KeyError if it is missing."""
    for part in key.split("."):
        if not isinstance(raw, dict) or part not in raw:
            raise KeyError(key)
        raw = raw[part]
    return raw
