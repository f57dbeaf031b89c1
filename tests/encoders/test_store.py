"""The layers on disk against the biLM itself: the same numbers, computed once, by one process, and
never half there; layers in memory; how far the types of stored vectors move a number.
"""

import errno
import math
import multiprocessing
import os
import pickle
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from elmo_bench.elmo import Elmo, Layers
from elmo_bench.encoders import LayerMemory, build_store
from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.encoders.memory import check_room
from elmo_bench.encoders.static import WordVectors
from elmo_bench.encoders.store import pack, row_bytes, unpack

OPTIONS = Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)))
SENTENCES = [
    ["It", "rains", "."],
    ["No"],
    ["It", "rains", "."],
    ["Ann", "sleeps", "and", "Bob", "sings"],
    [""],
]
CPU = torch.device("cpu")


@pytest.fixture
def bilm():
    return BiLm(OPTIONS).eval()


def test_only_the_process_that_computes_moves_the_encoder(bilm, monkeypatch, tmp_path):
    """To its own device."""
    moves, device = [], torch.device("cuda", 1)
    monkeypatch.setattr(bilm, "to", moves.append)
    for _ in range(2):
        build_store(bilm, SENTENCES, [0, 2], tmp_path, device=device).close()
        assert moves == [device]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 1e-3)])
def test_the_layers_of_the_bilm(bilm, tmp_path, dtype, tolerance):
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path, dtype=dtype)
    sentences = [SENTENCES[3], SENTENCES[0], SENTENCES[4], []]
    layers = store(sentences)
    assert layers.dtype == getattr(torch, dtype)
    expected = bilm(bilm.prepare(sentences)).detach()
    torch.testing.assert_close(layers.float(), expected, rtol=0, atol=tolerance)


def test_a_sentence_that_the_store_lacks(bilm, tmp_path):
    store = build_store(bilm, SENTENCES, [0], tmp_path)
    with pytest.raises(ValueError, match=r"no layers of \('it', 'rains'\): `collate` of a task"):
        store([["It", "rains", "."], ["it", "rains"]])


def test_every_sentence_is_read_once(bilm, times_read, tmp_path):
    build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert times_read.total() == len(times_read) == 4
    build_store(bilm, reversed(SENTENCES), [2], tmp_path)
    assert times_read.total() == 4


def test_only_the_layers_asked_for_and_others_later(bilm, times_read, tmp_path):
    top = build_store(bilm, SENTENCES, [2], tmp_path)
    assert [path.name for path in top.folder.iterdir()] == ["layer2.safetensors"]
    everything = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert everything.folder == top.folder
    assert load_file(top.folder / "layer0.safetensors")["layer"].shape == (10, 8)
    assert times_read.total() == 8
    torch.testing.assert_close(everything(SENTENCES)[2:], top(SENTENCES))


def test_layers_of_two_digits(tmp_path):
    """The vectors of all layers begin at one place of their files."""
    bilm = BiLm(replace(OPTIONS, num_layers=10)).eval()
    store = build_store(bilm, SENTENCES, [9, 10], tmp_path)
    expected = bilm(bilm.prepare(SENTENCES), [9, 10]).detach()
    torch.testing.assert_close(store(SENTENCES), expected)


def test_how_long_the_encoder_took(bilm, tmp_path):
    """The time of each pass that some of the layers come from, whoever waited for it."""
    top = build_store(bilm, SENTENCES, [2], tmp_path).seconds
    everything = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    lower = build_store(bilm, SENTENCES, [0, 1], tmp_path).seconds
    assert everything.seconds == build_store(bilm, SENTENCES, [2, 0], tmp_path).seconds
    assert everything.seconds == pytest.approx(top + lower)
    assert 0 < top < everything.seconds


def test_what_has_a_store_of_its_own(bilm, tmp_path, monkeypatch):
    """Another biLM, another type of products, TF32."""
    folder = build_store(bilm, SENTENCES, [2], tmp_path).folder
    assert folder != build_store(BiLm(OPTIONS), SENTENCES, [2], tmp_path).folder
    bilm.bf16 = True
    assert folder != build_store(bilm, SENTENCES, [2], tmp_path).folder
    bilm.bf16 = False
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert folder != build_store(bilm, SENTENCES, [2], tmp_path).folder


def test_a_worker_maps_the_files_itself(bilm, tmp_path):
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    expected = store(SENTENCES)
    assert torch.equal(pickle.loads(pickle.dumps(store))(SENTENCES), expected)


@pytest.mark.parametrize("mix", ["all", "top", 0, "uniform", [2, 0], [2, 1, 0]])
def test_elmo_cannot_tell_the_difference(bilm, tmp_path, mix):
    elmo = Elmo(bilm, mix=mix, at=["input", "output"], dropout=0.0)
    for one in elmo.mixes.values():
        torch.nn.init.normal_(one.weights)  # a share of its own for each layer
    store = build_store(bilm, SENTENCES, elmo.chosen, tmp_path)
    mask = torch.arange(5) < torch.tensor([[len(sentence)] for sentence in SENTENCES])
    from_store = elmo(mask, Layers(store(SENTENCES)))
    computed = elmo(mask, elmo.prepare(SENTENCES))
    torch.testing.assert_close(from_store, computed, rtol=0, atol=1e-6)


def test_a_killed_run_leaves_nothing_that_counts(bilm, times_read, tmp_path, monkeypatch):
    """Complete layers stay, and only the others are computed again."""
    folder = build_store(bilm, SENTENCES, [2], tmp_path).folder

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo_bench.encoders.frozen_layers.encode_batches", killed)
        with pytest.raises(KeyboardInterrupt):
            build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert [path.name for path in folder.iterdir()] == ["layer2.safetensors"]
    scratch = folder / ".layer0.safetensors-12345678"  # left by kill -9
    scratch.mkdir()
    expected = bilm(bilm.prepare(SENTENCES)).detach()
    times_read.clear()
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    torch.testing.assert_close(store(SENTENCES), expected)
    assert times_read.total() == 4
    assert not scratch.exists()


@pytest.fixture
def vectors():
    """Words with two numbers each, and what a store of 300 sentences, several batches, is of."""
    numbers = {"w1": 1, "w2": 2, "zero": 3, "odd": 4}
    table = torch.tensor([[0, 0], [1, 2], [0, 3], [0, 0], [5, 6]], dtype=torch.float32)
    return WordVectors(numbers, table), [["w1", "w2"] * 10 + [f"{n}"] for n in range(300)]


@pytest.mark.parametrize("number", [torch.nan, torch.inf, 1e6])
def test_a_number_that_is_not_finite(vectors, tmp_path, number):
    """In the type of the store."""
    encoder, sentences = vectors
    encoder.embedding.weight[4, 1] = number
    sentences[200] = ["w1", "odd", "w2"]
    with pytest.raises(FloatingPointError, match="layers of 'w1 odd w2' are not finite in"):
        build_store(encoder, sentences, [0], tmp_path, dtype="float16")
    assert not list(tmp_path.rglob("layer*"))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_every_batch_of_many(vectors, tmp_path, monkeypatch):
    """Each sentence stands where its key says, while batches are computed and written at once."""
    encoder, sentences = vectors
    monkeypatch.setattr("elmo_bench.encoders.frozen_layers.BATCH_TOKENS", 60)
    varied = [sentence[: n % 22] for n, sentence in enumerate(sentences)]
    store = build_store(encoder, varied, [0], tmp_path)
    expected = encoder(encoder.prepare(varied))
    torch.testing.assert_close(store(varied), expected, rtol=0, atol=0)


def _build(folder, queue):
    torch.manual_seed(0)
    bilm, read = BiLm(OPTIONS).eval(), []
    bilm.register_forward_hook(lambda _, args, __: read.append(len(args[0].chars)))
    build_store(bilm, SENTENCES, [0, 1, 2], folder)
    queue.put(sum(read))


def test_several_at_once_build_it_once(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_build, args=(tmp_path, queue)) for _ in range(4)]
    for process in processes:
        process.start()
    read = sorted(queue.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    assert read == [0] * 3 + [4]


@pytest.mark.parametrize(("most", "fits"), [(1.9, False), (2.1, True)])
def test_all_stores_together_have_a_limit(bilm, tmp_path, caplog, most, fits):
    build_store(bilm, [["w1"] * 1000], [1], tmp_path).close()
    limit = most * 1000 * 8 * 4
    assert (build_store(bilm, [["w2"] * 1000], [1], tmp_path, max_bytes=limit) is not None) is fits
    assert ("job=cache clear=layers deletes" in caplog.text) is not fits
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1 + fits


def test_a_store_takes_a_share_of_the_disk(bilm, tmp_path, monkeypatch, caplog):
    size = 100 * 8 * 4
    for free, fits in ((int(1.9 * size), False), (int(2.1 * size), True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert (build_store(bilm, [["w"] * 100], [1], tmp_path) is not None) is fits
    assert "running the encoder on every batch: its layers for this data would take" in caplog.text


def test_a_store_that_is_not_kept(bilm, tmp_path):
    """It goes with its last reader."""
    first, second = (build_store(bilm, SENTENCES, [2], tmp_path, keep=False) for _ in range(2))
    first.close()
    assert second(SENTENCES) is not None
    second.close()
    assert not second.folder.exists()


def test_a_store_that_failed_stays_for_those_that_wait_for_it(bilm, tmp_path):
    waiting = build_store(bilm, SENTENCES, [2], tmp_path)
    for path in waiting.folder.iterdir():
        path.unlink()
    failed = replace(waiting, _held=None)
    failed.hold()
    failed.close()
    assert waiting.folder.is_dir()
    waiting.close()
    assert not waiting.folder.exists()


DAMAGES = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: path.write_bytes(b""),
    "of another layer": lambda path: shutil.copy(path.with_name("layer2.safetensors"), path),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_computed_again(bilm, tmp_path, caplog, damage):
    store = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    expected = store(SENTENCES)
    store.close()
    DAMAGES[damage](path := store.folder / "layer1.safetensors")
    again = build_store(bilm, SENTENCES, [0, 1, 2], tmp_path)
    assert torch.equal(again(SENTENCES), expected)
    assert (f"{path}: damaged (" in caplog.text) is (damage != "deleted")


@pytest.fixture
def full_disk():
    """No file grows beyond 100 kB: as when the disk is full, a write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full(bilm, tmp_path, caplog, full_disk):
    assert build_store(bilm, [["word"] * 50 + [f"{n}"] for n in range(100)], [2], tmp_path) is None
    assert "(File too large): running the encoder on every batch" in caplog.text
    assert not [*tmp_path.rglob("layer*")]


def test_a_folder_that_is_read_only(bilm, tmp_path, caplog, monkeypatch):
    caplog.set_level("WARNING")  # whatever another test has left
    build_store(bilm, SENTENCES, [2], tmp_path)

    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for owner, name in ((os, "mkdir"), (os, "utime"), (os, "rename"), (os, "replace")):
        monkeypatch.setattr(owner, name, refused)
    assert build_store(bilm, SENTENCES, [2], tmp_path)(SENTENCES) is not None
    assert not caplog.text
    assert build_store(bilm, SENTENCES, [1, 2], tmp_path) is None
    assert build_store(bilm, [["Another"]], [2], tmp_path) is None
    assert caplog.text.count("(Read-only file system): running the encoder on every batch") == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8"])
def test_layers_in_memory(bilm, tmp_path, dtype):
    """Those of a store, bit for bit: also of an empty sentence, and 0 after the end of others."""
    memory = LayerMemory(bilm, SENTENCES, [2, 0], CPU, dtype=dtype)
    store = build_store(bilm, SENTENCES, [2, 0], tmp_path, dtype=dtype)
    assert memory.starts == store.starts
    for batch in (SENTENCES, SENTENCES[3:], [[]]):
        found = memory(memory.prepare(batch))
        assert found.dtype == store(batch).dtype
        assert torch.equal(found, store(batch))
    assert memory.seconds > 0
    memory.close()
    assert memory.table.nbytes == 0


@pytest.mark.skipif(
    not Path("/proc/meminfo").exists(), reason="needs /proc, which says how much memory is free"
)
@pytest.mark.parametrize(("free", "limit"), [(1, 1e9), (1000, 703.0)])
def test_no_room_in_memory(bilm, monkeypatch, free, limit):
    """704 bytes: 2 layers, 10 words and padding, 8 numbers of 4 bytes; half of 1 kB are 512."""
    read, said = [], f"MemTotal:   9 kB\nMemAvailable:   {free} kB\n"
    bilm.register_forward_hook(lambda *_: read.append(1))
    monkeypatch.setattr(Path, "read_text", lambda _: said)
    with pytest.raises(ValueError, match=r"store\.mode=memory: .* would take .* are free on cpu; "):
        LayerMemory(bilm, SENTENCES, [0, 1], CPU, max_bytes=limit)
    assert not read
    fits = LayerMemory(bilm, SENTENCES, [0, 1], CPU, max_bytes=limit, dtype="float16")
    assert fits.table.nbytes == 352


def test_what_torch_keeps_of_a_gpus_memory_is_free(monkeypatch):
    """As the table of a training before, in the same process."""
    free = [1000]
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: free.append(2000))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[-1], 4000))
    check_room(900, torch.device("cuda"), math.inf)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_no_number_moves_by_more_than_half_a_step(dtype):
    """Of vectors of every length that float32 has, of one with a number far beyond the others, and
    of zeros.
    """
    lengths = torch.logspace(-44, 37, 82)[:, None]
    lone = torch.full((1, 24), 1e-3).index_fill(1, torch.tensor([5]), -3e4)
    vectors = torch.cat([torch.randn(82, 24) * lengths, lone, torch.zeros(1, 24)])
    packed = pack(vectors.view(2, 42, 24), dtype)
    assert packed.nbytes == 84 * row_bytes(24, dtype)
    largest = vectors.abs().amax(-1, keepdim=True)
    half = vectors.abs() / 2**8 if dtype == "bfloat16" else largest / 254
    moved = (unpack(packed).view(84, 24).double() - vectors).abs()
    assert (moved <= half * (1 + 1e-5) + torch.finfo(torch.float32).tiny).all()


@pytest.mark.parametrize(
    ("dtype", "exact"),
    [("bfloat16", torch.arange(-256.0, 257)), ("int8", torch.arange(-127.0, 128) / 4)],
)
def test_what_does_not_move(dtype, exact):
    both = torch.stack([exact, torch.zeros_like(exact)])
    assert torch.equal(unpack(pack(both, dtype)).float(), both)


def test_ties_go_to_the_even_neighbour():
    tied = torch.tensor([[127.0, 0.5, 1.5, -2.5]])
    assert unpack(pack(tied, "int8")).tolist() == [[127.0, 0.0, 2.0, -2.0]]


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_a_store_of_numbers_above_float16(tmp_path, dtype):
    """As the layers of many decoders have."""
    table = torch.tensor([[0, 0], [1e5, -3.0], [-2e5, 1e5]])
    encoder, sentences = WordVectors({"w1": 1, "w2": 2}, table), [["w1", "w2", "?"], ["w2"]]
    layers = build_store(encoder, sentences, [0], tmp_path, dtype=dtype)(sentences).float()
    expected = encoder(encoder.prepare(sentences))
    torch.testing.assert_close(layers, expected, rtol=2**-8, atol=2e5 / 254)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_store_that_a_gpu_builds(tmp_path, monkeypatch, dtype):
    """In bfloat16, many batches, each written while the next one is computed: the layers of the CPU
    in float32, but for that precision.
    """
    torch.manual_seed(0)
    bilm = BiLm(Options(cell_size=64, projection_size=16, filters=((1, 8), (3, 24)))).eval()
    sentences = [[f"w{n % 97}"] * (1 + n % 40) + [f"{n}"] for n in range(2000)]
    expected = build_store(bilm, sentences, [0, 1, 2], tmp_path / "cpu")
    monkeypatch.setattr("elmo_bench.encoders.frozen_layers.GPU_TOKENS", 1 << 11)
    bilm.bf16 = True
    store = build_store(bilm.cuda(), sentences, [0, 1, 2], tmp_path / "gpu", dtype=dtype)
    layers, exact = store(sentences[::7]).float(), expected(sentences[::7])
    assert (layers - exact).norm() < 0.02 * exact.norm()
    torch.testing.assert_close(layers, exact, rtol=0, atol=0.05)
