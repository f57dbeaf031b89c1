"""Settings of ELMo are chosen on dev: made-up runs whose dev and test figures disagree."""

import pytest

from elmo_bench.report import tables
from elmo_bench.report.selection import select
from elmo_bench.runs import collect
from tests.runs.made_runs import write_run

# dev and test figure of each setting
FIGURES = {"none": (0.5, 0.5), "top": (0.6, 0.9), "all": (0.7, 0.6), 0: (0.4, 0.95)}


def run(folder, mix, seed, *, encoder="mini", metrics=("dev", "test"), task="ner", commit="a"):
    dev, test = FIGURES[mix]
    figures = {"dev": dev + seed / 1000, "test": test + seed / 1000}
    config = {
        "task": {"name": task, "monitor": "f1"},
        "data": {"name": "sample"},
        "encoder": {"name": encoder} | ({} if mix == "none" else {"_target_": "load"}),
        "elmo": {"mix": mix, "l2": 0.1},
        "seed": seed,
    }
    figures = {f"{split}/f1": figures[split] for split in metrics}
    write_run(folder, figures, config, commit=commit)


def selected(folder, mixes, *, baseline=("none",), **settings):
    for mix in mixes:
        for seed in (1, 2):
            run(folder / f"{mix}{seed}", mix, seed, **settings)
    return select(collect([folder]), ["task"], ["elmo.mix"], baseline=baseline)


def test_test_is_asked_for_what_dev_chose(tmp_path):
    """Not for `0`, which is best on test."""
    on_dev, on_test = selected(tmp_path, FIGURES)
    assert (on_dev.split, on_test.split) == ("dev", "test")
    assert [cell.column for cell in on_dev.cells] == [("none",), (0,), ("top",), ("all",)]
    assert [cell.column for cell in on_test.cells] == [("none",), ("all",)]
    assert on_test.cells[1].mean == pytest.approx(0.6015)
    assert on_test.cells[1].comparison.difference == pytest.approx(0.1)
    assert (on_dev.chosen_among, on_test.chosen_among) == (0, 3)
    assert (on_dev.title, on_test.title) == (
        "Compared on dev",
        "On test, the baseline and the best other setting on dev",
    )


def test_dev_chooses_among_settings_with_as_many_runs(tmp_path):
    """A single lucky run does not beat the mean of several."""
    for seed in (1, 2, 3):
        for mix in ("none", "top", 0):
            run(tmp_path / f"{mix}{seed}", mix, seed)
    run(tmp_path / "all1", "all", 1)  # the highest on dev
    _, on_test = select(collect([tmp_path]), ["task"], ["elmo.mix"], baseline=("none",))
    assert [cell.column for cell in on_test.cells] == [("none",), ("top",)]
    assert on_test.chosen_among == 2
    (note,) = (note for note in on_test.notes if "cannot choose" in note)
    assert note == "ner, all layers: 1 run, but others have 3, so dev cannot choose it"
    for seed in (2, 3):
        run(tmp_path / f"all{seed}", "all", seed)
    _, on_test = select(collect([tmp_path]), ["task"], ["elmo.mix"], baseline=("none",))
    assert [cell.column for cell in on_test.cells] == [("none",), ("all",)]
    assert not [note for note in on_test.notes if "cannot choose" in note]


def test_a_test_file_that_came_later(tmp_path):
    """`job=evaluate` leaves a run of its own; of another corpus it is none of this table."""
    for mix in ("none", "all", "top"):
        run(tmp_path / f"{mix}", mix, 1, metrics=["dev"])
        run(tmp_path / f"{mix} on test", mix, 1, metrics=["test"])
        other = tmp_path / f"{mix} on other" / "result.json"
        run(other.parent, mix, 1, metrics=["test"])
        other.write_text(other.read_text().replace('"sample"', '"other"'))
    _, on_test = select(collect([tmp_path]), ["task"], ["elmo.mix"], baseline=("none",))
    assert [cell.column for cell in on_test.cells] == [("none",), ("all",)]
    assert [cell.runs[0].folder.name for cell in on_test.cells] == ["none on test", "all on test"]


def test_settings_in_rows_are_selected_too(tmp_path):
    """As they are by default, beside a baseline in which they have no effect."""
    for mix in FIGURES:
        run(tmp_path / f"{mix}", mix, 1, encoder="none" if mix == "none" else "mini")
    runs = collect([tmp_path])
    on_dev, on_test = select(runs, None, ["encoder"], baseline=("none",))
    assert "elmo.mix" in on_dev.rows
    assert len(on_dev.cells) == 4
    assert [cell.runs[0].config["elmo"]["mix"] for cell in on_test.cells] == ["none", "all"]
    assert on_test.chosen_among == 3


def test_a_baseline_that_is_better_on_dev_is_named(tmp_path):
    """The table on test shows the best other setting, which dev would not choose."""
    _, on_test = selected(tmp_path, ("all", "top", 0), baseline=("all",))
    (note,) = (note for note in on_test.notes if "not what dev would choose" in note)
    assert note.endswith("the baseline is better on it (70.15 against 60.15)")


def test_each_encoder_and_task_has_its_own_choice(tmp_path):
    for name in ("mini", "books"):
        for mix in ("top", "all"):
            run(tmp_path / name / mix, mix, 1, encoder=name, task="srl" if mix == "top" else "ner")
        run(tmp_path / name / "0", 0, 1, encoder=name)
    columns = ["encoder", "elmo.mix"]
    _, on_test = select(collect([tmp_path]), ["task"], columns)
    assert {(cell.row[0], *cell.column) for cell in on_test.cells} == {
        *(("ner", name, "all") for name in ("mini", "books")),
        *(("srl", name, "top") for name in ("mini", "books")),
    }


@pytest.mark.parametrize("mixes", [["none", "all"], ["all"], ["none"]])
def test_nothing_to_choose(tmp_path, mixes):
    (only,) = selected(tmp_path, mixes, baseline=None)
    assert (only.split, only.title, only.chosen_among) == ("test", "", 0)


def test_all_that_dev_could_choose_is_the_baseline(tmp_path):
    for mix, encoder in (("none", "none"), ("all", "mini"), ("top", "mini")):
        run(tmp_path / mix, mix, 1, encoder=encoder)
    (found,) = select(collect([tmp_path]), ["elmo.mix"], ["encoder"], baseline=("mini",))
    assert found.split == "dev"


def test_a_note_on_the_code_stands_once(tmp_path):
    for mix in ("none", "all", "top"):
        run(tmp_path / mix, mix, 1, commit=mix)
    on_dev, on_test = select(collect([tmp_path]), ["task"], ["elmo.mix"])
    assert "different code" in on_dev.notes[0]
    assert on_test.notes == []
    assert "of up to 2 settings" in tables(on_test)["means"].caption


@pytest.mark.parametrize("split", ["test", "dev"])
def test_without_figures_on_the_other(tmp_path, split):
    (only,) = selected(tmp_path, FIGURES, metrics=[split])
    assert only.split == split


def test_a_baseline_that_only_dev_has(tmp_path):
    run(tmp_path / "none", "none", 1, metrics=["dev"])
    on_dev, on_test = selected(tmp_path, ["top", "all"])
    assert (on_dev.baseline, on_test.baseline) == (("none",), None)
    assert "left out: 1 run not evaluated on test" in on_test.notes
    assert [cell.column for cell in on_test.cells] == [("all",)]
