"""What happens to files: each damage takes a good file's bytes and a place at random."""

import gzip
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

Damage = Callable[[bytes, Random], bytes | None]  # None: the file is gone
NUMBERS = ("", "-1", "0", "1e999", "nan", "1.5", "9" * 500)
HOSTILE = (
    *(*NUMBERS, "../../x", "\u2028", "\u00a0", "\U0001f600", "null", "[]", "{}", '"', "\t"),
    *("(", ")", "()", "(0)|(0", "*", "(A0*", "(V*)", "B-", "I-", "-", "O", "B-PER", "<script>"),
    *("#end document", "#begin document (x); part 000", "-DOCSTART-"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 0.5, 2**31, 2**63, "", "a", "\x00", "${oc.env:HOME}", "\ud83d"),
    *([], [[]], [None], [0, 1], ["a"], {}, {"a": 1}, {"": None}, "a" * 20_000),
)


def cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(data: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def lost(data: bytes, rng: Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + data[place + rng.choice((1, 4, 40, 400)) :]


def inserted(data: bytes, rng: Random, *texts: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(texts or (rng.randbytes(8),)) + data[place:]


def not_utf8(data: bytes, rng: Random) -> bytes:
    return inserted(data, rng, b"\xff", b"\xc3")


def marks(data: bytes, rng: Random) -> bytes:
    """A carriage return, a byte order mark or a NUL, somewhere or at a line's end."""
    mark = rng.choice((b"\r", b"\xef\xbb\xbf", b"\0"))
    lines = data.split(b"\n")
    if rng.random() < 0.3:
        return data.replace(b"\n", b"\r", rng.randrange(1, len(lines) + 1))
    number = rng.randrange(len(lines))
    lines[number] = rng.choice((mark + lines[number], lines[number] + mark))
    return b"\n".join(lines) if rng.random() < 0.7 else inserted(data, rng, mark)


def line_changed(data: bytes, rng: Random) -> bytes:
    """A line that is lost, comes twice or at another place, or has another column or word."""
    lines = data.split(b"\n")
    number, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.choice(("lost", "twice", "swapped", "word", "word", "word"))
    if what == "word":
        words = re.split(rb"([ \t]+)", lines[number])
        words[rng.randrange(len(words))] = rng.choice(HOSTILE).encode()
        lines[number] = b"".join(words)
    elif what == "swapped":
        lines[number], lines[other] = lines[other], lines[number]
    else:
        lines[number : number + 1] = [lines[number]] * (2 if what == "twice" else 0)
    return b"\n".join(lines)


def other_value(data: bytes, rng: Random) -> bytes:
    """In a JSON file, or a line of JSON lines, a value of another kind, or none."""
    text, rest = data.decode(), ""
    try:
        root = json.loads(text)
    except ValueError:
        lines = text.splitlines(keepends=True)
        number = rng.choice([number for number, line in enumerate(lines) if line.strip()])
        text, rest = "".join(lines[:number]), "".join(lines[number + 1 :])
        return (text + _changed(json.loads(lines[number]), rng) + "\n" + rest).encode()
    return _changed(root, rng).encode()


def _changed(root: Any, rng: Random) -> str:
    places: list[tuple[Any, Any]] = []
    inside = [root]
    while inside:
        node = inside.pop()
        children = [*node.items()] if isinstance(node, dict) else [*enumerate(node)]
        places += [(node, key) for key, _ in children]
        inside += [child for _, child in children if isinstance(child, dict | list)]
    node, key = rng.choice(places or [([root], 0)])
    if rng.random() < 0.2:
        del node[key]
    else:
        node[key] = rng.choice(VALUES)
    return json.dumps(root)


def key_twice(data: bytes, rng: Random) -> bytes:
    keys = [*re.finditer(rb'\{\s*("\w+"):', data)]
    if not keys:
        return flipped(data, rng)
    key = rng.choice(keys)
    return data[: key.start() + 1] + key[1] + b": null, " + data[key.start() + 1 :]


def packed_and_cut(data: bytes, rng: Random) -> bytes:
    """Of a .gz: its end is missing, or a byte of it has changed."""
    return rng.choice((cut, flipped))(gzip.compress(data, mtime=0), rng)


ANY: dict[str, Damage] = {
    "gone": lambda data, rng: None,
    "empty": lambda data, rng: b"",
    "noise": lambda data, rng: rng.randbytes(500),
    **{"cut": cut, "flipped": flipped, "lost": lost, "inserted": inserted},
}
TEXT = ANY | {"not UTF-8": not_utf8, "marks": marks, "line": line_changed}
JSON = ANY | {"not UTF-8": not_utf8, "marks": marks, "value": other_value, "key twice": key_twice}
LINES = TEXT | {"value": other_value, "key twice": key_twice}  # of JSON
PACKED = {"packed and cut": packed_and_cut}  # the file is named .gz
