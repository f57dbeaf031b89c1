"""What is read of a file that a stranger may have written."""

import gzip
import re
import tracemalloc
import zipfile

import numpy as np
import pytest

from elmo_bench.files import parse_json, read, read_arrays, read_json
from elmo_bench.text import read_lines


def test_reads_an_object_in_utf8_after_a_byte_order_mark_plain_or_packed(tmp_path):
    content = b'\xef\xbb\xbf{"a": [9223372036854775807, -2.5e3, "\xc3\xa9", null, true]}\n'
    (tmp_path / "a.json").write_bytes(content)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content))
    for name in ("a.json", "a.json.gz"):
        assert read_json(tmp_path / name) == {"a": [2**63 - 1, -2500.0, "é", None, True]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n", ": the file is empty"),
        (b'{"a": 1,\n "b"}', ":2: not JSON, from character 5: Expecting ':' delimiter"),
        (b'{"a":\n"\xff"}', ":2: byte 0xff is not UTF-8 text"),
        (b"[1, 2]", ": '[1, 2]', but this file must contain a JSON object"),
        (b'{"a": NaN}', ": NaN, but a number must be finite"),
        (b'{"a": -Infinity}', ": -Infinity, but a number must be finite"),
        (b'{"a": 1e999}', ": 1e999, but a number must be finite"),
        (b'{"a": 9223372036854775808}', ": 9223372036854775808, but a number must be finite"),
        (b'{"a": %s}' % (b"7" * 5000), f": {'7' * 30}, but a number"),
        (b'{"a":' * 100_000, ": lists and objects are nested too deep"),
        (b" " * 1001, ": more than 1,000 bytes, the limit for such a file"),
    ],
)
def test_says_the_file_and_what_is_wrong(tmp_path, content, said):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}{re.escape(said)}"):
        read_json(path, max_bytes=1000 if said.endswith("such a file") else read.JSON_BYTES)


def test_a_packed_file_is_not_unpacked_past_the_limit(tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b" " * 10_000_000))
    with pytest.raises(ValueError, match=r"a\.json\.gz: more than 1,000 bytes"):
        read_json(path, max_bytes=1000)


def test_an_archive_of_more_than_text_can_be_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "PACKED_FREE", 1 << 20)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a O\n" * (1 << 20)))
    with pytest.raises(ValueError, match=r"a\.gz: it expands to more than 1,\d+,\d+ bytes"):
        list(read_lines(path))


def test_a_line_that_does_not_end_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" + bytes(read.LINE_BYTES + 1))
    with pytest.raises(ValueError, match=r"a\.txt:2: a line of more than 16,777,216 bytes"):
        list(read_lines(path))


def _npz(path, name="sentences.npy", shape=(3,), values=b"\1" * 24, kind="<u8"):
    """An archive whose array says what shape and kind it has, and has these bytes."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    content = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + values
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return path


def test_arrays(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.eye(3, dtype=np.uint8))}
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "a.npz", **arrays)
        again = read_arrays(tmp_path / "a.npz")
        assert all((again[name] == arrays[name]).all() for name in arrays)
    assert read_arrays(_npz(tmp_path / "a.npz"))["sentences"].shape == (3,)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shape": (1 << 40,)}, "Unable to allocate"),
        ({"kind": "|O"}, "Object arrays"),
        ({"shape": (30,)}, "EOF"),
        ({"values": bytes(1 << 25)}, "bytes that expand to 33,"),  # with the limit below
        ({"kind": "no"}, ""),
    ],
)
def test_arrays_of_other_sizes_and_kinds_are_not_read(tmp_path, settings, said, monkeypatch):
    monkeypatch.setattr(read, "ARRAYS", 1 << 24)
    path = _npz(tmp_path / "a.npz", **settings)
    with pytest.raises(ValueError, match=rf"a\.npz: not an .npz file of numeric arrays.*{said}"):
        read_arrays(path)


def test_any_damage_to_arrays_is_named(tmp_path):
    path = _npz(tmp_path / "a.npz")
    content = path.read_bytes()
    errors = []
    for position in range(len(content)):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :]
        )
        try:
            read_arrays(path)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > len(content) // 2
    assert all(error.startswith(str(path)) for error in errors)


def test_a_limit_is_no_room_that_is_taken(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    tracemalloc.start()
    assert read_json(tmp_path / "a.json", max_bytes=1 << 40) == {}
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_a_key_twice_is_refused(tmp_path):
    """Two answers to a question: the last had counted."""
    with pytest.raises(ValueError, match=r"here: the key 'a' occurs twice in an object"):
        parse_json('[{"b": 1}, {"c": {"a": 1, "b": 2, "a": 1}}]', "here")
