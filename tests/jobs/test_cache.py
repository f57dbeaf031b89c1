"""What lies below cache_dir, and what is cleared of it."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from elmo_bench.encoders import build_store
from elmo_bench.files import alone, atomic
from elmo_bench.jobs.cache import cache
from tests import conftest
from tests.encoders.random_bilm import random_bilm

MINE = (
    "mine/notes.txt",
    "sample-data/train.txt",
    "hub/models--bert/config.json",
    "runs/2024-01-01/result.json",
    "corpora/notes.txt",
    "vectors/glove.6B.100d.txt",
)


def composed(*overrides):
    return conftest.composed("job=cache", *overrides)


@pytest.fixture
def store(tmp_path):
    """A cache with a store that this process reads, a sample corpus, a download, and files of
    somebody else.
    """
    for path in ("sample-2-0123456789/ner/train.conll", f"elmo/{12 * '0'}/options.json", *MINE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"0" * 1_500_000)
    store = build_store(random_bilm().eval(), [["a"]], [0], tmp_path / "layers")
    yield store
    store.close()


def test_what_there_is(store, tmp_path, capsys):
    cache(composed(f"cache_dir={tmp_path}"))
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in ("layers", "sample", "elmo", "3.0"))
    for path in MINE:
        assert not [part for part in path.split("/")[1:] if part in shown]


def test_what_is_cleared(store, tmp_path, caplog):
    cache(composed(f"cache_dir={tmp_path}", "clear=sample"))
    assert not (tmp_path / "sample-2-0123456789").exists()
    cache(composed(f"cache_dir={tmp_path}", "clear=all"))
    assert all((tmp_path / path).exists() for path in MINE)
    assert not (tmp_path / "elmo" / (12 * "0")).exists()
    assert store.folder.exists()
    assert "is kept: a run is using it" in caplog.text
    store.close()
    cache(composed(f"cache_dir={tmp_path}", "clear=[layers,adapted]"))
    assert not store.folder.exists()


def test_what_goes_meanwhile(tmp_path, monkeypatch, capsys):
    """Runs remove their scratch, and rename what they have written."""
    changing = tmp_path / "sample-3-0123456789"
    (changing / "ner").mkdir(parents=True)
    (changing / "ner" / "train.txt").symlink_to("elsewhere")
    cfg = composed(f"cache_dir={tmp_path}")
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    cache(cfg)
    assert changing.name in capsys.readouterr().out


def test_what_a_run_writes_stays(tmp_path, caplog):
    adapted, elmo = tmp_path / "adapted" / (16 * "0"), tmp_path / "elmo"
    adapted.mkdir(parents=True)
    (elmo / f".{12 * '1'}-killed__").mkdir(parents=True)
    layers = tmp_path / "layers" / f"v3-e{12 * '0'}-{12 * '0'}-float32"
    layers.mkdir(parents=True)
    with alone(adapted, ""), alone(layers, ""), atomic(elmo / (12 * "0")) as part:
        cache(composed(f"cache_dir={tmp_path}", "clear=all"))
        assert adapted.is_dir()
        assert layers.is_dir()
        assert Path(f"{layers}.lock").exists()  # else a second run would compute the same
        assert [*elmo.iterdir()] == [part.parent]
        part.mkdir()
    assert f"{adapted} is kept: a run is using it" in caplog.text
    assert f"{part.parent} is kept: a run is using it" in caplog.text
    cache(composed(f"cache_dir={tmp_path}", "clear=all"))
    assert not [path for path in tmp_path.glob("*/*") if path.suffix != ".lock"]


def test_half_of_a_folder_is_not_taken_for_all_of_it(tmp_path, monkeypatch):
    """A killed deletion leaves another name, which the next one deletes."""
    archive = tmp_path / "runs" / f"runs-{16 * '0'}"
    archive.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cache(composed(f"cache_dir={tmp_path}", "clear=runs"))
    assert [path.name for path in archive.parent.iterdir()] == [f".{archive.name}-clearing"]
    cache(composed(f"cache_dir={tmp_path}", "clear=runs"))
    assert not [*archive.parent.iterdir()]


def test_a_kind_that_is_none(tmp_path):
    with pytest.raises(
        ValueError, match="clear=layer, but it must be all, or a list of layers, sample"
    ):
        cache(composed(f"cache_dir={tmp_path}", "clear=layer"))
