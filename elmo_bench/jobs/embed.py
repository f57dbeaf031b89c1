"""`job=embed`: write an encoder's vectors for every sentence of a file, as HDF5.

Axes: L layers, T tokens of a sentence, D encoder.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from omegaconf import DictConfig
from torch import Tensor

from elmo_bench.build import encoders, hardware
from elmo_bench.encoders import Encoder
from elmo_bench.encoders.encode import encode_each
from elmo_bench.encoders.vectors_file import HDF5, is_vectors, write_vectors
from elmo_bench.files import check_output, sole
from elmo_bench.terminal import Bars
from elmo_bench.text.sentences import chunks, read_sentences

log = logging.getLogger(__name__)
DTYPES = {"float32": torch.float32, "float16": torch.float16}
TAKEN: dict[str, Callable[[Float[Tensor, "L T D"]], Tensor]] = {  # what is written of the layers
    "all": lambda layers: layers,
    "top": lambda layers: layers[-1],
    "average": lambda layers: layers.float().mean(0),
}


def embed(cfg: DictConfig) -> None:
    """Write an array for each line of `cfg.input` to `cfg.output`, atomically.

    The array of line 1 is named "0", as in AllenNLP; messages count lines from 1. The layout is
    that of `allennlp elmo` and of bilm-tf's `dump_bilm_embeddings`: one dataset a line, of shape
    (layers, tokens, dim) or (tokens, dim), and `sentence_to_index`. The array of a blank line has
    shape (layers, 0, dim), as in bilm-tf. A killed run resumes where it stopped.
    """
    encoder, (num_tokens, digest, index) = prepare(cfg)
    output = Path(cfg.output)
    purpose = {
        "input": digest,
        "encoder": encoder.fingerprint(),
        "layers": cfg.layers,
        "dtype": cfg.dtype,
        "tf32": cfg.tf32,
    }
    encoder.to(hardware.device(cfg))
    pieces = partial(_pieces, cfg, encoder, num_tokens)
    with sole(f"{output}.part", f"output={output}"):
        write_vectors(output, pieces, purpose, index)
    log.info("%s tokens: %s", f"{num_tokens:,}", output)


def prepare(cfg: DictConfig) -> tuple[Any, tuple[int, str, str]]:
    """Return the encoder and what the input has; raises for a wrong input, output or encoder."""
    output = Path(cfg.output)
    if output.suffix not in HDF5:
        raise ValueError(f"output={output}, but it must end in {', '.join(HDF5)}")
    check_output("output", output, {"input": cfg.input}, is_vectors)
    surveyed = survey(cfg.input)
    torch.manual_seed(cfg.seed)  # of the weights of encoder.pretrained=false
    return encoders.encoder(cfg), surveyed


def survey(path: str | Path) -> tuple[int, str, str]:
    """Read and check the whole input; return its number of tokens, its digest and its index.

    AllenNLP's index is a JSON object from a sentence (tokens joined by blanks) to the name of its
    last array.
    """
    num_tokens = 0
    digest = hashlib.sha256()
    index = {}
    for number, tokens in enumerate(read_sentences(path)):
        num_tokens += len(tokens)
        digest.update(json.dumps(tokens).encode() + b"\n")
        index[" ".join(tokens)] = str(number)
    return num_tokens, digest.hexdigest(), json.dumps(index)


def _pieces(cfg: DictConfig, encoder: Encoder, total: int, done: int) -> Iterator[list[np.ndarray]]:
    """Yield the arrays of the sentences from number `done` on, in chunks of the input."""
    with Bars() as progress:
        bar = progress.add_task("embedding", total=total)
        sentences = read_sentences(cfg.input)
        progress.update(bar, advance=sum(map(len, islice(sentences, done))))
        for piece in chunks(sentences, 8 * cfg.batch_tokens):
            encoder.forget_words()  # a killed run goes on with a chunk, and gives the same vectors
            arrays = {}  # so that the encoder's device holds the layers of one batch
            for number, layers in encode_each(encoder, piece, batch_tokens=cfg.batch_tokens):
                arrays[number] = _stored(cfg, TAKEN[cfg.layers](layers), done + number + 1)
                progress.update(bar, advance=len(piece[number]))
            yield [arrays[number] for number in range(len(piece))]
            done += len(piece)


def _stored(cfg: DictConfig, vectors: Tensor, line: int) -> np.ndarray:
    """Return the array that is written; raises FloatingPointError if it is not finite."""
    stored = vectors.to("cpu", DTYPES[cfg.dtype])
    if not stored.isfinite().all():
        advice = ": use dtype=float32" if cfg.dtype == "float16" else ""
        raise FloatingPointError(
            f"{cfg.output}: the vectors of line {line} are not finite in {cfg.dtype}{advice}"
        )
    return stored.numpy()
