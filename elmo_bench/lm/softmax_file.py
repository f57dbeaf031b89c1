"""The softmax of a biLM on disk: `softmax.safetensors` and `vocabulary.txt`.

The vocabulary has one word per line, beginning with <S>, </S> and <UNK> as the original requires;
row n of the softmax belongs to the word in line n.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save as to_bytes

from elmo_bench.encoders import read_tensors
from elmo_bench.encoders.bilm import Direction, load
from elmo_bench.files import atomic
from elmo_bench.text import decode, read_bytes

from .corpus import BEGIN, END, UNKNOWN
from .model import LanguageModel

SOFTMAX, VOCABULARY = "softmax.safetensors", "vocabulary.txt"
SPECIAL = [BEGIN, END, UNKNOWN]


def save_softmax(
    model: LanguageModel, folder: str | Path, *, dtype: torch.dtype = torch.float16
) -> None:
    """Write `softmax.safetensors` ("weight" V P, "bias" V) and `vocabulary.txt` to the biLM's
    folder, each completely or not at all.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / VOCABULARY) as part:
        lines = "".join(f"{word}\n" for word in model.vocabulary)
        part.write_text(lines, encoding="utf-8", newline="\n")
    arrays = {
        name: np.ascontiguousarray(tensor.detach().cpu().to(dtype).numpy())
        for name, tensor in model.softmax.named_parameters()
    }
    with atomic(folder / SOFTMAX) as part:
        part.write_bytes(to_bytes(arrays))


def load_language_model(
    options: str | Path, weights: str | Path, *, directions: Sequence[Direction] | None = None
) -> LanguageModel:
    """Load a biLM, or some `directions` of it, with the softmax and vocabulary in its folder, in
    float32 and without dropout.

    Raises the errors of `load`, FileNotFoundError if there is no softmax, and ValueError if
    softmax, vocabulary and biLM do not fit.
    """
    bilm, folder = load(options, weights, directions=directions), Path(weights).parent
    for path in (folder / SOFTMAX, folder / VOCABULARY):
        if not path.is_file():
            raise FileNotFoundError(
                f"{path}: no such file. Predicting words needs the biLM's softmax, which "
                "the published biLMs and the shipped mini do not include; job=pretrain "
                "out=FOLDER writes one with the biLM"
            )
    vocabulary = _read_vocabulary(folder / VOCABULARY)
    size = len(vocabulary)
    shapes = {"weight": (size, bilm.options.projection_size), "bias": (size,)}
    asking = f"{VOCABULARY} and the biLM's options"
    tensors = read_tensors(folder / SOFTMAX, shapes, asking)
    model = LanguageModel(bilm, vocabulary).eval()
    model.softmax.load_state_dict(tensors)
    model.source = f"{folder / SOFTMAX} or {Path(weights).name}"
    return model


def _read_vocabulary(path: Path) -> list[str]:
    # Read as bytes, since a word may begin with a byte order mark.
    words = [decode(line, f"{path}:{number}") for number, line in read_bytes(path)]
    if words[:3] != SPECIAL:
        raise ValueError(f"{path}: the first lines must be {SPECIAL}, but they are {words[:3]}")
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise ValueError(f"{path}: {word!r} occurs {count} times, but each word must occur once")
    return words
