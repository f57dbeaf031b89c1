"""What several probes found, as one table."""

from elmo_bench.report import markdown_table, probes_grid

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


def test_a_table_of_encoders_and_corpora():
    random = {"name": "books", "pretrained": False}
    grid = probes_grid(
        [
            content(),
            content(encoder=random, properties={"pos": POS}),
            content(corpus="wiki", properties={"entity": ENTITY}),
        ]
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
