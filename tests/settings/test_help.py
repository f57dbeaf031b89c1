"""`job=train --help`: the settings of the options that the command chooses."""

import re

from elmo_bench import CONF
from elmo_bench.cli import help_text
from elmo_bench.settings.help import of_options


def test_settings_of_the_chosen_options():
    lines = of_options(["job=train", "task=classify", "data=files", "encoder=transformer"])
    keys = [line.partition("=")[0] for line in lines]
    for key in ("encoder.model", "encoder.pooling", "encoder.window", "data.held_out", "data.name"):
        assert key in keys
    for key in ("data.columns.text", "task.model.pool", "task.monitor", "rnn.hidden_size"):
        assert key in keys
    assert "encoder=transformer" in lines
    assert max(map(len, lines)) <= 100
    assert "_target_" not in str(lines)
    (pooling,) = (line for line in lines if line.startswith("encoder.pooling="))
    assert pooling.startswith("encoder.pooling=null ")
    comment = re.search(
        "^pooling: .*# (.{20})", (CONF / "encoder/transformer.yaml").read_text(), re.M
    )
    assert f"# {comment[1]}" in pooling


def test_options_of_a_sweep_have_a_section_each():
    lines = of_options(["encoder=none,mini,static", "finetune=none,full"])
    sections = [line for line in lines if line.startswith(("encoder=", "finetune="))]
    assert {"encoder=mini", "encoder=static", "finetune=full"} <= {*sections}
    assert any(line.startswith("finetune.lr=0.0001") for line in lines)


def test_a_wrong_option_is_said():
    assert "task=nre, but it must be" in of_options(["task=nre"])[-1]


def test_the_options_that_one_chooses():
    """Those of subfolders bear the folder's name; what only other options choose is left out."""
    lines = help_text().splitlines()
    assert "experiment: bert/classify, bert/ner, bert/snli, bert/squad" in lines
    assert "recipe: finetune_bert" in lines
    assert not [line for line in lines if "shared" in line or line.startswith("task/for")]
