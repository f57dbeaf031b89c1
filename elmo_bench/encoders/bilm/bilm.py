"""The complete bidirectional language model of ELMo (section 3.1 of Peters et al. 2018).

The characters of a word go through the token encoder (`char_cnn.py`); then two directions of LSTMs
with projection, which never mix, read the sentence (`scan.py`). The output has all layers: layer 0
is the token vector twice, layer j the two directions concatenated.

Axes: B batch, T tokens, S tokens with <S> and </S>, C characters, L layers, R directions, N tokens
of a batch in reading order, D biLM (all directions), P one direction, Z cell.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.text import Sentences
from elmo_bench.text.chars import WIDTH, char_ids, is_cut, word_frame

from ..contract import Encoder, Misread
from ..encode import Chosen
from .char_cnn import CharCnn, WordCache
from .options import Options
from .scan import Order, Scan, Weights, read, stack

# Options that have no effect on the shapes of parameters.
UNSEEN = ("activation", "cell_clip", "projection_clip", "skip_connections", "directions")
TOGETHER_ON = ("cuda",)  # device types that read all directions at once
TYPES = 1 << 12  # word types in a batch of the character CNN, without a cache


class ProjectedLstm(nn.Module):
    """The parameters of one layer and direction: an LSTM whose output and state is a clipped
    projection.

    z = W_x x_t + W_h h_{t-1} + b, in blocks i, j, f, o (the order of the weight files); c_t =
    clip(sigmoid(f + 1) c_{t-1} + sigmoid(i) tanh(j));  h_t = clip(W_p (sigmoid(o) tanh(c_t))).
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        cell = options.cell_size
        projection = options.projection_size
        self.weight = nn.Parameter(torch.empty(4 * cell, 2 * projection))  # [W_x, W_h]
        self.bias = nn.Parameter(torch.zeros(4 * cell))
        self.projection_weight = nn.Parameter(torch.empty(projection, cell))
        nn.init.xavier_uniform_(self.weight)
        nn.init.xavier_uniform_(self.projection_weight)


class State(NamedTuple):
    """The state of the LSTMs: `h[direction][layer]` is "B P", `c[direction][layer]` is "B cell"."""

    h: Float[Tensor, "R N B P"]
    c: Float[Tensor, "R N B Z"]


class Chars(NamedTuple):
    """The input of a biLM: character ids, 0 after the end of a sentence."""

    chars: Int[Tensor, "B T C"]


class _Frozen(NamedTuple):
    """What is made once of the parameters of a biLM that is not trained."""

    made_of: Any  # changes if a parameter moves or is written to, or products have another type
    parameters: list[Tensor]  # so that no other tensor reuses their memory
    words: WordCache | None
    layers: dict[tuple[int, int], Weights]  # (first direction of a group, layer) -> weights


class BiLm(Encoder):
    """An encoder that returns the token layer and the LSTM layers, all directions concatenated.

    `forward` reads every sentence from a zero state, so that its vectors depend only on the
    sentence. To carry the state from batch to batch, row by row, as the original does, pass the
    state that `read` returns to the next call.

    A biLM that is not trained keeps a packed copy of its weights, which is made again after a
    change of a parameter, and is neither saved nor copied. An in-place change through
    `parameter.data` is not noticed, because torch does not count it.
    """

    bf16 = False  # whether the LSTMs' products are in bfloat16, as under autocast
    _frozen: _Frozen | None = None

    def __init__(self, options: Options, dropout: float = 0.0) -> None:
        super().__init__()
        self.options = options
        self.dropout = dropout  # on every LSTM layer's input, while training the biLM
        self.num_layers = 1 + options.num_layers  # the token layer and the LSTM layers
        self.dim = len(options.directions) * options.projection_size
        self.token_encoder = CharCnn(options)
        self.directions: Any = nn.ModuleList()
        for _ in options.directions:
            lstms = [ProjectedLstm(options) for _ in range(options.num_layers)]
            self.directions.append(nn.ModuleList(lstms))

    def fingerprint(self) -> str:
        """Return a sha256 of all parameters and unusual options, with the products' type."""
        sha256 = hashlib.sha256()
        for name in UNSEEN:
            value = getattr(self.options, name)
            if value != getattr(Options, name):
                sha256.update(f"{name}={value}".encode())
        for name, value in sorted(self.state_dict().items()):
            sha256.update(name.encode())
            sha256.update(value.cpu().contiguous().numpy())
        digest = sha256.hexdigest()
        return f"{digest}-bfloat16" if self.bf16 else digest

    def prepare(self, sentences: Sentences) -> Chars:
        """Convert a batch of sentences to character ids."""
        return Chars(char_ids(sentences))

    def misread(self, words: Collection[str]) -> Misread:
        """Return the words that are longer than a frame of characters."""
        cut = [word for word in words if is_cut(word)]
        return Misread(f"only the first {WIDTH - 2} bytes are read of", cut)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return the parameters of each LSTM layer, top layer first, then the token layer's."""
        groups = [self._parameters_of(layer) for layer in reversed(range(self.options.num_layers))]
        groups.append(list(self.token_encoder.parameters()))
        return groups

    def _parameters_of(self, layer: int, directions: slice = slice(None)) -> list[nn.Parameter]:
        """Return the parameters of a layer, direction by direction."""
        parameters: list[nn.Parameter] = []
        for lstms in self.directions[directions]:
            parameters += lstms[layer].parameters()
        return parameters

    def forward(self, inputs: Chars, layers: Chosen = None) -> Float[Tensor, "L B T D"]:
        """Return the requested layers, or all of them; 0 after the end of a sentence."""
        all_layers, _ = self.read(inputs.chars)
        if layers is None or list(layers) == list(range(self.num_layers)):
            return all_layers
        return all_layers[list(layers)]

    def zero_state(self, batch_size: int) -> State:
        """Return the state before the first token."""
        options = self.options
        shape = (len(self.directions), options.num_layers, batch_size)
        weight = self.directions[0][0].bias  # for its type and device
        h = weight.new_zeros(*shape, options.projection_size)
        c = weight.new_zeros(*shape, options.cell_size)
        return State(h, c)

    def read(
        self, chars: Int[Tensor, "B T C"], state: State | None = None, *, boundaries: bool = False
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        """Return all layers, 0 after the end of a sentence, and the state after the last token.

        With `boundaries`, the rows of <S> and </S> are kept, so that S is T + 2; otherwise T.
        """
        if chars.shape[-1] != WIDTH:
            raise ValueError(f"a biLM reads {WIDTH} characters per word, not {chars.shape[-1]}")
        framed, lengths = add_boundaries(chars)
        before = state or self.zero_state(len(chars))
        layers, after = self.read_tokens(self.tokens(framed), lengths.tolist(), before)
        if not boundaries:
            layers = layers[:, :, 1:-1]
            is_token = (chars > 0).any(-1)[None, ..., None]
            layers = layers * is_token if layers.requires_grad else layers.mul_(is_token)
        return layers, after

    def tokens(self, chars: Int[Tensor, "B S C"]) -> Float[Tensor, "B S P"]:
        """Return the token vectors, with the size of one direction. A word type is encoded once."""
        words = chars.flatten(0, 1)
        with torch.autocast(chars.device.type, enabled=False):
            frozen = self._freeze()
            if frozen and frozen.words:
                return frozen.words(words).unflatten(0, chars.shape[:2])
            types, numbers = words.unique(dim=0, return_inverse=True)
            vectors = torch.cat([self.token_encoder(part) for part in types.split(TYPES)])
            return vectors[numbers].unflatten(0, chars.shape[:2])

    def read_tokens(
        self, x: Float[Tensor, "B S P"], lengths: Sequence[int], state: State
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        """Return all layers of token vectors, which include the boundaries, and the last state."""
        names = self.options.directions
        count, width, size = x.shape
        order = Order(lengths, width, [name == "backward" for name in names], x.device)
        layers = x.new_zeros(self.num_layers, count * width, len(names), size)
        in_order = x.flatten(0, 1)[order.places]
        del x
        layers[0, order.places, order.sides] = in_order
        before = State(*(part[:, :, order.sentences] for part in state))
        after = State(torch.empty_like(state.h), torch.empty_like(state.c))
        groups = self._groups(in_order.device)
        tokens = [in_order[group] for group in groups]
        del in_order  # the memory of tokens that have been read is free
        for group in groups:
            places = (order.places[group], order.sides[group])
            outputs = self._layers(group, tokens.pop(0), order.rows, before, after)
            for layer, output in enumerate(outputs, 1):
                layers[layer, *places] = output
        after = State(*(part[:, :, order.unsorted] for part in after))
        return layers.view(-1, count, width, len(names) * size), after

    def run(
        self, x: Float[Tensor, "R B S P"], state: State
    ) -> tuple[list[Float[Tensor, "B S P"]], State]:
        """Return each direction's top layer, after dropout, and the last state, of a window of
        streams; a direction has its own token vectors, *in the order in which it reads them*.
        """
        steps = x.transpose(1, 2)
        rows = [x.shape[1]] * x.shape[2]
        after = State(torch.empty_like(state.h), torch.empty_like(state.c))
        tops: list[Tensor] = []
        for group in self._groups(x.device):
            *_, top = self._layers(group, steps[group].flatten(1, 2), rows, state, after)
            top = top.view_as(steps[group]).transpose(1, 2).contiguous()
            tops.extend(F.dropout(top, self.dropout, self.training))
        return tops, after

    def _groups(self, device: torch.device) -> list[slice]:
        """Return the directions that are read together: all on a GPU, where one product serves
        them; one on a CPU, whose caches then hold its weights.
        """
        count = len(self.directions)
        size = count if device.type in TOGETHER_ON else 1
        return [slice(first, first + size) for first in range(0, count, size)]

    def _layers(
        self, group: slice, x: Float[Tensor, "R N P"], rows: list[int], state: State, after: State
    ) -> Iterator[Float[Tensor, "R N P"]]:
        """Yield each LSTM layer's output for a group of directions, and write its last state to
        `after`; `rows` is the number of sentences with a token at each step.
        """
        frozen = self._freeze(x, *state)
        dtype = self._product_type(x)
        for layer in range(self.options.num_layers):
            x = F.dropout(x, self.dropout, self.training)
            h = state.h[group, layer]
            c = state.c[group, layer]
            # Triton launches on the current GPU, not on the tensors'.
            with torch.autocast(x.device.type, enabled=False), torch.cuda.device_of(x):
                if frozen:
                    weights = frozen.layers[group.start, layer]
                    out, h, c = read(weights.inputs(x, rows), h, c, rows, weights, self.options)
                else:
                    parameters = self._parameters_of(layer, group)
                    out, h, c = Scan.apply(x, h, c, rows, self.options, dtype, *parameters)
            if layer > 0 and self.options.skip_connections:
                out = out.add_(x) if frozen else out + x
            after.h[group, layer] = h
            after.c[group, layer] = c
            x = out
            yield x

    def forget_words(self) -> None:
        """Empty the cache of word types: a vector's last bits depend on what was read with it."""
        if self._frozen and self._frozen.words:
            self._frozen.words.forget()

    def _product_type(self, tensor: Tensor) -> torch.dtype:
        """Return the type of products: bfloat16 or autocast's, or the tensor's own."""
        if self.bf16:
            return torch.bfloat16
        kind = tensor.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype

    def _freeze(self, *inputs: Tensor) -> _Frozen | None:
        """Return what is made once of the current parameters; None if they are trained."""
        weights = list(self.parameters())
        tensors = weights + list(inputs)
        trains = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        # Inference tensors count no changes.
        if self.training or trains or any(weight.is_inference() for weight in weights):
            self._frozen = None
            return None
        dtype = self._product_type(weights[0])
        made_of = (dtype, [(weight.data_ptr(), weight._version) for weight in weights])
        if not (self._frozen and self._frozen.made_of == made_of):
            self._frozen = None  # free its memory before the new copy
            words = WordCache(self.token_encoder) if weights[0].is_cpu else None
            layers = {}
            for group in self._groups(weights[0].device):
                for layer in range(self.options.num_layers):
                    parameters = self._parameters_of(layer, group)
                    layers[group.start, layer] = Weights(stack(parameters, dtype))
            detached = [weight.detach() for weight in weights]
            self._frozen = _Frozen(made_of, detached, words, layers)
        return self._frozen

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_frozen"}


def add_boundaries(chars: Int[Tensor, "B T C"]) -> tuple[Int[Tensor, "B S C"], Int[Tensor, " B"]]:
    """Add <S> and </S> to every sentence; return the new lengths, too."""
    lengths = (chars > 0).any(-1).sum(-1) + 2
    framed = F.pad(chars, (0, 0, 1, 1))
    framed[:, 0] = torch.tensor(word_frame("<S>"), device=chars.device)
    rows = torch.arange(len(chars), device=chars.device)
    framed[rows, lengths - 1] = torch.tensor(word_frame("</S>"), device=chars.device)
    return framed, lengths
