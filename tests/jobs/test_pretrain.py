"""`job=pretrain` as the command line runs it: what it leaves, that it goes on after a kill, and
what it says of bad input.
"""

import gzip
import time

import pytest
import torch

from elmo_bench.jobs.pretrain import prepare, pretrain
from elmo_bench.lm import LanguageModel, Trainer, load_language_model
from tests.commands import forked
from tests.conftest import composed

LINES = [
    f"the {a} {verb} a {b} ."
    for a in ("cat", "dog", "owl", "fox")
    for b in ("cat", "dog")
    for verb in ("sees", "hears")
]
TINY = [
    *("bilm.cell_size=12", "bilm.projection_size=6", "bilm.filters=[[1,4],[3,4]]"),
    *("pretrain.batch_size=4", "pretrain.unroll=5", "pretrain.epochs=2"),
    *("pretrain.lr=0.02", "pretrain.warmup=3"),
]
STEPS = 23  # of an epoch


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("\n".join(LINES * 4) + "\n")
    return path


@pytest.fixture
def trained(tmp_path, text):
    """A function of overrides: what a run of a second on `text` returns."""
    return lambda *overrides: pretrain(
        composed(*command(tmp_path, text), f"run_dir={tmp_path}", *overrides)
    )


def command(folder, text):
    files = f"text.files.train={text}", f"text.files.dev={text}"
    return ["job=pretrain", "text=files", *files, f"out={folder}/out", *TINY]


def language_model(folder):
    return load_language_model(folder / "options.json", folder / "weights.safetensors")


def mean_perplexity(model):
    found = model.perplexity([line.split() for line in LINES * 4])
    return (found["forward"] * found["backward"]) ** 0.5


def state(folder):
    return torch.load(folder / "last.ckpt", weights_only=True)


@pytest.fixture
def no_step(monkeypatch):
    """Call it, and training a step fails the test."""
    return lambda: monkeypatch.setattr(Trainer, "_step", lambda *_: pytest.fail("it trained"))


def test_what_it_leaves(trained, tmp_path, no_step):
    more = "pretrain.full_up_to=1", "pretrain.samples=5"
    figures, out = trained(*more), tmp_path / "out"
    biggest = "weights.safetensors", "softmax.safetensors", "last.ckpt"
    assert {path.name for path in out.iterdir()} == {
        *("options.json", "vocabulary.txt", "README.md", *biggest)
    }
    model = language_model(out)
    assert model.vocabulary[:3] == ["<S>", "</S>", "<UNK>"]
    assert figures == {"dev": pytest.approx(mean_perplexity(model), rel=1e-2)}  # fp16
    card = (out / "README.md").read_text("utf-8")
    assert "384 tokens, 64 sentences" in card
    assert "sampled" in card
    no_step()
    assert trained(*more) == figures  # it is finished


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction_alone(trained, tmp_path, caplog, direction):
    """Its card and its log lines say nothing of the other."""
    other = {"forward": "backward", "backward": "forward"}[direction]
    with caplog.at_level("INFO"):
        trained(f"bilm.directions=[{direction}]")
    assert f"dev perplexity {direction} " in caplog.text
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert card.startswith(f"# The {direction} half of a biLM")
    assert other not in card + caplog.text
    assert language_model(tmp_path / "out").directions == (direction,)
    with pytest.raises(ValueError, match=r"another training: bilm.directions was \['"):
        trained()


def test_a_folder_a_glob_gzip_and_raw_text(trained, tmp_path):
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_text("A dog barks. The cat sleeps.\n\n" * 20)
    (folder / "more" / "b.txt.gz").write_bytes(gzip.compress(b"It's a house.\n" * 20))
    for pattern, sentences in ((folder, 60), (f"{folder}/*.txt", 40), (f"{folder}/**/*.gz", 20)):
        out = tmp_path / f"{sentences}"
        files = f"text.files.train='{pattern}'", "text.files.dev=null", "text.tokenize=true"
        assert trained(*files, f"out={out}") == {}  # no dev text, no figure
        assert f"{sentences} sentences" in (out / "README.md").read_text()
    assert "n't" not in (words := (tmp_path / "60" / "vocabulary.txt").read_text().split())
    assert "'s" in words


@pytest.mark.slow
def test_killed_in_the_middle_of_an_epoch(tmp_path, text, trained):
    """What a killed run and its successor leave is what an uninterrupted run leaves, to the bit."""
    more = ["pretrain.epochs=6", "pretrain.save_every=5", "pretrain.dropout=0.2"]
    out, whole = tmp_path / "out", tmp_path / "whole"
    process = forked(*command(tmp_path, text), f"hydra.run.dir={tmp_path}/run", *more)
    while not (out / "last.ckpt").exists():
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert 0 < state(out)["step"] < 6 * STEPS
    trained(*more)
    trained(*more, f"out={whole}")
    assert state(out)["step"] == state(whole)["step"]
    for name, value in state(whole)["model"].items():
        assert torch.equal(value, state(out)["model"][name]), name
    for name in ("weights.safetensors", "softmax.safetensors"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_a_longer_training_of_the_same_folder(trained, tmp_path):
    """It goes on where the shorter one ended, at the learning rate of the longer one."""
    first, second = (trained(f"pretrain.epochs={epochs}") for epochs in (1, 3))
    assert second["dev"] < first["dev"]
    assert state(tmp_path / "out")["step"] == 3 * STEPS
    assert "epochs 3" in (tmp_path / "out" / "README.md").read_text()
    assert trained("pretrain.epochs=1") == second


def test_the_best_on_dev_is_kept(trained, tmp_path, monkeypatch):
    seen = []

    def perplexity(model, _):
        seen.append({name: value.clone() for name, value in model.bilm.state_dict().items()})
        return {"forward": (9.0, 5.0, 7.0)[len(seen) - 1]}

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "perplexity", perplexity)
        assert trained("pretrain.epochs=3") == {"dev": pytest.approx(5.0)}
    kept = language_model(tmp_path / "out").bilm.state_dict()
    for name, value in seen[1].items():
        torch.testing.assert_close(kept[name], value.half().float())


def test_stopped_before_the_first_look_at_dev(trained, tmp_path, monkeypatch, no_step):
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
        trained("pretrain.save_every=5")
    stopped = language_model(tmp_path / "out")
    no_step()
    figures = trained("pretrain.max_steps=5")
    assert figures["dev"] == pytest.approx(mean_perplexity(stopped), rel=1e-2)  # fp16
    assert "5 steps" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("pretrain.lr=0.5", "pretrain.lr was 0.02 and is now 0.5"),
        ("tf32=true", "tf32 was False and is now True"),
        ("text.files.train={other}", "text was .* and is now"),
        ("text.files.dev={other}", "text of dev was .* and is now"),
    ],
)
def test_going_on_with_another_config(trained, tmp_path, override, said):
    (tmp_path / "other.txt").write_text("another text\n" * 40)
    trained("pretrain.epochs=1")
    with pytest.raises(ValueError, match=f"last.ckpt belongs to another training: {said}"):
        trained(override.format(other=tmp_path / "other.txt"))


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"held\*: no such file"),
        (b"", "the file is empty"),
        (b"\n \n\n", r"held\* contains only blank lines"),
        (b"good\n\xff\xfe\x00\x80 noise\n", "held.txt:2: byte 0xff is not UTF-8"),
    ],
)
def test_bad_text(trained, tmp_path, split, content, said):
    if content is not None:
        (tmp_path / "held.txt").write_bytes(content)
    with pytest.raises((ValueError, OSError), match=said):
        trained(f"text.files.{split}='{tmp_path}/held*'")
    assert not [*(tmp_path / "out").glob("*.ckpt")]  # before any training


def test_a_text_that_is_too_short(trained, text):
    text.write_bytes(b"one line\n")
    said = "has 2 words in 1 sentences, too few for batch_size=4 x unroll=5"
    with pytest.raises(ValueError, match=said):
        trained()
    with pytest.raises(ValueError, match=said):  # as --dry-run does
        prepare(composed(*command(text.parent, text)))


def test_a_state_that_is_none(trained, tmp_path):
    trained("pretrain.epochs=1")
    last, saved = tmp_path / "out" / "last.ckpt", state(tmp_path / "out")
    wrong = {"identity": None, "model": [], "optimizers": {}, "state": [1]}
    for key, value in wrong.items():
        torch.save(saved | {key: value}, last)
        with pytest.raises(
            ValueError, match=r"last.ckpt: (model.0: not a map|not the state of a tra)"
        ):
            trained("pretrain.epochs=1")
    for moment in (float("nan"), float("inf")):
        saved["optimizers"][0]["state"][3]["exp_avg_sq"][0] = moment
        torch.save(saved, last)
        with pytest.raises(ValueError, match=r"last.ckpt: .*optimizers contains a .* not finite"):
            trained("pretrain.epochs=1")
    last.write_bytes(b"noise")
    with pytest.raises(ValueError, match=r"last.ckpt: not a checkpoint"):
        trained("pretrain.epochs=1")
