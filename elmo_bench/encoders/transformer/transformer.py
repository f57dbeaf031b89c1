"""Any text encoder of Hugging Face transformers as an encoder with one vector per word and layer.

The vector of a word is that of its first or last subword, or the mean of all. A sentence longer
than the model's window is read in windows that overlap by half; for each word, the copy with the
most context is used.

Axes: L layers, B batch, T tokens (words), P subwords ("pieces") of a sentence, W windows of a
sentence, D encoder, N windows that the model reads at once, S subwords of a window with its special
tokens.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from annotated_types import Predicate
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.files import Count, one_of

from .anatomy import (
    anatomy,
    block_input,
    block_output,
    num_embeddings,
    padding_id,
    run_after,
    window_size,
)
from .load import ATTENTIONS, FLASH, load, naming, saying
from .pieces import Pieces, Subwords, special_pieces, tokenizer_text

POOLINGS = ("first", "last", "mean")
DTYPES = ("float32", "bfloat16", "float16")
Pooling = Annotated[str, Predicate(POOLINGS.__contains__), "first, last or mean"]
Dtype = Annotated[str, Predicate(DTYPES.__contains__), "float32, bfloat16 or float16"]
Attention = Annotated[str, Predicate(ATTENTIONS.__contains__), "sdpa, eager or flash_attention_2"]
# Pieces in a batch, including padding; more are not faster on a CPU.
BATCH_PIECES, GPU_PIECES = 1024, 8192
VOLATILE = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "use_cache",
)  # of a config


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
        if pooling is not None:
            one_of("encoder.pooling", pooling, POOLINGS)
        one_of("encoder.dtype", dtype, DTYPES)
        if attention is not None:
            one_of("encoder.attention", attention, ATTENTIONS)
        if not model:
            raise ValueError(
                "encoder.model is empty: give a name on the hub or a folder, such as "
                "encoder.model=bert-base-cased"
            )
        if attention == FLASH:
            _check_flash(dtype)
        with naming(model):  # the files may be damaged or malicious
            tokenizer, self.model = load(
                str(model),
                revision,
                getattr(torch, dtype),
                "eager" if attention == FLASH else attention,  # `anatomy` runs on the CPU
                pretrained,
            )
            special = special_pieces(tokenizer, model)
            self.window = window_size(self.model, tokenizer, window, sum(map(len, special)))
            self._pad = padding_id(self.model, tokenizer)
            about = anatomy(self.model, model, self._pad)
            self.num_layers, self.dim, self._blocks = about.num_layers, about.dim, about.blocks
            self.causal, self._pads = about.causal, about.pads
            if attention == FLASH:
                _set_flash(self.model)
            self.pooling = pooling or ("last" if self.causal else "first")
            self.subwords = Subwords(
                tokenizer,
                special,
                window=self.window,
                pooling=self.pooling,
                left_only=self.causal,
                num_embeddings=num_embeddings(self.model),
            )
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
            saying(model, enable, {"use_reentrant": False})
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
        words = self.subwords
        special = words.prefix, words.suffix
        for part in (config, settings, tokenizer_text(words.tokenizer), *special):
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
        above = run_after(self.model, self._blocks[-1]) - in_blocks
        groups = [[*block.parameters()] for block in reversed(self._blocks)]
        groups[0] += [parameter for parameter in self.model.parameters() if parameter in above]
        return [*groups, [p for p in self.model.parameters() if p not in in_blocks | above]]

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Return the subwords of a batch, in the windows that the model will read. Raises
        ValueError for a subword without an embedding.
        """
        return self.subwords.split(sentences)

    def forward(
        self, inputs: Pieces, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """Return the requested layers, in that order, or all of them, in the model's dtype; blocks
        above the highest one do not run.
        """
        chosen = list(range(self.num_layers)) if layers is None else list(layers)
        count, length = inputs.mask.shape
        weight = next(self.model.parameters())
        if weight.device.type == "cpu" and self.model.config._attn_implementation == FLASH:
            raise ValueError(f"encoder.attention={FLASH} runs only on a GPU, not with trainer=cpu")
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
        column = piece - start[home] + len(self.subwords.prefix)
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
        first, special = 0, len(self.subwords.prefix) + len(self.subwords.suffix)
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
        prefix, suffix = len(self.subwords.prefix), len(self.subwords.suffix)
        longest, is_padded = int(size[-1]), bool(size[0] < size[-1])
        column = torch.arange(prefix + longest + suffix) - prefix
        size = size[:, None]
        framed = ids[sentence[:, None], (start[:, None] + column).clamp(0, ids.shape[1] - 1)]
        framed = framed.masked_fill(column >= size, self._pad)
        for number, special in enumerate(self.subwords.prefix):
            framed[:, number] = special
        for number, special in enumerate(self.subwords.suffix):
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
                take(layer, block_input(args, kwargs))
                if layer == stop:
                    raise _Enough

            return hook

        hooks = [
            self._blocks[k].register_forward_pre_hook(keep(k), with_kwargs=True)
            for k in {*layers} - {top}
        ]
        if not self.final_norm and top in layers:
            hooks.append(
                self._blocks[-1].register_forward_hook(
                    lambda *about: take(top, block_output(about[-1]))
                )
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


def _check_flash(dtype: str) -> None:
    """Raise ValueError where FlashAttention cannot run, before the model is loaded."""
    needs = {
        "the package flash-attn": bool(find_spec("flash_attn")),
        "an NVIDIA GPU": torch.cuda.is_available(),
        "encoder.dtype=bfloat16 or float16 (and so a frozen encoder)": dtype != "float32",
    }
    if missing := [need for need, is_there in needs.items() if not is_there]:
        raise ValueError(
            f"encoder.attention={FLASH} needs {', '.join(missing)}; encoder.attention=sdpa runs "
            "everywhere"
        )


def _set_flash(model: Any) -> None:
    """Let a model use FlashAttention. Raises ValueError if its architecture does not have it."""
    if model._supports_flash_attn:
        model.set_attn_implementation(FLASH)
    if model.config._attn_implementation != FLASH:  # transformers only warns of some
        raise ValueError(
            f"encoder.attention={FLASH} is not possible with {type(model).__name__}: use "
            "encoder.attention=sdpa"
        )


def _sent(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    """Send to the device without waiting on the host."""
    if tensor is None or device.type != "cuda":
        return tensor if tensor is None else tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class _Enough(Exception):  # noqa: N818
    """Raised to leave a model's forward once the highest requested layer is computed; not
    an error.
    """
