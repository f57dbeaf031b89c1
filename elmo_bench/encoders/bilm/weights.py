"""Read and write biLMs: the original's `options.json` + HDF5, and our safetensors.

Axes: as in `bilm.py`. The HDF5 layout is that of bilm-tf's `dump_weights`; its names, shapes and
orders are in `_hdf5_layout`.
"""

import dataclasses
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Literal

import h5py
import numpy as np
import torch
from safetensors.numpy import save as to_bytes
from torch import Tensor

from elmo_bench.files import PACKED_FREE, PACKED_RATIO, File, atomic

from ..tensors import Shape, check_finite, check_names, check_shape, read_tensors
from .bilm import DIRECTIONS, Options
from .chars import NUM_CHARACTERS
from .fast import BiLm

log = logging.getLogger(__name__)
MAX_PARAMETERS = 1_000_000_000  # the largest biLM of the original has 94 million
ASKING = "the biLM's options"
Precision = Literal["float32", "bfloat16"]
Turn = Callable[[np.ndarray], np.ndarray]


def shipped(file: File) -> str:
    """Return the path of a file of this package, such as `mini/options.json`."""
    return str(Path(__file__).parent / file)


def in_folder(path: str | Path | None, kind: str) -> str | None:
    """Return the "options" or "weights" of the biLM in a folder: `*options.json`,
    `*weights.safetensors`, `.hdf5` or `.h5`.

    Returns None without a folder, or if it has no such file. Raises FileNotFoundError if the folder
    does not exist, and ValueError if it has several such files.
    """
    if path is None:
        return None
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"encoder.dir={path}: no such folder")
    suffixes = (".json",) if kind == "options" else (".safetensors", ".hdf5", ".h5")
    files = sorted(
        file for file in folder.iterdir() if file.stem.endswith(kind) and file.suffix in suffixes
    )
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ValueError(f"encoder.dir={path} has {names}: choose one with encoder.{kind}=FILE")
    return str(files[0]) if files else None


def load(
    options: str | Path | None,
    weights: str | Path | None,
    *,
    pretrained: bool = True,
    precision: Precision = "float32",
    directions: Sequence[str] | None = None,
) -> BiLm:
    """Load a biLM from `options.json` and weights (`.hdf5`, `.h5` or `.safetensors`), in float32.

    `pretrained=False` keeps random weights, a control that separates pretraining from capacity.
    `precision="bfloat16"` computes products in bfloat16. `directions=["forward"]` loads only the
    forward language model, with half the width; `["backward"]` only the backward one. Raises
    FileNotFoundError, or ValueError with the file, the tensor and both shapes.
    """
    if options is None:
        raise ValueError(
            "encoder.options is empty: give a folder that contains the options.json of a "
            "biLM: encoder=files encoder.dir=FOLDER"
        )
    options, weights = Path(options).expanduser(), weights and Path(weights).expanduser()
    for key, path in (("encoder.options", options), ("encoder.weights", weights)):
        if path is not None and not Path(path).is_file():
            raise FileNotFoundError(f"{key}={path}: no such file")
    whole = Options.read(options)
    chosen = whole
    if directions is not None:
        chosen = dataclasses.replace(whole, directions=tuple(directions))
    missing = [direction for direction in chosen.directions if direction not in whole.directions]
    if missing:
        raise ValueError(
            f"encoder.directions: the biLM of {options} has only {[*whole.directions]}, not "
            f"{', '.join(missing)}"
        )
    shapes = _shapes(whole, options)
    if not pretrained:
        bilm = BiLm(chosen)
        bilm.bf16 = precision == "bfloat16"
        log.info("encoder.pretrained=false: the biLM has random weights")
        return bilm
    if weights is None:
        raise ValueError(
            "encoder.weights is empty: give a folder that contains them, "
            "encoder.dir=FOLDER, or a file, or set encoder.pretrained=false"
        )
    if Path(weights).suffix == ".safetensors":
        tensors = read_tensors(weights, shapes, ASKING)
    else:
        tensors = _read_hdf5(weights, whole, shapes)
    bilm = BiLm(chosen)
    bilm.bf16 = precision == "bfloat16"
    bilm.load_state_dict(dict(_chosen_directions(tensors, whole.directions, chosen.directions)))
    return bilm


def _chosen_directions(
    tensors: Mapping[str, Tensor], whole: Sequence[str], chosen: Sequence[str]
) -> Iterator[tuple[str, Tensor]]:
    """Return the tensors of the chosen directions, with their names in a biLM of only these."""
    for name, tensor in tensors.items():
        part, number, *rest = name.split(".")
        if part != "directions":
            yield name, tensor
        elif whole[int(number)] in chosen:
            yield ".".join([part, str(chosen.index(whole[int(number)])), *rest]), tensor


def save(
    bilm: BiLm,
    weights: str | Path,
    options: str | Path | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write a biLM atomically, in the format of the suffix; `notes` stand in the file beside the
    weights.

    `options` defaults to `options.json` in the same folder. An existing options file with the same
    sizes is kept, since it may have more keys, such as the original's settings of training. Raises
    ValueError for a number that is not finite in `dtype`.
    """
    weights = Path(weights)
    stored = {name: tensor.detach().cpu().to(dtype) for name, tensor in bilm.state_dict().items()}
    check_finite(weights, stored)
    weights.parent.mkdir(parents=True, exist_ok=True)
    options = Path(options or weights.parent / "options.json")
    if not options.is_file() or not _says(options, bilm.options):
        bilm.options.write(options)
    tensors = {name: tensor.numpy() for name, tensor in stored.items()}
    with atomic(weights) as part:
        if weights.suffix == ".safetensors":
            arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
            # Uses the user's file mode, unlike `save_file`.
            part.write_bytes(to_bytes(arrays, dict(notes) if notes else None))
        else:
            with h5py.File(part, "w") as file:
                file.attrs.update(notes or {})
                for theirs, ours, _, back in _hdf5_layout(bilm.options):
                    file[theirs] = back(tensors[ours])


def _says(path: Path, options: Options) -> bool:
    try:
        return Options.read(path) == options
    except ValueError:  # another file, or one that a killed run left
        return False


def _shapes(options: Options, source: str | Path) -> dict[str, Shape]:
    """Return the shapes of a biLM's parameters by name, without building it.

    Raises ValueError for too many parameters.
    """
    features, wide = sum(count for _, count in options.filters), options.projection_size
    encoder, shapes = "token_encoder", dict[str, Shape]()
    shapes[f"{encoder}.embedding.weight"] = (NUM_CHARACTERS, options.char_dim)
    for k, (width, count) in enumerate(options.filters):
        shapes[f"{encoder}.convolutions.{k}.weight"] = (count, options.char_dim, width)
        shapes[f"{encoder}.convolutions.{k}.bias"] = (count,)
    for highway in (f"{encoder}.highways.{k}" for k in range(options.num_highway)):
        for part in ("carry", "transform"):
            shapes[f"{highway}.{part}.weight"] = (features, features)
            shapes[f"{highway}.{part}.bias"] = (features,)
    shapes[f"{encoder}.projection.weight"] = (wide, features)
    shapes[f"{encoder}.projection.bias"] = (wide,)
    numbers = itertools.product(range(len(options.directions)), range(options.num_layers))
    for lstm in (f"directions.{direction}.{layer}" for direction, layer in numbers):
        shapes[f"{lstm}.weight"] = (4 * options.cell_size, 2 * wide)
        shapes[f"{lstm}.bias"] = (4 * options.cell_size,)
        shapes[f"{lstm}.projection_weight"] = (wide, options.cell_size)
    if (count := sum(map(math.prod, shapes.values()))) > MAX_PARAMETERS:
        raise ValueError(
            f"{source}: a biLM of {count:,} parameters, but at most {MAX_PARAMETERS:,} are allowed"
        )
    return shapes


def _read_hdf5(
    path: str | Path, options: Options, shapes: Mapping[str, Shape]
) -> dict[str, Tensor]:
    """Read an HDF5 file's tensors in float32, with our names; raises like `read_tensors`."""
    layout = {theirs: (ours, turn, back) for theirs, ours, turn, back in _hdf5_layout(options)}
    expected = {
        theirs: back(np.broadcast_to(np.float32(0), shapes[ours])).shape
        for theirs, (ours, _, back) in layout.items()
    }
    stored = _stored(path, expected)
    check_names(path, stored, expected, ASKING)
    for name, (shape, refusal) in stored.items():
        if refusal:
            raise ValueError(f"{path}: {name} {refusal}")
        check_shape(path, name, shape, expected[name], ASKING)
    size, values = Path(path).stat().st_size, sum(map(math.prod, expected.values()))
    if 2 * values > PACKED_FREE + PACKED_RATIO * size:
        raise ValueError(f"{path}: {size:,} bytes that expand to {values:,} numbers")
    arrays = _arrays(path, expected)
    tensors = {}
    for theirs, (ours, turn, _) in layout.items():
        array = turn(arrays.pop(theirs))
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        tensors[ours] = torch.from_numpy(native).float()
        check_finite(path, {theirs: tensors[ours]})
    return tensors


@contextmanager
def _h5py(path: str | Path) -> Iterator[h5py.File]:
    """Open an HDF5 file; h5py's errors about a damaged file become a ValueError with its name."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (
        *(OSError, RuntimeError, KeyError, ValueError, TypeError),
        *(AttributeError, OverflowError, MemoryError),
    ) as error:
        raise ValueError(
            f"{path}: not an HDF5 file, or damaged: {type(error).__name__}: {error}"
        ) from error


def _stored(path: str | Path, expected: Iterable[str]) -> dict[str, tuple[Shape, str]]:
    """Return each name in a file, with its shape and, if it must not be read, the reason.

    The contents of unexpected groups are not listed.
    """
    names = set(expected)
    groups = {str(group) for name in names for group in PurePosixPath(name).parents}

    def inside(group: h5py.Group, prefix: str) -> Iterator[tuple[str, tuple[Shape, str]]]:
        for name in group:
            whole = f"{prefix}{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                yield whole, ((), "is a link, but weights lie in the file itself")
            elif whole in names and isinstance(group[name], h5py.Dataset):
                yield whole, (group[name].shape, _refusal(group[name]))
            elif whole in groups and isinstance(group[name], h5py.Group):
                yield from inside(group[name], f"{whole}/")
            else:
                yield whole, ((), "is no dataset")

    with _h5py(path) as file:
        return dict(inside(file, ""))


def _refusal(dataset: h5py.Dataset) -> str:
    """Return the reason why a dataset must not be read; "" if it may be."""
    if dataset.is_virtual or dataset.external:
        return "takes its numbers from elsewhere, but weights lie in the file itself"
    if dataset.dtype.kind != "f" or dataset.dtype.itemsize not in (2, 4, 8):
        return f"has type {dataset.dtype}, but must be float16, float32 or float64"
    if not dataset.id.get_storage_size():
        return "has no numbers"
    if dataset.chunks:
        pairs = zip(dataset.shape, dataset.chunks, strict=True)
        parts, stored = math.prod(-(-n // size) for n, size in pairs), dataset.id.get_num_chunks()
        if stored < parts:  # HDF5 would read zeros
            return f"has only {stored:,} of its {parts:,} pieces"
    piece = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    if piece > PACKED_FREE and piece > dataset.nbytes:
        return f"is packed in pieces of {piece:,} bytes, more than it has"
    return ""


def _arrays(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    with _h5py(path) as file:
        return {name: file[name][()] for name in names}


def _hdf5_layout(options: Options) -> Iterator[tuple[str, str, Turn, Turn]]:
    """(name in the file, name in `BiLm`, from the file's input-major array to ours, and back)."""

    def same(array: np.ndarray) -> np.ndarray:
        return array

    def transpose(array: np.ndarray) -> np.ndarray:
        return array.T

    def from_filters(array: np.ndarray) -> np.ndarray:
        """(1, width, char_dim, filters) -> (filters, char_dim, width)."""
        return array[0].transpose(2, 1, 0)

    def to_filters(array: np.ndarray) -> np.ndarray:
        return array.transpose(2, 1, 0)[None]

    def with_padding(array: np.ndarray) -> np.ndarray:
        """The file has no row for id 0, "no token"."""
        return np.pad(array, ((1, 0), (0, 0)))

    def without_padding(array: np.ndarray) -> np.ndarray:
        return array[1:]

    yield "char_embed", "token_encoder.embedding.weight", with_padding, without_padding
    for k in range(len(options.filters)):
        yield f"CNN/W_cnn_{k}", f"token_encoder.convolutions.{k}.weight", from_filters, to_filters
        yield f"CNN/b_cnn_{k}", f"token_encoder.convolutions.{k}.bias", same, same
    for k in range(options.num_highway):
        for part in ("carry", "transform"):
            theirs, ours = f"CNN_high_{k}", f"token_encoder.highways.{k}.{part}"
            yield f"{theirs}/W_{part}", f"{ours}.weight", transpose, transpose
            yield f"{theirs}/b_{part}", f"{ours}.bias", same, same
    yield "CNN_proj/W_proj", "token_encoder.projection.weight", transpose, transpose
    yield "CNN_proj/b_proj", "token_encoder.projection.bias", same, same
    for number, direction in enumerate(options.directions):
        for layer in range(options.num_layers):
            theirs = f"RNN_{DIRECTIONS.index(direction)}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            ours = f"directions.{number}.{layer}"
            yield f"{theirs}/W_0", f"{ours}.weight", transpose, transpose
            yield f"{theirs}/B", f"{ours}.bias", same, same
            yield f"{theirs}/W_P_0", f"{ours}.projection_weight", transpose, transpose
