"""`job=embed`: write an encoder's vectors for every sentence of a file, as HDF5 or safetensors.

Axes: L layers, T tokens of a sentence, D encoder.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from elmo_bench.config import build, inputs
from elmo_bench.elmo import ScalarMix
from elmo_bench.elmo.mix import norm_each_word
from elmo_bench.encoders import Encoder, encode_each, forget_words
from elmo_bench.encoders.vectors_file import (
    HDF5,
    SAFETENSORS,
    check_room,
    is_vectors,
    write_hdf5,
    write_safetensors,
)
from elmo_bench.files import Bars, check_output, sole
from elmo_bench.runs import SHORT, acting, hash_files, read_result
from elmo_bench.text import chunks, read_sentences

log = logging.getLogger(__name__)
Take = Callable[[Float[Tensor, "L T D"]], Tensor]
DTYPES = {"float32": torch.float32, "float16": torch.float16}


def embed(cfg: DictConfig) -> None:
    """Write an array for each line of `cfg.input` to `cfg.output`, atomically.

    The array of line 1 is named "0", as in AllenNLP; messages count lines from 1. HDF5 files have
    the layout of `allennlp elmo` and of bilm-tf's `dump_bilm_embeddings`: one dataset a line, of
    shape (layers, tokens, dim) or (tokens, dim), and `sentence_to_index`. The array of a blank line
    has shape (layers, 0, dim), as in bilm-tf. A killed run resumes where it stopped,
    unless the output is safetensors, which is written in one go.
    """
    output = Path(cfg.output)
    _check_output(cfg, output)
    with sole(f"{output}.part", f"output={output}"):
        _embed(cfg, output)


def _embed(cfg: DictConfig, output: Path) -> None:
    encoder, take, recipe, surveyed = _read(cfg)
    purpose = {
        "input": surveyed.digest,
        "encoder": encoder.fingerprint(),
        "layers": recipe,
        "dtype": cfg.dtype,
        "layout": "lines" if surveyed.index is None else "lines and sentence_to_index",
    }
    rows = encoder.num_layers if cfg.layers == "all" else 1
    width = rows * encoder.dim * DTYPES[cfg.dtype].itemsize
    check_room(output, (length * width for length in surveyed.lengths))
    encoder.to(build.device(cfg))
    pieces = partial(_pieces, cfg, encoder, take, surveyed.lengths)
    if output.suffix in HDF5:
        write_hdf5(output, pieces, purpose, surveyed.index)
    else:
        write_safetensors(output, pieces, purpose)
    num_sentences, num_tokens = len(surveyed.lengths), sum(surveyed.lengths)
    log.info("%s sentences, %s tokens: %s", f"{num_sentences:,}", f"{num_tokens:,}", output)


def check(cfg: DictConfig) -> None:
    """Raise what the job raises before it computes: of its settings, input, output and encoder."""
    _check_output(cfg, Path(cfg.output))
    _read(cfg)


def _read(cfg: DictConfig) -> tuple[Any, Take, str, "Survey"]:
    with_index = cfg.sentence_to_index and Path(cfg.output).suffix in HDF5
    surveyed = survey(cfg.input, with_index=with_index)
    encoder = build.encoder(cfg)
    return encoder, *taker(cfg, encoder), surveyed


def _check_output(cfg: DictConfig, output: Path) -> None:
    if output.suffix not in HDF5 + SAFETENSORS:
        raise ValueError(f"output={output}, but it must end in {', '.join(HDF5 + SAFETENSORS)}")
    check_output("output", output, {key: cfg[key] for key in ("input", "result")}, is_vectors)


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
    shares, gamma, norm = torch.full((encoder.num_layers,), 1 / encoder.num_layers), 1.0, "none"
    if cfg.layers == "mix":
        learned = _learned(cfg, Path(cfg.result)) if cfg.result else None
        shares, gamma, norm = learned or _equal(cfg, encoder.num_layers)
        if len(shares) > encoder.num_layers:
            raise ValueError(
                f"result={cfg.result} mixes layers 0..{len(shares) - 1}, but this encoder "
                f"has layers 0..{encoder.num_layers - 1}"
            )
        # The run's mix may have only the lower layers.
        shares = F.pad(shares, (0, encoder.num_layers - len(shares)))
    weights = gamma * shares

    def mixed(layers: Float[Tensor, "L T D"]) -> Float[Tensor, "T D"]:
        layers = layers.float()  # as ScalarMix does
        if norm == "word":
            every_word = torch.ones(1, layers.shape[1], dtype=torch.bool, device=layers.device)
            layers = norm_each_word(layers[:, None], every_word)[:, 0]
        return torch.einsum("l,ltd->td", weights.to(layers.device), layers)

    return mixed, f"mix {weights.tolist()}" + (f" norm {norm}" if norm != "none" else "")


def _equal(cfg: DictConfig, num_layers: int) -> tuple[Tensor, float, str]:
    choice: Any = OmegaConf.to_container(OmegaConf.create({"mix": cfg.elmo.mix}))
    mix = ScalarMix(num_layers, choice["mix"])
    shares = torch.zeros(num_layers)
    shares[list(mix.layers)] = mix.shares.detach()
    return shares, 1.0, _norm(cfg.elmo.norm)


def _learned(cfg: DictConfig, path: Path) -> tuple[Tensor, float, str]:
    """Read s_j, gamma and `elmo.norm` from a run's `result.json`.

    Raises FileNotFoundError if the file is missing, and ValueError if it has no mix at `cfg.place`,
    layers normalised by batch, or layers of another encoder.
    """
    if not path.is_file():
        raise FileNotFoundError(f"result={path}: no such file")
    content, place = read_result(path), cfg.place
    mix, elmo = content["mix"], content["config"].get("elmo") or {}
    norm = _norm(elmo.get("norm", "none"), f"result={path}: its run has ")
    if place not in mix:
        raise ValueError(
            f"result={path} has no mix at place={place}; it has {sorted(mix) or 'none'}"
        )
    _check_encoder(cfg, path, content)
    shares = torch.zeros(max(mix[place]["layers"]) + 1)
    shares[mix[place]["layers"]] = torch.tensor(mix[place]["shares"])
    return shares, mix[place]["gamma"], norm


def _norm(norm: Any, source: str = "") -> str:
    """Return `elmo.norm`; raises ValueError, after `source`, if it is neither none nor word."""
    if norm not in ("none", "word"):
        raise ValueError(
            f"{source}elmo.norm={norm}, but layers=mix supports none and word (the means and "
            "variances of batch are in a run's checkpoint only)"
        )
    return norm


def _check_encoder(cfg: DictConfig, path: Path, content: Mapping[str, Any]) -> None:
    """Raise ValueError if a run learned its mix for other layers than those of `cfg.encoder`.

    What a result does not say is not compared.
    """
    files = inputs.encoder_files(cfg)
    if _is_adapted(path, content["config"], files.get("encoder.weights")):
        return
    encoder = content["config"].get("encoder") or {}
    ours: Any = OmegaConf.to_container(cfg.encoder, resolve=True)
    digests = hash_files(files, cfg.cache_dir)
    recorded, here = _of_encoder(content.get("inputs", digests)), _of_encoder(digests)
    # What names an encoder counts only if there are no files, which may lie elsewhere today.
    aside = {"encoder._target_"}
    if recorded or here:
        aside |= {"encoder.name", "encoder.model", "encoder.revision"}
    elif "model" in encoder and "model" in ours:
        aside |= {"encoder.name"}
    theirs, chosen = acting({"encoder": encoder}), acting({"encoder": ours})
    different = {key for key in theirs.keys() & chosen.keys() if theirs[key] != chosen[key]} - aside
    different |= {name for name, _ in recorded.items() ^ here.items()}
    if different:
        theirs, chosen = theirs | recorded, chosen | here
        listed = "; ".join(
            f"{key} is {theirs.get(key)} there and {chosen.get(key)} here"
            for key in sorted(different)
        )
        raise ValueError(
            f"result={path}: its run mixes the layers of another encoder, "
            f"encoder={encoder.get('name')}: {listed}"
        )


def _is_adapted(path: Path, config: Mapping[str, Any], weights: Path | None) -> bool:
    """Whether a run adapted its biLM, and `weights` are those of job=adapt; raises ValueError if no
    file has the layers that it mixes, or `weights` are others.
    """
    elmo, encoder = config.get("elmo") or {}, config.get("encoder") or {}
    finetune = (config.get("finetune") or {}).get("name", "none")
    if finetune != "none" or encoder.get("pretrained") is False:
        what = "encoder.pretrained=false" if finetune == "none" else f"finetune={finetune}"
        raise ValueError(
            f"result={path}: its run has {what}, so no file of an encoder has the layers that it "
            "mixes"
        )
    if not elmo.get("adapt"):
        return False
    if weights is None or not weights.with_name("adaptation.json").is_file():
        raise ValueError(
            f"result={path}: its run adapted the biLM (elmo.adapt=true): write that with "
            "job=adapt out=DIR, then use encoder=files encoder.dir=DIR"
        )
    return True


def _of_encoder(digests: Mapping[str, str]) -> dict[str, str]:
    """Return the first digits of the hashes of the files that give the layers."""
    return {
        name: digest[:SHORT]
        for name, digest in digests.items()
        if name.startswith("encoder.") and name != "encoder.softmax"
    }


@dataclass(frozen=True)
class Survey:
    """An input's sentence lengths (tokens), digest, and AllenNLP's index of its sentences."""

    lengths: list[int]
    digest: str
    index: str | None


def survey(path: str | Path, *, with_index: bool) -> Survey:
    """Read and check the whole input.

    The index is a JSON object from a sentence (tokens joined by blanks) to the name of its last
    array.
    """
    lengths, digest, lines = [], hashlib.sha256(), {}
    for number, tokens in enumerate(read_sentences(path)):
        lengths.append(len(tokens))
        digest.update(json.dumps(tokens).encode() + b"\n")
        if with_index:
            lines[" ".join(tokens)] = str(number)
    return Survey(lengths, digest.hexdigest(), json.dumps(lines) if with_index else None)


def _pieces(
    cfg: DictConfig, encoder: Encoder, take: Take, lengths: Sequence[int], done: int
) -> Iterator[list[np.ndarray]]:
    """Yield the arrays of the sentences from number `done` on, in chunks of the input."""
    with Bars() as progress:
        bar = progress.add_task("embedding", total=sum(lengths[done:]))
        for piece in chunks(islice(read_sentences(cfg.input), done, None), 8 * cfg.batch_tokens):
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
