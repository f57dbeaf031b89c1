"""Read and write biLMs: the original's `options.json` + HDF5, and our safetensors.

Axes: as in `bilm.py`. The HDF5 layout is that of bilm-tf's `dump_weights`; its names, shapes and
orders are in `_hdf5_layout`.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import h5py
import numpy as np
import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from elmo_bench.bounds import File, one_of
from elmo_bench.files import atomic
from elmo_bench.terminal import not_a_file, not_a_folder

from ..tensors import Shapes, check_finite, check_shapes, read_tensors
from .bilm import BiLm
from .options import DIRECTIONS, IN_ORDER, Direction, Options

MAX_PARAMETERS = 1_000_000_000  # the largest biLM of the original has 94 million
ASKING = "the biLM's options"
MAX_PIECE = 1 << 21  # numbers of an HDF5 dataset that are stored as one piece, if it has fewer
Precision = Literal["float32", "bfloat16"]
Turn = Callable[[np.ndarray], np.ndarray]
# How an array of the HDF5 file, whose first axis is the input, becomes ours, and back.
TRANSPOSED: tuple[Turn, Turn] = (np.transpose, np.transpose)
# (1, width, char_dim, filters) <-> (filters, char_dim, width)
FILTERS: tuple[Turn, Turn] = (lambda x: x[0].T, lambda x: x.T[None])
# The file has no row for id 0, "no token".
PADDED: tuple[Turn, Turn] = (lambda x: np.pad(x, ((1, 0), (0, 0))), lambda x: x[1:])


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
        raise FileNotFoundError(f"encoder.dir={path}: {not_a_folder(path)}")
    suffixes = (".json",) if kind == "options" else (".safetensors", ".hdf5", ".h5")
    files = []
    for file in sorted(folder.iterdir()):
        if file.stem.endswith(kind) and file.suffix in suffixes:
            files.append(file)
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
    directions: Annotated[Sequence[Direction], IN_ORDER] | None = None,
) -> BiLm:
    """Load a biLM from `options.json` and weights (`.hdf5`, `.h5` or `.safetensors`), in float32.

    `pretrained=False` keeps random weights, a control that separates pretraining from capacity.
    `precision="bfloat16"` computes products in bfloat16. `directions=["forward"]` loads only the
    forward language model, with half the width; `["backward"]` only the backward one. Raises
    FileNotFoundError, or ValueError with the file, the tensor and both shapes.
    """
    one_of("encoder.precision", precision, get_args(Precision))
    path = _file("encoder.options", options)
    whole = Options.read(path)
    names = whole.directions if directions is None else tuple(directions)
    if not set(names) <= set(whole.directions):
        raise ValueError(
            f"encoder.directions=[{','.join(names)}], but the biLM of {path} has only "
            f"{', '.join(whole.directions)}"
        )
    with torch.device("meta"):  # parameters have only shapes, and need no memory
        frame = BiLm(whole)
    count = sum(parameter.numel() for parameter in frame.parameters())
    if count > MAX_PARAMETERS:
        raise ValueError(
            f"{path}: a biLM of {count:,} parameters, but at most {MAX_PARAMETERS:,} are allowed"
        )
    bilm = BiLm(dataclasses.replace(whole, directions=names))
    bilm.bf16 = precision == "bfloat16"
    if pretrained:
        frame.load_state_dict(_read(_file("encoder.weights", weights), frame), assign=True)
        sides = [whole.directions.index(name) for name in names]
        frame.directions = nn.ModuleList(frame.directions[side] for side in sides)
        bilm.load_state_dict(frame.state_dict())
    return bilm


def _file(key: str, path: str | Path | None) -> Path:
    """Return a path. Raises ValueError for none, and FileNotFoundError if there is no such file."""
    if path is None:
        raise ValueError(
            f"{key} is empty: give a folder with the files of a biLM, *options.json and *weights."
            "safetensors (or .hdf5, .h5), encoder=files encoder.dir=FOLDER; "
            "encoder.pretrained=false needs no weights"
        )
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"{key}={path}: {not_a_file(path)}")
    return file


def save(bilm: BiLm, weights: str | Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Write a biLM atomically, in the format of the suffix, and its `options.json` beside it.
    Raises ValueError for a number that is not finite in `dtype`.

    An `options.json` with the same sizes stays, since it may have more keys, such as the original's
    settings of training. Where the weights cannot be written, it stays in any case.
    """
    path = Path(weights)
    stored = {}
    for name, tensor in bilm.state_dict().items():
        stored[name] = tensor.cpu().to(dtype).contiguous()
    check_finite(path, stored)
    path.parent.mkdir(parents=True, exist_ok=True)
    options = path.parent / "options.json"
    is_same = False
    with suppress(OSError, ValueError):  # there is none, another file, or one of a killed run
        is_same = Options.read(options) == bilm.options
    with atomic(path) as part:
        if path.suffix == ".safetensors":
            part.write_bytes(to_bytes(stored))  # uses the user's file mode, unlike `save_file`
        else:
            with h5py.File(part, "w") as file:
                for theirs, (ours, (_, back)) in _hdf5_layout(bilm.options).items():
                    file[theirs] = back(stored[ours].numpy())
        if not is_same:
            bilm.options.write(options)


def _read(path: Path, frame: BiLm) -> dict[str, Tensor]:
    """Read a file's tensors in float32, with our names; raises like `read_tensors`."""
    shapes = {name: tuple(tensor.shape) for name, tensor in frame.state_dict().items()}
    if path.suffix == ".safetensors":
        return read_tensors(path, shapes, ASKING)
    try:
        with h5py.File(path, "r") as file:
            return _read_hdf5(path, file, frame.options, shapes)
    except Exception as error:  # a damaged file causes many types of errors
        if str(error).startswith(f"{path}"):
            raise
        kind = type(error).__name__
        raise ValueError(f"{path}: not an HDF5 file, or damaged: {kind}: {error}") from error


def _read_hdf5(path: Path, file: h5py.File, options: Options, shapes: Shapes) -> dict[str, Tensor]:
    """Read the tensors of an open HDF5 file, with our names."""
    stored: dict[str, h5py.Dataset] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            stored[name] = item

    file.visititems(add)
    layout = _hdf5_layout(options)
    expected = {}
    for theirs, (ours, (_, back)) in layout.items():
        expected[theirs] = back(np.broadcast_to(np.float32(0), shapes[ours])).shape
    check_shapes(path, {name: item.shape for name, item in stored.items()}, expected, ASKING)
    tensors = {}
    for theirs, (ours, (turn, _)) in layout.items():
        _check_stored(path, theirs, stored[theirs])
        with np.errstate(over="ignore"):  # infinity is refused
            array = np.ascontiguousarray(turn(stored[theirs][()]), np.float32)
        tensors[ours] = torch.from_numpy(array)
        check_finite(path, {theirs: tensors[ours]})
    return tensors


def _check_stored(path: Path, name: str, item: h5py.Dataset) -> None:
    """Raise ValueError for a dataset that must not be read."""
    refusal = ""
    if item.is_virtual or item.external:
        refusal = "takes its numbers from elsewhere, but weights lie in the file itself"
    elif item.dtype.kind != "f" or item.dtype.itemsize not in (2, 4, 8):
        refusal = f"has type {item.dtype}, but must be float16, float32 or float64"
    elif math.prod(item.chunks or ()) > max(item.size, MAX_PIECE):
        refusal = f"is packed in pieces of {math.prod(item.chunks):,} numbers, more than it has"
    if refusal:
        raise ValueError(f"{path}: {name} {refusal}")


def _hdf5_layout(options: Options) -> dict[str, tuple[str, tuple[Turn, Turn]]]:
    """Return, by name in the file, the name in `BiLm` and how to turn the array."""
    ours = "token_encoder"
    layout = {"char_embed": (f"{ours}.embedding.weight", PADDED)}
    for k in range(len(options.filters)):
        layout[f"CNN/W_cnn_{k}"] = f"{ours}.convolutions.{k}.weight", FILTERS
        layout[f"CNN/b_cnn_{k}"] = f"{ours}.convolutions.{k}.bias", TRANSPOSED
    for k in range(options.num_highway):
        for part in ("carry", "transform"):
            layout[f"CNN_high_{k}/W_{part}"] = f"{ours}.highways.{k}.{part}.weight", TRANSPOSED
            layout[f"CNN_high_{k}/b_{part}"] = f"{ours}.highways.{k}.{part}.bias", TRANSPOSED
    layout["CNN_proj/W_proj"] = f"{ours}.projection.weight", TRANSPOSED
    layout["CNN_proj/b_proj"] = f"{ours}.projection.bias", TRANSPOSED
    for number, direction in enumerate(options.directions):
        for layer in range(options.num_layers):
            theirs = f"RNN_{DIRECTIONS.index(direction)}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            ours = f"directions.{number}.{layer}"
            layout[f"{theirs}/W_0"] = f"{ours}.weight", TRANSPOSED
            layout[f"{theirs}/B"] = f"{ours}.bias", TRANSPOSED
            layout[f"{theirs}/W_P_0"] = f"{ours}.projection_weight", TRANSPOSED
    return layout
