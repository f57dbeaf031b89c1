"""Files are whole or as they were; downloads from a server on this machine: whole, broken, wrong,
absent.
"""

import errno
import hashlib
import http.server
import io
import multiprocessing
import os
import re
import signal
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elmo_bench.files import atomic, download, fetch, find_files
from elmo_bench.files.download import corpus
from tests.conftest import CONF, composed

CONTENT = b"weights" * 1000
LINES = b"one\ntwo\nthree\nfour\n"
UMASK = os.umask(0)
os.umask(UMASK)
SPLITS = ("train", "dev", "test")
DOWNLOADED = [
    *("ag_news", "cola", "mnli", "mnli_mismatched", "mrpc", "qnli", "rte", "snli", "squad1"),
    *("sst", "sst2", "stsb", "trec", "ud", "wikigold", "wnut17"),
]
MEMBERS = ("trees/train.txt", "../outside.txt", "/tmp/absolute.txt", "trees/../../dots.txt")


def archive():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in MEMBERS:
            file.writestr(name, f"what is in {name}\n")
    return content.getvalue()


FILES = {"good.bin": CONTENT, "cut.bin": CONTENT, "trees.zip": archive(), "lines.txt": LINES}
FILES |= {"a/options.json": b"of a", "b/options.json": b"of b", "slow.bin": CONTENT}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        time.sleep(0.3 * ("slow" in self.path))
        content = FILES.get(self.path[1:], b"")
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:100] if "cut" in self.path else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def requests():
    return []


@pytest.fixture
def server(requests):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.requests = requests
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def source(server, name, **part):
    sha256 = hashlib.sha256(FILES.get(name, b"")).hexdigest()
    return {"url": f"{server}/{name}", "sha256": sha256, **part}


def x(folder, downloads, **files):
    """The corpus x, of whose files a test names those that it is about; the others lie there."""
    (folder / "there.txt").touch()
    paths = dict.fromkeys(SPLITS, "there.txt") | files
    return corpus(paths, data_dir=str(folder), origin="Ask the authors.", downloads=downloads)


def files_in(folder):
    """Its files; a download for several files has the beginning of its checksum in its name."""
    return sorted(
        re.sub("[0-9a-f]{12}-", "", str(path.relative_to(folder)))
        for path in folder.rglob("*")
        if path.is_file()
    )


@pytest.mark.parametrize("earlier", [None, b"earlier"])
def test_a_file_is_whole_or_as_it_was(tmp_path, earlier):
    path = tmp_path / "figures.json"
    if earlier:
        path.write_bytes(earlier)

    def killed():
        with atomic(path) as part:
            part.write_bytes(b"half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == ([earlier] if earlier else [])
    with atomic(path) as part:
        assert part.name == path.name
        part.write_bytes(b"all of it")
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"all of it"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~UMASK


def test_a_folder_is_whole_and_the_first_stays(tmp_path):
    for number in range(2):
        with atomic(tmp_path / "corpus") as part:
            part.mkdir()
            (part / "words").write_text(str(number))
    assert (tmp_path / "corpus" / "words").read_text() == "0"
    assert len(list(tmp_path.iterdir())) == 1


def test_files_in_linked_folders_are_found_once(tmp_path):
    (tmp_path / "disk" / "run").mkdir(parents=True)
    (tmp_path / "disk" / "run" / "result.json").touch()
    (tmp_path / "outputs").mkdir()
    for name, target in (("a", tmp_path / "disk"), ("b", tmp_path / "disk" / "run"), ("c", ".")):
        (tmp_path / "outputs" / name).symlink_to(target)
    one = tmp_path / "outputs" / "a" / "run" / "result.json"
    assert find_files(tmp_path / "outputs", "result.json") == [one]


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch, caplog):
    (tmp_path / "theirs").mkdir()
    scandir = os.scandir

    def refused(path):
        if Path(path).name == "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    (tmp_path / "result.json").touch()
    assert find_files(tmp_path, "result.json") == [tmp_path / "result.json"]
    assert f"{tmp_path}/theirs cannot be read: its files are left out" in caplog.text


def test_no_folder_to_write_to(tmp_path):
    path = tmp_path / "nowhere" / "figures.json"
    with pytest.raises(FileNotFoundError) as caught, atomic(path):
        pass
    assert caught.value.filename == str(path)


def _write_and_die(path, folder=False):
    with atomic(path) as part:
        if folder:
            part.mkdir()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("folder", [False, True])
def test_scratch_of_a_killed_process_goes_and_that_of_a_living_one_stays(tmp_path, folder):
    path = tmp_path / "a[b].json"  # no pattern
    mine = tmp_path / f".{path.name}-settings"
    mine.mkdir()
    (mine / "notes.txt").touch()  # of somebody else
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_write_and_die, args=(path, folder))
    with atomic(path) as part:
        part.write_text("slow")
        process.start()
        process.join()
        assert len([*tmp_path.iterdir()]) == 3
        with atomic(path) as fast:
            fast.write_text("fast")
        assert path.read_text() == "fast"
        assert {one.name for one in tmp_path.iterdir()} == {path.name, mine.name, part.parent.name}
    assert path.read_text() == "slow"
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, mine.name}


def test_a_full_disk_names_the_file(tmp_path):
    def full():
        with atomic(tmp_path / "result.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left.*result\.json") as raised:
        full()
    assert raised.value.errno == errno.ENOSPC
    assert not [*tmp_path.iterdir()]


def test_a_file_is_known_by_its_address_and_checksum(server, requests, tmp_path):
    """Not by its last name: `b/options.json` is not `a/options.json`."""
    a, b = (fetch(f"{server}/{name}/options.json", folder=str(tmp_path)) for name in ("a", "b"))
    assert [Path(path).read_text() for path in (a, b)] == ["of a", "of b"]
    sha256 = hashlib.sha256(b"of a").hexdigest()
    assert fetch(f"{server}/a/options.json", folder=str(tmp_path), sha256=sha256) not in (a, b)
    fetch(f"{server}/a/options.json", folder=str(tmp_path))
    assert requests == ["/a/options.json", "/b/options.json", "/a/options.json"]


def test_a_file_saved_by_hand_is_told_its_checksum(server, tmp_path, caplog):
    """As the error without network asks for, but incomplete."""
    sha256 = hashlib.sha256(b"of a").hexdigest()
    settings = f"{server}/a/options.json", str(tmp_path)
    path = Path(fetch(settings[0], folder=settings[1], sha256=sha256))
    path.write_text("of")
    assert fetch(settings[0], folder=settings[1], sha256=sha256) == str(path)
    assert path.read_text() == "of a"
    assert f"{path} is incomplete or another file: its sha256 is not {sha256}" in caplog.text


def test_several_at_once_download_once(server, requests, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        fetched = {*pool.map(lambda _: fetch(f"{server}/slow.bin", folder=str(tmp_path)), range(4))}
        parts = {"train": "x/train", "dev": "x/dev"}
        downloads = {path: source(server, "lines.txt", lines=[1, 2]) for path in parts.values()}
        both = pool.map(lambda _: corpus(parts, data_dir=tmp_path, downloads=downloads), range(4))
        found = [*both]
    assert len(fetched) == 1
    assert found[0]["dev"].read_text() == "one\ntwo\n"
    assert sorted(requests) == ["/lines.txt", "/slow.bin"]


def _fetch_and_die(url, folder):
    download.hash_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # after the last byte
    fetch(url, folder=folder)


def test_a_killed_download_leaves_nothing_for_the_next(server, tmp_path):
    settings = f"{server}/good.bin", str(tmp_path)
    process = multiprocessing.get_context("fork").Process(target=_fetch_and_die, args=settings)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert [entry for entry in tmp_path.glob("*/*") if entry.suffix != ".lock"]
    fetch(settings[0], folder=settings[1])
    assert [entry.name for entry in tmp_path.glob("*/*")] == ["good.bin"]


@pytest.mark.parametrize("stored", ["ner/x.train", "ner/x.train.gz"])
def test_where_a_corpus_may_lie(tmp_path, stored):
    (tmp_path / "ner").mkdir()
    (tmp_path / stored).touch()
    assert corpus({"train": "ner/x.train"}, data_dir=tmp_path) == {"train": tmp_path / stored}


@pytest.mark.parametrize("given", [[], ["train"]])
def test_a_path_that_the_user_gives_is_taken_as_it_stands(tmp_path, monkeypatch, given):
    for folder in ("here/subset", "data/subset"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "eng.train").touch()
    monkeypatch.chdir(tmp_path / "here")
    found = corpus({"train": "subset/eng.train"}, data_dir="../data", given=given)["train"]
    assert found == Path("subset/eng.train" if given else "../data/subset/eng.train")
    (tmp_path / "here" / "subset" / "eng.train").unlink()
    found = corpus({"train": "subset/eng.train"}, data_dir="../data", given=given)["train"]
    assert found == Path("../data/subset/eng.train")


def test_a_corpus_is_downloaded_once(server, requests, tmp_path):
    downloads = {"ner/x.train": source(server, "good.bin")}
    for _ in range(2):
        found = x(tmp_path, downloads, train="ner/x.train")
        assert found["train"] == tmp_path / "ner" / "x.train"
        assert found["train"].read_bytes() == CONTENT
    assert requests == ["/good.bin"]
    assert files_in(tmp_path) == ["ner/x.train", "there.txt"]


def test_another_file_is_never_downloaded(server, requests, tmp_path):
    (tmp_path / "part.txt").touch()
    downloads = {"ner/x.train": source(server, "good.bin")}
    assert x(tmp_path, downloads, train="part.txt")["train"] == tmp_path / "part.txt"
    with pytest.raises(
        FileNotFoundError, match=r"files.train: no file .*prat.txt.*Ask the authors"
    ):
        x(tmp_path, downloads, train="prat.txt")
    assert not requests


@pytest.mark.parametrize(
    ("name", "part", "error", "said", "left"),
    [
        ("missing.bin", {}, FileNotFoundError, r"cannot download .*/{} \(HTTPError: 404", []),
        ("cut.bin", {}, FileNotFoundError, r"cannot download .*/{} \((Connect|Chunked)", []),
        (
            *("trees.zip", {"sha256": "0" * 64, "member": MEMBERS[0]}, ValueError),
            *("{}: the download has .*, not 0{{64}}", []),
        ),
        (
            *("trees.zip", {"member": "a.txt"}, ValueError),
            *("cannot read 'a.txt' in .*{}: .*no item named 'a.txt'", ["ner/trees.zip"]),
        ),
        (
            *("good.bin", {"member": "a.txt"}, ValueError),
            *("cannot read 'a.txt' in .*{}: .*not a zip file", ["ner/good.bin"]),
        ),
    ],
)
def test_what_a_failed_download_says_and_leaves(server, tmp_path, name, part, error, said, left):
    downloads = {"ner/x.train": source(server, name) | part}
    with pytest.raises(error, match=said.format(name)) as raised:
        x(tmp_path, downloads, train="ner/x.train")
    assert str(raised.value).endswith("Ask the authors.")
    if error is FileNotFoundError:
        assert f"save it as {tmp_path}/ner/x.train" in str(raised.value)
    assert files_in(tmp_path) == [*left, "there.txt"]
    assert (tmp_path / "ner").exists() is bool(left)


@pytest.mark.parametrize("made", [["data"], ["data", "data/ner"], []])
def test_a_failed_download_leaves_the_folders_that_were_there(server, tmp_path, made):
    for folder in made:
        (tmp_path / folder).mkdir()
    files = dict.fromkeys(SPLITS, "ner/x.train")
    downloads = {"ner/x.train": source(server, "missing.bin")}
    with pytest.raises(FileNotFoundError, match="cannot download"):
        corpus(files, data_dir=tmp_path / "data", downloads=downloads)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == made


@pytest.mark.parametrize("kind", ["read-only", "a file"])
def test_a_folder_to_which_nothing_can_be_downloaded(server, requests, tmp_path, monkeypatch, kind):
    """It is named, and what to do; nothing is asked of the server."""
    folder = tmp_path / "theirs"
    if kind == "a file":
        folder.touch()
        fault = "is not a folder"
    else:
        folder.mkdir()
        monkeypatch.setattr(os, "access", lambda path, _: path != folder)  # root may write anywhere
        fault = "cannot be written to"
    downloads = {"ner/x.train": source(server, "good.bin")}
    said = f"{folder} {fault}. Set data_dir=FOLDER to a folder of yours, or have the download saved"
    with pytest.raises(FileNotFoundError, match=re.escape(said)) as raised:
        corpus({"train": "ner/x.train"}, data_dir=folder, origin="Ask.", downloads=downloads)
    assert str(raised.value).endswith(f"as {folder}/ner/x.train. Ask.")
    assert not requests
    assert not [*folder.glob("*")]


def test_parts_of_one_download(server, requests, tmp_path):
    downloads = {
        "ner/x.train": source(server, "trees.zip", member="trees/train.txt"),
        "ner/x.dev": source(server, "lines.txt", lines=[1, 3]),
        "ner/x.test": source(server, "lines.txt", lines=[4, 4]),
    }
    found = x(tmp_path, downloads, train="ner/x.train", dev="ner/x.dev", test="ner/x.test")
    content = ["what is in trees/train.txt\n", "one\ntwo\nthree\n", "four\n"]
    assert [path.read_text() for path in found.values()] == content
    assert requests == ["/trees.zip", "/lines.txt"]
    names = ("lines.txt", "trees.zip", "x.dev", "x.test", "x.train")
    assert files_in(tmp_path) == [*(f"ner/{name}" for name in names), "there.txt"]


@pytest.mark.parametrize("member", MEMBERS[1:])
def test_a_members_name_is_never_a_path(server, tmp_path, member):
    downloads = {"ner/x.train": source(server, "trees.zip", member=member)}
    found = x(tmp_path, downloads, train="ner/x.train")
    assert found["train"].read_text() == f"what is in {member}\n"
    assert files_in(tmp_path) == ["ner/trees.zip", "ner/x.train", "there.txt"]


@pytest.mark.parametrize("option", [path.stem for path in CONF.glob("data/*.yaml")])
def test_which_corpora_are_downloaded(option, tmp_path):
    """Every file of the open ones has a source; none of the others has."""
    data = composed(f"data={option}", f"data_dir={tmp_path}").data
    downloads, files = data.get("downloads", {}), data.files
    named = {files[split] for split in SPLITS if files.get(split)}
    assert set(downloads) == (named if option in DOWNLOADED else set())
    for each in downloads.values():
        assert each.url.startswith("https://")
        assert len(each.sha256) == 64
