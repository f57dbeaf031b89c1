"""The sizes of a biLM, and the original's `options.json`, which holds them."""

from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Len
from pydantic import AfterValidator, ConfigDict, Strict, ValidationError
from pydantic.dataclasses import dataclass

from elmo_bench.bounds import Size, one_of
from elmo_bench.files import read_json, write_json
from elmo_bench.text.chars import NUM_CHARACTERS, WIDTH

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")


def _in_order(directions: Sequence[Direction]) -> tuple[Direction, ...]:
    if tuple(directions) not in (DIRECTIONS, DIRECTIONS[:1], DIRECTIONS[1:]):
        raise ValueError("Input should be [forward], [backward] or [forward,backward]")
    return tuple(directions)


IN_ORDER = AfterValidator(_in_order)
# Where `options.json` holds a value.
KEYS = {
    "cell_size": "lstm.dim",
    "projection_size": "lstm.projection_dim",
    "num_layers": "lstm.n_layers",
    "cell_clip": "lstm.cell_clip",
    "projection_clip": "lstm.proj_clip",
    "skip_connections": "lstm.use_skip_connections",
    "filters": "char_cnn.filters",
    "char_dim": "char_cnn.embedding.dim",
    "num_highway": "char_cnn.n_highway",
}
# Limits are far beyond any biLM, and small enough to be counted; lists of JSON become tuples.
Clip = Annotated[float, Ge(1e-6), Le(1e30)]
Filter = Annotated[tuple[Annotated[int, Ge(1), Le(WIDTH)], Size], Strict(False)]


@dataclass(frozen=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Options:
    """The sizes of a biLM: the content of the original's `options.json` with our names.

    Raises ValueError for a value of another type or out of its limits.
    """

    cell_size: Size
    projection_size: Size
    # (width in characters, number of filters)
    filters: Annotated[tuple[Filter, ...], Len(1, 64), Strict(False)]
    num_layers: Annotated[int, Ge(1), Le(64)] = 2
    num_highway: Annotated[int, Ge(0), Le(64)] = 1
    char_dim: Size = 16
    activation: Literal["relu", "tanh"] = "relu"
    cell_clip: Clip = 3.0
    projection_clip: Clip = 3.0
    skip_connections: bool = True
    directions: Annotated[tuple[Direction, ...], Strict(False), IN_ORDER] = DIRECTIONS

    @classmethod
    def read(cls, path: str | Path) -> "Options":
        """Read the original's `options.json`; keys that only its training used are ignored.

        Raises ValueError, with the file and the key, for a missing key or an invalid value.
        """
        raw = read_json(path)
        try:
            values = {name: _value(raw, key) for name, key in KEYS.items()}
            cnn = raw["char_cnn"]
            values["activation"] = cnn.get("activation", "relu")
            default = DIRECTIONS if raw.get("bidirectional", True) else DIRECTIONS[:1]
            values["directions"] = raw.get("directions", default)
            # The original trains with 261 and predicts with 262, for the same model.
            one_of("char_cnn.n_characters", cnn.get("n_characters", 261), (261, NUM_CHARACTERS))
            width = cnn.get("max_characters_per_token")
            one_of("char_cnn.max_characters_per_token", width, (WIDTH,))
            return cls(**values)
        except ValueError as error:
            reason = _words(error) if isinstance(error, ValidationError) else str(error)
            raise ValueError(f"{path}: not the options of a biLM: {reason}") from error

    def write(self, path: str | Path) -> None:
        """Write the original's `options.json`, with one more key for a biLM of one direction."""
        cnn: dict[str, Any] = {
            "activation": self.activation,
            "n_characters": NUM_CHARACTERS,
            "max_characters_per_token": WIDTH,
            "embedding": {},
        }
        raw: dict[str, Any] = {"lstm": {}, "char_cnn": cnn}
        for name, key in KEYS.items():
            parent, _, last = key.rpartition(".")
            _value(raw, parent)[last] = getattr(self, name)
        raw["bidirectional"] = self.directions == DIRECTIONS
        if self.directions != DIRECTIONS:  # our own key; the original always has both directions
            raw["directions"] = self.directions
        write_json(path, raw)


def _value(raw: Any, key: str) -> Any:
    """Return the value of a key with dots. Raises ValueError if it is missing."""
    for part in key.split("."):
        if not isinstance(raw, dict) or part not in raw:
            raise ValueError(f"they lack the key {key!r}")
        raw = raw[part]
    return raw


def _words(error: ValidationError) -> str:
    """Say what is wrong first, with its key in `options.json`."""
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"]]
    parts[0] = KEYS.get(parts[0], parts[0])
    key = ".".join(parts)
    return f"{key}={shown(first['input'])}: {first['msg'].removeprefix('Value error, ')}"
