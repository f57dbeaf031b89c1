"""Archives of runs: small, the same bytes each time, and nothing of a stranger's gets out of one."""

import io
import lzma
import tarfile
from random import Random

import numpy as np
import pytest
from omegaconf import OmegaConf

from elmo_bench.jobs.archive import archive as write
from elmo_bench.runs import collect, failures, read_counts, run_folders, unpacked
from tests.runs.made_runs import change, write_failed, write_run
from tests.tools.hostile.damages import ANY

SENTENCES = np.random.default_rng(0).integers(2**63, size=500, dtype=np.uint64)


def ran(folder, seed=1, f1=0.5, finished="2026-01-01T00:00:00+00:00", **encoder):
    """A finished run, with what nobody else needs of it."""
    config = {"encoder": {"name": "mini"} | encoder, "seed": seed}
    config |= {"run_dir": str(folder), "data_dir": "/home/me/data"}
    identity = f"{len(str(encoder)):016x}-{seed:016x}"
    write_run(folder, {"test/f1": f1}, config, identity=identity, finished=finished)
    right = np.random.default_rng(seed).random(500) < f1
    rows = np.stack([right, np.ones_like(right)] * 2, 1)[:, None].astype(float)
    (folder / "counts").mkdir()
    (folder / ".hydra").mkdir()
    (folder / "metrics.csv").write_text("epoch,dev/f1\n0,0.5\n")
    (folder / ".hydra" / "overrides.yaml").write_text(f"- task=ner\n- data_dir=/x\n- seed={seed}\n")
    (folder / "best.ckpt").write_text("weights")
    (folder / "counts" / ".DS_Store").write_text("of a file manager")
    counts = {"f1": rows, "recall": rows / 3, "sentences": SENTENCES, "groups": np.arange(500)}
    counts["unit"] = np.frombuffer(b"document", np.uint8)
    np.savez(folder / "counts" / "test.npz", **counts)
    return folder


def begun(folder, seed):
    write_failed(folder, {"seed": seed, "data_dir": "/home/me"}, identity=f"begun-{seed}")


def kept(runs, output, cache):
    write(OmegaConf.create({"runs": str(runs), "output": str(output), "cache_dir": str(cache)}))


@pytest.fixture
def archive(tmp_path):
    for seed in range(1, 21):
        ran(tmp_path / "runs" / str(seed), seed)
    begun(tmp_path / "runs" / "failed", 21)
    output = tmp_path / "kept" / "mine.tar.xz"
    output.parent.mkdir()
    kept(tmp_path / "runs", output, tmp_path / "cache")
    return output


def test_what_comes_out_is_what_went_in(archive, tmp_path):
    """A report reads the same of both; where the runs lay is not said."""
    assert archive.stat().st_size < 20 * 1500
    (folder,) = run_folders([archive.parent], tmp_path / "cache")
    assert run_folders([archive], tmp_path / "cache") == [folder]
    runs = {run.seed: run for run in collect([folder])}
    for run in collect([tmp_path / "runs"]):
        other = runs[run.seed]
        assert (other.metrics, other.identity) == (run.metrics, run.identity)
        for name in ("f1", "recall"):
            ours, theirs = (
                read_counts(each.folder / "counts" / "test.npz", name) for each in (run, other)
            )
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
            assert theirs.unit == "document"
    assert [run.reason for run in failures([folder], [])] == ["MemoryError"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {
        *("result.json", "run.json", "metrics.csv", "test.npz", "overrides.yaml")
    }
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in files)
    assert not any(b"/home/me" in path.read_bytes() for path in files)


def test_a_unit_is_a_name(tmp_path):
    """It stands in captions."""
    rows, unit = np.ones((1, 1, 4)), np.frombuffer(b"<b>a</b>\xff", np.uint8)
    np.savez(tmp_path / "a.npz", f1=rows, sentences=SENTENCES[:1], groups=[0], unit=unit)
    with pytest.raises(ValueError, match=r"a\.npz: damaged: not the counts"):
        read_counts(tmp_path / "a.npz", "f1")


def test_the_same_runs_are_the_same_bytes(archive, tmp_path):
    """From other folders, in another order, a second time, and from the archive itself."""
    first = archive.read_bytes()
    kept(tmp_path / "runs", archive, tmp_path / "cache")
    assert archive.read_bytes() == first
    (tmp_path / "runs" / "1").rename(tmp_path / "runs" / "z")
    for source in (tmp_path / "runs", archive):
        kept(source, tmp_path / "other.tar.xz", tmp_path / "cache")
        assert (tmp_path / "other.tar.xz").read_bytes() == first


def test_more_runs_are_added(archive, tmp_path):
    """Of equal runs the first that finished stays; one that failed goes when it has finished."""
    ran(tmp_path / "again", 1, f1=0.75, finished="2026-01-02T00:00:00+00:00")
    ran(tmp_path / "again" / "older", 2, f1=0.75, finished="2025-01-02T00:00:00+00:00")
    ran(tmp_path / "again" / "new", 22)
    mended = ran(tmp_path / "again" / "mended", 21)
    change(mended, lambda content: content.update(identity="begun-21"))
    begun(tmp_path / "again" / "failed", 30)
    kept(tmp_path / "again", archive, tmp_path / "cache")
    folders = run_folders([archive], tmp_path / "cache")
    figures = {run.seed: run.metrics["test/f1"] for run in collect(folders)}
    assert [*sorted(figures)] == [*range(1, 23)]
    assert (figures[1], figures[2]) == (0.5, 0.75)
    assert [run.config["seed"] for run in failures(folders, [])] == [30]


def test_a_run_that_says_little_is_kept(tmp_path):
    config = {"task": {"name": "ner", "monitor": "f1"}}
    change(ran(tmp_path / "runs" / "1"), lambda content: content.update(config=config))
    kept(tmp_path / "runs", tmp_path / "x.tar.xz", tmp_path / "cache")
    (run,) = collect(run_folders([tmp_path / "x.tar.xz"], tmp_path / "cache"))
    assert run.config == config


@pytest.mark.parametrize("name", ["metrics.csv", "counts/dev.npz", "result.json"])
def test_only_what_a_run_has_written_is_kept(tmp_path, name):
    """A stranger's run links to a file of mine."""
    path = ran(tmp_path / "runs" / "1") / name
    content = path.read_bytes() if path.exists() else b"-----BEGIN KEY-----"
    (tmp_path / "id_rsa").write_bytes(content)
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "id_rsa")
    with pytest.raises(ValueError, match=rf"{name}: a link, but only a run's own files"):
        kept(tmp_path / "runs", tmp_path / "x.tar.xz", tmp_path)
    assert not (tmp_path / "x.tar.xz").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metrics.csv", b"epoch,dev/f1\n0,much\n", "2: not the metrics of an epoch: .*much"),
        ("metrics.csv", b"epoch,dev/f1\n0,\xff\n", "not the metrics of an epoch: .*utf-8"),
        ("counts/dev.npz", b"PK", "damaged"),
    ],
)
def test_what_no_report_could_read_is_not_kept(archive, tmp_path, name, content, message):
    """In the archive it would end every report of it, and nobody can edit it there."""
    before = archive.read_bytes()
    (ran(tmp_path / "again" / "22", 22) / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"22/{name}:.*{message}"):
        kept(tmp_path / "again", archive, tmp_path / "cache")
    assert archive.read_bytes() == before


def test_the_home_of_a_user_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_run(tmp_path / "runs" / "1", {"dev/f1": 0.5})
    assert run_folders(["~/runs"], tmp_path) == [tmp_path / "runs"]


def test_folders_and_archives_side_by_side(archive, tmp_path):
    begun(archive.parent / "failed", 30)
    first, second = run_folders([archive.parent], tmp_path / "cache")
    assert len(collect([first, second])) == 20
    assert len(failures([second], [])) == 1
    with pytest.raises(FileNotFoundError, match=r"runs=.*kept: no finished run"):
        collect([second])
    ran(archive.parent / "plain", 30)
    first, second = run_folders([archive.parent], tmp_path / "cache")
    assert (len(collect([first])), len(collect([second]))) == (20, 1)
    assert first.parent.parent == tmp_path / "cache"
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such folder"):
        collect(run_folders([tmp_path / "nowhere"], tmp_path / "cache"))


@pytest.mark.parametrize(
    ("output", "message"),
    [("x.zip", "must be NAME.tar.xz"), ("no/x.tar.xz", ": no such folder")],
)
def test_what_is_no_archive_is_not_written(tmp_path, output, message):
    ran(tmp_path / "run")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        kept(tmp_path / "run", tmp_path / output, tmp_path / "cache")
    (tmp_path / "mine.tar.xz").write_text("a file of mine")
    with pytest.raises(ValueError, match=r"mine.tar.xz: not an archive of runs"):
        kept(tmp_path / "run", tmp_path / "mine.tar.xz", tmp_path / "cache")
    assert (tmp_path / "mine.tar.xz").read_text() == "a file of mine"


def tarred(*members, form=tarfile.USTAR_FORMAT):
    """A .tar with files, and with members of another type, which is a letter."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for name, content in members:
            about = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                about.size = len(content)
                tar.addfile(about, io.BytesIO(content))
            else:
                about.type, about.linkname = content.encode(), "/etc/passwd"
                tar.addfile(about)
    return file.getvalue()


def with_size(size):
    """A .tar whose one file says that it has so many bytes."""
    about = tarfile.TarInfo("run/result.json")
    about.size = size
    return about.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


BAD = {
    "not xz": b"PK\x03\x04 something else",
    "empty": lzma.compress(bytes(1024)),
    "cut": lzma.compress(tarred(("run/result.json", b"{}")))[:-20],
    "more behind": lzma.compress(tarred(("run/result.json", b"{}"))) + b"more",
    "no tar": lzma.compress(b"no tar" * 200),
    "bomb": lzma.compress(bytes(1 << 24), preset=0),
    "memory": lzma.compress(b"", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]),
    **{
        f"name {name}": lzma.compress(tarred((name, b"{}")))
        for name in (
            *("/etc/x", "../result.json", "run/../result.json", "run/../../result.json"),
            *("result.json", "./run/result.json", "run//result.json", "run/best.ckpt"),
            *("run/result.json/", "a/run/result.json", ".run/result.json", "run\\result.json"),
            *("run/counts/../result.json", "run/\x1b[2Jresult.json", "rün/result.json"),
        )
    },
    **{
        f"type {kind!r}": lzma.compress(tarred(("run/result.json", kind.decode())))
        for kind in (
            *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE),
            tarfile.GNUTYPE_SPARSE,
        )
    },
    "twice": lzma.compress(tarred(*[("run/result.json", b"{}")] * 2)),
    "long name": lzma.compress(
        tarred((f"{'x' * 200}/result.json", b"{}"), form=tarfile.PAX_FORMAT)
    ),
    "size": lzma.compress(with_size(1 << 40)),
    "negative size": lzma.compress(with_size(-512)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_strangers_archive_is_refused_by_name(tmp_path, monkeypatch, name):
    monkeypatch.setattr("elmo_bench.runs.archive.UNPACKED_FREE", 1 << 22)
    (tmp_path / "theirs.tar.xz").write_bytes(BAD[name])
    with pytest.raises(ValueError, match=r"theirs.tar.xz: not an archive of runs") as error:
        unpacked(tmp_path / "theirs.tar.xz", tmp_path / "cache" / "here")
    assert len(str(error.value)) < 500
    assert [*tmp_path.rglob("*.json")] == []
    assert {path.name for path in tmp_path.iterdir()} == {"theirs.tar.xz", "cache"}


def test_changed_bytes_of_an_archive_write_nothing_else(archive, tmp_path):
    """Whatever stands in it: the files of runs below the cache, or an error with its name."""
    plain, rng = lzma.decompress(archive.read_bytes()), Random(0)
    path, before = tmp_path / "theirs.tar.xz", {*tmp_path.iterdir(), tmp_path / "cache"}
    refused = []
    for _ in range(60):
        # The beginning has the most headers for its size.
        damaged = rng.choice([*ANY.values()])(plain[:20_000], rng) or b""
        path.write_bytes(lzma.compress(damaged, preset=0))
        try:
            assert unpacked(path, tmp_path / "cache").is_relative_to(tmp_path / "cache")
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(message.startswith(str(path)) for message in refused)
    assert {*tmp_path.iterdir()} == before | {path}
