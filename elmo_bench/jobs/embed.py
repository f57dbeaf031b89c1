"""`job=embed`: write an encoder's vectors for every sentence of a file, as HDF5.

Axes: L layers, T tokens of a sentence, D encoder.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from elmo_bench.config import encoders, hardware, inputs
from elmo_bench.elmo import ScalarMix
from elmo_bench.encoders import Encoder, encode_each, forget_words
from elmo_bench.encoders.vectors_file import HDF5, is_vectors, write_vectors
from elmo_bench.files import Bars, check_output, sole
from elmo_bench.runs import SHORT, Run, acting, hash_files, read_run
from elmo_bench.text import chunks, read_sentences

log = logging.getLogger(__name__)
Take = Callable[[Float[Tensor, "L T D"]], Tensor]
DTYPES = {"float32": torch.float32, "float16": torch.float16}


def embed(cfg: DictConfig) -> None:
    """Write an array for each line of `cfg.input` to `cfg.output`, atomically.

    The array of line 1 is named "0", as in AllenNLP; messages count lines from 1. The layout is
    that of `allennlp elmo` and of bilm-tf's `dump_bilm_embeddings`: one dataset a line, of shape
    (layers, tokens, dim) or (tokens, dim), and `sentence_to_index`. The array of a blank line has
    shape (layers, 0, dim), as in bilm-tf. A killed run resumes where it stopped.
    """
    encoder, take, recipe, (num_tokens, digest, index) = check(cfg)
    output = Path(cfg.output)
    purpose = {
        "input": digest,
        "encoder": encoder.fingerprint(),
        "layers": recipe,
        "dtype": cfg.dtype,
    }
    encoder.to(hardware.device(cfg))
    pieces = partial(_pieces, cfg, encoder, take, num_tokens)
    with sole(f"{output}.part", f"output={output}"):
        write_vectors(output, pieces, purpose, index)
    log.info("%s tokens: %s", f"{num_tokens:,}", output)


def check(cfg: DictConfig) -> tuple[Any, Take, str, tuple[int, str, str]]:
    """Return the encoder, the function that reduces a sentence's layers, a description of it, and
    what the input has. Raises for settings, an input, an output or an encoder that cannot be.
    """
    output = Path(cfg.output)
    if output.suffix not in HDF5:
        raise ValueError(f"output={output}, but it must end in {', '.join(HDF5)}")
    check_output("output", output, {key: cfg[key] for key in ("input", "result")}, is_vectors)
    surveyed, encoder = survey(cfg.input), encoders.encoder(cfg)
    return encoder, *taker(cfg, encoder), surveyed


def survey(path: str | Path) -> tuple[int, str, str]:
    """Read and check the whole input; return its number of tokens, its digest and its index.

    AllenNLP's index is a JSON object from a sentence (tokens joined by blanks) to the name of its
    last array.
    """
    num_tokens, digest, index = 0, hashlib.sha256(), {}
    for number, tokens in enumerate(read_sentences(path)):
        num_tokens += len(tokens)
        digest.update(json.dumps(tokens).encode() + b"\n")
        index[" ".join(tokens)] = str(number)
    return num_tokens, digest.hexdigest(), json.dumps(index)


def taker(cfg: DictConfig, encoder: Encoder) -> tuple[Take, str]:
    """Return the function that reduces a sentence's layers, and a description of it.

    `layers=mix` computes gamma sum_j s_j h_j (equation 1 of Peters et al. 2018). With `result`, s_j
    and gamma are those that a finished run learned at `place`, and h_j are normalised as in that
    run; without, all s_j of the layers in `elmo.mix` are equal, gamma is 1, and `elmo.norm` counts.
    """
    if cfg.layers == "all":
        return lambda layers: layers, "all"
    if cfg.layers == "top":
        return lambda layers: layers[-1], "top"
    choice, norm, learned = cfg.elmo.mix, cfg.elmo.norm, {}
    if cfg.result:
        if not (path := Path(cfg.result)).is_file():
            raise FileNotFoundError(f"result={path}: no such file")
        run = read_run(path)
        learned = _learned(cfg, run)
        elmo = run.config.get("elmo") or {}
        choice, norm = learned["layers"], elmo.get("norm", "none")
    if norm not in ("none", "word"):
        where = f" in result={cfg.result}" if learned else ""
        raise ValueError(f"elmo.norm={norm}{where}, but layers=mix supports none and word")
    mix = ScalarMix(encoder.num_layers, choice, norm=norm).requires_grad_(False)
    if learned:
        mix.weights.copy_(torch.tensor(learned["shares"]).log())
        mix.gamma.fill_(learned["gamma"])
    described = f"mix {mix.layers} {mix.shares.tolist()} {mix.gamma.item()} norm {norm}"
    mix.to(hardware.device(cfg))

    def mixed(layers: Float[Tensor, "L T D"]) -> Float[Tensor, "T D"]:
        every_word = torch.ones(1, layers.shape[1], dtype=torch.bool, device=layers.device)
        return mix(layers[mix.layers][:, None], every_word)[0]

    return mixed, described


def _learned(cfg: DictConfig, run: Run) -> dict[str, Any]:
    """Return the layers, s_j and gamma of a run's `result.json` at `cfg.place`.

    Raises ValueError if it has none, or if they are of layers of another encoder than
    `cfg.encoder`.
    """
    source, mix = f"result={cfg.result}", run.mix
    elmo, finetune, encoder = (run.config.get(key) or {} for key in ("elmo", "finetune", "encoder"))
    if cfg.place not in mix:
        raise ValueError(
            f"{source} has no mix at place={cfg.place}; it has {sorted(mix) or 'none'}"
        )
    is_trained = finetune.get("name", "none") != "none" or elmo.get("adapt")
    if is_trained or encoder.get("pretrained") is False:
        raise ValueError(
            f"{source}: no file has the layers that its run mixes, which trained the encoder "
            "(finetune, elmo.adapt) or had random weights (encoder.pretrained=false)"
        )
    ours: Any = OmegaConf.to_container(cfg.encoder, resolve=True)
    theirs = _of_encoder(encoder, run.inputs)
    here = _of_encoder(ours, hash_files(inputs.encoder_files(cfg), cfg.cache_dir))
    if different := sorted(k for k in theirs.keys() | here.keys() if theirs.get(k) != here.get(k)):
        said = "; ".join(f"{k} is {theirs.get(k)} there and {here.get(k)} here" for k in different)
        raise ValueError(f"{source}: its run mixes the layers of another encoder: {said}")
    return dict(mix[cfg.place])


def _of_encoder(encoder: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of an encoder that affect its layers, and the first digits of the hashes
    of its files. What names an encoder counts only if there are no files, which may lie elsewhere
    today.
    """
    files = {name: digest[:SHORT] for name, digest in hashes.items() if name.startswith("encoder.")}
    names = ("name", "model", "revision") if files else ("name",)
    return acting({"encoder": {k: v for k, v in encoder.items() if k not in names}}) | files


def _pieces(
    cfg: DictConfig, encoder: Encoder, take: Take, num_tokens: int, done: int
) -> Iterator[list[np.ndarray]]:
    """Yield the arrays of the sentences from number `done` on, in chunks of the input."""
    with Bars() as progress:
        bar = progress.add_task("embedding", total=num_tokens)
        sentences = read_sentences(cfg.input)
        progress.update(bar, advance=sum(map(len, islice(sentences, done))))
        for piece in chunks(sentences, 8 * cfg.batch_tokens):
            forget_words(encoder)  # a killed run goes on with a chunk, and gives the same vectors
            arrays = {}
            for number, layers in encode_each(encoder, piece, batch_tokens=cfg.batch_tokens):
                arrays[number] = _stored(cfg, take(layers), done + number)
                progress.update(bar, advance=len(piece[number]))
            yield [arrays[number] for number in range(len(piece))]
            done += len(piece)


def _stored(cfg: DictConfig, vectors: Tensor, number: int) -> np.ndarray:
    """Return the array that is written; raises FloatingPointError if it is not finite."""
    stored = vectors.to(DTYPES[cfg.dtype]).cpu()
    if not stored.isfinite().all():
        raise FloatingPointError(
            f"{cfg.output}: the vectors of line {number + 1} are not finite in {cfg.dtype}"
            f"{': use dtype=float32' if cfg.dtype == 'float16' else ''}"
        )
    return stored.numpy()
