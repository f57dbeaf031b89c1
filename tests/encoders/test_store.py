"""The layers on disk against the biLM itself: the same numbers, computed once, by one process, and
never half there.
"""

import errno
import json
import multiprocessing
import os
import pickle
import resource
import shutil
import threading
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_bench import encoders
from elmo_bench.elmo import Elmo
from elmo_bench.encoders import LayerStore, build_store, find_store
from elmo_bench.encoders.bilm import BiLm, Options, char_ids
from elmo_bench.encoders.static import WordVectors
from elmo_bench.encoders.store import _as_header

OPTIONS = Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)))
SENTENCES = [
    ["It", "rains", "."],
    ["No"],
    ["It", "rains", "."],
    ["Ann", "sleeps", "and", "Bob", "sings"],
    [""],
]


@pytest.fixture
def bilm():
    return BiLm(OPTIONS).eval()


def test_only_the_process_that_computes_moves_the_encoder(bilm, monkeypatch, tmp_path):
    """To its own device, whose memory is free again afterwards."""
    moves = []
    monkeypatch.setattr(bilm, "to", moves.append)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: moves.append("empty"))
    device = torch.device("cuda", 1)
    for _ in range(2):
        build_store(bilm, SENTENCES, [0, 2], tmp_path, device=device).close()
        assert moves == [device, torch.device("cpu"), "empty"]


@pytest.fixture
def calls(bilm):
    """The sentences that the biLM has read, counted by their keys."""
    seen = []
    bilm.register_forward_hook(
        lambda _, args, __: seen.extend(sentence(row) for row in args[0].chars)
    )
    return seen


def sentence(chars):
    """The words that a row of characters is of, as something that can be counted."""
    return tuple(bytes(c - 1 for c in word.tolist() if 0 < c < 257) for word in chars if word.any())


def batch(*sentences):
    return sentences, (char_ids(sentences) > 0).any(-1)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 1e-3)])
def test_the_layers_of_the_bilm(bilm, tmp_path, dtype, tolerance):
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path, dtype=dtype)
    sentences, mask = batch(SENTENCES[3], SENTENCES[0], SENTENCES[4], [])
    layers = store(sentences, mask)
    assert layers.dtype == getattr(torch, dtype)
    expected = bilm(bilm.prepare(sentences)).detach()
    torch.testing.assert_close(layers.float(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_layers_on_a_device(bilm, tmp_path, monkeypatch, dtype):
    """The same bits, of the chosen layers, and nothing at padding."""
    monkeypatch.setattr(encoders.store, "COPIED", 3)
    store = build_store(bilm, SENTENCES, [2, 0], tmp_path, dtype=dtype)
    sentences, mask = batch(SENTENCES[3], SENTENCES[0], SENTENCES[4], [])
    there = store.on(torch.device("cpu"))
    assert there.layers.nbytes == store.num_bytes + 2 * 8 * there.layers.itemsize
    rows = store.rows(sentences, mask)
    layers, read = there(rows), store(sentences, mask)
    assert layers.dtype == read.dtype
    assert torch.equal(layers, read)
    assert store.rows([["Nobody"]], torch.ones(1, 1, dtype=torch.bool)) is None


def test_nothing_but_the_chosen_layers(bilm, tmp_path):
    elmo = Elmo(bilm, mix=[2, 0])
    layers = build_store(bilm, SENTENCES, elmo.chosen, tmp_path, dtype="float16")(
        *batch(*SENTENCES)
    )
    assert layers.shape == (2, 5, 5, 8)


def test_every_sentence_is_read_once(bilm, calls, tmp_path):
    build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert len(calls) == len(set(calls)) == 4
    build_store(bilm, reversed(SENTENCES), [2], tmp_path)
    assert len(calls) == 4


def test_only_the_layers_asked_for_and_others_later(bilm, calls, tmp_path):
    top = build_store(bilm, SENTENCES, [2], tmp_path)
    assert sorted(path.name for path in top.folder.iterdir()) == [
        "keys.bin",
        "layer2.bin",
        "starts.bin",
        "store.json",
    ]
    everything = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert everything.folder == top.folder
    assert {(top.folder / f"layer{layer}.bin").stat().st_size for layer in range(3)} == {320}
    assert len(calls) == 8
    sentences, mask = batch(*SENTENCES)
    torch.testing.assert_close(everything(sentences, mask)[2:], top(sentences, mask))


def test_how_long_the_encoder_took(bilm, tmp_path):
    """The time of each pass that some of the layers come from, whoever waited for it."""
    top = build_store(bilm, SENTENCES, [2], tmp_path).seconds
    everything = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    lower = build_store(bilm, SENTENCES, [0, 1], tmp_path).seconds
    assert everything.seconds == build_store(bilm, SENTENCES, [2, 0], tmp_path).seconds
    assert everything.seconds == pytest.approx(top + lower)
    assert 0 < top < everything.seconds
    content = json.loads((header := everything.folder / "store.json").read_text())
    del content["files"]["layer2.bin"]["seconds"]  # of an earlier version
    header.write_text(json.dumps(_as_header(everything.folder, content["files"])))
    assert build_store(bilm, SENTENCES, [0, 2], tmp_path).seconds is None
    assert build_store(bilm, SENTENCES, [0], tmp_path).seconds == lower


def test_another_bilm_another_store(bilm, tmp_path):
    folder = build_store(bilm, SENTENCES, [2], tmp_path).folder
    assert folder != build_store(BiLm(OPTIONS), SENTENCES, [2], tmp_path).folder
    bilm.bf16 = True
    assert folder != build_store(bilm, SENTENCES, [2], tmp_path).folder


def test_a_sentence_that_is_not_there(bilm, tmp_path):
    store = build_store(bilm, SENTENCES, [2], tmp_path)
    assert store(*batch(["Unheard", "of"])) is None


def test_a_worker_maps_the_files_itself(bilm, tmp_path):
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    expected = store(*batch(*SENTENCES))
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    torch.testing.assert_close(pickle.loads(sent)(*batch(*SENTENCES)), expected)


@pytest.mark.parametrize("mix", ["all", "top", 0, "uniform", [2, 0], [2, 1, 0]])
def test_elmo_cannot_tell_the_difference(bilm, tmp_path, mix):
    elmo = Elmo(bilm, mix=mix, at=["input", "output"], dropout=0.0)
    for one in elmo.mixes.values():
        torch.nn.init.normal_(one.weights)  # a share of its own for each layer
    store = build_store(bilm, SENTENCES, elmo.chosen, tmp_path)
    sentences, mask = batch(*SENTENCES)
    for stored, computed in zip(
        elmo(mask, layers=store(sentences, mask)), elmo(mask, elmo.prepare(sentences)), strict=True
    ):
        torch.testing.assert_close(stored, computed, rtol=0, atol=1e-6)


def test_a_killed_run_leaves_nothing_that_counts(bilm, tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_bench.encoders.store.encode_batches", killed)
    with pytest.raises(KeyboardInterrupt):
        build_store(bilm, SENTENCES, [2], tmp_path)
    monkeypatch.undo()
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (folder / ".left").mkdir()  # by kill -9
    assert build_store(bilm, SENTENCES, [2], tmp_path)(*batch(*SENTENCES)) is not None
    assert not (folder / ".left").exists()


@pytest.fixture
def vectors():
    """Words with two numbers each, and what a store of 300 sentences, several batches, is of."""
    numbers = {"w1": 1, "w2": 2, "zero": 3, "odd": 4}
    table = torch.tensor([[0, 0], [1, 2], [0, 3], [0, 0], [5, 6]], dtype=torch.float32)
    return WordVectors(numbers, table), [["w1", "w2"] * 10 + [f"{n}"] for n in range(300)]


@pytest.mark.parametrize("number", [torch.nan, torch.inf, 1e6])
def test_a_number_that_is_not_finite(vectors, tmp_path, number):
    """In the store's type; a thread writes, and what it meets ends the build."""
    encoder, sentences = vectors
    encoder.embedding.weight[4, 1] = number
    sentences[200] = ["w1", "odd", "w2"]
    with pytest.raises(FloatingPointError, match="layers of 'w1 odd w2' are not finite in"):
        build_store(encoder, sentences, [0], tmp_path, dtype="float16")
    assert not list(tmp_path.rglob("*.bin*"))
    threads = [thread.name for thread in threading.enumerate()]
    assert not [name for name in threads if "ThreadPool" in name]


def test_words_without_vectors_are_counted(vectors, tmp_path, caplog):
    caplog.set_level("INFO")
    encoder, sentences = vectors
    build_store(encoder, [*sentences, ["zero", "w1"]], [0, 0], tmp_path)
    assert "the encoder returns zeros for 301 of 6,302 words, such as 'zero', " in caplog.text


def test_every_batch_of_many(vectors, tmp_path, monkeypatch):
    """Each sentence stands where its key says, while batches are computed and written at once."""
    encoder, sentences = vectors
    monkeypatch.setattr("elmo_bench.encoders.store.BATCH_TOKENS", 60)
    varied = [sentence[: n % 22] for n, sentence in enumerate(sentences)]
    store = build_store(encoder, varied, [0], tmp_path)
    inputs = encoder.prepare(varied)
    mask = torch.arange(inputs.rows.shape[1]) < torch.tensor([len(s) for s in varied])[:, None]
    torch.testing.assert_close(store(varied, mask), encoder(inputs), rtol=0, atol=0)


def test_no_room(bilm, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: namedtuple("usage", "free")(100))
    assert build_store(bilm, SENTENCES, [0, 1, 2], tmp_path) is None
    assert "running the encoder on every batch: its layers for this data would take" in caplog.text


def _build(folder, queue):
    torch.manual_seed(0)
    bilm, read = BiLm(OPTIONS).eval(), []
    bilm.register_forward_hook(lambda _, args, __: read.append(len(args[0].chars)))
    build_store(bilm, SENTENCES, [0, 1, 2], folder)
    queue.put(sum(read))


def test_several_at_once_build_it_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_build, args=(tmp_path, queue)) for _ in range(4)]
    for process in processes:
        process.start()
    read = sorted(queue.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    assert read == [0] * 3 + [4]


def test_the_least_recently_used_make_room(bilm, tmp_path, caplog):
    caplog.set_level("INFO")
    stores = [build_store(bilm, [[f"w{number}"] * 100], [1], tmp_path) for number in range(3)]
    assert "1 sentences once, 100 tokens; layers 1 take 0.00 GB of" in caplog.text
    for number, store in enumerate((stores[1], stores[0], stores[2])):
        os.utime(store.folder, (number, number))
        store.close()
    size = sum(path.stat().st_size for path in stores[0].folder.iterdir())
    build_store(bilm, [["w3"] * 100], [1], tmp_path, max_bytes=3.0 * size)
    assert [store.folder.is_dir() for store in stores] == [True, False, True]
    stores[0].hold()
    assert build_store(bilm, [["w4"] * 100], [1], tmp_path, max_bytes=3.0 * size) is not None
    assert [store.folder.is_dir() for store in stores] == [
        True,
        False,
        False,
    ]  # a process reads the first, and the new one
    assert build_store(bilm, [["w5"] * 1000], [1], tmp_path, max_bytes=3.0 * size) is None
    assert (
        len([path for path in tmp_path.iterdir() if path.is_dir()]) == 3
    )  # nothing went for a store that cannot fit


def test_a_store_takes_a_share_of_the_disk(bilm, tmp_path, monkeypatch):
    size = 100 * 8 * 4
    for free, fits in ((int(1.9 * size), False), (int(2.1 * size), True)):
        monkeypatch.setattr(
            shutil, "disk_usage", lambda _, free=free: namedtuple("usage", "free")(free)
        )
        assert (build_store(bilm, [["w"] * 100], [1], tmp_path) is not None) is fits


def test_a_store_that_is_not_kept(bilm, tmp_path):
    """It goes with its last reader."""
    first, second = (build_store(bilm, SENTENCES, [2], tmp_path, keep=False) for _ in range(2))
    first.close()
    assert second(*batch(*SENTENCES)) is not None
    second.close()
    assert not second.folder.exists()


def test_a_store_that_goes_while_it_is_looked_for(bilm, tmp_path, monkeypatch):
    store = build_store(bilm, SENTENCES, [2], tmp_path)
    store.close()
    hold = LayerStore.hold

    def late(self):
        shutil.rmtree(store.folder)
        return hold(self)

    monkeypatch.setattr(LayerStore, "hold", late)
    assert find_store(bilm, SENTENCES, [2], tmp_path) is None
    assert not store.folder.exists()


def test_a_store_that_goes_after_it_was_checked(bilm, tmp_path, monkeypatch):
    store = build_store(bilm, SENTENCES, [2], tmp_path)
    store.close()
    check = LayerStore.check

    def late(self):
        faults = check(self)
        shutil.rmtree(store.folder)
        return faults

    monkeypatch.setattr(LayerStore, "check", late)
    assert find_store(bilm, SENTENCES, [2], tmp_path) is None


def test_another_store_that_goes_while_room_is_made(bilm, tmp_path, monkeypatch):
    other = build_store(bilm, SENTENCES, [2], tmp_path)
    other.close()
    is_dir = Path.is_dir

    def late(path):
        is_there = is_dir(path)
        if is_there and path == other.folder:
            shutil.rmtree(path)
        return is_there

    monkeypatch.setattr(Path, "is_dir", late)
    assert build_store(bilm, [["new"]], [2], tmp_path) is not None
    assert not other.folder.exists()


def truncated(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    path.write_bytes(b"")


def zeroed(path):
    path.write_bytes(bytes(path.stat().st_size))


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def swapped(path):
    content = path.read_bytes()
    path.write_bytes(content[8:16] + content[:8] + content[16:])


def pickled(path):
    np.save(path.with_suffix(".npy"), np.array([{}]), allow_pickle=True)
    path.with_suffix(".npy").replace(path)


def reshaped(path):
    path.write_bytes(path.read_bytes() * 2)


def deleted(path):
    path.unlink()


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_broken_link(path):
    path.unlink()
    path.symlink_to("nowhere")


DAMAGES = [
    *(truncated, emptied, zeroed, flipped, swapped, pickled, reshaped),
    *(deleted, a_folder, a_broken_link),
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["layer1.bin", "keys.bin", "starts.bin", "store.json"])
def test_a_damaged_store_is_named_set_aside_and_built_again(
    bilm, calls, tmp_path, caplog, damage, file
):
    sentences, mask = batch(*SENTENCES)
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    expected = store(sentences, mask)
    store.close()
    damage(store.folder / file)
    left = find_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert left is None
    again = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    torch.testing.assert_close(again(sentences, mask), expected, rtol=0, atol=0)
    # A store without a header is one that was never finished.
    if file != "store.json" or damage not in (deleted, a_broken_link):
        assert f"{store.folder / file} " in caplog.text
        assert f"renamed to {file}.damaged" in caplog.text
        aside = store.folder / f"{file}.damaged"
        assert (aside.exists() or aside.is_symlink()) is (damage is not deleted)
    assert {path.name for path in store.folder.iterdir() if path.suffix != ".damaged"} == {
        *("keys.bin", "starts.bin", "layer0.bin", "layer1.bin", "layer2.bin", "store.json")
    }
    del calls[:]
    assert find_store(bilm, SENTENCES, [0, 1, 2], tmp_path) is not None
    build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert not calls


@pytest.mark.parametrize("files", [["layer1.bin"], ["layer1.bin", "store.json"]])
def test_files_of_another_store(bilm, tmp_path, files):
    """Whose layers have the same shape."""
    torch.manual_seed(1)
    other = build_store(BiLm(OPTIONS).eval(), SENTENCES, [0, 1, 2], tmp_path / "other")
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    expected = store(*batch(*SENTENCES))
    for file in files:
        shutil.copy(other.folder / file, store.folder / file)
    again = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    torch.testing.assert_close(again(*batch(*SENTENCES)), expected, rtol=0, atol=0)


def test_what_is_set_aside_does_not_pile_up(bilm, tmp_path):
    for _ in range(3):
        store = build_store(bilm, SENTENCES, [2], tmp_path)
        flipped(store.folder / "layer2.bin")
    assert [path.name for path in store.folder.glob("*.damaged")] == ["layer2.bin.damaged"]
    size = sum(path.stat().st_size for path in store.folder.iterdir())
    build_store(bilm, [["w"] * 10], [2], tmp_path, max_bytes=size + 10.0)
    assert store.folder.is_dir()
    assert not [*store.folder.glob("*.damaged")]


def test_a_store_of_an_earlier_version(bilm, calls, tmp_path, caplog):
    """It has no header; a process of that version may go on reading it."""
    caplog.set_level("INFO")
    store = build_store(bilm, SENTENCES, [2], tmp_path)
    earlier = store.folder.with_name(store.folder.name.removeprefix("v2-"))
    store.folder.rename(earlier)
    del calls[:]
    build_store(bilm, SENTENCES, [2], tmp_path)
    assert len(calls) == 4
    assert f"ignoring {earlier}" in caplog.text
    assert (earlier / "layer2.bin").is_file()


@pytest.fixture
def full_disk():
    """No file grows beyond 100 kB: as when the disk is full, a write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("can_reserve", [True, False])
def test_a_disk_that_is_full(bilm, tmp_path, caplog, monkeypatch, full_disk, can_reserve):
    if not can_reserve:
        monkeypatch.delattr(os, "posix_fallocate")
    assert build_store(bilm, [["word"] * 50 + [f"{n}"] for n in range(100)], [2], tmp_path) is None
    assert "v2-" in caplog.text
    assert "(File too large): running the encoder on every batch" in caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.suffix != ".lock"]


def test_a_folder_that_is_read_only(bilm, tmp_path, caplog, monkeypatch):
    caplog.set_level("WARNING")  # whatever another test has left
    whole = build_store(bilm, SENTENCES, [2], tmp_path)

    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for owner, name in ((os, "mkdir"), (os, "utime"), (os, "rename"), (os, "replace")):
        monkeypatch.setattr(owner, name, refused)
    assert build_store(bilm, SENTENCES, [2], tmp_path)(*batch(*SENTENCES)) is not None
    assert not caplog.text
    assert build_store(bilm, SENTENCES, [1, 2], tmp_path) is None
    assert build_store(bilm, [["Another"]], [2], tmp_path) is None
    assert caplog.text.count("(Read-only file system): running the encoder on every batch") == 2
    flipped(whole.folder / "layer2.bin")
    assert build_store(bilm, SENTENCES, [2], tmp_path) is None
    assert f"{whole.folder / 'layer2.bin'} does not match its checksum" in caplog.text


def test_a_store_that_another_user_may_read_alone(bilm, tmp_path, caplog, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    for owner, name in ((os, "open"), (os, "listdir")):
        monkeypatch.setattr(owner, name, refused)
    assert build_store(bilm, SENTENCES, [2], tmp_path) is None
    assert "(Permission denied): running the encoder on every batch" in caplog.text


def test_a_kill_between_the_files_and_their_header(bilm, calls, tmp_path, monkeypatch):
    build_store(bilm, SENTENCES, [2], tmp_path)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_bench.encoders.store.atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    monkeypatch.undo()
    assert find_store(bilm, SENTENCES, [0, 1, 2], tmp_path) is None
    assert find_store(bilm, SENTENCES, [2], tmp_path) is not None
    del calls[:]
    assert build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)(*batch(*SENTENCES)) is not None
    assert len(calls) == 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_store_that_a_gpu_builds(tmp_path, monkeypatch, dtype):
    """In bfloat16, many batches, each copied while the next one is computed: the layers of the CPU
    in float32, but for that precision.
    """
    torch.manual_seed(0)
    bilm = BiLm(Options(cell_size=64, projection_size=16, filters=((1, 8), (3, 24)))).eval()
    sentences = [[f"w{n % 97}"] * (1 + n % 40) + [f"{n}"] for n in range(2000)]
    expected = build_store(bilm, sentences, [0, 1, 2], tmp_path / "cpu")
    monkeypatch.setattr("elmo_bench.encoders.store.GPU_TOKENS", 1 << 11)
    bilm.bf16 = True
    store = build_store(bilm.cuda(), sentences, [0, 1, 2], tmp_path / "gpu", dtype=dtype)
    some, mask = batch(*sentences[::7])
    layers, exact = store(some, mask).float(), expected(some, mask)
    assert (layers - exact).norm() < 0.02 * exact.norm()
    torch.testing.assert_close(layers, exact, rtol=0, atol=0.05)
