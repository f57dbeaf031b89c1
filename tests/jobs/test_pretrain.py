"""`job=pretrain` as the command line runs it: what it leaves, that it goes on after a kill, and
what it says of bad input.
"""

import errno
import gzip
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from elmo_bench.jobs.pretrain import SPLITTERS, encoded, pretrain
from elmo_bench.lm import LanguageModel, Trainer, load_language_model
from tests import conftest

ROOT = Path(__file__).parents[2]
LINES = [
    f"the {a} {verb} a {b} ."
    for a in ("cat", "dog", "owl", "fox")
    for b in ("cat", "dog")
    for verb in ("sees", "hears")
]
TINY = [
    "bilm.cell_size=12",
    "bilm.projection_size=6",
    "bilm.filters=[[1,4],[3,4]]",
    "pretrain.batch_size=4",
    "pretrain.unroll=5",
    "pretrain.epochs=2",
    "pretrain.lr=0.02",
    "pretrain.warmup=3",
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("\n".join(LINES * 4) + "\n")
    return path


@pytest.fixture
def config(tmp_path, text):
    """compose(*overrides) -> the config of a run of a second, on `text`."""

    def composed(*overrides):
        return conftest.composed(*command(tmp_path, text), f"run_dir={tmp_path}", *overrides)

    return composed


def command(folder, text):
    where = [
        f"text.files.train={text}",
        f"text.files.dev={text}",
        f"cache_dir={folder}/cache",
        f"out={folder}/out",
    ]
    return ["job=pretrain", "text=files", *where, *TINY]


def language_model(folder):
    return load_language_model(folder / "options.json", folder / "weights.safetensors")


def test_what_it_leaves(config, tmp_path, text):
    cfg = config(f"text.files.test={text}", "pretrain.softmax=sampled", "pretrain.samples=5")
    figures = pretrain(cfg)
    assert set(figures) == {"dev", "test/forward", "test/backward"}
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        *(
            "options.json",
            "weights.safetensors",
            "softmax.safetensors",
            "vocabulary.txt",
            "README.md",
            "last.ckpt",
        )
    }
    model = language_model(out)
    assert model.vocabulary[:3] == ["<S>", "</S>", "<UNK>"]
    assert model.perplexity([line.split() for line in LINES * 4]) == pytest.approx(
        {name: figures[f"test/{name}"] for name in ("forward", "backward")}, rel=1e-5
    )
    card = (out / "README.md").read_text("utf-8")
    assert "384 tokens, 64 sentences" in card
    assert "sampled" in card


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction_alone(config, tmp_path, text, caplog, direction):
    """Its figures, its card and its log lines say nothing of the other."""
    other = {"forward": "backward", "backward": "forward"}[direction]
    overrides = [f"bilm.directions=[{direction}]", f"text.files.test={text}"]
    with caplog.at_level("INFO"):
        figures = pretrain(config(*overrides))
    assert figures.keys() == {"dev", f"test/{direction}"}
    assert figures["dev"] == pytest.approx(figures[f"test/{direction}"], rel=1e-2)  # fp16
    assert f"dev perplexity {direction} " in caplog.text
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert card.startswith(f"# The {direction} half of a biLM")
    assert other not in card + caplog.text
    assert language_model(tmp_path / "out").directions == (direction,)
    with pytest.raises(ValueError, match=r"another training: bilm.directions was \['"):
        pretrain(config(*overrides, "bilm.directions=[forward,backward]"))


def test_a_folder_a_glob_gzip_and_raw_text(config, tmp_path):
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_text("A dog barks. The cat sleeps.\n\n" * 20)
    (folder / "more" / "b.txt.gz").write_bytes(gzip.compress(b"It's a house.\n" * 20))
    for pattern, sentences in ((folder, 60), (f"{folder}/*.txt", 40), (f"{folder}/**/*.gz", 20)):
        cfg = config(
            f"text.files.train='{pattern}'",
            "text.files.dev=null",
            "text.tokenize=true",
            "pretrain.resume=never",
        )
        assert pretrain(cfg) == {}  # no dev text, no figure
        assert f"{sentences} sentences" in (tmp_path / "out" / "README.md").read_text()
    assert "n't" not in (words := (tmp_path / "out" / "vocabulary.txt").read_text().split())
    assert "'s" in words


def run(folder, text, *overrides, **more):
    args = [
        sys.executable,
        "run.py",
        *command(folder, text),
        f"hydra.run.dir={folder}/run",
        *overrides,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        args, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, **more
    )


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle_of_an_epoch(tmp_path, text, config, sent):
    """What a killed run and its successor leave is what an uninterrupted run leaves, to the bit."""
    more = ["pretrain.epochs=6", "pretrain.save_every=5", "pretrain.dropout=0.2"]
    last = tmp_path / "out" / "last.ckpt"
    process = run(tmp_path, text, *more)
    wait_for(last, process)
    process.send_signal(sent)
    said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143}[sent]
    stopped = torch.load(last, weights_only=True)
    assert 0 < stopped["step"] < 6 * 23
    assert ("is kept, and the same command goes on" in said) == (sent == signal.SIGTERM)
    pretrain(config(*more))
    pretrain(config(*more, f"out={tmp_path}/whole"))
    interrupted, whole = (
        torch.load(path, weights_only=True) for path in (last, tmp_path / "whole" / "last.ckpt")
    )
    assert interrupted["step"] == whole["step"]
    for name, value in whole["model"].items():
        assert torch.equal(value, interrupted["model"][name]), name
    for name in ("weights.safetensors", "softmax.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.fixture
def ends():
    """Ctrl-C and SIGTERM raise SystemExit, as in a command."""
    kinds = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(kind, lambda number, _: sys.exit(128 + number)) for kind in kinds]
    yield
    for kind, handler in zip(kinds, before, strict=True):
        signal.signal(kind, handler)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_when_the_step_is_saved(config, tmp_path, ends, sent, caplog):
    step, last = Trainer._step, tmp_path / "out" / "last.ckpt"

    def signalled(trainer, windows):
        if trainer.step == 7:
            os.kill(os.getpid(), sent)
        return step(trainer, windows)

    whole = pretrain(config(f"out={tmp_path}/whole"))
    with pytest.MonkeyPatch.context() as patch, caplog.at_level("INFO"):
        patch.setattr(Trainer, "_step", signalled)
        with pytest.raises(SystemExit) as ended:
            pretrain(config())
    assert ended.value.code == 128 + sent
    assert re.search("8 of 46, about .* left", caplog.text)
    assert torch.load(last, weights_only=True)["step"] == 8
    assert pretrain(config()) == whole


def test_a_signal_of_another_process(config, tmp_path, monkeypatch, ends):
    step = Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda *about: step(*about)._replace(is_last=True))
    with pytest.raises(SystemExit) as ended:
        pretrain(config())
    assert ended.value.code == 128 + signal.SIGTERM
    assert torch.load(tmp_path / "out" / "last.ckpt", weights_only=True)["step"] == 1


def test_a_signal_during_the_last_look_at_dev(config, monkeypatch, ends):
    """It ends the command before the test text is read; the same command goes on there."""
    perplexity, sent = LanguageModel.perplexity, []

    def signalled(model, *arguments):
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGTERM))
        return perplexity(model, *arguments)

    monkeypatch.setattr(LanguageModel, "perplexity", signalled)
    with pytest.raises(SystemExit) as ended:
        pretrain(config("pretrain.epochs=1"))
    assert ended.value.code == 128 + signal.SIGTERM
    monkeypatch.setattr(Trainer, "_step", lambda *_: pytest.fail("it trained"))
    assert pretrain(config("pretrain.epochs=1"))["dev"] < 20


def test_an_ignored_signal(config, monkeypatch, ends):
    """As Ctrl-C under `nohup`, or in a script's background job."""
    step = Trainer._step

    def signalled(trainer, windows):
        os.kill(os.getpid(), signal.SIGINT)
        return step(trainer, windows)

    monkeypatch.setattr(Trainer, "_step", signalled)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert pretrain(config("pretrain.epochs=1"))["dev"] < 20
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_second_signal_ends_it_at_once(config, tmp_path, monkeypatch, ends):
    def signalled(*_):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("it went on")

    monkeypatch.setattr(Trainer, "_step", signalled)
    with pytest.raises(SystemExit):
        pretrain(config())
    assert not [*(tmp_path / "out").glob("*.ckpt")]


def test_a_finished_run_is_not_trained_again(config, tmp_path, monkeypatch):
    first = pretrain(config())
    monkeypatch.setattr(Trainer, "_step", lambda *_: pytest.fail("it trained"))
    assert pretrain(config()) == first


def test_another_tokenizer_encodes_raw_text_again(config, tmp_path, monkeypatch):
    assert all(path.is_file() for path in SPLITTERS)
    corpora, kept = tmp_path / "cache" / "corpora", []
    for content in (b"old", b"old", b"new"):
        (tmp_path / "tokenize.py").write_bytes(content)
        monkeypatch.setattr("elmo_bench.jobs.pretrain.SPLITTERS", [tmp_path / "tokenize.py"])
        for tokenize in ("true", "false"):
            encoded(config(f"text.tokenize={tokenize}"))
        kept.append(len([*corpora.iterdir()]))
    assert kept == [2, 2, 3]


def test_a_longer_training_of_the_same_folder(config, tmp_path, caplog):
    """It goes on where the shorter one ended, at the learning rate of the longer one."""
    first = pretrain(config("pretrain.epochs=1"))
    with caplog.at_level("INFO"):
        second = pretrain(config("pretrain.epochs=3"))
    assert second["dev"] < first["dev"]
    assert torch.load(tmp_path / "out" / "last.ckpt", weights_only=True)["step"] == 3 * 23
    assert "the learning rate follows the schedule of the new length" in caplog.text
    assert "epochs 3" in (tmp_path / "out" / "README.md").read_text()
    assert pretrain(config("pretrain.epochs=1")) == second


def test_stopped_before_the_first_look_at_dev(config, tmp_path, monkeypatch):
    """There is a biLM already; and a training that is to end there looks at dev, and trains no
    more.
    """
    step = Trainer._step

    def stopping(trainer, windows):
        if trainer.step == 7:
            raise KeyboardInterrupt
        return step(trainer, windows)

    monkeypatch.setattr(Trainer, "_step", stopping)
    with pytest.raises(KeyboardInterrupt):
        pretrain(config("pretrain.save_every=5"))
    stopped = language_model(tmp_path / "out")
    monkeypatch.setattr(Trainer, "_step", lambda *_: pytest.fail("it trained"))
    figures = pretrain(config("pretrain.max_steps=5"))
    found = stopped.perplexity([line.split() for line in LINES * 4])
    mean = (found["forward"] * found["backward"]) ** 0.5
    assert figures["dev"] == pytest.approx(mean, rel=1e-2)  # fp16
    assert "5 steps" in (tmp_path / "out" / "README.md").read_text()


def test_beginning_anew_leaves_no_old_model(config, tmp_path, monkeypatch):
    pretrain(config("pretrain.epochs=1"))
    monkeypatch.setattr(
        Trainer, "_losses", lambda *_: [torch.tensor(float("nan"), requires_grad=True)] * 2
    )
    with pytest.raises(FloatingPointError, match="step 1"):
        pretrain(config("pretrain.epochs=1", "pretrain.resume=never"))
    left = [path.name for path in (tmp_path / "out").iterdir()]
    assert left == ["pretrain.lock"]  # which says whose folder it is


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("pretrain.lr=0.5", "pretrain.lr was 0.02 and is now 0.5"),
        ("text.files.train={other}", "text was .* and is now"),
        ("text.files.dev={other}", "text of dev was .* and is now"),
    ],
)
def test_going_on_with_another_config(config, tmp_path, override, said):
    (tmp_path / "other.txt").write_text("another text\n" * 40)
    pretrain(config())
    with pytest.raises(
        ValueError, match=f"last.ckpt belongs to another training: {said}.*pretrain.resume=never"
    ):
        pretrain(config(override.format(other=tmp_path / "other.txt")))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk(config, tmp_path):
    """The old state survives a write that fails, and the run goes on from it when there is space
    again.
    """
    whole = pretrain(config(f"out={tmp_path}/whole"))
    cfg = config("pretrain.save_every=10")
    save, saves = torch.save, []

    def full(content, file):
        saves.append(content)
        if len(saves) == 2:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(content, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.save", full)
        with pytest.raises(OSError, match=r"No space left on device: .*last.ckpt"):
            pretrain(cfg)
    assert torch.load(tmp_path / "out" / "last.ckpt", weights_only=True)["step"] == 10
    assert not list((tmp_path / "out").glob(".*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmo_bench.training.resume.atomic", lambda _: nullcontext(Path("/dev/full")))
        with pytest.raises(OSError, match=r"cannot write|No space left"):
            pretrain(cfg)
    assert pretrain(cfg) == whole


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n \n\n", r"text.files.\w+=.*train.txt contains only blank lines"),
        (b"one line\n", "has 2 words in 1 sentences, too few for batch_size=4 x unroll=5"),
        (b"good\n\xff\xfe\x00\x80 noise\n", "train.txt:2: byte 0xff is not UTF-8"),
    ],
)
def test_bad_text(config, text, content, said):
    text.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        pretrain(config())


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\n \n", "held.txt contains only blank lines"), (b"a\n\xff\n", "held.txt:2: byte 0xff is")],
)
def test_bad_held_out_text(config, tmp_path, split, content, said):
    (tmp_path / "held.txt").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        pretrain(config(f"text.files.{split}={tmp_path}/held.txt"))
    assert not [*(tmp_path / "out").glob("*.ckpt")]  # before any training


def test_no_such_text(config, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing/\*.txt: no such file"):
        pretrain(config(f"text.files.train={tmp_path}/nothing/*.txt"))
    with pytest.raises(FileNotFoundError, match=r"nothing: no such file"):  # before any training
        pretrain(config(f"text.files.test={tmp_path}/nothing", "pretrain.max_steps=1"))
    assert not [*(tmp_path / "out").glob("*.ckpt")]


def test_a_state_that_is_none(config, tmp_path):
    pretrain(config())
    last = tmp_path / "out" / "last.ckpt"
    saved = torch.load(last, weights_only=True)
    wrong = {"identity": None, "model": [], "optimizers": {}, "state": [1]}
    for key, value in wrong.items():
        torch.save(saved | {key: value}, last)
        with pytest.raises(ValueError, match=r"last.ckpt.*pretrain.resume=never"):
            pretrain(config())
    for moment in (float("nan"), float("inf")):
        saved["optimizers"][0]["state"][3]["exp_avg_sq"][0] = moment
        torch.save(saved, last)
        with pytest.raises(ValueError, match=r"last.ckpt: .*optimizers contains a .* not finite"):
            pretrain(config())
    last.write_bytes(b"noise")
    with pytest.raises(ValueError, match=r"last.ckpt: not a checkpoint.*pretrain.resume=never"):
        pretrain(config())
