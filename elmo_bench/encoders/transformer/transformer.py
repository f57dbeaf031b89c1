"""Any text encoder of Hugging Face transformers as an encoder with one vector per word and layer.

The vector of a word is that of its first or last subword, or the mean of all. A sentence longer
than the model's window is read in windows that overlap by half; for each subword, the copy with the
most context is used.

Axes: L layers, B batch, T tokens (words), D encoder, W windows of a sentence, N windows that the
model reads at once, S subwords ("pieces") of a window with its special tokens.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.files import Count, one_of

from .anatomy import (
    anatomy,
    block_output,
    forget_hooks,
    hidden_states,
    padding_id,
    window_size,
)
from .load import FLASH, load, naming, use_flash_attention
from .subwords import Pieces, Subwords, special_marks, tokenizer_state

Pooling = Literal["first", "last", "mean"]
Dtype = Literal["float32", "bfloat16", "float16"]
# For any other name transformers would download a kernel, that is code, from the hub.
Attention = Literal["sdpa", "eager", "flash_attention_2"]
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
    tokens; None is the model's limit. Windows overlap by half; a word's
    subwords may be read in two of them.

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
        if not model:
            raise ValueError(
                "encoder.model is empty: give a name on the hub or a folder, such as "
                "encoder.model=bert-base-cased"
            )
        _check_names(pooling=pooling, dtype=dtype, attention=attention)
        with naming(model):  # the files may be damaged or malicious
            tokenizer, self.model = load(
                str(model),
                revision,
                getattr(torch, dtype),
                None if attention == FLASH else attention,  # `anatomy` runs it on the CPU
                pretrained,
            )
            marks = special_marks(tokenizer)
            self.window = window_size(self.model, tokenizer, window, sum(marks))
            pad = padding_id(self.model, tokenizer)
            about = anatomy(self.model, model, pad)
            if attention == FLASH:
                use_flash_attention(self.model)
            if gradient_checkpointing:
                self.model.activation_checkpointing_enable({"use_reentrant": False})
            self.num_layers, self.dim, self._blocks = about.num_layers, about.dim, about.blocks
            self._above, self.causal, self._pads = about.above, about.causal, about.pads
            self.pooling = pooling or ("last" if self.causal else "first")
            self.subwords = Subwords(
                tokenizer,
                marks,
                window=self.window,
                pooling=self.pooling,
                left_only=self.causal,
                pad=pad,
                num_embeddings=self.model.config.vocab_size,
            )
            if not final_norm and not self._blocks:
                raise ValueError(
                    "encoder.final_norm=false needs the output of the last block, which cannot "
                    f"be found in encoder.model={model} ({type(self.model).__name__}): use "
                    "encoder.final_norm=true"
                )
        self.final_norm = final_norm
        self.eval()

    def __getstate__(self) -> Any:
        """Return what a copy has: all but the hooks that transformers installs on demand."""
        forget_hooks(self.model)
        return super().__getstate__()

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
        for part in (config, settings, tokenizer_state(self.subwords.tokenizer)):
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
        above = {p for module in self._above for p in module.parameters(recurse=False)} - in_blocks
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
        """Return the requested layers, in that order, or all of them, in the model's dtype."""
        chosen = range(self.num_layers) if layers is None else layers
        count, length = inputs.mask.shape
        weight = next(self.model.parameters())
        if weight.device.type == "cpu" and self.model.config._attn_implementation == FLASH:
            raise ValueError(f"encoder.attention={FLASH} runs only on a GPU, not with trainer=cpu")
        mean = self.pooling == "mean"  # pieces are summed in float32
        dtype = torch.float32 if mean else weight.dtype
        # One tensor, unless training: in-place writes would copy the gradient for each layer.
        trains = torch.is_grad_enabled()
        rows = 0 if trains else count * length
        whole = weight.new_zeros((len(chosen), rows, self.dim), dtype=dtype)
        pooled = [
            weight.new_zeros((count * length, self.dim), dtype=dtype) if trains else vectors
            for vectors in whole
        ]
        for part in self._parts(inputs, weight.device) if chosen else ():
            states = self._states(part.ids, part.mask)
            for vectors, layer in zip(pooled, chosen, strict=True):
                pieces = states[layer].flatten(0, 1).index_select(0, part.source).to(dtype)
                vectors.index_add_(0, part.word, pieces * part.share if mean else pieces)
        layered = torch.stack(pooled) if trains else whole
        return layered.unflatten(1, (count, length)).to(weight.dtype)

    def _parts(self, inputs: Pieces, device: torch.device) -> Iterator[Part]:
        """Yield what the model reads at once, shortest windows first to reduce padding.

        All of it is computed on the host, which waits once for the device if the inputs are there.
        """
        ids, sizes, words, shares, mask = (tensor.cpu() for tensor in inputs)
        sentence, window = sizes.nonzero(as_tuple=True)  # of each window
        size, order = sizes[sentence, window].sort(stable=True)
        sentence, window = sentence[order], window[order]
        for first, last in self._batches(size.tolist(), device):
            longest = int(size[last - 1])
            where = sentence[first:last], window[first:last], slice(longest)
            share, word = shares[where], words[where] + mask.shape[1] * where[0][:, None]
            there = torch.arange(longest) < size[first:last, None]
            read = share > 0
            # Attention is faster without a mask.
            part = ids[where], None if there.all() else there.long(), read.flatten().nonzero()[:, 0]
            moved = (_sent(tensor, device) for tensor in (*part, word[read], share[read][:, None]))
            yield Part._make(moved)

    def _batches(self, sizes: Sequence[int], device: torch.device) -> Iterator[tuple[int, int]]:
        """Yield batches of windows, shortest first, with a maximum number of subwords, as [first,
        end) ranges.

        All windows of a batch have the same size if padding would change the model's layers.
        """
        most = GPU_PIECES if device.type == "cuda" else BATCH_PIECES
        first = 0
        for number, size in enumerate(sizes):
            full = (number + 1 - first) * size > most
            if number > first and (full or (not self._pads and size > sizes[first])):
                yield first, number
                first = number
        if sizes:
            yield first, len(sizes)

    def _states(self, ids: Int[Tensor, "N S"], mask: Int[Tensor, "N S"] | None) -> list[Tensor]:
        """Return all layers of some windows."""
        if self.final_norm:
            return [*hidden_states(self.model, ids, mask)]
        tops: list[Tensor] = []
        hook = self._blocks[-1].register_forward_hook(
            lambda *about: tops.append(block_output(about[-1]))
        )
        try:
            return [*hidden_states(self.model, ids, mask)[:-1], *tops]
        finally:
            hook.remove()


def _check_names(**settings: str | None) -> None:
    """Raise ValueError for a name that a setting does not have; `load_encoder` passes any."""
    for (key, name), kind in zip(settings.items(), (Pooling, Dtype, Attention), strict=True):
        if name is not None:
            one_of(f"encoder.{key}", name, get_args(kind))


def _sent(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    """Send to the device without waiting on the host."""
    if tensor is None or device.type != "cuda":
        return tensor if tensor is None else tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
