"""What a hostile, damaged or merely odd file looks like: one seeded change to a good file.

A mutator takes a good file's bytes and a random number generator, and gives a `Mutant`. The same
generator gives the same bytes again.
"""

import copy
import gzip
import io
import json
import pickle
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch

DEPTH = 100_000  # of brackets: far beyond Python's limit of recursion
SECRET = "HOSTILE_SECRET"  # a variable of the environment that no file may read
LONG = 300_000  # characters of a long line or word
HOSTILE = (
    *("", "-1", "0", "1e999", "nan", "inf", "-inf", "1.5", "9" * 5000, "2147483648", "-2147483649"),
    *("../../x", "/etc/passwd", "\u2028", "\u00a0", "\x00", "\x1b[31m", "\ufeff", "\ud83d\ude00"),
    *("(", ")", "(((", ")))", "()", "(0", "0)", "(0)|(0", "*", "(A0*", "*)", "(V*)", "(ARG1*)"),
    *("B-", "I-", "-", "O", "B-PER", "I-[/PER]", "B-\\input{x}", "<script>", "[/red]", "\\"),
    *("#end document", "#begin document (x); part 000", "-DOCSTART-", "null", "true", "[]", "{}"),
    *('"', "'" * 3, "\t", "  ", "a" * 20_000, "\u202e", "A\u0301" * 50, "${oc.env:HOSTILE_SECRET}"),
)
VALUES: tuple[Any, ...] = (  # what may stand anywhere in JSON, or in a checkpoint
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 2**31, -(2**31) - 1, 2**63, 10**30, 1e308),
    *("", "a", "0", "nan", "\x00", "\u2028", "../../x", "/etc/passwd", "a" * 20_000, "\ud83d"),
    *([], [[]], [None], [0, 1], ["a"], [[0, 0]], {}, {"a": 1}, {"": None}, {"0": [1]}),
    *("${oc.env:HOSTILE_SECRET}", "${task.name}", "[/x]", "<script>", "\\input{x}", "B-PER"),
)
# What `json.dumps` cannot write, by the text that stands for it.
RAW = {
    "@deep list@": "[" * DEPTH + "]" * DEPTH,
    "@deep object@": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "@open@": "[" * DEPTH,
    "@huge@": "9" * 5000,
    "@infinite@": "1e999",
    "@NaN@": "NaN",
    "@Infinity@": "-Infinity",
    "@half@": '"\\ud83d"',
}


class Mutant(NamedTuple):
    """A changed file, and how it may be read.

    A `damage` is no one's wish: where a file has a checksum, what is read of it must equal what was
    read before. An `edit` is another file of that format, which may say something else. What is
    `forbidden` must be refused.
    """

    data: bytes | None  # None: the file is gone
    how: str
    is_edit: bool = False
    is_forbidden: bool = False
    is_gzip: bool = False


Mutator = Callable[[bytes, Random], Mutant]


# --- any file ---


def some_bytes(data: bytes, rng: Random) -> Mutant:
    """Change bytes somewhere, as a bad disk, a bad cable or a bad editor does."""
    changes = (_flip, _set, _delete, _repeat, _insert, _zero, _truncate, _append, _marks, _odd_line)
    change = rng.choice(changes)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        change(changed, rng)
    return Mutant(bytes(changed), change.__name__.strip("_"))


def whole_file(data: bytes, rng: Random) -> Mutant:
    """Another file altogether under this name, or none."""
    how = rng.choice(("gone", "empty", "noise", "zeros", "deep", "gzip", "zip", "text", "one line"))
    contents: dict[str, Callable[[], bytes | None]] = {
        "gone": lambda: None,
        "empty": lambda: b"",
        "noise": lambda: rng.randbytes(rng.randrange(1, 2000)),
        "zeros": lambda: bytes(len(data)),
        "deep": lambda: rng.choice((b"[", b'{"a":', b"(", b"<")) * DEPTH,
        "gzip": lambda: gzip.compress(data[:100], mtime=0),
        "zip": lambda: b"PK\x03\x04" + rng.randbytes(100),
        "text": lambda: "\n".join(rng.choices(HOSTILE, k=20)).encode("utf-8", "surrogatepass"),
        "one line": lambda: rng.choice((b"a", b" ", b'"', b"a ", b"(", b"\\")) * LONG,
    }
    return Mutant(contents[how](), how)


def _spot(data: bytes | bytearray, rng: Random) -> tuple[int, int]:
    """The start and the end of a range."""
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 40, 400, 4000)))


def _flip(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: Random) -> None:
    if data:
        chosen = rng.choice((0, 9, 10, 32, 34, 91, 123, 127, 128, 255, rng.randrange(256)))
        data[rng.randrange(len(data))] = chosen


def _delete(data: bytearray, rng: Random) -> None:
    start, end = _spot(data, rng)
    del data[start:end]


def _repeat(data: bytearray, rng: Random) -> None:
    start, end = _spot(data, rng)
    data[start:start] = data[start:end]


def _insert(data: bytearray, rng: Random) -> None:
    start, _ = _spot(data, rng)
    data[start:start] = rng.randbytes(rng.choice((1, 8, 100)))


def _zero(data: bytearray, rng: Random) -> None:
    start, end = _spot(data, rng)
    data[start:end] = bytes(end - start)


def _truncate(data: bytearray, rng: Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _append(data: bytearray, rng: Random) -> None:
    data += rng.choice((rng.randbytes(50), b"\n\n\n", bytes(50), bytes(data)))


def _marks(data: bytearray, rng: Random) -> None:
    """A mark of the byte order, NULs, bytes that are no UTF-8, line ends of another system."""
    start, _ = _spot(data, rng)
    kind = rng.randrange(8)
    if kind == 0:
        data[:0] = b"\xef\xbb\xbf"
    elif kind == 5:  # two files in one
        data += b"\xef\xbb\xbf" + data
    elif kind > 5 and (ends := [place for place, byte in enumerate(data) if byte == 10]):
        end = rng.choice(ends)
        data[end : end + rng.randrange(2)] = rng.choice(_BREAKS)
    elif kind == 1:
        data[start:start] = bytes(rng.randrange(1, 9))
    elif kind == 2:
        data[start:start] = rng.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\xbd", b"\xe2\x80"))
    elif kind == 3:
        data[:] = data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r")))
    else:
        data[:] = data.decode("utf-8", "replace").encode("utf-16")


def _odd_line(data: bytearray, rng: Random) -> None:
    start, _ = _spot(data, rng)
    piece = rng.choice((b"a", b" ", b"\t", b'"', b"[", b"(", b"\n", b'{"a":', b"a b\n", b"'", b"."))
    data[start:start] = piece * (rng.choice((1000, 30_000)) // len(piece))


_BREAKS = tuple(b.encode() for b in ("\r", "\r\n", "\x85", "\u2028", "\f", "\ufeff", "\u200b"))


# --- lines ---


def some_lines(data: bytes, rng: Random) -> Mutant:
    """Change lines, or the fields of one."""
    lines = data.decode("utf-8", "replace").split("\n")
    change = rng.choice((_line_order, _fields, _fields, _one_field, _one_field, _one_field))
    for _ in range(rng.choice((1, 1, 2, 5))):
        change(lines, rng)
    return Mutant("\n".join(lines).encode("utf-8", "surrogatepass"), change.__name__.strip("_"))


def _line_order(lines: list[str], rng: Random) -> None:
    here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0 and len(lines) > 1:
        del lines[here]
    elif kind == 1:
        lines.insert(there, lines[here])
    elif kind == 2:
        lines[here], lines[there] = lines[there], lines[here]
    elif kind == 3:
        lines.insert(here, rng.choice(("", " ", "#", "\t", *HOSTILE)))
    else:
        lines[here] = lines[here] + lines[there]


def _parts(line: str) -> tuple[list[str], str]:
    separator = "\t" if "\t" in line else " "
    return line.split(separator), separator


def _fields(lines: list[str], rng: Random) -> None:
    here = rng.randrange(len(lines))
    parts, separator = _parts(lines[here])
    first, second = rng.randrange(len(parts)), rng.randrange(len(parts))
    kind = rng.randrange(4)
    if kind == 0:
        del parts[first]
    elif kind == 1:
        parts.insert(second, parts[first])
    elif kind == 2:
        parts[first], parts[second] = parts[second], parts[first]
    else:
        separator = rng.choice(("\t", " ", "  ", ",", "\u00a0"))
    lines[here] = separator.join(parts)


def _one_field(lines: list[str], rng: Random) -> None:
    here = rng.randrange(len(lines))
    parts, separator = _parts(lines[here])
    parts[rng.randrange(len(parts))] = rng.choice(HOSTILE)
    lines[here] = separator.join(parts)


# --- JSON ---


def some_json(data: bytes, rng: Random) -> Mutant:
    """Change a value or a key of a JSON document, or of one line of JSON lines."""
    text = data.decode("utf-8")
    try:
        return Mutant(_changed_json(text, rng), "json", is_edit=True)
    except json.JSONDecodeError:
        lines = text.split("\n")
        here = rng.choice([k for k, line in enumerate(lines) if line.strip()])
        before, after = ("".join(f"{x}\n" for x in lines[:here]), "\n".join(lines[here + 1 :]))
        changed = _changed_json(lines[here], rng).decode("utf-8", "surrogatepass")
        whole = f"{before}{changed}\n{after}"
        return Mutant(whole.encode("utf-8", "surrogatepass"), "json line", is_edit=True)


def _changed_json(text: str, rng: Random) -> bytes:
    content = change_tree(json.loads(text), rng, (*VALUES, *RAW, *RAW))
    written = json.dumps(content, ensure_ascii=rng.random() < 0.5)
    for mark, raw in RAW.items():
        written = written.replace(f'"{mark}"', raw)
    places = [*re.finditer(r'("[^"\\]*"): ("[^"\\]*"|-?\d+)(?=[,}])', written)]
    if places and rng.random() < 0.1:  # a key twice, the last with another value
        place, other = rng.choice(places), rng.choice(places)
        written = f"{written[: place.end()]}, {place[1]}: {other[2]}{written[place.end() :]}"
    return written.encode("utf-8", "surrogatepass")


def change_tree(tree: Any, rng: Random, values: Sequence[Any]) -> Any:
    """A copy of dicts and lists in which something is gone, new, of another kind or elsewhere."""

    def some_value() -> Any:
        return copy.deepcopy(rng.choice(values))  # or the next change would change `values`

    root = [copy.deepcopy(tree)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        node, key = rng.choice(_places(root))
        kind = rng.randrange(8)
        if kind == 0 and node is not root:
            del node[key]
        elif kind == 1 and isinstance(node, dict):
            node[str(rng.choice(("", "x", key, "_target_", f"{key} ")))] = some_value()
        elif kind == 1 and node is not root:
            node.insert(key, copy.deepcopy(node[key]))
        elif kind == 2 and isinstance(node[key], list | dict) and len(node[key]) > 1:
            node[key] = type(node[key])()
        elif kind == 3 and isinstance(node[key], int | float):
            node[key] = rng.choice((-node[key], node[key] + 1, node[key] * 1e6, str(node[key])))
        elif kind == 4:
            other, there = rng.choice(_places(root))
            node[key] = copy.deepcopy(other[there])
        else:
            node[key] = some_value()
    return root[0]


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every place below a node that holds a value."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    places = []
    for key in keys:
        places.append((node, key))
        if isinstance(node[key], dict | list):
            places += _places(node[key])
    return places


# --- gzip ---


def gzipped(mutator: Mutator) -> Mutator:
    """A gzip file: of what another mutator makes, damaged itself, or a bomb."""

    def mutate(data: bytes, rng: Random) -> Mutant:
        kind = rng.randrange(12)
        if kind == 0:
            bomb = _gzip_bomb(rng.choice((b"\0", b"a", b"\n", b"a O\n", b"[", b"a b 0.5\n")))
            return Mutant(data=gzip.compress(data, mtime=0) + bomb, how="bomb", is_gzip=True)
        if kind < 6:
            packed = gzip.compress(data, mtime=0)
            return Mutant(some_bytes(packed, rng).data, "damaged gzip", is_gzip=True)
        mutant = mutator(data, rng)
        packed = gzip.compress(mutant.data, mtime=0) if mutant.data is not None else None
        return mutant._replace(data=packed, is_gzip=True, how=f"{mutant.how}, gzipped")

    return mutate


@cache
def _gzip_bomb(piece: bytes) -> bytes:
    """1.9 GB in 1.9 MB."""
    return gzip.compress(piece * ((16 << 20) // len(piece)), mtime=0) * 120


# --- zip: .npz ---


def some_entries(data: bytes, rng: Random) -> Mutant:
    """A zip file that is well-formed, with other entries: checksums and sizes agree."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    name, other = rng.choice(list(entries)), rng.choice(list(entries))
    kind = rng.randrange(7)
    if kind == 0:
        del entries[name]
    elif kind == 1:
        entries[name] = entries[other]
    elif kind == 2:
        entries[name] = some_bytes(entries[name], rng).data or b""
    elif kind == 3:
        entries[rng.choice(("../../x.npy", "x.npy", "/etc/x.npy"))] = entries.pop(name)
    elif kind == 4:
        entries[name] = _npy(rng.choice(_ARRAYS))
    elif kind == 5:
        entries[name] = _npy_header((rng.choice((10**6, 10**9, 10**13, -1, 0)), rng.choice((1, 4))))
    else:
        zeros = _npy_header((120 << 20,)) + bytes(1 << 20)
        return Mutant(_zip_bomb(name, zeros), "bomb", is_edit=True)
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name), content)
    return Mutant(kept.getvalue(), "zip entries", is_edit=True)


_ARRAYS = (
    *(np.array(["a"]), np.array([{"a": 1}], dtype=object), np.array(1.0), np.zeros((0, 4))),
    *(np.full((5, 1, 4), np.nan), np.full((5, 1, 4), -1.0), np.zeros((5, 1, 4), complex)),
    *(np.full((3, 1, 4), np.inf), np.ones((5, 2, 3)), np.ones(5, dtype=[("x", "f4")])),
    *(np.arange(5, dtype=np.uint64), np.zeros((5, 0, 4)), np.ones((5, 1, 4), dtype=">f8")),
)


def _npy(array: np.ndarray) -> bytes:
    kept = io.BytesIO()
    np.save(kept, array)
    return kept.getvalue()


def _npy_header(shape: tuple[int, ...]) -> bytes:
    """The beginning of an .npy file that promises much."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _zip_bomb(name: str, beginning: bytes) -> bytes:
    """A zip file of one entry: its beginning, then 1.9 GB of zeros in 1.9 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(beginning) + packer.flush(zlib.Z_FULL_FLUSH)
    packed += _zeros() * 120 + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    size, raw = len(beginning) + (120 << 24), name.encode()
    fields = struct.pack("<HHHIIIH", 0, 8, 0, 0x21_0000, 0, len(packed), 0)[:10]
    local = fields + struct.pack("<IIIHH", 0, len(packed), size, len(raw), 0)
    entry = b"PK\x03\x04" + struct.pack("<H", 20) + local + raw + packed
    central = (
        b"PK\x01\x02" + struct.pack("<HH", 20, 20) + local + struct.pack("<HHHII", 0, 0, 0, 0, 0)
    )
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central) + len(raw), len(entry), 0)
    return entry + central + raw + b"PK\x05\x06" + end


@cache
def _zeros() -> bytes:
    """16 MB of zeros as a block of a deflated stream that stands on its own."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)


# --- torch ---


class Caller:
    """An object whose unpickling calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemError('code from a file was run')",))

    def __deepcopy__(self, _: Any) -> "Caller":
        return self  # a copy would call it here


def some_tensors(data: bytes, rng: Random) -> Mutant:
    """A checkpoint that was changed and saved again, so that all its sums are right."""
    content = torch.load(io.BytesIO(data), weights_only=False)
    values = [
        *VALUES,
        *(float("nan"), float("inf"), 10**5000, (), ("${oc.env:HOSTILE_SECRET}",), b"a", {1: 2}),
        *(torch.zeros(0), torch.full((3,), float("nan")), torch.zeros(1).expand(10**12)),
        *(torch.tensor(1 + 1j), torch.ones(2, 2).to_sparse(), torch.ones(3, dtype=torch.int8)),
        _deep(),
    ]
    is_forbidden = rng.random() < 0.05
    content = change_tree(content, rng, [Caller()] if is_forbidden else values)
    if not is_forbidden and rng.random() < 0.15:
        _spoil(content, rng)
    if not is_forbidden and rng.random() < 0.1 and (cycles := [n for n, _ in _places([content])]):
        node = rng.choice([n for n in cycles if isinstance(n, dict)] or [{}])
        node["self"] = node
    kept = io.BytesIO()
    torch.save(content, kept, _use_new_zipfile_serialization=rng.random() < 0.9)
    how = "calls a function" if is_forbidden else "checkpoint"
    called = is_forbidden and b"code from a file" in kept.getvalue()
    return Mutant(kept.getvalue(), how, is_edit=True, is_forbidden=called)


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(400):  # more than pickle itself writes is no longer a file of torch.save
        deep = [deep]
    return deep


def _spoil(content: Any, rng: Random) -> None:
    """Put a number that is not finite into a tensor."""
    tensors = [
        node[key]
        for node, key in _places([content])
        if isinstance(node[key], torch.Tensor)
        and node[key].is_floating_point()
        and node[key].numel()
    ]
    if tensors:
        chosen = rng.choice(tensors)
        chosen.view(-1)[rng.randrange(chosen.numel())] = rng.choice((float("nan"), float("inf")))


def legacy(data: bytes, rng: Random) -> Mutant:
    """A plain pickle, which calls a function."""
    protocol = rng.randrange(pickle.HIGHEST_PROTOCOL + 1)
    return Mutant(pickle.dumps({"a": Caller()}, protocol), "pickle", is_forbidden=True)


# --- safetensors ---


def some_header(data: bytes, rng: Random) -> Mutant:
    """Another header before the same numbers."""
    size = int.from_bytes(data[:8], "little")
    header, numbers = json.loads(data[8 : 8 + size]), data[8 + size :]
    name, other = rng.choice(list(header)), rng.choice(list(header))
    kind = rng.randrange(9)
    if kind == 0:
        header[name]["dtype"] = rng.choice(("F64", "BF16", "I64", "BOOL", "F8_E4M3", "U8", "X", 1))
    elif kind == 1:
        header[name]["shape"] = rng.choice(([10**12], [-1], [0], [2**63], [1, 1], [], "x", [1.5]))
    elif kind == 2:
        header[name]["data_offsets"] = rng.choice(
            ([0, 2**62], [4, 0], [-4, 4], header[other]["data_offsets"])
        )
    elif kind == 3:
        header[rng.choice(("x", "", "\x00", "../x"))] = header.pop(name)
    elif kind == 4:
        header[name], header[other] = header[other], header[name]
    elif kind == 5:
        return _as_bfloat16(header, numbers)
    elif kind == 6:
        return _with_number(header, numbers, rng)
    else:
        changed = _changed_json(json.dumps(header), rng)
        return Mutant(
            len(changed).to_bytes(8, "little") + changed + numbers, "header", is_edit=True
        )
    written = json.dumps(header).encode()
    size = len(written) if rng.random() < 0.9 else rng.choice((0, 2**63, len(written) + 8, 2**32))
    return Mutant(size.to_bytes(8, "little") + written + numbers, "header", is_edit=True)


def _tensors(header: dict[str, Any], numbers: bytes) -> dict[str, np.ndarray]:
    kinds = {"F32": "<f4", "F16": "<f2"}
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            arrays[name] = np.frombuffer(numbers[start:end], kinds[entry["dtype"]]).reshape(
                entry["shape"]
            )
    return arrays


def _as_bfloat16(header: dict[str, Any], numbers: bytes) -> Mutant:
    """The same numbers in bfloat16, which many weights come in."""
    from safetensors.torch import save

    arrays = _tensors(header, numbers)
    tensors = {name: torch.tensor(array).bfloat16() for name, array in arrays.items()}
    return Mutant(save(tensors), "bfloat16", is_edit=True)


def _with_number(header: dict[str, Any], numbers: bytes, rng: Random) -> Mutant:
    """A number that is not finite."""
    from safetensors.numpy import save

    arrays = {name: array.copy() for name, array in _tensors(header, numbers).items()}
    chosen = rng.choice(list(arrays.values()))
    chosen.reshape(-1)[rng.randrange(chosen.size)] = rng.choice((np.nan, np.inf, -np.inf))
    return Mutant(save(arrays), "not finite", is_edit=True, is_forbidden=True)


# --- HDF5 ---


def some_datasets(data: bytes, rng: Random) -> Mutant:
    """A well-formed HDF5 file with other datasets, and some that lie in other files."""
    kept = io.BytesIO(data)
    with h5py.File(kept, "r+") as file:
        names: list[str] = []
        file.visititems(lambda n, item: names.append(n) if isinstance(item, h5py.Dataset) else None)
        name, other = rng.choice(names), rng.choice(names)
        array = file[name][()]
        kind = rng.choice(list(_DATASETS))
        if kind == "more":
            file[rng.choice(("x", "CNN/x", "a/b/c"))] = 1
        elif kind == "attribute":
            file[name].attrs[rng.choice(("x", "DIMENSION_LIST"))] = rng.choice(
                ("y", 1.5, "z" * 60_000)
            )
        else:
            del file[name]
            _DATASETS[kind](file, name, other, array)
    forbidden = kind in ("external", "virtual", "external link", "not finite", "linked", "cut")
    return Mutant(kept.getvalue(), kind, is_edit=True, is_forbidden=forbidden)


def _external(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    size = array.size * array.itemsize
    file.create_dataset(name, array.shape, array.dtype, external=[(sys.executable, 0, size)])


def _virtual(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    layout = h5py.VirtualLayout(array.shape, array.dtype)
    layout[...] = h5py.VirtualSource("elsewhere.h5", "x", array.shape)
    file.create_virtual_dataset(name, layout)


def _linked(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    file["aside"] = array
    file[name] = h5py.SoftLink("/aside")


def _huge(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    chunks = (1 << 20,)
    dataset = file.create_dataset(name, (1 << 36,), "<f4", chunks=chunks, compression="gzip")
    dataset[: 1 << 20] = 0


def _large(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    file.create_dataset(name, (1 << 29,), "<f4", chunks=(1 << 20,), compression="gzip")


def _cut(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    """Only one of at least two pieces is stored."""
    axis = int(np.argmax(array.shape))
    half = (slice(None),) * axis + (slice((array.shape[axis] + 1) // 2),)
    dataset = file.create_dataset(name, array.shape, "<f4", chunks=array[half].shape)
    dataset[half] = array[half]


def _not_finite(file: h5py.File, name: str, other: str, array: np.ndarray) -> None:
    array.reshape(-1)[array.size // 2] = np.nan
    file[name] = array


_DATASETS: dict[str, Callable[[h5py.File, str, str, np.ndarray], Any]] = {
    "gone": lambda *_: None,
    "more": lambda *_: None,
    "attribute": lambda *_: None,
    "not finite": _not_finite,
    "wrong shape": lambda f, n, _, a: f.create_dataset(n, data=a.reshape(-1)[:-1]),
    "flat": lambda f, n, _, a: f.create_dataset(n, data=a.reshape(-1)),
    "empty": lambda f, n, _, a: f.create_dataset(n, data=h5py.Empty("f4")),
    "scalar": lambda f, n, _, a: f.create_dataset(n, data=1.0),
    "double": lambda f, n, _, a: f.create_dataset(n, data=a.astype(">f8")),
    "half": lambda f, n, _, a: f.create_dataset(n, data=a.astype("f2")),
    "integers": lambda f, n, _, a: f.create_dataset(n, data=np.ones(a.shape, "i8")),
    "complex": lambda f, n, _, a: f.create_dataset(n, data=np.ones(a.shape, "c8")),
    "strings": lambda f, n, _, a: f.create_dataset(n, a.shape, h5py.string_dtype()),
    "bytes": lambda f, n, _, a: f.create_dataset(n, data=np.full(a.shape, b"1.5")),
    "compound": lambda f, n, _, a: f.create_dataset(n, a.shape, [("x", "f4")]),
    "ragged": lambda f, n, _, a: f.create_dataset(n, a.shape, h5py.vlen_dtype("f4")),
    "references": lambda f, n, _, a: f.create_dataset(n, a.shape, h5py.ref_dtype),
    "group": lambda f, n, _, a: f.create_group(n),
    "cycle": lambda f, n, _, a: f.__setitem__(n, f["/"]),
    "dangling": lambda f, n, _, a: f.__setitem__(n, h5py.SoftLink("/nowhere")),
    "hard link": lambda f, n, o, a: f.__setitem__(n, f[o]) if o != n else None,
    "linked": _linked,
    "external link": lambda f, n, _, a: f.__setitem__(n, h5py.ExternalLink("/etc/passwd", "/x")),
    "external": _external,
    "virtual": _virtual,
    "huge": _huge,
    "large": _large,
    "cut": _cut,
}


# --- names of mutators, for the rows ---

BINARY: tuple[Mutator, ...] = (*(some_bytes,) * 5, whole_file)
LINES: tuple[Mutator, ...] = (
    *(some_lines,) * 4,
    *(some_bytes,) * 3,
    whole_file,
    gzipped(some_lines),
)
PLAIN_LINES: tuple[Mutator, ...] = (*(some_lines,) * 4, *(some_bytes,) * 3, whole_file)
JSON: tuple[Mutator, ...] = (*(some_json,) * 5, *(some_bytes,) * 3, whole_file)
JSON_LINES: tuple[Mutator, ...] = (*JSON, some_lines, gzipped(some_json))
NPZ: tuple[Mutator, ...] = (*(some_entries,) * 4, *BINARY)
TORCH: tuple[Mutator, ...] = (*(some_tensors,) * 6, *(some_bytes,) * 5, whole_file, legacy)
SAFETENSORS: tuple[Mutator, ...] = (*(some_header,) * 5, *BINARY)
HDF5: tuple[Mutator, ...] = (*(some_datasets,) * 5, *BINARY)
