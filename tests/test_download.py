"""Downloads from a server on this machine: whole, broken, wrong; and what is said when there is none."""

import hashlib
import http.server
import threading

import pytest

from elmo_bench.download import corpus, fetch

CONTENT = b"weights" * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path.endswith("good.bin") or self.path.endswith("cut.bin")
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if found:
            self.wfile.write(CONTENT if "good" in self.path else CONTENT[:100])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_fetched_once(server, tmp_path):
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    path = fetch(f"{server}/good.bin", folder=str(tmp_path), sha256=sha256)
    assert open(path, "rb").read() == CONTENT  # noqa: SIM115, PTH123
    assert fetch("http://127.0.0.1:9/good.bin", folder=str(tmp_path), sha256=sha256) == path  # it lies there already


def test_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(ValueError, match=r"good.bin is not the file it should be"):
        fetch(f"{server}/good.bin", folder=str(tmp_path), sha256="0" * 64)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["missing.bin", "cut.bin"])
def test_broken_transfer_says_where_to_put_the_file(server, tmp_path, name):
    with pytest.raises(FileNotFoundError, match=rf"could not download .*{name}.*put it at {tmp_path}/{name}"):
        fetch(f"{server}/{name}", folder=str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stored", ["ner/x.train", "x.train", "ner/x.train.gz", "x.train.gz"])
def test_where_a_corpus_may_lie(tmp_path, stored):
    (tmp_path / "ner").mkdir()
    for name in (stored, "ner/x.dev", "x.test"):
        (tmp_path / name).touch()
    found = corpus(name="x", data_dir=str(tmp_path), train="ner/x.train", dev="ner/x.dev", test="ner/x.test", origin="Ask.")
    assert found["train"] == tmp_path / stored


def test_a_missing_corpus(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*ner/x.train .*data=x: Ask the authors"):
        corpus(name="x", data_dir=str(tmp_path), train="ner/x.train", dev="d", test="t", origin="Ask the authors.")
