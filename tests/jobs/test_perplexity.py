"""The perplexity of a text under a biLM with its softmax: by hand, word by word."""

import math

import numpy as np
import pytest
import torch

from elmo_bench.encoders.bilm import save
from elmo_bench.jobs.perplexity import perplexity
from elmo_bench.lm import LanguageModel, load_language_model, save_softmax
from elmo_bench.text.chars import char_ids
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "dog", "cat", "barks", "."]
LINES = [
    ["the", "dog", "barks", "."],
    [],
    ["a", "cat"],
    ["the"],
    ["the", "cat", "barks", ".", "the", "unicorn", "."],
]
SENTENCES = [line for line in LINES if line]


@pytest.fixture
def folder(tmp_path):
    """What job=pretrain leaves, of random weights that are large enough to tell words apart."""
    model = LanguageModel(random_bilm(), VOCABULARY)
    with torch.no_grad():
        for parameter in model.softmax.parameters():
            parameter.copy_(torch.randn_like(parameter))
    save(model.bilm, tmp_path / "bilm" / "weights.safetensors", dtype=torch.float16)
    save_softmax(model, tmp_path / "bilm")
    return tmp_path / "bilm"


def files(folder):
    return "encoder=files", f"encoder.dir={folder}"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in LINES))
    return path


def measured(*overrides):
    return perplexity(composed("job=perplexity", *overrides))


@torch.no_grad()
def by_hand(folder):
    """The log p of all predictions of each sentence: (forward: words, </S>), (backward: <S>,
    words), a word at a time.
    """
    model = load_language_model(folder / "options.json", folder / "weights.safetensors")
    found = []
    for direction, (first, last) in enumerate((("<S>", "</S>"), ("</S>", "<S>"))):
        rows = []
        for sentence in SENTENCES:
            read = [first, *(sentence if direction == 0 else sentence[::-1])]
            state, scores = model.bilm.zero_state(1), []
            for word, target in zip(read, [*read[1:], last], strict=True):
                x = model.bilm.token_encoder(char_ids([[word]])[0])[None]
                tops, state = model.bilm.run(torch.stack([x, x]), state)
                log_p = model.softmax(tops[direction])[0, 0].log_softmax(-1)
                scores.append(log_p[model.number(target)].item())
            rows.append(scores if direction == 0 else scores[::-1])
        found.append(rows)
    return list(zip(*found, strict=True))


def test_word_by_word(folder, text):
    figures = measured(*files(folder), f"input={text}")
    model = load_language_model(folder / "options.json", folder / "weights.safetensors")
    wanted, found = by_hand(folder), model.likelihoods(SENTENCES)
    for direction, name in enumerate(("forward", "backward")):
        for pair, values in zip(wanted, found[name], strict=True):
            assert values.tolist() == pytest.approx(pair[direction], abs=1e-4)
        every = [value for pair in wanted for value in pair[direction]]
        assert figures[name] == pytest.approx(math.exp(-np.mean(every)), rel=1e-4)
    assert figures["mean"] == pytest.approx(math.sqrt(figures["forward"] * figures["backward"]))
    assert (figures["tokens"], figures["sentences"], figures["unknown"]) == (14, 4, 2 / 14)
    text.write_text(text.read_text() + "<UNK>\n")  # as a corpus may write it itself
    assert measured(*files(folder), f"input={text}")["unknown"] == 3 / 15


MISFITS = {
    r"softmax.safetensors: no such file. .*job=pretrain out=": ("softmax.safetensors", None),
    r"not a safetensors file": ("softmax.safetensors", "x"),
    r"but they are \['a', 'b', 'c'\]": ("vocabulary.txt", "a\nb\nc\n"),
    r"'a' occurs 2 times": ("vocabulary.txt", "<S>\n</S>\n<UNK>\na\na\n"),
    r"weight has shape \(8, 4\), but vocabulary.txt and .* require \(4, 4\)": (
        *("vocabulary.txt", "<S>\n</S>\n<UNK>\na\n"),
    ),
}


@pytest.mark.parametrize("message", MISFITS)
def test_files_that_do_not_fit(folder, text, message):
    name, content = MISFITS[message]
    (folder / name).unlink()
    if content:
        (folder / name).write_text(content)
    with pytest.raises((ValueError, OSError), match=message):
        measured(*files(folder), f"input={text}")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("encoder=mini", "mini/softmax.safetensors: no such file. .*the shipped mini do not"),
        ("encoder=none", "encoder=none has no biLM files"),
        ("encoder=files", "encoder.options is empty"),
        ("encoder=mini encoder.pretrained=false", "encoder.pretrained=false: a random biLM has no files"),
        ("encoder=mini encoder.precision=bfloat16", "encoder.precision=bfloat16 requires a run"),
    ],
)  # fmt: skip
def test_what_it_says_of_bad_settings(text, overrides, message):
    with pytest.raises((ValueError, OSError), match=message):
        measured(f"input={text}", *overrides.split())


def test_a_text_of_blank_lines(folder, tmp_path):
    (tmp_path / "in.txt").write_text("\n \n")
    with pytest.raises(ValueError, match=r"in.txt contains only blank lines"):
        measured(*files(folder), f"input={tmp_path}/in.txt")
