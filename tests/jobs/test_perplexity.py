"""The perplexity of a text under a biLM with its softmax: by hand, word by word, from a zero or a
carried state.
"""

import json
import math

import numpy as np
import pytest
import torch

from elmo_bench.encoders.bilm import BiLm, Options, char_ids, save
from elmo_bench.jobs.perplexity import perplexity
from elmo_bench.lm import LanguageModel, load_language_model, save_softmax
from tests.conftest import composed

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
    model = LanguageModel(
        BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)))), VOCABULARY
    )
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
def by_hand(folder, carried):
    """The log p of all predictions of each sentence: (forward: words, </S>), (backward: <S>,
    words), a word at a time.
    """
    model = load_language_model(folder / "options.json", folder / "weights.safetensors")
    found = []
    for direction, (first, last) in enumerate((("<S>", "</S>"), ("</S>", "<S>"))):
        state, rows = model.bilm.zero_state(1), []
        for sentence in SENTENCES:
            read = [first, *(sentence if direction == 0 else sentence[::-1])]
            state = state if carried else model.bilm.zero_state(1)
            scores = []
            for word, target in zip(read, [*read[1:], last], strict=True):
                x = model.bilm.token_encoder(char_ids([[word]])[0])[None]
                top, after = [*model.bilm.run(torch.stack([x, x]), state)][direction]
                state = type(state)(*(torch.stack([part, part]) for part in after))
                log_p = model.softmax(top)[0, 0].log_softmax(-1)
                scores.append(log_p[model.number(target)].item())
            rows.append(scores if direction == 0 else scores[::-1])
        found.append(rows)
    return list(zip(*found, strict=True))


@pytest.mark.parametrize(
    "settings",
    [["state=zero"], ["state=zero", "batch_tokens=1"], ["state=carried", "streams=1"]],
    ids=str,
)
def test_word_by_word(folder, text, tmp_path, settings):
    figures = measured(
        *files(folder), f"input={text}", f"per_token={tmp_path}/tokens.jsonl", *settings
    )
    wanted = by_hand(folder, carried="state=carried" in settings)
    records = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    assert [record["tokens"] for record in records] == SENTENCES
    assert [record["line"] for record in records] == [1, 3, 4, 5]
    assert [record["unknown"] for record in records] == [[], [0], [], [5]]
    for record, (forward, backward) in zip(records, wanted, strict=True):
        assert [*record["forward"], record["end"]] == pytest.approx(forward, abs=1e-4)
        assert [record["begin"], *record["backward"]] == pytest.approx(backward, abs=1e-4)
        assert record["perplexity"]["mean"] == pytest.approx(
            math.exp(-np.mean([forward, backward])), rel=1e-4
        )
    for direction, name in enumerate(("forward", "backward")):
        assert figures[name] == pytest.approx(
            math.exp(-np.mean([v for pair in wanted for v in pair[direction]])), rel=1e-4
        )
    assert figures["mean"] == pytest.approx(math.sqrt(figures["forward"] * figures["backward"]))
    assert (figures["tokens"], figures["sentences"], figures["unknown"]) == (14, 4, 2 / 14)


@pytest.mark.parametrize("streams", [2, 3, 64])
def test_streams_are_parts_of_the_text(folder, text, streams):
    """As many streams as sentences are zero states; fewer are between that and one text."""
    carried = measured(*files(folder), f"input={text}", "state=carried", f"streams={streams}")
    zero = measured(*files(folder), f"input={text}")
    assert (carried["tokens"], carried["sentences"]) == (14, 4)
    assert (carried["mean"] == pytest.approx(zero["mean"], rel=1e-5)) == (streams == 64)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda folder: (folder / "softmax.safetensors").unlink(),
            r"softmax.safetensors: no such file. .*job=pretrain out=",
        ),
        (
            lambda folder: (folder / "vocabulary.txt").write_text("a\nb\nc\n"),
            r"but they are \['a', 'b', 'c'\]",
        ),
        (
            lambda folder: (folder / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\na\na\n"),
            r"'a' occurs 2 times",
        ),
        (
            lambda folder: (folder / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\na\n"),
            r"weight has shape \(8, 4\), but vocabulary.txt and .* require \(4, 4\)",
        ),
        (
            lambda folder: (folder / "softmax.safetensors").write_bytes(b"x"),
            r"not a safetensors file",
        ),
    ],
)
def test_files_that_do_not_fit(folder, text, break_it, message):
    break_it(folder)
    with pytest.raises((ValueError, OSError), match=message):
        measured(*files(folder), f"input={text}")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["encoder=mini"],
            r"mini/softmax.safetensors: no such file. .*the shipped mini do not "
            r"include.*job=pretrain",
        ),
        (["encoder=none"], r"encoder=none has no biLM files"),
        (["encoder=files"], r"encoder.options is empty"),
        (
            ["encoder=mini", "encoder.pretrained=false"],
            r"encoder.pretrained=False requires a run with a task",
        ),
        (
            ["encoder=mini", "encoder.precision=bfloat16"],
            r"encoder.precision=bfloat16 requires a run with a task: .* in float32",
        ),
        (["encoder=mini", "elmo.adapt=true"], r"elmo.adapt=True requires a run with a task"),
        (["encoder=files", "encoder.dir=nowhere"], r"encoder.dir=nowhere: no such folder"),
        (["per_token=nowhere/x.jsonl"], r"per_token=nowhere/x.jsonl: no such folder"),
    ],
)
def test_what_it_says_of_bad_settings(text, overrides, message):
    with pytest.raises((ValueError, OSError), match=message):
        measured(f"input={text}", *overrides)


def test_a_text_of_blank_lines(folder, tmp_path):
    (tmp_path / "in.txt").write_text("\n \n")
    with pytest.raises(ValueError, match=r"in.txt contains only blank lines"):
        measured(
            *files(folder),
            f"input={tmp_path}/in.txt",
            f"per_token={tmp_path}/t.jsonl",
        )
    assert not (tmp_path / "t.jsonl").exists()
