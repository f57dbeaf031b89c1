"""Word vectors as an encoder: every format to the same numbers, what no file may hold, and a task
that reads them.
"""

import gzip

import numpy as np
import pytest
import torch

from elmo_bench import build
from elmo_bench.build.texts import read_word_vectors
from elmo_bench.encoders import encode, load_encoder
from elmo_bench.encoders.static import load
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.train import train
from tests.conftest import composed, result_of

WORDS = {"the": [0.5, -1.0, 2.0], "Ann": [1e-3, 0.0, 3.5], "naïve": [4.0, 5.0, -6.25]}
TEXT = "".join(f"{word} {' '.join(map(str, v))}\n" for word, v in WORDS.items()).encode()


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", TEXT),
        ("fasttext.vec", b"3 3\n" + TEXT.replace(b"\n", b" \n")),
        ("tabs.tsv", b"3\t3\n" + TEXT.replace(b" ", b"\t")),
        ("a_tab.txt", TEXT.replace(b" ", b"\t", 1).replace(b"\nAnn ", b"\nAnn\t")),
    ],
)
def test_formats(tmp_path, name, content, gz):
    path = write(tmp_path / f"{name}{gz}", content)
    encoder = load_encoder(path)
    (layers,) = encode(encoder, [["the", "Ann", "naïve"]])
    assert layers.tolist() == [[[*map(np.float32, vector)] for vector in WORDS.values()]]
    assert (encoder.num_layers, encoder.dim) == (1, 3)


@pytest.mark.parametrize(
    ("lowercase", "rows"), [(True, [2, 0, 2]), (False, [1, 0, 2]), ("fallback", [1, 0, 2])]
)
def test_lowercase(tmp_path, lowercase, rows):
    encoder = load(write(tmp_path / "v.txt", b"Us 1 1\nus 2 2\n"), lowercase=lowercase)
    assert encoder.prepare([["Us", "Ann", "us"], []]).rows.tolist() == [rows, [0, 0, 0]]
    assert encoder.prepare([["US"]]).rows.item() == (0 if lowercase is False else 2)


def test_words_without_vector_and_past_the_end_are_zeros_also_after_training(tmp_path):
    encoder = load(write(tmp_path / "v.txt", TEXT)).requires_grad_(True)
    inputs = encoder.prepare([["xyzzy", "the"], ["Ann"]])
    optimizer = torch.optim.Adam(p for group in encoder.parameter_groups() for p in group)
    before = encoder.fingerprint()
    encoder(inputs).sum().backward()
    optimizer.step()
    layers = encoder(inputs, [0])
    assert layers.shape == (1, 2, 2, 3)
    assert not layers[0, 0, 0].any()
    assert not layers[0, 1, 1].any()
    assert layers[0, 0, 1].tolist() != WORDS["the"]
    assert encoder.fingerprint() != before


def test_fingerprint(tmp_path):
    path = write(tmp_path / "v.txt", TEXT)
    prints = [load(path).fingerprint() for _ in range(2)]
    prints += [load(write(tmp_path / "w.txt", b"3 3\n" + TEXT)).fingerprint()]
    assert len(set(prints)) == 1  # whatever the format
    others = [load(path, lowercase=True), load(path, pretrained=False)]
    others += [load(write(tmp_path / "w.txt", TEXT.replace(b"Ann", b"Bob")))]
    assert len({*prints, *(other.fingerprint() for other in others)}) == 4


def test_random_vectors_of_the_same_words(tmp_path):
    path = write(tmp_path / "v.txt", b"".join(b"w%d 3 -3\n" % n for n in range(2000)))
    seeds = [torch.manual_seed(seed) and load(path, pretrained=False) for seed in (7, 7, 8)]
    first, again, other = seeds
    assert first.words == other.words
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()
    assert first.embedding.weight[1:].std().item() == pytest.approx(3, rel=0.05)
    assert not first.embedding.weight[0].any()


def test_a_long_file_with_repeated_words_and_words_with_blanks(tmp_path):
    lines = "".join(f"w{n % 2500} {n} {-n}.5 0\n" for n in range(3100))
    encoder = load(write(tmp_path / "v.txt", f"{lines}. . . 1 2 0\na b.c 3 4 0\n".encode()))
    vectors = {word: encoder.embedding.weight[row].tolist() for word, row in encoder.words.items()}
    assert len(vectors) == 2502
    assert vectors["w5"] == [2505, -2505.5, 0]
    assert (vectors["w2499"][0], vectors[". . ."], vectors["a b.c"]) == (2499, [1, 2, 0], [3, 4, 0])


def test_vectors_of_several_files_are_concatenated(tmp_path):
    """As those of `vocab.vectors`: zeros where a file lacks the word."""
    first = write(tmp_path / "a.txt", b"the 1 2\nAnn 3 4\nthe 5 6\n")  # the last one counts
    second = write(tmp_path / "b.txt.gz", b"runs 7\nthe 8\n")
    encoder = load([first, str(second)])
    (layers,) = encode(encoder, [["the", "Ann", "Runs", "xyzzy"]])
    assert layers[0].tolist() == [[5, 6, 8], [3, 4, 0], [0, 0, 7], [0, 0, 0]]
    assert (encoder.num_layers, encoder.dim) == (1, 3)
    cfg = composed("encoder=static", f"vocab.vectors=[{first},{second}]", "run_dir=here")
    of_words = read_word_vectors(cfg, ["the", "Ann", "runs"])
    of_encoder = {word: encoder.embedding.weight[encoder.words[word]].tolist() for word in of_words}
    assert of_encoder == {word: vector.tolist() for word, vector in of_words.items()}
    assert load([first]).fingerprint() == load(first).fingerprint() != encoder.fingerprint()
    assert load([second, first]).fingerprint() != encoder.fingerprint()
    control = load([first, second], pretrained=False)
    assert control.words == encoder.words
    assert not control.embedding.weight[control.words["runs"], :2].any()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"a 1 2\n\xff 1 2\n", r"v\.txt:2: byte 0xff is not UTF-8"),
        ("v.txt", b"0 3\n", r"v\.txt: no vectors"),
        ("v.bin", b"0 3\n", r"v\.bin: binary vectors are not read: of fastText use the \.vec file"),
        ("v.bin.gz", b"", r"v\.bin\.gz: binary vectors are not read"),
    ],
)
def test_what_no_file_may_hold(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_settings_that_may_not_be(tmp_path):
    for nothing in (None, []):
        with pytest.raises(ValueError, match=r"encoder\.vectors is empty.*encoder\.vectors=FILE"):
            load(nothing)
    with pytest.raises(FileNotFoundError, match=r"v\.txt: no such file"):
        load(tmp_path / "v.txt")


def test_a_task_reads_them_without_a_store_and_fine_tunes_them(tiny_ner, tmp_path):
    path = write(tmp_path / "v.txt", TEXT)
    chosen = ["task=ner", "encoder=static", f"encoder.vectors={path}"]
    frozen = tiny_ner(*chosen)
    device = torch.device("cpu")
    sentences = build.examples(frozen).all_sentences
    assert build.store(frozen, build.elmo(frozen), sentences, device) is None
    train(tiny_ner(*chosen, "finetune=full", "finetune.lr=0.1"))
    weights = torch.load(next(tmp_path.glob("run1/best.ckpt")), weights_only=True)["state_dict"]
    (trained,) = [
        value for name, value in weights.items() if name.endswith("elmo.encoder.embedding.weight")
    ]
    assert not torch.equal(trained, load(path).embedding.weight)
    assert not trained[0].any()


def test_a_run_reads_several_files_of_vectors(tiny_ner, new_run, tmp_path):
    """With the hash of each; the key of the first is that of a single one. A checkpoint names them."""
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "b.txt", TEXT.replace(b"4.0", b"9.0"))
    files = [f"{write(tmp_path / 'a.txt', TEXT)}", "b.txt"]  # the second is in data_dir
    chosen = ["task=ner", "encoder=static", f"vocab.vectors=[{','.join(files)}]"]
    cfg = tiny_ner(*chosen, f"data_dir={tmp_path}/data")
    train(cfg)
    run = result_of(cfg.run_dir)
    hashes = {key: value for key, value in run["inputs"].items() if "vectors" in key}
    first, second = (f"{place}.vectors" for place in ("vocab", "encoder"))
    assert [*hashes] == [first, f"{first}.1", second, f"{second}.1"]
    assert hashes[first] == hashes[second] != hashes[f"{first}.1"] == hashes[f"{second}.1"]
    checkpoint = f"checkpoint={cfg.run_dir}/best.ckpt"
    scores = evaluate(new_run("job=evaluate", checkpoint, f"data_dir={tmp_path}/data"))
    assert scores["test/f1"] == run["metrics"]["test/f1"]


def test_words_without_a_vector_are_told(tiny_ner, tmp_path, caplog):
    """In the log, in the dry run and, since most have none, in the result."""
    path = write(tmp_path / "v.txt", b"the 1 2\n")
    cfg = tiny_ner("task=ner", "encoder=static", f"encoder.vectors={path}", "fit.max_epochs=1")
    train(cfg)
    built = build.parts(cfg)
    types = {word for sentence in built.examples.all_sentences for word in sentence}
    lacking = sum(word.lower() != "the" for word in types)
    said = result_of(cfg.run_dir)["cautions"]["encoder"]
    assert said in caplog.text
    assert said.startswith(
        f"encoder=static: no vector for {lacking:,} of {len(types):,} word types of the corpus ("
    )
