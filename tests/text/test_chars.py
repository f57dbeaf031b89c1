import json

from elmo_bench.text.chars import char_ids, word_frame


def test_golden(golden_modules):
    for case in json.loads((golden_modules / "char_ids.json").read_text("utf-8"))["cases"]:
        assert word_frame(case["token"]).tolist() == case["ids"], case["token"]


def test_padding_is_zero():
    ids = char_ids([["a", "b"], ["c"], []])
    assert ids.shape == (3, 2, 50)
    assert (ids > 0).any(-1).tolist() == [[True, True], [True, False], [False, False]]
    assert char_ids([]).shape == (0, 0, 50)
