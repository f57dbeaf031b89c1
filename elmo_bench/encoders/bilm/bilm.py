"""The complete bidirectional language model of ELMo (section 3.1 of Peters et al. 2018).

The characters of a word go through convolutions, a maximum over time, highway layers and a
projection; then two directions of LSTMs with projection, which never mix. The output has all
layers: layer 0 is the token vector twice, layer j the two directions concatenated.

Axes: B batch, T tokens, C characters, L layers, R directions, D biLM (all directions), P one
direction.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo_bench.files import read_json, write_json

from .chars import NUM_CHARACTERS, PAD, WIDTH, char_ids, word_frame

DIRECTIONS = ("forward", "backward")
# Options that have no effect on the shapes of parameters.
UNSEEN = (
    "activation",
    "cell_clip",
    "projection_clip",
    "skip_connections",
    "max_characters",
    "directions",
)
# The keys of `options.json` that are sizes, and the least and the greatest that each may be: far
# beyond any biLM, and small enough to be counted.
SIZES = {
    "cell_size": ("lstm.dim", 1, 1 << 16),
    "projection_size": ("lstm.projection_dim", 1, 1 << 16),
    "num_layers": ("lstm.n_layers", 1, 64),
    "num_highway": ("char_cnn.n_highway", 0, 64),
    "char_dim": ("char_cnn.embedding.dim", 1, 1 << 16),
    "max_characters": ("char_cnn.max_characters_per_token", 3, 1000),
}
CLIPS = {"cell_clip": "lstm.cell_clip", "projection_clip": "lstm.proj_clip"}
MOST_CLIP = 1e30
FILTERS, FILTERS_OF_A_WIDTH = 64, 1 << 16
KINDS = {int: "an integer", float: "a number", bool: "true or false"}
T = TypeVar("T", int, float, bool)
FORGET_BIAS = 1.0  # TensorFlow adds it at run time; weight files do not include it.


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
        if self.activation not in ("relu", "tanh"):
            raise ValueError(
                f"char_cnn.activation={shown(self.activation)}, but it must be 'relu' or 'tanh'"
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        for name, (key, least, most) in SIZES.items():
            _check_size(key, getattr(self, name), least, most)
        _check_size("char_cnn.filters: how many", len(self.filters), 1, FILTERS)
        for width, count in self.filters:
            _check_size("char_cnn.filters: a width", width, 1, self.max_characters)
            _check_size("char_cnn.filters: a number of filters", count, 1, FILTERS_OF_A_WIDTH)
        for name, key in CLIPS.items():
            value = getattr(self, name)
            if not 0 < value <= MOST_CLIP:
                raise ValueError(
                    f"{key}={value}, but it must be greater than 0 and at most {MOST_CLIP:g}"
                )

    @classmethod
    def read(cls, path: str | Path) -> "Options":
        """Read the original's `options.json`; keys that only its training used are ignored.

        Raises ValueError, with the file, for a missing key or an invalid value.
        """
        raw = read_json(path)
        try:
            cnn = raw["char_cnn"]
            directions = DIRECTIONS if raw.get("bidirectional", True) else DIRECTIONS[:1]
            options = cls(
                cell_size=_typed(int, raw, "lstm.dim"),
                projection_size=_typed(int, raw, "lstm.projection_dim"),
                num_layers=_typed(int, raw, "lstm.n_layers"),
                cell_clip=_typed(float, raw, "lstm.cell_clip"),
                projection_clip=_typed(float, raw, "lstm.proj_clip"),
                skip_connections=_typed(bool, raw, "lstm.use_skip_connections"),
                char_dim=_typed(int, raw, "char_cnn.embedding.dim"),
                filters=[*map(_filter, cnn["filters"])],
                num_highway=_typed(int, raw, "char_cnn.n_highway"),
                activation=str(cnn.get("activation", "relu")),
                max_characters=_typed(int, raw, "char_cnn.max_characters_per_token"),
                directions=raw.get("directions", directions),
            )
        except KeyError as error:
            raise ValueError(f"{path}: these biLM options lack the key {error}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not the options of a biLM: {error}") from error
        # The original trains with 261 and predicts with 262, for the same model.
        if cnn.get("n_characters", NUM_CHARACTERS) not in (NUM_CHARACTERS - 1, NUM_CHARACTERS):
            raise ValueError(
                f"{path}: char_cnn.n_characters={cnn['n_characters']}, but it must be 261 or 262"
            )
        return options

    def write(self, path: str | Path) -> None:
        """Write the original's `options.json`, with one more key for a biLM of one direction."""
        raw: dict[str, Any] = {
            "lstm": {
                "dim": self.cell_size,
                "projection_dim": self.projection_size,
                "n_layers": self.num_layers,
                "cell_clip": self.cell_clip,
                "proj_clip": self.projection_clip,
                "use_skip_connections": self.skip_connections,
            },
            "char_cnn": {
                "embedding": {"dim": self.char_dim},
                "filters": [list(pair) for pair in self.filters],
                "n_highway": self.num_highway,
                "activation": self.activation,
                "max_characters_per_token": self.max_characters,
                "n_characters": NUM_CHARACTERS,
            },
            "bidirectional": self.directions == DIRECTIONS,
        }
        if self.directions != DIRECTIONS:  # our own key; the original always has both directions
            raw["directions"] = [*self.directions]
        write_json(path, raw)


def _check_size(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key}={value}, but it must be {least:,} to {most:,}")


def _typed(kind: type[T], options: Any, key: str) -> T:
    """Return the value of a dotted key. Raises KeyError, with that key, if it is missing, and
    ValueError if it has another type.
    """
    value = options
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise KeyError(key)
        value = value[part]
    if not _is(kind, value):
        raise ValueError(f"{key}={shown(value)}, but it must be {KINDS[kind]}")
    return kind(value)


def _is(kind: type, value: Any) -> bool:
    """Whether a JSON value has this type; an integer is a number, too."""
    return type(value) is kind or (kind is float and type(value) is int)


def _filter(pair: Any) -> list[int]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(_is(int, each) for each in pair):
        raise ValueError(
            f"char_cnn.filters has {shown(pair)}, but each must be [width, number of filters]"
        )
    return pair


class Highway(nn.Module):
    """y = g * relu(W_t x + b_t) + (1 - g) * x with g = sigmoid(W_c x + b_c).

    The gate opens the *transformed* branch.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        for layer in (self.carry, self.transform):
            nn.init.normal_(layer.weight, std=size**-0.5)
        nn.init.constant_(self.carry.bias, -2.0)
        nn.init.zeros_(self.transform.bias)

    def forward(self, x: Float[Tensor, "*N F"]) -> Float[Tensor, "*N F"]:
        gate = torch.sigmoid(self.carry(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x


class CharCnn(nn.Module):
    """The token encoder: maps the characters of a word to its context-independent vector.

    As in the original, the maximum includes padding characters, which have a trained embedding.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.activation = torch.relu if options.activation == "relu" else torch.tanh
        self.embedding = nn.Embedding(NUM_CHARACTERS, options.char_dim, padding_idx=0)
        self.convolutions: Any = nn.ModuleList(
            nn.Conv1d(options.char_dim, count, width) for width, count in options.filters
        )
        size = sum(count for _, count in options.filters)
        self.highways = nn.ModuleList(Highway(size) for _ in range(options.num_highway))
        self.projection = nn.Linear(size, options.projection_size)
        self._initialise(options, size)

    def _initialise(self, options: Options, size: int) -> None:
        """Initialise the parameters as bilm-tf does."""
        nn.init.uniform_(self.embedding.weight[1:], -1.0, 1.0)
        for convolution, (width, _) in zip(self.convolutions, options.filters, strict=True):
            if options.activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                nn.init.normal_(convolution.weight, std=(width * options.char_dim) ** -0.5)
            nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.projection.weight, std=size**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, chars: Int[Tensor, "B T C"]) -> Float[Tensor, "B T P"]:
        x = self.activation(self.highest(chars.flatten(0, 1)))
        for highway in self.highways:
            x = highway(x)
        return self.projection(x).unflatten(0, chars.shape[:2])

    def highest(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N F"]:
        """Return the maximum output of each filter over all positions in a word."""
        # All windows of pad characters give the same value: past the longest word, one of the
        # widest filter's is enough.
        used = int(((chars > 0) & (chars != PAD)).sum(-1).amax())
        chars = chars[..., : used + max(conv.kernel_size[0] for conv in self.convolutions)]
        characters = self.embedding(chars).transpose(1, 2)  # "N char_dim C"
        return torch.cat([_highest(conv(characters)) for conv in self.convolutions], -1)


def _highest(x: Float[Tensor, "N F C"]) -> Float[Tensor, "N F"]:
    """Return the maximum over the last axis."""
    # `amax` is faster, but its gradient, split among ties, is five times slower.
    return x.max(-1).values if x.requires_grad else x.amax(-1)


class ProjectedLstm(nn.Module):
    """One layer and direction: an LSTM whose output and state is a clipped projection.

    z = W_x x_t + W_h h_{t-1} + b, in blocks i, j, f, o (the order of the weight files); c_t =
    clip(sigmoid(f + 1) c_{t-1} + sigmoid(i) tanh(j));  h_t = clip(W_p (sigmoid(o) tanh(c_t))).
    """

    def __init__(self, input_size: int, options: Options) -> None:
        super().__init__()
        cell, projection = options.cell_size, options.projection_size
        self.cell_clip, self.projection_clip = options.cell_clip, options.projection_clip
        self.weight = nn.Parameter(torch.empty(4 * cell, input_size + projection))  # [W_x, W_h]
        self.bias = nn.Parameter(torch.zeros(4 * cell))
        self.projection_weight = nn.Parameter(torch.empty(projection, cell))
        nn.init.xavier_uniform_(self.weight)
        nn.init.xavier_uniform_(self.projection_weight)

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        mask: Bool[Tensor, "B T"],
        h: Float[Tensor, "B P"],
        c: Float[Tensor, "B Z"],
    ) -> tuple[Float[Tensor, "B T P"], Float[Tensor, "B P"], Float[Tensor, "B Z"]]:
        """Read x from left to right. Where the mask is off, output 0 and keep the state."""
        input_weight, state_weight = self.weight.split((x.shape[-1], h.shape[-1]), dim=1)
        from_input = F.linear(x, input_weight, self.bias)
        outputs = []
        for t in range(x.shape[1]):
            i, j, f, o = (from_input[:, t] + F.linear(h, state_weight)).chunk(4, -1)
            new_c = torch.sigmoid(f + FORGET_BIAS) * c + torch.sigmoid(i) * torch.tanh(j)
            new_c = new_c.clamp(-self.cell_clip, self.cell_clip)
            new_h = F.linear(torch.sigmoid(o) * torch.tanh(new_c), self.projection_weight)
            new_h = new_h.clamp(-self.projection_clip, self.projection_clip)
            is_token = mask[:, t, None]
            outputs.append(torch.where(is_token, new_h, 0))
            h, c = torch.where(is_token, new_h, h), torch.where(is_token, new_c, c)
        return torch.stack(outputs, 1), h, c


class State(NamedTuple):
    """The state of the LSTMs: `h[direction][layer]` is "B P", `c[direction][layer]` is "B cell"."""

    h: Float[Tensor, "R N B P"]
    c: Float[Tensor, "R N B Z"]


class Chars(NamedTuple):
    """The input of a biLM: character ids, 0 after the end of a sentence."""

    chars: Int[Tensor, "B T C"]


def reverse(x: Float[Tensor, "B T *F"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T *F"]:
    """Reverse each sequence within its own length; padding stays in place."""
    time = torch.arange(x.shape[1], device=x.device)
    index = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    return x[torch.arange(x.shape[0], device=x.device)[:, None], index]


class BiLm(nn.Module):
    """An encoder that returns the token layer and the LSTM layers, all directions concatenated.

    `forward` reads every sentence from a zero state, so that its vectors depend only on the
    sentence. To carry the state from batch to batch, row by row, as the original does, pass the
    state that `read` returns to the next call.
    """

    char_cnn: ClassVar[type[CharCnn]] = CharCnn

    def __init__(self, options: Options, dropout: float = 0.0) -> None:
        super().__init__()
        self.options = options
        self.dropout = dropout  # on every LSTM layer's input, while training the biLM
        self.token_encoder = self.char_cnn(options)
        self.directions: Any = nn.ModuleList(
            nn.ModuleList(
                ProjectedLstm(options.projection_size, options) for _ in range(options.num_layers)
            )
            for _ in options.directions
        )

    @property
    def num_layers(self) -> int:
        """The number of layers: the LSTM layers and the token layer."""
        return self.options.num_layers + 1

    @property
    def dim(self) -> int:
        """D, the size of a layer over all directions."""
        return len(self.directions) * self.options.projection_size

    def fingerprint(self) -> str:
        """Return a sha256 of all parameters and of the options that differ from the original's."""
        sha256 = hashlib.sha256()
        for name in UNSEEN:
            value = getattr(self.options, name)
            if value != getattr(Options, name):
                sha256.update(f"{name}={value}".encode())
        for name, value in sorted(self.state_dict().items()):
            sha256.update(name.encode())
            sha256.update(value.cpu().contiguous().numpy())
        return sha256.hexdigest()

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Chars:
        """Convert a batch of sentences to character ids."""
        return Chars(char_ids(sentences, self.options.max_characters))

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return the parameters of each LSTM layer, top layer first, and those of the token layer
        last.
        """
        layers = [
            [p for lstms in self.directions for p in lstms[k].parameters()]
            for k in range(self.options.num_layers)
        ]
        return [*reversed(layers), [*self.token_encoder.parameters()]]

    def forward(
        self, inputs: Chars, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """Return the requested layers, or all of them; 0 after the end of a sentence."""
        all_layers, _ = self.read(inputs.chars)
        if layers is None or [*layers] == [*range(self.num_layers)]:
            return all_layers
        return all_layers[list(layers)]

    def zero_state(self, batch_size: int) -> State:
        """Return the state before the first token."""
        weight = self.directions[0][0].bias
        shape = len(self.directions), self.options.num_layers, batch_size
        return State(
            weight.new_zeros(*shape, self.options.projection_size),
            weight.new_zeros(*shape, self.options.cell_size),
        )

    def token_layer(self, chars: Int[Tensor, "B T C"]) -> Float[Tensor, "B T P"]:
        """Return the token vectors, with the size of one direction."""
        return self.token_encoder(chars)

    def run(
        self,
        direction: int,
        x: Float[Tensor, "B T P"],
        mask: Bool[Tensor, "B T"] | None,
        state: State,
    ) -> tuple[list[Float[Tensor, "B T P"]], State]:
        """Run the LSTM layers of one direction over token vectors *in the order in which it reads
        them*.

        `state` has all directions. Without a mask the input is a stream of text, without padding.
        """
        mask = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        outputs, hs, cs = [], [], []
        for layer, lstm in enumerate(self.directions[direction]):
            x = F.dropout(x, self.dropout, self.training)
            out, h, c = lstm(x, mask, state.h[direction, layer], state.c[direction, layer])
            x = out + x if layer and self.options.skip_connections else out
            outputs.append(x)
            hs.append(h)
            cs.append(c)
        return outputs, State(torch.stack(hs), torch.stack(cs))

    def run_directions(
        self,
        inputs: Sequence[Float[Tensor, "B T P"]],
        mask: Bool[Tensor, "B T"] | None,
        state: State,
    ) -> Iterator[tuple[list[Float[Tensor, "B T P"]], State]]:
        """Call `run` for every direction, each with its own inputs."""
        for direction, x in enumerate(inputs):
            yield self.run(direction, x, mask, state)

    def read(
        self, chars: Int[Tensor, "B T C"], state: State | None = None, *, boundaries: bool = False
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        """Return all layers, 0 after the end of a sentence, and the state after the last token.

        With `boundaries`, the rows of <S> and </S> are kept, so that S is T + 2; otherwise T.
        """
        width = self.options.max_characters
        if chars.shape[-1] != width:
            raise ValueError(f"this biLM reads {width} characters per word, not {chars.shape[-1]}")
        framed, lengths = add_boundaries(chars)
        layers, state = self.read_framed(framed, lengths, state or self.zero_state(len(chars)))
        if not boundaries:
            layers, is_token = layers[:, :, 1:-1], (chars > 0).any(-1)[None, ..., None]
            layers = layers * is_token if layers.requires_grad else layers.mul_(is_token)
        return layers, state

    def read_framed(
        self, chars: Int[Tensor, "B S C"], lengths: Int[Tensor, " B"], state: State
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        """Like `read`, for sentences that include their boundaries."""
        mask = torch.arange(chars.shape[1], device=chars.device) < lengths[:, None]
        x = self.token_layer(chars) * mask[..., None]
        names = self.options.directions
        inputs = [x if name == "forward" else reverse(x, lengths) for name in names]
        outputs, states = [], []  # one for each direction
        for name, (read, after) in zip(
            names, self.run_directions(inputs, mask, state), strict=True
        ):
            if name == "backward":
                read = [reverse(layer, lengths) for layer in read]
            outputs.append([x, *read])
            states.append(after)
        sides = zip(*outputs, strict=True)
        layers = torch.stack([torch.cat(side, -1) * mask[..., None] for side in sides])
        h, c = (torch.stack(parts) for parts in zip(*states, strict=True))
        return layers, State(h, c)


def add_boundaries(chars: Int[Tensor, "B T C"]) -> tuple[Int[Tensor, "B S C"], Int[Tensor, " B"]]:
    """Add <S> and </S> to every sentence; return the new lengths, too."""
    lengths = (chars > 0).any(-1).sum(-1) + 2
    framed = F.pad(chars, (0, 0, 1, 1))
    width = chars.shape[-1]
    framed[:, 0] = torch.tensor(word_frame("<S>", width), device=chars.device)
    rows = torch.arange(len(chars), device=chars.device)
    framed[rows, lengths - 1] = torch.tensor(word_frame("</S>", width), device=chars.device)
    return framed, lengths
