"""What several probes found, as one table."""

from elmo_bench.report import markdown_table, probes_grid
from tests.report.made_probes import ENTITY, POS, probes_content


def test_a_table_of_encoders_and_corpora():
    random = {"name": "books", "pretrained": False}
    grid = probes_grid(
        [
            probes_content(),
            probes_content(encoder=random, properties={"pos": POS}),
            probes_content(corpus="wiki", properties={"entity": ENTITY}),
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
