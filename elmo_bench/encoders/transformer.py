"""Any text encoder of Hugging Face transformers as an encoder with one vector per word and layer.

A sentence is tokenised once, as raw text with one space between words, so that each word has the
same subwords as in running text (byte-level BPE encodes " word" and "word" differently). The vector
of a word is that of its first or last subword, or the mean of all. A sentence longer than the
model's window is read in windows that overlap by half; for each word, the copy with the most
context is used.

Axes: L layers, B batch, T tokens (words), P subwords ("pieces") of a sentence, W windows of a
sentence, D encoder, N windows that the model reads at once, S subwords of a window with its special
tokens.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from annotated_types import Predicate
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo_bench.checks import Count, one_of

from .tensors import check_finite

log = logging.getLogger(__name__)
# Slow imports, which a sweep makes once for all its runs, and this file on demand.
LATER = ("transformers.modeling_utils", "transformers.models.auto.modeling_auto")
POOLINGS = ("first", "last", "mean")
DTYPES = ("float32", "bfloat16", "float16")
# For any other name transformers would download a kernel, that is code, from the hub.
ATTENTIONS = (None, "sdpa", "eager", "flash_attention_2")
Pooling = Annotated[str, Predicate(POOLINGS.__contains__), "first, last or mean"]
Dtype = Annotated[str, Predicate(DTYPES.__contains__), "float32, bfloat16 or float16"]
Attention = Annotated[str, Predicate(ATTENTIONS.__contains__), "sdpa, eager or flash_attention_2"]
UNBOUNDED = 512  # pieces of a window if neither model nor tokenizer has a limit
MAX_PARAMETERS, SPARE_PARAMETERS = 20_000_000_000, 10_000_000
# Maxima of the numbers in a config.json, by part of their names.
MOST = {
    "(layer|expert|block|stage|group)s?$|group_num": 1 << 12,
    "label": 1 << 20,
    "position": 1 << 24,
}
MOST_OF_ALL = 1 << 31
# Pieces in a batch, including padding; more are not faster on a CPU.
BATCH_PIECES, GPU_PIECES = 1024, 8192
SPACES = ("▁", "Ġ", " ")  # pieces that are only a space
VOLATILE = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "use_cache",
)  # of a config


class Pieces(NamedTuple):
    """A batch of sentences as subwords, without special tokens."""

    ids: Int[Tensor, "B P"]
    words: Int[Tensor, "B P"]  # each piece's word; -1 past the sentence's last piece
    shares: Float[Tensor, "B P"]  # weight of a piece in its word's vector: 1/n for mean
    homes: Int[Tensor, "B P"]  # the window whose vector of a piece is used
    windows: Int[Tensor, "B W 2"]  # first piece, and the one after the last; 0, 0: no window
    mask: Bool[Tensor, "B T"]  # true for words, false for padding


class Split(NamedTuple):
    """The subwords of all sentences, concatenated (K of them)."""

    ids: Int[np.ndarray, " K"]
    words: Int[np.ndarray, " K"]  # each piece's word, as its number in the sentence
    sizes: Int[np.ndarray, " B"]  # number of pieces of each sentence


class Part(NamedTuple):
    """Some windows of a batch, and for each subword in them that counts (K): its position, its
    word, and its share of the word's vector.
    """

    ids: Int[Tensor, "N S"]
    mask: Int[Tensor, "N S"] | None  # None: no padding
    source: Int[Tensor, " K"]  # each piece's row among the N S rows of the model's output
    word: Int[Tensor, " K"]  # each piece's word, as its number among B T
    share: Float[Tensor, "K 1"]


class Transformer(nn.Module):
    """The layers of a model: layer 0 is the output of the embeddings, layer j the output of block
    j.

    `model` is a folder or a name on the hub, at `revision`. For an encoder-decoder, only the
    encoder is used. Weights are read only from safetensors, and remote code is never run.
    `pretrained=False` keeps random weights of the same sizes.

    `pooling` is first, last or mean. None means first, or last for causal models, in which the
    first subword has not read the rest of the word. `first` is the first subword that is not only a
    space. A word without subwords (an empty one, control characters) has zeros.

    `window` is the maximum number of subwords that the model reads at once, including special
    tokens; None is the model's limit. Windows begin and end at words. A word that does not fit is
    split between subwords and pooled over the windows that contain it.

    `final_norm=False` returns the top layer before the model's final norm, like the layers below,
    for models that have one (ModernBERT, GPT-2, T5, Llama, ...); it has no effect on others.

    Raises ImportError without transformers, OSError for a model that cannot be loaded, and
    ValueError for one that is not a text encoder, requires remote code or whose weights do not fit,
    or for an invalid setting.
    """

    # It lays out what the model reads on the host, and moves that: `encode` leaves it to it, so
    # that the host need not wait for the batch before.
    moves_inputs = True

    def __init__(
        self,
        *,
        model: str | Path | None,
        revision: str | None = None,
        pooling: Pooling | None = None,
        dtype: Dtype = "float32",
        window: Count | None = None,
        final_norm: bool = True,
        pretrained: bool = True,
        gradient_checkpointing: bool = False,
        attention: Attention | None = None,
    ) -> None:
        super().__init__()
        if pooling is not None and pooling not in POOLINGS:
            raise ValueError(
                f"encoder.pooling={pooling}, but it must be {', '.join(POOLINGS)} or null"
            )
        if dtype not in DTYPES:
            raise ValueError(f"encoder.dtype={dtype}, but it must be {', '.join(DTYPES)}")
        if not model:
            raise ValueError(
                "encoder.model is empty: give a name on the hub or a folder, such as "
                "encoder.model=bert-base-cased"
            )
        one_of("encoder.attention", attention, ATTENTIONS)
        if attention == "flash_attention_2" and not find_spec("flash_attn"):
            raise ValueError("encoder.attention=flash_attention_2 requires the package flash-attn")
        with _naming(model):  # the files may be damaged or malicious
            self.tokenizer, self.model = _load(
                str(model), revision, getattr(torch, dtype), attention, pretrained
            )
            self._prefix, self._suffix = _specials(self.tokenizer, model)
            self._spaces = _space_ids(self.tokenizer)
            self._between = " " if self.tokenizer.is_fast else _between(self.tokenizer)
            self._pad = _padding_id(self.model, self.tokenizer)
            self.window = _window(
                self.model, self.tokenizer, window, len(self._prefix) + len(self._suffix)
            )
            about = _anatomy(self.model, model, self._pad)
        self.num_layers, self.dim, self._blocks = about.num_layers, about.dim, about.blocks
        self.causal, self._pads = about.causal, about.pads
        self.pooling = pooling or ("last" if self.causal else "first")
        self.final_norm = final_norm
        if not final_norm and not self._blocks:
            raise ValueError(
                "encoder.final_norm=false needs the output of the last block, which cannot "
                f"be found in encoder.model={model} ({type(self.model).__name__}): use "
                "encoder.final_norm=true"
            )
        self.gradient_checkpointing = gradient_checkpointing
        if gradient_checkpointing:
            enable = getattr(
                self.model,
                "activation_checkpointing_enable",
                self.model.gradient_checkpointing_enable,
            )
            _saying(model, enable, {"use_reentrant": False})
        self._said = False  # whether words without a piece were reported
        self.eval()

    def fingerprint(self) -> str:
        """Return a sha256 of the weights, the config, the tokenizer and every setting that affects
        the layers.
        """
        sha256 = hashlib.sha256()
        config = {
            key: value for key, value in self.model.config.to_dict().items() if key not in VOLATILE
        }
        settings = (
            self.pooling,
            self.window,
            self.final_norm,
            self.model.config._attn_implementation,
        )
        for part in (config, settings, _tokenizer_text(self.tokenizer), self._prefix, self._suffix):
            sha256.update(json.dumps(part, sort_keys=True, default=str).encode())
        for name, value in sorted(self.model.state_dict().items()):
            sha256.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            sha256.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return sha256.hexdigest()

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return the parameters of each block, top block first and with the modules after it (a
        final norm), then all others: the embeddings and what the blocks share. A model whose blocks
        cannot be found has a single group.
        """
        if not self._blocks:
            return [[*self.model.parameters()]]
        in_blocks = {parameter for block in self._blocks for parameter in block.parameters()}
        above = _run_after(self.model, self._blocks[-1]) - in_blocks
        groups = [[*block.parameters()] for block in reversed(self._blocks)]
        groups[0] += [parameter for parameter in self.model.parameters() if parameter in above]
        return [*groups, [p for p in self.model.parameters() if p not in in_blocks | above]]

    # Words to pieces.

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Return the subwords of a batch, in the windows that the model will read. Raises
        ValueError for a subword without an embedding.
        """
        split = self._split_as_text if self.tokenizer.is_fast else self._split_words
        all_ids, all_words, sizes = split(sentences)
        count, length = len(sizes), int(sizes.max(initial=0))
        ids, homes = np.zeros((2, count, length), dtype=np.int64)
        words = np.full((count, length), -1)
        there = np.arange(length) < sizes[:, None]
        ids[there], words[there] = all_ids, all_words
        windows = self._windows(sizes, words, homes)
        shares = self._shares(ids, words)
        self._check(sentences, ids, words, shares)
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if count else 0) < lengths[:, None]
        arrays = [torch.from_numpy(array) for array in (ids, words, shares, homes, windows)]
        return Pieces._make([*arrays, mask])

    def _windows(
        self,
        sizes: Int[np.ndarray, " B"],
        words: Int[np.ndarray, "B P"],
        homes: Int[np.ndarray, "B P"],
    ) -> Int[np.ndarray, "B W 2"]:
        """Return the windows of each sentence; `homes` is filled for sentences with several."""
        capacity = self.window - len(self._prefix) - len(self._suffix)
        several = {}
        for row in (sizes > capacity).nonzero()[0]:
            several[row], homes[row, : sizes[row]] = _windows(
                words[row, : sizes[row]], capacity, left_only=self.causal
            )
        most = max(map(len, several.values()), default=int(sizes.max(initial=0) > 0))
        windows = np.zeros((len(sizes), most, 2), dtype=np.int64)
        if most:
            windows[:, 0, 1] = sizes
        for row, spans in several.items():
            windows[row, : len(spans)] = spans
        return windows

    def _split_as_text(self, sentences: Sequence[Sequence[str]]) -> Split:
        """Split into subwords with a fast tokenizer, which returns the position of each subword in
        the text.
        """
        kept = [
            [n for n, word in enumerate(words) if word and not word.isspace()]
            for words in sentences
        ]
        texts = [
            _valid(" ".join([words[n] for n in numbers]))
            for words, numbers in zip(sentences, kept, strict=True)
        ]
        if not texts:
            return Split._make(np.empty((3, 0), int))
        # A word that looks like a special piece, such as "</s>", is an ordinary word.
        how = _BARE | {"split_special_tokens": True, "return_offsets_mapping": True}
        encoded = self.tokenizer(texts, **how)
        ids, offsets = (
            [pieces if text else [] for pieces, text in zip(encoded[name], texts, strict=True)]
            for name in ("input_ids", "offset_mapping")
        )
        sizes = np.array([*map(len, ids)])
        # Offsets as in one text, in which each word includes the space before it.
        ends = np.cumsum(
            [
                len(words[n]) + 1
                for words, numbers in zip(sentences, kept, strict=True)
                for n in numbers
            ]
        )
        first = np.cumsum([0, *(len(text) + bool(text) for text in texts[:-1])])
        begins = np.fromiter(map(_BEGIN, chain.from_iterable(offsets)), int, sizes.sum())
        word = np.searchsorted(ends, 1 + begins + np.repeat(first, sizes), side="right")
        # A piece without characters may follow the text.
        word = np.minimum(word, np.repeat(np.cumsum([*map(len, kept)]) - 1, sizes))
        numbers = np.fromiter(chain.from_iterable(kept), int, len(ends))
        all_ids = np.fromiter(chain.from_iterable(ids), int, sizes.sum())
        return Split(all_ids, numbers[np.maximum.accumulate(word)], sizes)

    def _split_words(self, sentences: Sequence[Sequence[str]]) -> Split:
        """Split into subwords with a slow tokenizer, one word at a time; each word includes the
        space before it if the tokenizer has spaces.
        """
        pieces: list[int] = []
        numbers: list[int] = []
        sizes = []
        for sentence in sentences:
            begin = len(pieces)
            for number, word in enumerate(sentence):
                if word and not word.isspace():
                    ids = _ids(
                        self.tokenizer, (self._between if len(pieces) > begin else "") + word
                    )
                    pieces += ids
                    numbers += [number] * len(ids)
            sizes.append(len(pieces) - begin)
        return Split._make(np.array(values, int) for values in (pieces, numbers, sizes))

    def _shares(
        self, ids: Int[np.ndarray, "B P"], words: Int[np.ndarray, "B P"]
    ) -> Float[np.ndarray, "B P"]:
        """Return the share of each subword in the vector of its word; 0 after the end of a
        sentence.
        """
        there = words >= 0
        before, after = (
            np.pad(words, ((0, 0), (1, 1)), constant_values=-1)[:, side] != words
            for side in (slice(None, -2), slice(2, None))
        )
        if self.pooling == "last":
            return (after & there).astype(np.float32)
        first = before & there
        if self.pooling == "mean":
            number = first.cumsum().reshape(words.shape)[there]  # number of each word in the batch
            shares = np.zeros(words.shape, np.float32)
            shares[there] = 1 / np.bincount(number)[number]
            return shares
        spaces = np.isin(ids, self._spaces) if self._spaces else np.zeros_like(first)
        for row, piece in zip(*(first & spaces).nonzero(), strict=True):
            of_word = (words[row] == words[row, piece]) & ~spaces[row]
            if (others := of_word[piece:].nonzero()[0]).size:
                first[row, piece], first[row, piece + others[0]] = False, True
        return first.astype(np.float32)

    def _check(
        self,
        sentences: Sequence[Sequence[str]],
        ids: np.ndarray,
        words: np.ndarray,
        shares: np.ndarray,
    ) -> None:
        """Warn once about words without subwords; raise ValueError for a subword without an
        embedding.
        """
        size = _num_embeddings(self.model)
        if ids.size and ids.max() >= size:
            piece = self.tokenizer.convert_ids_to_tokens(int(ids.max()))
            raise ValueError(
                f"the tokenizer maps subword {piece!r} to {ids.max()}, but the model of "
                f"encoder.model has only {size} embeddings: use the tokenizer of this model"
            )
        if not self._said and round(shares.sum(dtype=float)) < sum(map(len, sentences)):
            without = [
                word
                for sentence, row in zip(sentences, words, strict=True)
                for word in (sentence[n] for n in sorted({*range(len(sentence))} - {*row.tolist()}))
            ]
            self._said = True
            log.warning(
                "%d words of this batch have no subword in the tokenizer, such as %.40r: "
                "such words have zeros in all layers",
                *(len(without), without[0]),
            )

    # Pieces to layers.

    def forward(
        self, inputs: Pieces, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """Return the requested layers, in that order, or all of them, in the model's dtype; blocks
        above the highest one do not run.
        """
        chosen = list(range(self.num_layers)) if layers is None else list(layers)
        count, length = inputs.mask.shape
        weight = next(self.model.parameters())
        mean = self.pooling == "mean"  # pieces are summed in float32
        zeros = partial(weight.new_zeros, dtype=torch.float32 if mean else weight.dtype)
        # One tensor, unless training: in-place writes would copy the gradient for each layer.
        trains = torch.is_grad_enabled()
        whole = zeros((len(chosen), 0 if trains else count * length, self.dim))
        pooled = [zeros((count * length, self.dim)) if trains else layer for layer in whole]

        def take(layer: int, hidden: Float[Tensor, "N S D"], part: Part) -> None:
            rows = hidden.flatten(0, 1).index_select(0, part.source).to(whole.dtype)
            rows = rows * part.share if mean else rows
            for vectors, number in zip(pooled, chosen, strict=True):
                if number == layer:
                    vectors.index_add_(0, part.word, rows)

        for part in self._parts(inputs, weight.device):
            self._read(part.ids, part.mask, {*chosen}, partial(take, part=part))
        layered = torch.stack(pooled) if trains else whole
        return layered.unflatten(1, (count, length)).to(weight.dtype)

    def _parts(self, inputs: Pieces, device: torch.device) -> Iterator[Part]:
        """Yield what the model reads at once, shortest windows first to reduce padding.

        All of it is computed on the host, which waits once for the device if the inputs are there.
        """
        ids, words, shares, homes, windows, _ = (tensor.cpu() for tensor in inputs)
        starts, ends = windows.unbind(-1)
        sentence, window = (ends > starts).nonzero(as_tuple=True)  # of each window
        start, size = starts[sentence, window], (ends - starts)[sentence, window]
        order = size.argsort(stable=True)
        sentence, window, start, size = (x[order] for x in (sentence, window, start, size))
        number = torch.zeros_like(starts).index_put((sentence, window), torch.arange(len(order)))

        row, piece = (shares > 0).nonzero(as_tuple=True)  # of each piece with a weight
        home, order = number[row, homes[row, piece]].sort(stable=True)
        row, piece = row[order], piece[order]
        column = piece - start[home] + len(self._prefix)
        word, share = row * inputs.mask.shape[1] + words[row, piece], shares[row, piece, None]
        for first, last in self._batches(size.tolist(), device):
            framed, mask = self._frame(
                ids, sentence[first:last], start[first:last], size[first:last]
            )
            begin, end = torch.searchsorted(home, torch.tensor([first, last])).tolist()
            source = (home[begin:end] - first) * framed.shape[1] + column[begin:end]
            part = framed, mask, source, word[begin:end], share[begin:end]
            yield Part._make(_sent(tensor, device) for tensor in part)

    def _batches(self, sizes: Sequence[int], device: torch.device) -> Iterator[tuple[int, int]]:
        """Yield batches of windows, shortest first, with a maximum number of subwords, as [first,
        end) ranges.

        All windows of a batch have the same size if padding would change the model's layers.
        """
        most = GPU_PIECES if device.type == "cuda" else BATCH_PIECES
        first, special = 0, len(self._prefix) + len(self._suffix)
        for number, size in enumerate(sizes):
            full = (number + 1 - first) * (size + special) > most
            if number > first and (full or (not self._pads and size > sizes[first])):
                yield first, number
                first = number
        if sizes:
            yield first, len(sizes)

    def _frame(
        self,
        ids: Int[Tensor, "B P"],
        sentence: Int[Tensor, " N"],
        start: Int[Tensor, " N"],
        size: Int[Tensor, " N"],
    ) -> tuple[Int[Tensor, "N S"], Int[Tensor, "N S"] | None]:
        """Return some windows as the model reads them, with special tokens and padding, and the
        mask; the mask is None without padding, since attention is then faster.
        """
        prefix, suffix = len(self._prefix), len(self._suffix)
        longest, is_padded = int(size[-1]), bool(size[0] < size[-1])
        column = torch.arange(prefix + longest + suffix) - prefix
        size = size[:, None]
        framed = ids[sentence[:, None], (start[:, None] + column).clamp(0, ids.shape[1] - 1)]
        framed = framed.masked_fill(column >= size, self._pad)
        for number, special in enumerate(self._prefix):
            framed[:, number] = special
        for number, special in enumerate(self._suffix):
            framed = framed.masked_fill(column == size + number, special)
        return framed, (column < size + suffix).long() if is_padded else None

    def _read(
        self,
        ids: Int[Tensor, "N S"],
        mask: Int[Tensor, "N S"] | None,
        layers: Collection[int],
        take: Callable[[int, Tensor], None],
    ) -> None:
        """Run the model and `take` the requested layers as they are computed: the input of a block
        is the layer below it, so that the model can stop there.
        """
        if not layers:
            return
        if not self._blocks:
            states = self.model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True, return_dict=True
            ).hidden_states
            for layer in layers:
                take(layer, states[layer])
            return
        top = len(self._blocks)
        # Stopping a forward pass early is not safe with checkpointed activations.
        stop = None if self.gradient_checkpointing and self.model.training else max(layers)

        def keep(layer: int) -> Callable[..., None]:
            def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                take(layer, _given(args, kwargs))
                if layer == stop:
                    raise _Enough

            return hook

        hooks = [
            self._blocks[k].register_forward_pre_hook(keep(k), with_kwargs=True)
            for k in {*layers} - {top}
        ]
        if not self.final_norm and top in layers:
            hooks.append(
                self._blocks[-1].register_forward_hook(lambda *about: take(top, _first(about[-1])))
            )
        try:
            out = self.model(
                input_ids=ids, attention_mask=mask, output_hidden_states=False, return_dict=True
            )
            if self.final_norm and top in layers:
                take(top, out.last_hidden_state)
        except _Enough:
            pass
        finally:
            for hook in hooks:
                hook.remove()


def _sent(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    """Send to the device without waiting on the host."""
    if tensor is None or device.type != "cuda":
        return tensor if tensor is None else tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class _Enough(Exception):  # noqa: N818
    """Raised to leave a model's forward once the highest requested layer is computed; not
    an error.
    """


# Loading, and properties of models.

_BEGIN = itemgetter(0)
_BARE: dict[str, Any] = {  # tokenizer arguments for all pieces, and only pieces
    **{"add_special_tokens": False, "padding": False, "truncation": False, "verbose": False},
    **{"return_attention_mask": False, "return_token_type_ids": False},
}


def _load(
    model: str, revision: str | None, dtype: torch.dtype, attention: str | None, pretrained: bool
) -> tuple[Any, Any]:
    """Return the tokenizer and the model, without a pooler; for an encoder-decoder, its encoder."""
    transformers = _transformers()
    source = str(Path(model).expanduser())
    folder = Path(source) if Path(source).is_dir() else None
    if folder is None and (model.startswith((".", "/", "~")) or model.count("/") > 1):
        raise FileNotFoundError(
            f"encoder.model={model}: no such folder; give a folder with a config.json, or a name "
            "on the hub, such as google/electra-base-discriminator"
        )
    if folder and not (folder / "config.json").is_file():
        raise FileNotFoundError(f"encoder.model={model}: this folder has no config.json")
    where: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
    with _quiet(transformers):
        get = transformers.PretrainedConfig.get_config_dict
        _check_sizes(model, _saying(model, get, source, **where)[0])
        config = _saying(model, transformers.AutoConfig.from_pretrained, source, **where)
        config.use_cache = False
        if getattr(config, "_attn_implementation", None) not in ATTENTIONS:
            raise ValueError(
                f"encoder.model={model}: its config.json sets "
                f"attn_implementation={config._attn_implementation}, which is remote code; "
                "remote code is never run"
            )
        if not hasattr(config, "vocab_size"):
            raise ValueError(
                f"encoder.model={model} is not a text encoder: its type is {config.model_type}"
            )
        if folder and not any(folder.glob("*token*")) and not any(folder.glob("vocab*")):
            raise FileNotFoundError(
                f"encoder.model={model}: this folder has no tokenizer (tokenizer.json)"
            )
        tokenizer = _saying(model, transformers.AutoTokenizer.from_pretrained, source, **where)
        text_encoding = transformers.AutoModelForTextEncoding
        two_halves = bool(getattr(config, "is_encoder_decoder", False))
        auto = (
            text_encoding
            if two_halves and type(config) in text_encoding._model_mapping
            else transformers.AutoModel
        )
        _check_room(model, auto, config, folder if pretrained else None)
        how = {"dtype": dtype, "trust_remote_code": False} | (
            {"attn_implementation": attention} if attention else {}
        )
        if pretrained:
            if folder and not any(folder.glob("*.safetensors")):
                raise FileNotFoundError(
                    f"encoder.model={model}: this folder has no safetensors weights; pickle "
                    "files (pytorch_model.bin) are not read, since loading them runs code: "
                    "save the model again with save_pretrained"
                )
            how |= {
                "config": config,
                "use_safetensors": True,
                "output_loading_info": True,
                "revision": where["revision"],
            }
            whole, about = _saying(model, auto.from_pretrained, source, **how)
            check_finite(f"encoder.model={model}", dict(whole.named_parameters()))
        else:
            whole, about = _saying(model, auto.from_config, config, **how), {}
            log.info("encoder.pretrained=false: %s has random weights", model)
    built = whole.get_encoder() if two_halves and auto is not text_encoding else whole
    if isinstance(getattr(built, "pooler", None), nn.Module):
        built.pooler = nn.Identity()  # many checkpoints lack it, and no layer uses it
    used = {id(tensor) for tensor in built.state_dict(keep_vars=True).values()}
    names = {
        name for name, tensor in whole.state_dict(keep_vars=True).items() if id(tensor) in used
    }
    keys = [*about.get("missing_keys", ()), *about.get("mismatched_keys", ())]
    random = sorted(names & {key if isinstance(key, str) else key[0] for key in keys})
    if random:
        raise ValueError(
            f"encoder.model={model}: its files have no weights for "
            f"{', '.join(random[:3])}{' ...' if len(random) > 3 else ''} ({len(random)} of "
            f"{len(names)} tensors), which would stay random: check that its config.json "
            "belongs to these weights"
        )
    return tokenizer, built.float().to(dtype) if not pretrained else built


def _transformers() -> Any:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a loader forks its workers
    try:
        import transformers
    except ImportError as error:
        raise ImportError(
            "encoder=transformer requires a package: pip install 'elmo-bench[transformers]'"
        ) from error
    return transformers


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Suppress progress bars and lists of unused heads; what matters is raised as an error."""
    logging_ = transformers.utils.logging
    verbosity, bars = logging_.get_verbosity(), logging_.is_progress_bar_enabled()
    logging_.set_verbosity_error()
    logging_.disable_progress_bar()
    try:
        yield
    finally:
        logging_.set_verbosity(verbosity)
        if bars:
            logging_.enable_progress_bar()


def _check_sizes(model: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError for sizes in config.json for which transformers would build too many
    modules.
    """
    for key, value in settings.items():
        if isinstance(value, Mapping):
            _check_sizes(model, value)
        elif isinstance(value, int):
            most = next((most for part, most in MOST.items() if re.search(part, key)), MOST_OF_ALL)
            if value > most:
                raise ValueError(
                    f"encoder.model={model}: its config.json has {key}={value}, but it must be "
                    f"at most {most:,}"
                )


def _check_room(model: str, auto: Any, config: Any, folder: Path | None) -> None:
    """Raise ValueError for a config with more parameters than memory or the files of the folder
    allow.
    """
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        whole = _saying(model, auto.from_config, config, trust_remote_code=False)
    count = sum(parameter.numel() for parameter in whole.parameters())
    most = MAX_PARAMETERS
    if folder:  # at least a byte each; missing parameters are reported later
        stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        most = min(most, stored + SPARE_PARAMETERS)
    if count > most:
        raise ValueError(
            f"encoder.model={model}: its config.json describes a model of {count:,} "
            f"parameters, but its files and the limit of {MAX_PARAMETERS:,} allow {most:,}"
        )


def _saying(model: Any, function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Call a function of transformers; its exceptions are re-raised in terms of `encoder.model`."""
    with _naming(model):
        return function(*args, **settings)


@contextmanager
def _naming(model: Any) -> Iterator[None]:
    """Re-raise exceptions of transformers in terms of `encoder.model`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of tokenizers (Rust) are BaseExceptions
        said = f"{error}".strip()
        if said.startswith("encoder."):
            raise
        if "trust_remote_code" in said:
            raise ValueError(
                f"encoder.model={model} requires remote code, which is never run: choose a "
                "model whose architecture is part of transformers"
            ) from error
        if isinstance(error, OSError):
            raise OSError(
                f"encoder.model={model} cannot be loaded: there is no such local folder, "
                "and on the hub there is no such model, or it requires a login or has no "
                f"safetensors weights, or the hub cannot be reached. {said}"
            ) from error
        if isinstance(error, ImportError):
            raise
        raise ValueError(
            f"encoder.model={model} cannot be used as a text encoder: "
            f"{said or type(error).__name__}"
        ) from error


class Anatomy(NamedTuple):
    """Properties of a model found by running it on a few subwords."""

    num_layers: int
    dim: int
    blocks: list[nn.Module]  # empty if they cannot be identified
    causal: bool  # whether it reads only from left to right
    pads: bool  # whether padding has no effect; it has with convolutions


def _anatomy(model: Any, name: Any, pad: int) -> Anatomy:
    """Run a model on four subwords, on the same ones with another last one, and on the same ones
    with padding.

    The blocks are the modules of the only list in which each is given a layer and returns the input
    of the next.
    """
    ids = torch.arange(4)[None] + max(_num_embeddings(model) // 2 - 2, 0)
    other, padded = ids.clone(), nn.functional.pad(ids, (0, 8), value=pad)
    other[0, -1] -= 2

    def states(ids: Tensor, size: int = 4) -> Sequence[Tensor]:
        mask = (torch.arange(ids.shape[1]) < size).long()[None]
        return model(
            input_ids=ids, attention_mask=mask, output_hidden_states=True, return_dict=True
        ).hidden_states

    def change(x: Tensor, y: Tensor) -> float:
        return float((x.float() - y.float()).norm())

    model.eval()
    with torch.no_grad(), _hooks_as_they_were(model):
        layers = _saying(name, states, ids)
        if not layers or any(
            layer is None or layer.shape != (1, 4, layers[0].shape[-1]) for layer in layers
        ):
            raise ValueError(
                f"encoder.model={name} ({type(model).__name__}) does not return one vector "
                "per subword"
            )
        top, same = (
            states(other)[-1],
            max(1e-4, 4 * torch.finfo(layers[0].dtype).eps),
        )  # equal up to rounding
        causal = change(top[:, :-1], layers[-1][:, :-1]) < 1e-3 * change(
            top[:, -1], layers[-1][:, -1]
        )
        pads = all(
            change(x[:, :4], y) <= same * float(y.float().norm())
            for x, y in zip(states(padded), layers, strict=True)
        )
        lists = [
            m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == len(layers) - 1
        ]
        blocks = next(
            (list(blocks) for blocks in lists if _are_blocks(blocks, lambda: states(ids))), []
        )
    return Anatomy(len(layers), layers[0].shape[-1], blocks, causal, pads)


@contextmanager
def _hooks_as_they_were(model: Any) -> Iterator[None]:
    """Remove the hooks that transformers leaves after hidden states were requested: they cannot be
    sent to a worker.
    """
    before = {module: {*module._forward_hooks} for module in model.modules()}
    yield
    for module, kept in before.items():
        for key in {*module._forward_hooks} - kept:
            del module._forward_hooks[key]
        if hasattr(module, "_output_capturing_hooks_installed"):
            module._output_capturing_hooks_installed = False  # it then installs them again


def _are_blocks(modules: nn.ModuleList, states: Callable[[], Sequence[Tensor]]) -> bool:
    given: list[Tensor] = []
    returned: list[Tensor] = []

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given.append(_given(args, kwargs))
        returned.append(_first(output))

    hooks = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        layers = states()
    except (IndexError, KeyError):  # another signature than a block's
        return False
    finally:
        for handle in hooks:
            handle.remove()

    def same(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> bool:
        return len(xs) == len(ys) and all(
            isinstance(x, Tensor) and torch.equal(x, y) for x, y in zip(xs, ys, strict=True)
        )

    return same(given, layers[:-1]) and same(returned[:-1], given[1:])


def _run_after(model: Any, block: nn.Module) -> set[nn.Parameter]:
    """Return the parameters of the modules that run after a block."""
    inside = {*block.modules()}
    done = False
    after: set[nn.Parameter] = set()

    def hook(module: nn.Module, *_: Any) -> None:
        nonlocal done
        if done and module not in inside:
            after.update(module.parameters(recurse=False))
        done = done or module is block

    hooks = [module.register_forward_hook(hook) for module in model.modules()]
    training = model.training
    device = next(model.parameters()).device
    try:
        with torch.no_grad():
            model.eval()(
                input_ids=torch.arange(4, device=device)[None] + _num_embeddings(model) // 2 - 2
            )
    finally:
        model.train(training)
        for handle in hooks:
            handle.remove()
    return after


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return the input of a block."""
    return args[0] if args else kwargs["hidden_states"]


def _first(output: Any) -> Tensor:
    """Return the output of a block."""
    return output[0] if isinstance(output, tuple) else output


def _num_embeddings(model: Any) -> int:
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return int(model.config.vocab_size)


def _padding_id(model: Any, tokenizer: Any) -> int:
    """Return the model's padding id, from which some models count positions; otherwise any id,
    since the mask marks padding.
    """
    ids = (getattr(model.config, "pad_token_id", None), tokenizer.pad_token_id, 0)
    return next(
        number for number in ids if isinstance(number, int) and 0 <= number < _num_embeddings(model)
    )


def _window(model: Any, tokenizer: Any, asked: int | None, special: int) -> int:
    """Return the maximum number of subwords that the model reads at once, including
    special tokens.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    bound = positions if isinstance(positions, int) and positions > 0 else None
    for name, module in model.named_modules():
        offset = getattr(module, "padding_idx", None)
        if bound and name.endswith("position_embeddings") and offset is not None:
            # RoBERTa's positions start after the padding index
            bound = module.num_embeddings - offset - 1
    usual = min(
        bound or UNBOUNDED if tokenizer.model_max_length > 1e9 else tokenizer.model_max_length,
        bound or 10**9,
    )
    if asked is not None and (asked <= special or (bound and asked > bound)):
        raise ValueError(
            f"encoder.window={asked}, but each window of this model has {special} special "
            f"tokens and {f'at most {bound}' if bound else 'any number of'} subwords"
        )
    return int(asked or usual)


def _specials(tokenizer: Any, model: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer adds before and after a text."""
    inner, whole = _ids(tokenizer, "a b"), _ids(tokenizer, "a b", add_special_tokens=True)
    for number in range(len(whole) - len(inner) + 1):
        if inner and whole[number : number + len(inner)] == inner:
            return whole[:number], whole[number + len(inner) :]
    raise ValueError(
        f"encoder.model={model}: its tokenizer returns no subwords for 'a b': check that "
        "its files are complete"
    )


def _ids(tokenizer: Any, text: str, **settings: Any) -> list[int]:
    return list(tokenizer(_valid(text), **(_BARE | settings))["input_ids"])


def _valid(text: str) -> str:
    """Replace lone surrogates, which no tokenizer reads, by "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _space_ids(tokenizer: Any) -> list[int]:
    ids = tokenizer.convert_tokens_to_ids([*SPACES])
    return [
        number for number in ids if isinstance(number, int) and number != tokenizer.unk_token_id
    ]


def _between(tokenizer: Any) -> str:
    """Return what precedes a word in mid-sentence for a slow tokenizer that reads one word at a
    time: a space, or nothing.
    """
    text, first, word = _ids(tokenizer, "a b"), _ids(tokenizer, "a"), _ids(tokenizer, "b")
    return " " if text != first + word and text == first + _ids(tokenizer, " b") else ""


def _tokenizer_text(tokenizer: Any) -> Any:
    """Return a text that identifies a tokenizer."""
    if tokenizer.is_fast:
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        # Calls of the tokenizer change these two.
        return {key: value for key, value in state.items() if key not in ("truncation", "padding")}
    kwargs = {
        key: value
        for key, value in tokenizer.init_kwargs.items()
        if key not in ("name_or_path", "is_local", "local_files_only") and not key.endswith("_file")
    }
    ranks = sorted(map(str, getattr(tokenizer, "bpe_ranks", {}).items()))
    vocabulary = sorted(tokenizer.get_vocab().items())
    return [type(tokenizer).__name__, vocabulary, kwargs, ranks]


# Windows.


def _windows(words: np.ndarray, capacity: int, *, left_only: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of a sentence, [first piece, one after the last], and each piece's window.

    Windows begin and end at words, or between the pieces of a word larger than a window. Each
    begins half a window after the previous one. A word is taken from the window in which it is
    farthest from the ends; for models that read only from left to right (`left_only`), farthest
    from the beginning.

    >>> _windows(np.array([0, 1, 1, 2, 3, 4]), 4, left_only=False)
    (array([[0, 4],
           [1, 5],
           [3, 6]]), array([0, 0, 0, 1, 2, 2]))
    """
    size = len(words)
    if size <= capacity:
        return np.array([[0, size]] * (size > 0)).reshape(-1, 2), np.zeros(size, int)
    starts = np.flatnonzero(np.insert(words[1:] != words[:-1], 0, True))
    sizes = np.diff(starts, append=size)
    large = np.repeat(sizes > capacity, sizes)
    # Starts of units: words, or pieces of large words.
    cuts = np.union1d(starts, np.flatnonzero(large))
    ends = np.append(cuts[1:], size)
    spans, begin = [], 0
    while True:
        last = size - begin <= capacity
        if last:
            # Begin with as many units before it as fit.
            begin = int(cuts[np.searchsorted(cuts, size - capacity)])
        end = size if last else int(ends[np.searchsorted(ends, begin + capacity, side="right") - 1])
        spans.append((begin, end))
        if last:
            break
        half = int(cuts[np.searchsorted(cuts, begin + max(capacity // 2, 1), side="right") - 1])
        begin = half if half > begin else int(cuts[np.searchsorted(cuts, begin, side="right")])
    best, homes = np.full(len(cuts), -1), np.zeros(len(cuts), int)
    for number, (begin, end) in enumerate(spans):
        units = slice(np.searchsorted(cuts, begin), np.searchsorted(ends, end, side="right"))
        context = cuts[units] - begin
        if not left_only:
            context = np.minimum(context, end - ends[units])
        better = context > best[units]
        best[units][better], homes[units][better] = context[better], number
    return np.array(spans), np.repeat(homes, ends - cuts)
