"""Any text encoder of Hugging Face transformers as an encoder with one vector per word and layer.

What a model is made of, its layers, blocks and padding, is found by running it on a few pieces:
unlike names of classes and attributes, this holds for any architecture of transformers.

Axes: L layers, B batch, T tokens (words), D encoder, W windows of a sentence, N windows that the
model reads at once, S subwords ("pieces") of a window with its special tokens,
K subwords whose vectors are read.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.bounds import Count, one_of
from elmo_bench.terminal import pip_install
from elmo_bench.text import Sentences

from ..contract import Encoder, Misread
from ..encode import Chosen, batches
from .windows import Pieces, Windows, special_tokens

Pooling = Literal["first", "last", "mean"]
Dtype = Literal["float32", "bfloat16", "float16"]
# Pieces in a batch, including padding.
BATCH_PIECES = 1024  # more are not faster on a CPU
GPU_PIECES = 8192
UNBOUNDED = 512  # pieces of a window if neither model nor tokenizer has a limit
# Parts of a config that change no layer.
VOLATILE = {"_name_or_path", "transformers_version", "architectures", "use_cache"}
VOLATILE |= {"dtype", "torch_dtype"}


class Part(NamedTuple):
    """Windows that the model reads at once, and the subwords whose vectors are read of them."""

    ids: Int[Tensor, "N S"]
    mask: Int[Tensor, "N S"] | None  # None without padding
    kinds: Int[Tensor, "N S"] | None  # token types; None without pairs of texts
    rows: Int[Tensor, " K"]  # of each subword that is read: its row among the N S of the output
    words: Int[Tensor, " K"]  # its word, as its number among B T
    shares: Float[Tensor, "K 1"]  # its weight in the word's vector

    def to(self, device: torch.device) -> "Part":
        """Send all tensors to a device, without waiting."""
        tensors: list[Any] = []
        for tensor in self:
            if tensor is not None:
                tensor = tensor.to(device, non_blocking=True)
            tensors.append(tensor)
        return Part(*tensors)


class Transformer(Encoder):
    """The layers of a model: layer 0 is the output of the embeddings, layer j the output of block
    j.

    `model` is a folder or a name on the hub, at `revision`. For an encoder-decoder, only the
    encoder is used. Weights are read only from safetensors, and remote code is never run.
    `pretrained=False` keeps random weights of the same sizes.

    `pooling` is first, last or mean. None means first, or last for decoders, in which the first
    subword has not read the rest of the word. `first` is the first subword that is not only a
    space. A word without subwords (an empty one, control characters) has zeros.

    `adapter` is a PEFT folder with LoRA weights to add.

    `window` is the maximum number of subwords that the model reads at once, including special
    tokens; None is the model's limit.

    Raises ImportError without transformers, OSError for a model that cannot be loaded, and
    ValueError for one that is not a text encoder, requires remote code or whose weights do not fit,
    or for an invalid setting.
    """

    reads_joined = True

    def __init__(
        self,
        *,
        model: str | Path | None,
        revision: str | None = None,
        pooling: Pooling | None = None,
        dtype: Dtype = "float32",
        window: Count | None = None,
        pretrained: bool = True,
        gradient_checkpointing: bool = False,
        adapter: str | Path | None = None,
    ) -> None:
        super().__init__()
        if not model:
            raise ValueError(
                "encoder.model is empty: give a name on the hub or a folder, such as "
                "encoder.model=bert-base-cased"
            )
        if adapter and not pretrained:
            raise ValueError(
                f"encoder.adapter={adapter} belongs to pretrained weights, but encoder.pretrained="
                "false: leave one of them out"
            )
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a data loader forks its workers
        try:
            from .load import load, naming
        except ImportError as error:
            raise ImportError(
                f"encoder.model={model} needs the packages transformers and peft: "
                f"{pip_install('transformers')} ({error})"
            ) from error
        if pooling is not None:
            one_of("encoder.pooling", pooling, get_args(Pooling))
        one_of("encoder.dtype", dtype, get_args(Dtype))
        with naming(model):  # the files may be damaged or malicious
            weights_type = getattr(torch, dtype)
            tokenizer, self.model = load(str(model), revision, weights_type, pretrained, adapter)
            special = special_tokens(tokenizer, self.model.config)
            num_special = len(special.before) + len(special.after)
            self.window = window_size(self.model, tokenizer, window, num_special)
            # RoBERTa counts positions from its padding; to others any id will do, with a mask.
            pad = getattr(self.model.config, "pad_token_id", None) or 0
            if not 0 <= pad < self.model.config.vocab_size:
                pad = 0
            self._look_inside(pad)
            if gradient_checkpointing:
                self.model.activation_checkpointing_enable({"use_reentrant": False})
            self.pooling = pooling or ("last" if self.causal else "first")
            # A decoder's first piece has read nothing, or was trained so.
            sums_up_first = bool(special.before) and not self.causal
            self.windows = Windows(
                tokenizer,
                self.pooling,
                special,
                self.window,
                pad=pad,
                left_only=self.causal,
                sums_up_first=sums_up_first,
            )
        self.eval()

    @torch.no_grad()
    def _look_inside(self, pad: int) -> None:
        """Find what the model is made of, and whether it reads only from left to right."""
        layers, self._blocks, self._above = taken_apart(self.model.eval())
        self.causal = is_causal(self.model, layers)
        self._pads = ignores_padding(self.model, layers, pad)
        self.num_layers = len(layers)
        self.dim = layers[0].shape[-1]

    def __getstate__(self) -> Any:
        """Return what a copy has: all but the hooks that transformers leaves after hidden states
        were requested, and installs again when needed. They cannot be sent to a worker.
        """
        for module in self.model.modules():
            for key, hook in list(module._forward_hooks.items()):
                if getattr(hook, "__module__", "") == "transformers.utils.output_capturing":
                    del module._forward_hooks[key]
            if hasattr(module, "_output_capturing_hooks_installed"):
                module._output_capturing_hooks_installed = False
        return super().__getstate__()

    def fingerprint(self) -> str:
        """Return a sha256 of weights, config, tokenizer and all settings that affect the layers."""
        sha256 = hashlib.sha256()
        config = self.model.config.to_dict()
        for key in VOLATILE:
            config.pop(key, None)
        # True: the top layer is after a final norm, if there is one.
        settings = [self.pooling, self.window, True, self.model.config._attn_implementation]
        tokenizer = json.loads(self.windows.subwords.tokenizer.backend_tokenizer.to_str())
        for changed in ("truncation", "padding"):  # by its calls
            tokenizer.pop(changed)
        for part in (config, settings, tokenizer):
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
            return [list(self.model.parameters())]
        groups = [list(block.parameters()) for block in reversed(self._blocks)]
        in_blocks: set[nn.Parameter] = set()
        in_blocks.update(*groups)
        above: set[nn.Parameter] = set()
        for module in self._above:
            above.update(module.parameters(recurse=False))
        others = []
        for parameter in self.model.parameters():
            if parameter in in_blocks:
                continue
            if parameter in above:
                groups[0].append(parameter)
            else:
                others.append(parameter)
        groups.append(others)
        return groups

    def prepare(self, sentences: Sentences) -> Pieces:
        """Return the subwords of a batch, in the windows that the model will read."""
        return self.windows.split(sentences)

    def misread(self, words: Collection[str]) -> Misread:
        """Return the words of which the tokenizer knows no piece."""
        are_known = self.windows.subwords.known(list(words))
        unknown = [word for word, is_known in zip(words, are_known, strict=True) if not is_known]
        return Misread("the tokenizer knows no piece of", unknown)

    def forward(self, inputs: Pieces, layers: Chosen = None) -> Float[Tensor, "L B T D"]:
        """Return the requested layers, in that order, or all of them, in the model's dtype."""
        chosen = range(self.num_layers) if layers is None else layers
        weight = next(self.model.parameters())
        shape = (len(chosen), inputs.mask.numel(), self.dim)
        vectors = weight.new_zeros(shape, dtype=torch.float32)  # sums of pieces
        for part in self._parts(inputs, weight.device):
            states = hidden_states(self.model, part.ids, part.mask, part.kinds)
            read = torch.stack([states[layer].flatten(0, 1)[part.rows] for layer in chosen])
            vectors.index_add_(1, part.words, read.float() * part.shares)
        return vectors.unflatten(1, inputs.mask.shape).to(weight.dtype)

    def _parts(self, inputs: Pieces, device: torch.device) -> Iterator[Part]:
        """Yield what the model reads at once, shortest windows first to reduce padding. All of it
        is computed on the host.
        """
        inputs = Pieces(*(tensor.cpu() for tensor in inputs))
        sentences, windows = inputs.sizes.nonzero(as_tuple=True)
        sizes = inputs.sizes[sentences, windows]
        for numbers in self._batches(sizes.tolist(), device):
            part = self._part(inputs, sentences[numbers], windows[numbers])
            yield part.to(device)

    def _part(self, inputs: Pieces, sentence: Int[Tensor, " N"], window: Int[Tensor, " N"]) -> Part:
        """Return what the model reads of some windows, the longest one last: window number
        `window[n]` of sentence number `sentence[n]`, for each n.
        """
        size = inputs.sizes[sentence, window]
        longest = int(size[-1])
        here = (sentence, window, slice(longest))
        is_piece = torch.arange(longest) < size[:, None]
        kinds = inputs.kinds[here]
        first_word = inputs.mask.shape[1] * sentence
        # The pieces of words.
        shares = inputs.shares[here]
        is_read = shares > 0
        rows = is_read.flatten().nonzero()[:, 0]
        words = (inputs.words[here] + first_word[:, None])[is_read]
        # A window's summary is its first or last piece, and belongs to the sentence's first word.
        summaries = inputs.summaries[sentence, window]
        summing = summaries.nonzero()[:, 0]
        summary_rows = longest * summing
        if not self.windows.sums_up_first:
            summary_rows = summary_rows + size[summing] - 1
        return Part(
            ids=inputs.ids[here],
            mask=None if is_piece.all() else is_piece.long(),  # attention is faster without one
            kinds=kinds if kinds.any() else None,
            rows=torch.cat([rows, summary_rows]),
            words=torch.cat([words, first_word[summing]]),
            shares=torch.cat([shares[is_read], summaries[summing]])[:, None],
        )

    def _batches(self, sizes: Sequence[int], device: torch.device) -> Iterator[list[int]]:
        """Yield batches of windows, shortest first, with a maximum number of subwords; all windows
        of a batch have the same size if padding would change the model's layers.
        """
        most = GPU_PIECES if device.type == "cuda" else BATCH_PIECES
        # `batches` adds two boundary tokens to each length.
        for numbers in batches([size - 2 for size in sizes], most):
            if self._pads:
                yield numbers
                continue
            for _, same_size in groupby(numbers, lambda number: sizes[number]):
                yield list(same_size)


def hidden_states(
    model: Any, ids: Tensor, mask: Tensor | None = None, kinds: Tensor | None = None
) -> Sequence[Tensor]:
    """Return all layers of a model, from the embeddings up; `kinds` are token types."""
    inputs = {"input_ids": ids, "attention_mask": mask}
    if kinds is not None:
        inputs["token_type_ids"] = kinds
    return model(**inputs, output_hidden_states=True, return_dict=True).hidden_states


def four_pieces(model: Any) -> Tensor:
    """Return the ids of four subwords."""
    return torch.arange(4)[None] + max(model.config.vocab_size // 2 - 2, 0)


def taken_apart(model: Any) -> tuple[Sequence[Tensor], list[nn.Module], list[nn.Module]]:
    """Return the layers of four subwords, the model's blocks, and what runs after the last block,
    such as a final norm.

    The blocks are the list of modules with one for each layer above the embeddings that run in this
    order; there are none if there is no such list, or several side by side. Raises ValueError for a
    model without a vector for each subword.
    """
    modules_run: list[nn.Module] = []
    hooks = []
    for module in model.modules():
        hook = module.register_forward_hook(lambda module, *_: modules_run.append(module))
        hooks.append(hook)
    layers = hidden_states(model, four_pieces(model)) or ()
    for hook in hooks:
        hook.remove()
    if not layers or not _have_four_vectors(layers):
        raise ValueError(f"{type(model).__name__} does not return one vector per subword")
    candidates = []
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == len(layers) - 1:
            members = set(module)
            in_order = [one for one in modules_run if one in members]
            if in_order == list(module):
                candidates.append(module)
    # XLM has a list for each part of its blocks.
    if candidates and set(candidates) <= set(candidates[0].modules()):
        blocks = list(candidates[0])
        return layers, blocks, modules_run[modules_run.index(blocks[-1]) + 1 :]
    return layers, [], []


def _have_four_vectors(layers: Sequence[Tensor | None]) -> bool:
    """Whether each layer has a vector for each of four subwords, all of the same width."""
    first = layers[0]
    if first is None:
        return False
    shape = (1, 4, first.shape[-1])
    return all(layer is not None and layer.shape == shape for layer in layers)


def is_causal(model: Any, layers: Sequence[Tensor]) -> bool:
    """Whether a model reads only from left to right: another fourth subword changes no vector
    before it. `layers` are those of the four.
    """
    ids = four_pieces(model)
    ids[0, -1] -= 2
    moved = (hidden_states(model, ids)[-1].float() - layers[-1].float())[0]
    return float(moved[:-1].norm()) < 1e-3 * float(moved[-1].norm())


def ignores_padding(model: Any, layers: Sequence[Tensor], pad: int) -> bool:
    """Whether padding has no effect on the layers of four subwords; it has with convolutions."""
    pieces = four_pieces(model)
    ids = nn.functional.pad(pieces, (0, 8), value=pad)
    mask = nn.functional.pad(torch.ones_like(pieces), (0, 8))
    rounding = max(1e-4, 4 * torch.finfo(layers[0].dtype).eps)
    for padded, layer in zip(hidden_states(model, ids, mask), layers, strict=True):
        difference = padded[:, :4].float() - layer.float()
        if not float(difference.norm()) <= rounding * float(layer.float().norm()):
            return False
    return True


def window_size(model: Any, tokenizer: Any, asked: int | None, special: int) -> int:
    """Return the maximum number of subwords that the model reads at once, including `special`
    tokens: as many as are asked, or the limit of the model and its tokenizer.
    """
    bound = max(getattr(model.config, "max_position_embeddings", 0) or 0, 0)
    for name, module in model.named_modules():
        offset = getattr(module, "padding_idx", None)
        if bound and name.endswith("position_embeddings") and offset is not None:
            bound = len(module.weight) - offset - 1  # RoBERTa counts from its padding's
    limits = [limit for limit in (bound, tokenizer.model_max_length) if limit and limit < 1e9]
    size = min(limits, default=UNBOUNDED) if asked is None else asked
    if size <= special or (bound and size > bound):
        given = f"null is {size}" if asked is None else f"{size}"
        most = f"to {bound}" if bound else "or more"
        raise ValueError(
            f"encoder.window={given}, but this model's must be {special + 1} {most}, with "
            f"{special} special tokens"
        )
    return int(size)
