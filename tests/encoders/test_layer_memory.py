"""Layers in memory: those of a store on disk, bit for bit, or a refusal before anything is read."""

from pathlib import Path

import pytest
import torch

from elmo_bench.encoders import LayerMemory, build_store
from elmo_bench.encoders.bilm import BiLm, Options

OPTIONS = Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)))
SENTENCES = [["It", "rains", "."], ["No"], ["It", "rains", "."], ["Ann", "and", "Bob", "sing"], []]
CPU, MEMORY = torch.device("cpu"), Path("/proc/meminfo")


@pytest.fixture
def bilm():
    return BiLm(OPTIONS).eval()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8"])
def test_what_a_store_reads(bilm, tmp_path, dtype):
    """Also of an empty sentence, and 0 after the end of others."""
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


@pytest.mark.skipif(not MEMORY.exists(), reason="only Linux says how much memory is free")
@pytest.mark.parametrize(("free", "limit"), [(1, 1e9), (1000, 575.0)])
def test_no_room(bilm, monkeypatch, free, limit):
    """576 bytes: 2 layers, 8 words and padding, 8 numbers of 4 bytes; half of 1 kB are 512."""
    read, said = [], f"MemTotal:   9 kB\nMemAvailable:   {free} kB\n"
    bilm.register_forward_hook(lambda *_: read.append(1))
    monkeypatch.setattr(Path, "read_text", lambda _: said)
    with pytest.raises(ValueError, match=r"store\.mode=memory: .* would take .* are free on cpu; "):
        LayerMemory(bilm, SENTENCES, [0, 1], CPU, max_bytes=limit)
    assert not read
    fits = LayerMemory(bilm, SENTENCES, [0, 1], CPU, max_bytes=limit, dtype="float16")
    assert fits.table.nbytes == 288
