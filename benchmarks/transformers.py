"""Transformers: `encode` against a bare forward of the same model.

The models have BERT's shapes and random weights, so that nothing is downloaded.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from elmo_bench.encoders import encode
from elmo_bench.encoders.transformer import Transformer

from .timing import Comparison, Setting

# Blocks, width and attention heads.
SHAPES = {"mini": (4, 256, 4), "base": (12, 768, 12)}
VOCABULARY = 30_522


def compare(setting: Setting) -> Iterator[Comparison]:
    """For each shape: all layers in float32 and bfloat16."""
    for shape in ["mini"] if setting.quick else SHAPES:
        sentences = setting.sentences[: (2 if setting.quick else 16) * setting.batch_size]
        tokens = sum(map(len, sentences))
        folder = write(shape, sentences, setting.scratch / f"transformer-{shape}")
        for dtype in ("float32", "bfloat16"):
            encoder = _encoder(folder, dtype, setting.device)
            yield Comparison(
                f"transformer {shape}, {dtype}", _whole(encoder, sentences), tokens, "tokens"
            )


def write(shape: str, sentences: Sequence[Sequence[str]], folder: Path) -> Path:
    """Write the config of a BERT of this shape, and a tokenizer trained on the sentences."""
    import transformers  # an optional package

    blocks, width, heads = SHAPES[shape]
    tokenizer = transformers.BertTokenizer().train_new_from_iterator(
        [" ".join(sentence) for sentence in sentences], vocab_size=4000, show_progress=False
    )
    transformers.BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=blocks,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        architectures=["BertModel"],
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _encoder(folder: Path, dtype: Any, device: str) -> Transformer:
    torch.manual_seed(0)
    encoder = Transformer(model=folder, pretrained=False, dtype=dtype).requires_grad_(False)
    return encoder.to(device)


def _whole(
    encoder: Transformer, sentences: Sequence[Sequence[str]]
) -> dict[str, Callable[[], object]]:
    inputs = batches_of(encoder, sentences)
    top = encoder.num_layers - 1
    means: dict[str, Callable[[], object]] = {
        "encode, from words to all layers of words": lambda: encode(encoder, sentences),
        "encode, the top layer": lambda: encode(encoder, sentences, [top]),
        "bare forward, the same batches of pieces": lambda: [
            encoder.model(**batch) for batch in inputs
        ],
        "bare forward, all hidden states": lambda: [
            encoder.model(**batch, output_hidden_states=True) for batch in inputs
        ],
    }
    return {name: torch.no_grad()(call) for name, call in means.items()}


def batches_of(encoder: Transformer, sentences: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The inputs of the model's forward passes while `encode` reads the sentences."""
    inputs: list[dict[str, Any]] = []

    def keep(_: torch.nn.Module, __: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs.append({name: kwargs[name] for name in ("input_ids", "attention_mask")})

    handle = encoder.model.register_forward_pre_hook(keep, with_kwargs=True)
    encode(encoder, sentences)
    handle.remove()
    return inputs
