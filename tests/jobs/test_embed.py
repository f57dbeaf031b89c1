"""Vectors in files: those of the original, in its layout, whatever the batches; and a run that is
killed goes on.
"""

import errno
import gzip
import json
import logging
import multiprocessing
import random
import resource
import time

import h5py
import numpy as np
import pytest
import torch

from elmo_bench.encoders.bilm import load, save
from elmo_bench.jobs import embed as job
from elmo_bench.text.chars import char_ids
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm

TEXT = "the dog barks .\n\na  cat\tpurrs\nthe dog barks .\n" + "word " * 40 + "\nx\n"


@pytest.fixture
def files(tmp_path):
    """Overrides that name a small random biLM by its two files."""
    save(random_bilm(), tmp_path / "bilm" / "weights.safetensors")
    return [
        f"encoder.options={tmp_path}/bilm/options.json",
        f"encoder.weights={tmp_path}/bilm/weights.safetensors",
    ]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text(TEXT)
    return path


def embed(*overrides):
    encoder = [] if any(each.startswith("encoder=") for each in overrides) else ["encoder=files"]
    job.embed(composed("job=embed", *encoder, *overrides, "run_dir=here"))


def expected(files, lines):
    """All layers of each line, computed one by one."""
    model = load(*(path.partition("=")[2] for path in files)).eval()
    with torch.no_grad():
        return [model.read(char_ids([tokens]))[0][:, 0].numpy() for tokens in lines]


def read(path):
    """The arrays of a file by line."""
    with h5py.File(path) as file:
        return {key: file[key][...] for key in file if key != "sentence_to_index"}


def test_every_line_in_order(files, source, tmp_path):
    """With AllenNLP's index, which names the last of equal lines."""
    output = tmp_path / "out.h5"
    embed(*files, f"input={source}", f"output={output}", "batch_tokens=16")
    vectors = read(output)
    lines = [line.split() for line in TEXT.splitlines()]
    assert vectors.keys() == {str(number) for number in range(len(lines))}
    for number, wanted in enumerate(expected(files, lines)):
        assert vectors[str(number)].shape == (3, len(lines[number]), 8)
        assert vectors[str(number)].dtype == np.float32
        np.testing.assert_allclose(vectors[str(number)], wanted, atol=1e-6)
    assert sorted(path.name for path in tmp_path.glob("out*")) == [output.name]
    with h5py.File(output) as file:
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert (index["the dog barks ."], index["a cat purrs"], index[""]) == ("3", "2", "1")


@pytest.mark.parametrize(
    ("layers", "take"), [("layers=top", lambda x: x[-1]), ("layers=average", lambda x: x.mean(0))]
)
def test_one_vector_a_token(files, source, tmp_path, layers, take):
    embed(*files, layers, f"input={source}", f"output={tmp_path}/o.hdf5")
    found = read(tmp_path / "o.hdf5")
    for number, wanted in enumerate(expected(files, [line.split() for line in TEXT.splitlines()])):
        np.testing.assert_allclose(found[str(number)], take(wanted), atol=1e-6)


def test_random_weights_follow_from_the_seed(source, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        output = f"output={tmp_path}/{name}.h5"
        embed("encoder=mini", "encoder.pretrained=false", f"seed={seed}", f"input={source}", output)
    first, same, other = (read(tmp_path / f"{name}.h5")["0"] for name in "abc")
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_vectors_that_half_precision_does_not_hold(tmp_path):
    (tmp_path / "vectors.txt").write_text("the 1 2\ndog 1e5 3\n")
    (tmp_path / "in.txt").write_text("the\nthe dog\n")
    names = ["encoder=static", f"encoder.vectors={tmp_path}/vectors.txt"]
    names += [f"input={tmp_path}/in.txt"]
    output = tmp_path / "out.hdf5"
    with pytest.raises(
        FloatingPointError, match=r"line 2 are not finite in float16: use dtype=float32"
    ):
        embed(*names, f"output={output}", "dtype=float16")
    assert not output.exists()
    embed(*names, f"output={output}")
    assert read(output)["1"][0, 1].tolist() == [1e5, 3]
    (tmp_path / "in.txt").write_text("the\n")
    embed(*names, f"output={output}", "dtype=float16")
    assert read(output)["0"].dtype == np.float16
    assert read(output)["0"].tolist() == [[[1, 2]]]


def test_any_string_is_a_token(files, tmp_path):
    lines = [["", "a b", "\u2028", "日本", "\ud800", "</S>"], [], [""]]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    embed(*files, f"input={tmp_path}/in.jsonl.gz", f"output={tmp_path}/o.hdf5")
    found = read(tmp_path / "o.hdf5")
    for number, wanted in enumerate(expected(files, lines)):
        np.testing.assert_allclose(found[str(number)], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "overrides", "message"),
    [
        ("in.txt", "", [], r"in.txt: the file is empty"),
        ("in.jsonl", '["a"]\n{"a": 1}\n', [], "in.jsonl:2: .*but a line is a JSON list of strings"),
        ("in.txt", "a\n", ["output=o.npz"], r"output=o.npz, but it must end in .hdf5, .h5"),
        ("in.txt", "a\n", ["output=nowhere/o.h5"], r"output=nowhere/o.h5: no such folder"),
        ("in.txt", "a\n", ["encoder=none"], r"encoder=none has no layers"),
    ],
)
def test_what_it_says_of_bad_input(files, tmp_path, name, content, overrides, message):
    (tmp_path / name).write_text(content)
    names = [] if "encoder=none" in overrides else files
    with pytest.raises((ValueError, OSError), match=message):
        embed(*names, f"input={tmp_path / name}", f"output={tmp_path}/o.hdf5", *overrides)
    assert not list(tmp_path.glob("o.*"))


@pytest.fixture
def many(tmp_path):
    """Overrides that name a text of many words, each computed with others."""
    rng = random.Random(0)
    words = [f"w{number**2}" for number in range(3000)]
    lines = (" ".join(rng.choices(words, k=rng.randrange(20))) for _ in range(150))
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    return ["encoder=mini", f"input={tmp_path}/in.txt", "batch_tokens=64"]


@pytest.fixture
def embed_until(monkeypatch):
    """Runs the job, which ends with an error when it has written so many pieces."""
    pieces = job._pieces

    def embed_until(stop, *overrides, error=KeyboardInterrupt):
        def broken(*arguments):
            for number, piece in enumerate(pieces(*arguments)):
                if number == stop:
                    raise error
                yield piece

        with monkeypatch.context() as patch:
            patch.setattr(job, "_pieces", broken)
            with pytest.raises((KeyboardInterrupt, OSError)):
                embed(*overrides)

    return embed_until


def same(one, other):
    ours, theirs = read(one), read(other)
    return ours.keys() == theirs.keys() and all((ours[key] == theirs[key]).all() for key in ours)


def test_a_run_that_stopped_goes_on_to_the_same_vectors(many, tmp_path, caplog, embed_until):
    """From the first chunk on; another purpose starts afresh and says so, and a full disk is none
    of the file's damages.
    """
    caplog.set_level(logging.INFO)
    embed(*many, f"output={tmp_path}/whole.hdf5")
    output, part = tmp_path / "o.hdf5", tmp_path / "o.hdf5.part"
    embed_until(1, *many, f"output={output}")
    embed_until(2, *many, f"output={output}", error=OSError(errno.ENOSPC, "No space left"))
    broken = part.read_bytes()
    assert not output.exists()
    embed(*many, f"output={output}")
    assert caplog.text.count("sentences: continuing after them") == 2
    assert same(output, tmp_path / "whole.hdf5")
    assert [path.name for path in tmp_path.glob("o.*")] == ["o.hdf5"]
    with h5py.File(output) as file, h5py.File(tmp_path / "whole.hdf5") as whole:
        assert dict(file.attrs) == dict(whole.attrs)
    part.write_bytes(broken)
    embed(*many, f"output={output}", "dtype=float16")
    assert "o.hdf5.part is damaged, or of another input, encoder or setting" in caplog.text
    assert read(output)["0"].dtype == np.float16
    part.write_bytes(broken)
    caplog.clear()
    embed(*many, f"output={output}", "tf32=true")
    assert "or of another input, encoder or setting" in caplog.text
    part.write_bytes(broken)
    (tmp_path / "in.txt").write_text("another text\n")
    embed(*many, f"output={output}")
    assert read(output)["0"].shape[1] == 2


def test_a_part_that_is_damaged_is_begun_afresh(many, tmp_path, caplog, embed_until):
    """A bit in a vector, in the header; a part that was cut, or is something else."""
    embed(*many, f"output={tmp_path}/whole.hdf5")
    output, part = tmp_path / "o.hdf5", tmp_path / "o.hdf5.part"
    embed_until(2, *many, f"output={output}")
    left = part.read_bytes()
    vector = left.index(read(tmp_path / "whole.hdf5")["0"].tobytes())
    flipped = [left[:place] + bytes([left[place] ^ 1]) + left[place + 1 :] for place in (vector, 0)]
    for content in (*flipped, left[:-5000], b"text"):
        part.write_bytes(content)
        caplog.clear()
        embed(*many, f"output={output}")
        assert "o.hdf5.part is damaged, or of another" in caplog.text
        assert same(output, tmp_path / "whole.hdf5")


def test_killed(files, tmp_path):
    """SIGKILL in the middle of a file."""
    lines = (f"w{number} " * (number % 9) + "\n" for number in range(1000))
    (tmp_path / "in.txt").write_text("".join(lines))
    output, part = tmp_path / "o.hdf5", tmp_path / "o.hdf5.part"
    ask = [*files, f"input={tmp_path}/in.txt", "batch_tokens=64"]
    process = in_another_process(embed, *ask, f"output={output}")
    until = time.time() + 60
    while not (part.exists() and part.stat().st_size > 200_000) and time.time() < until:
        time.sleep(0.01)
    process.kill()
    process.join()
    assert part.exists()
    assert not output.exists()
    embed(*ask, f"output={output}")
    embed(*ask, f"output={tmp_path}/whole.hdf5")
    assert same(output, tmp_path / "whole.hdf5")


def in_another_process(target, *arguments):
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    process.start()
    return process


@pytest.mark.filterwarnings("ignore:Exception ignored in.*h5py")
def test_what_the_library_says_of_a_full_disk(files, source, tmp_path):
    """Errors of its own, of several lines; what was complete stays. In a process of its own, since
    the HDF5 library is broken afterwards.
    """
    source.write_text("word " * 200 + "\n")
    process = in_another_process(_on_a_full_disk, files, source, tmp_path)
    process.join(120)
    assert process.exitcode == 0


def _on_a_full_disk(files, source, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"^cannot write .*o.hdf5.* free\): .*$"):
            embed(*files, f"input={source}", f"output={tmp_path}/o.hdf5")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "o.hdf5").exists()
    embed(*files, f"input={source}", f"output={tmp_path}/o.hdf5")
