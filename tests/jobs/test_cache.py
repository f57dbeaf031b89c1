"""What lies below cache_dir, and what is cleared of it."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from elmo_bench.encoders import build_store
from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.files import alone, atomic
from elmo_bench.jobs.cache import cache

CONF = str(Path(__file__).parents[2] / "conf")


def composed(*overrides):
    with initialize_config_dir(CONF, version_base="1.3"):
        return compose("config", ["job=cache", *overrides])


@pytest.fixture
def store(tmp_path):
    """A cache with a store that this process reads, a generated corpus, a download, and a file of
    somebody else.
    """
    for path in (
        "sample-2-0-abc/ner/train.conll",
        "elmo/0123/options.json",
        "mine/notes.txt",
        "vectors/0.npz.lock",
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(b"0" * 1_500_000)
    bilm = BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4),))).eval()
    store = build_store(bilm, [["a"]], [0], tmp_path / "layers")
    yield store
    store.close()


def test_what_there_is(store, tmp_path, capsys):
    cache(composed(f"cache_dir={tmp_path}"))
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in ("layers", "sample", "options.json", "3.0"))
    assert "notes" not in shown
    assert "mine" not in shown


def test_what_is_cleared(store, tmp_path, caplog):
    cache(composed(f"cache_dir={tmp_path}", "clear=sample"))
    assert not (tmp_path / "sample-2-0-abc").exists()
    cache(composed(f"cache_dir={tmp_path}", "clear=all"))
    assert (tmp_path / "mine" / "notes.txt").exists()
    assert not (tmp_path / "elmo" / "0123").exists()
    assert store.folder.exists()
    assert "is kept: a run is reading it" in caplog.text
    store.close()
    cache(composed(f"cache_dir={tmp_path}", "clear=[layers,vectors]"))
    assert not store.folder.exists()


def test_what_a_run_writes_stays(tmp_path, caplog):
    adapted, corpora = tmp_path / "adapted" / "0", tmp_path / "corpora"
    adapted.mkdir(parents=True)
    (corpora / ".1-killed__").mkdir(parents=True)
    with alone(adapted, ""), atomic(corpora / "0") as part:
        cache(composed(f"cache_dir={tmp_path}", "clear=all"))
        assert adapted.is_dir()
        assert [*corpora.iterdir()] == [part.parent]
        part.mkdir()
    assert f"{adapted} is kept: a run is writing it" in caplog.text
    assert f"{part.parent} is kept: a run is writing it" in caplog.text
    cache(composed(f"cache_dir={tmp_path}", "clear=all"))
    assert not [path for path in tmp_path.glob("*/*") if path.suffix != ".lock"]


def test_a_kind_that_is_none(tmp_path):
    with pytest.raises(
        ValueError, match="clear=layer, but it must be all, or a list of layers, sample"
    ):
        cache(composed(f"cache_dir={tmp_path}", "clear=layer"))
