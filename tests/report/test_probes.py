"""Several `probe.json` as one table, and what is said of one that is wrong."""

import json

import pytest

from elmo_bench.report import markdown_table, probes_grid, read_probe

POS = {
    "baseline": {"accuracy": 0.75},
    "layers": [
        {"accuracy": [0.8, 0.82], "control": [0.9, 0.9]},
        {"accuracy": [0.9, 0.9], "control": [0.7, 0.8]},
    ],
}
SENSE = {"baseline": {"accuracy": 0.5}, "layers": [{"accuracy": [0.6]}, {"accuracy": [0.625]}]}
ENTITY = {
    "baseline": {"accuracy": 0.85, "f1": 0.25},
    "layers": [{"accuracy": [0.9, 0.9], "control": [0.8, 0.8], "f1": [0.3, 0.4]}],
}


def content(name="books", corpus="ewt", **more):
    return {
        "encoder": {"name": name, "pretrained": True, "directions": None},
        "corpus": corpus,
        "data": {"train": {"sha256": "ab"}},
        "settings": {"steps": 5},
        "seeds": [1, 2],
        "command": "python run.py job=probe",
        "properties": {"pos": POS, "sense": SENSE},
    } | more


@pytest.fixture
def probed(tmp_path):
    def made(*contents):
        paths = [tmp_path / f"{number}.json" for number, _ in enumerate(contents)]
        for path, one in zip(paths, contents, strict=True):
            path.write_text(json.dumps(one))
        return [read_probe(path) for path in paths]

    return made


def test_a_table_of_encoders_and_corpora(probed):
    random = {"name": "books", "pretrained": False}
    grid = probes_grid(
        probed(
            content(),
            content(encoder=random, properties={"pos": POS}),
            content(corpus="wiki", properties={"entity": ENTITY}),
        )
    )
    assert grid.heads == [
        *("encoder", "layer", "ewt POS: accuracy", "ewt POS: selectivity", "ewt senses: accuracy"),
        *("wiki entities: accuracy", "wiki entities: selectivity", "wiki entities: span F1"),
    ]
    assert grid.rows == [
        ["–", "baseline", "75.00", "", "50.00", "85.00", "", "25.00"],
        [
            *("books", "0", "81.00 ± 1.41", "−9.00 ± 1.41", "60.00"),
            *("90.00 ± 0.00", "10.00 ± 0.00", "35.00 ± 7.07"),
        ],
        ["books", "1", "90.00 ± 0.00", "15.00 ± 7.07", "62.50", "", "", ""],
        ["books, random weights", "0", "81.00 ± 1.41", "−9.00 ± 1.41", "", "", "", ""],
        ["books, random weights", "1", "90.00 ± 0.00", "15.00 ± 7.07", "", "", "", ""],
    ]
    assert "over seeds (2)" in grid.caption
    assert "| books, random weights | 1 | 90.00 ± 0.00 |" in markdown_table(grid)


def test_what_cannot_stand_in_one_table(probed):
    with pytest.raises(ValueError, match=r"1.json: books on ewt is also in \S+0.json"):
        probes_grid(probed(content(), content()))
    other = content("mini", data={"train": {"sha256": "cd"}})
    with pytest.raises(
        ValueError, match=r"1.json and \S+0.json, of the same corpus ewt, differ in data"
    ):
        probes_grid(probed(content(), other))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"seeds": []}, r"seeds is \[\]: List should have at least 1 item"),
        ({"encoder": None}, "encoder is None: Input should be a valid dictionary"),
        (
            {"properties": {"pos": SENSE | {"baseline": {"accuracy": 50}}}},
            "properties.pos.baseline.accuracy is 50: .* less than or equal to 1",
        ),
        ({"properties": {"pos": {"layers": []}}}, "properties.pos.baseline is .*: Field required"),
    ],
)
def test_a_wrong_file(probed, wrong, said):
    with pytest.raises(ValueError, match=rf"0.json: not a probe.json of elmo-bench: {said}"):
        probed(content() | wrong)
