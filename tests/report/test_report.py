import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from elmo_bench.metrics import Correlations
from elmo_bench.report import Tables, as_list, corrected, report, show
from elmo_bench.report.grids import tables
from elmo_bench.report.page import as_page
from elmo_bench.report.plots import comparison
from elmo_bench.report.published import paper_corpus, published, stands_in
from elmo_bench.report.records import as_csv
from elmo_bench.report.result import print_metrics
from elmo_bench.report.significance import compare, noncentrality
from elmo_bench.report.write import latex, markdown
from elmo_bench.runs import collect, read_counts, where
from tests.runs.made_runs import SEEDS, a_run, change, scored_run


def trained(folder, chances, examples, *, seeds=SEEDS, start=2, **settings):
    """Runs of mixes that have so large a chance to get an example right."""
    rng = np.random.default_rng(start)
    for mix, chance in chances.items():
        for seed in seeds:
            right = rng.random(examples) < chance
            own = {"elmo_mix": mix, "encoder_name": "none" if mix == "none" else "mini"} | settings
            scored_run(folder / f"{mix}{seed}", right.mean(), seed, right, **own)
    return collect([folder])


@pytest.fixture
def runs(tmp_path):
    for number, (mix, seed, f1) in enumerate(
        [("all", 1, 0.5), ("all", 2, 0.6), ("top", 1, 0.4), ("top", 2, 0.4), ([0, 1], 1, 0.3)]
    ):
        scored_run(tmp_path / str(number), f1, seed, elmo_mix=mix)
    return tmp_path


@pytest.fixture
def compared(tmp_path):
    """The baseline, a mix that is better with all seeds, one that is not; 100 examples."""
    runs = trained(tmp_path, {"none": 0.5, "all": 0.8, "top": 0.5}, 100, start=0)
    return report(runs, None, ["encoder", "elmo.mix"], baseline=("none", "none"))


def test_examples_that_stand_in_training_are_named(tmp_path):
    """Of each corpus those of the run that has seen most, on the split of the report."""
    of_runs = [(7, "sample"), (11, "sample"), (0, "other")]
    for number, (count, name) in enumerate(of_runs):
        counts = {"training": {"dev": [3, 9], "test": [count, 500]}, "text": {"test": [0, 500]}}
        more = {"overlap": counts}
        scored_run(tmp_path / str(number), 0.5, number, more=more, data_name=name, elmo_mix=number)
    said = report(collect([tmp_path]), ["data.name"], ["elmo.mix"]).notes
    assert said == ["ner (sample): 11 of 500 test examples (2.2 %) also stand in training"]
    change(tmp_path / "2", lambda it: it["overlap"]["training"].update(test=[0]))
    with pytest.raises(ValueError, match=r"not a result of elmo-bench: overlap.training.test is"):
        collect([tmp_path])


def test_correlations_are_compared(tmp_path):
    """From their moments, which may be negative; the interval may reach 200 points."""
    rng = np.random.default_rng(0)
    gold, metric, path = rng.normal(size=80), Correlations(), Path()
    for mix, noise in (("top", 3.0), ("all", 1.0)):
        for seed in SEEDS:
            predicted = (gold + noise * rng.normal(size=80)).tolist()
            metric.reset()
            metric.update(predicted, gold.tolist())
            folder = tmp_path / f"{mix}{seed}"
            scored_run(folder, float(metric.compute()["pearson_spearman"]), seed, elmo_mix=mix)
            rows = metric.by_example(predicted, gold.tolist())["pearson_spearman"].numpy()
            numbers = {"sentences": np.arange(80, dtype=np.uint64), "groups": np.arange(80)}
            path = folder / "counts" / "test.npz"
            np.savez(path, f1=rows, **numbers)
    found = report(collect([tmp_path]), None, ["elmo.mix"], baseline=("top",))
    cell = by_column(found)["all"]
    assert cell.comparison.is_significant
    assert cell.comparison.test.interval[0] < cell.comparison.difference


DAMAGED_COUNTS = {
    "sentences is missing": {"sentences": None},
    "sentences is int64 of shape (3,), but must be hashes": {"sentences": np.arange(3)},
    "groups is missing": {"groups": None},
    "groups is float64 of shape (3,), but must be a whole number": {"groups": np.zeros(3)},
    "groups is int64 of shape (2,), but must be a whole number": {"groups": np.arange(2)},
    "unit is '<b>', but must be a word": {"unit": np.frombuffer(b"<b>", np.uint8)},
    "they are float64 of shape (3, 4), but must have three axes": {"f1": np.ones((3, 4))},
    "they are float64 of shape (2, 1, 4), but must have three axes: 3 examples": {
        "f1": np.ones((2, 1, 4))
    },
    "a score has 5 numbers": {"f1": np.ones((3, 1, 5))},
    "a score has 0 numbers": {"f1": np.ones((3, 1, 0))},
    "they are not all finite": {"f1": np.full((3, 1, 6), np.inf)},
    "some are below 0": {"f1": -np.ones((3, 1, 4))},
}


@pytest.mark.parametrize("flaw", DAMAGED_COUNTS)
def test_damaged_counts_are_told_apart(tmp_path, flaw):
    path = tmp_path / "test.npz"
    arrays = {"f1": np.ones((3, 1, 4)), "sentences": np.arange(3, dtype=np.uint64)}
    arrays |= {"groups": np.arange(3)} | DAMAGED_COUNTS[flaw]
    np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
    said = f"{path}: damaged: not the counts per example of a run for f1: {flaw}"
    with pytest.raises(ValueError, match=re.escape(said)):
        read_counts(path, "f1")


def test_precision_is_compared(tmp_path):
    """Runs predict different numbers of chunks in the same examples."""
    rng = np.random.default_rng(0)
    for mix, chance in (("top", 0.4), ("all", 0.8)):
        for seed in SEEDS:
            folder, guessed = tmp_path / f"{mix}{seed}", rng.integers(1, 4, size=80)
            right = rng.binomial(guessed, chance)
            figure = {"metrics": {"test/precision": float(right.sum() / guessed.sum())}}
            scored_run(folder, 0.5, seed, np.ones(80), more=figure, elmo_mix=mix)
            path = folder / "counts" / "test.npz"
            rows = np.stack([right, guessed, right, guessed], -1)[:, None].astype(float)
            np.savez(path, **{**np.load(path), "precision": rows})
    shown = report(collect([tmp_path]), None, ["elmo.mix"], metric="precision", baseline=("top",))
    assert by_column(shown)["all"].comparison.is_significant


def test_the_mean_over_corpora(tmp_path):
    """A corpus on which the models of another were tested counts with it as one."""
    chances = {"none": 0.5, "all": 0.7}
    for number, corpus in enumerate(("a", "b", "c")):
        trained(tmp_path / corpus, chances, 60, start=number, data_name=corpus)
    for mix in chances:
        for seed in SEEDS:
            run = tmp_path / f"c/{mix}{seed}"
            change(run, lambda it: it["config"].update(trained_on={"name": "b"}))
    found = report(collect([tmp_path]), ["data"], ["elmo.mix"], baseline=("none",))
    means = {cell.row[0]: cell.mean for cell in found.cells if cell.column == ("all",)}
    row = tables(found)["means"].rows[-1]
    mean = 50 * means["a"] + 25 * (means["b"] + means["c"])
    assert (row[0], row[2]) == ("mean over corpora", f"{mean:.2f}")
    scored_run(tmp_path / "d", 0.5, data_name="d", task_monitor="recall", elmo_mix="all")
    found = report(collect([tmp_path]), ["data"], ["elmo.mix"])
    assert sorted(tables(found)["means"].rows[-1][1:])[1] == "–"  # a corpus lacks the column
    figures = "Scores: ner (a) F1; ner (b) F1; ner (c) F1; ner (d) recall."
    assert figures in " ".join(text(found).split())


def by_column(found):
    return {cell.column[-1]: cell for cell in found.cells}


def text(found):
    console = Console(width=250, record=True, file=io.StringIO())
    show([found], console)
    return console.export_text()


def test_means_and_deviations_over_seeds(runs):
    found = report(collect([runs]), ["task"], ["elmo.mix"])
    cells = by_column(found)
    assert cells["all"].mean == pytest.approx(0.55)
    assert cells["all"].deviation == pytest.approx(0.0707, abs=1e-4)
    assert cells["top"].deviation == 0
    pair = cells[0, 1]
    assert (pair.mean, pair.deviation, len(pair.runs)) == (0.3, None, 1)
    assert [mix for mix, cell in cells.items() if found.is_best(cell)] == ["all"]


@pytest.mark.parametrize("key", ["task.name", "data.files.train"])
def test_no_mean_over_tasks_or_training_sets(tmp_path, key):
    """What follows from them (where a corpus lies) does not tell runs apart; they themselves do."""
    for number, value in enumerate(["one", "other"]):
        names = {"task.name": "ner", "data.files.train": "same"} | {key: value}
        files = {"train": names["data.files.train"], "data_dir": str(number)}
        folder = tmp_path / str(number)
        scored_run(folder, 0.5, number, task_name=names["task.name"], data_files=files)
    with pytest.raises(ValueError, match=rf"runs of one cell differ in {key}"):
        report(collect([tmp_path]), ["data"], ["elmo.mix"])
    assert len(report(collect([tmp_path]), None, ["elmo.mix"]).cells) == 2


def test_the_same_run_twice_counts_once(tmp_path):
    """The one that finished first, not the first by name."""
    for name, f1, hour in (("a", 0.5, 12), ("b", 0.7, 11)):
        scored_run(tmp_path / name, f1, more={"finished": f"2026-01-31T{hour}:00:00+00:00"})
    assert [cell.mean for cell in report(collect([tmp_path]), None, ["elmo.mix"]).cells] == [0.7]


def test_a_run_and_its_archive_are_one(tmp_path):
    """Although the names of its files differ."""
    for number, name in enumerate(("/home/me/train.txt", "train.txt")):
        more = {"identity": "one", "finished": f"2026-01-3{number}"}
        scored_run(tmp_path / str(number), 0.5, data_name=name, more=more)
    (run,) = collect([tmp_path])
    assert run.settings["data.name"] == "/home/me/train.txt"


def test_a_model_folder_may_move(tmp_path):
    """Its contents count, and where it is on the hub its name."""
    for number, name in enumerate(("/a/bert", "/b/bert", "hub/bert")):
        inputs = {"encoder.model.safetensors": "w" * 64} if number < 2 else {}
        scored_run(tmp_path / str(number), 0.5, number, encoder_model=name, more={"inputs": inputs})
    found = report(collect([tmp_path / "0", tmp_path / "1"]), None, ["elmo.mix"])
    assert found.rows == ["task.name"]
    assert len(report(collect([tmp_path]), None, ["elmo.mix"]).cells) == 3


def test_no_mean_over_other_contents_of_files(tmp_path):
    """Runs on data_dir=A and data_dir=B look the same but for their inputs."""
    for number, train in enumerate(["one", "one", "other"]):
        inputs = {"data.train": train * 10, "encoder.weights": "w" * 64}
        scored_run(tmp_path / str(number), 0.5, number, more={"inputs": inputs})
    runs = collect([tmp_path])
    why = r"runs of one cell differ in inputs.data.train; add it to rows or columns"
    with pytest.raises(ValueError, match=why):
        report(runs, ["task"], ["elmo.mix"])
    found = report(runs, None, ["elmo.mix"])
    assert found.rows == ["task.name", "inputs.data.train"]
    rows = [(cell.row[1], len(cell.runs)) for cell in found.cells]
    assert rows == [("oneoneoneone", 2), ("otherotherot", 1)]
    assert len(where(runs, {"inputs.data.train": "oneoneoneone"})) == 2


def test_mixed_code_is_noted(tmp_path):
    for number, (commit, torch) in enumerate(
        [("a" * 40, "2.4"), ("a" * 40, "2.4"), ("b" * 40 + "+", "2.5")]
    ):
        more = {"commit": commit, "versions": {"torch": torch}}
        scored_run(tmp_path / str(number), 0.5, number, more=more)
    found = report(collect([tmp_path]), None, ["elmo.mix"])
    assert found.notes == [
        "runs of different code: torch 2.4 and 2.5, commit aaaaaaaaaa and bbbbbbbbbb with "
        "uncommitted changes"
    ]
    assert found.notes[0] in markdown([found])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": ["elmo.mux"]}, r"rows=elmo.mux: no run has"),
        ({"columns": ["layers"]}, r"columns=layers: no run has"),
        (
            {"baseline": ("none",)},
            r"baseline=none: no such column; .*in the runs are top, \[0,1\], all",
        ),
        ({"metric": "em"}, r"metric=em: .*, a run of ner, .* only test/f1, test/recall"),
        ({"split": "train"}, "split=train, but it must be dev, test or both"),
    ],
)
def test_what_is_not_there(runs, settings, message):
    with pytest.raises(ValueError, match=message):
        report(collect([runs]), **({"rows": ["task"], "columns": ["elmo.mix"]} | settings))


def test_the_differences_to_the_baseline(compared, tmp_path):
    """Each number is that of the plain functions on the counts, averaged and corrected as they say."""
    cells = by_column(compared)
    files = {mix: [tmp_path / f"{mix}{seed}/counts/test.npz" for seed in SEEDS] for mix in cells}
    counts = {mix: np.stack([np.load(file)["f1"] for file in files[mix]]) for mix in cells}
    assert cells["none"].comparison is None
    for mix in ("all", "top"):
        found, base = cells[mix].comparison, cells["none"].mean
        assert found.difference == pytest.approx(counts[mix][..., 0].mean() - base)
        assert found.error_reduction == pytest.approx(found.difference / (1 - base))
        test = compare(counts[mix], counts["none"])
        assert found.test.p == pytest.approx(test.p)
        assert found.test.interval == pytest.approx(test.interval)
    better, same = cells["all"].comparison, cells["top"].comparison
    assert better.p_holm == pytest.approx(2 * better.test.p)
    assert better.p_holm < 0.05 < same.p_holm == same.test.p
    assert not compared.notes


def test_published_figures(compared):
    """For ELMo as the paper has it and for the baseline, and their error reduction: 21.0 %, as in
    Table 1 (NER, to its 21 %).
    """
    found = {mix: cell.published for mix, cell in by_column(compared).items()}
    assert found == {"none": 0.9015, "all": 0.9222, "top": None}
    ours, theirs = "relative error reduction here", "relative error reduction in the paper"
    grid = tables(compared)["paper"]
    assert grid.heads == ["encoder and layers", "here", "paper", ours, theirs]
    assert [row[0] for row in grid.rows] == ["no encoder", "mini, all layers"]
    assert [row[2::2] for row in grid.rows] == [["90.15", ""], ["92.22", "21.02"]]


def test_the_papers_figures_stand_beside_its_corpora(tmp_path):
    """And beside another corpus only where its table is asked for, with the name of its own."""
    for name, corpus in (("own", "conll2003"), ("other", "wikigold"), ("across", "conll2003")):
        scored_run(tmp_path / name, 0.4, data_name=corpus, elmo_mix="none")
    change(tmp_path / "across", lambda it: it["config"].update(trained_on={"name": "wikigold"}))
    own, other, across = (collect([tmp_path / name])[0] for name in ("own", "other", "across"))
    figures = [published(run, "f1", "test") for run in (own, other, across)]
    assert figures == [0.9015, None, None]
    assert published(other, "f1", "test", "table1") == 0.9015
    grid = tables(report([own, other], ["data"], ["elmo.mix"], paper="table1"))["paper"]
    shown = [(row[0], row[-1]) for row in grid.rows]
    assert shown == [("conll2003", ""), ("wikigold", "CoNLL-2003")]
    assert "paper" not in tables(report([other], ["data"], ["elmo.mix"]))
    change(own.folder, lambda content: content["config"].update(fraction=0.1))
    (part,) = collect([own.folder])
    assert published(part, "f1", "test") is None
    assert published(part, "f1", "test", "table1") == 0.9015
    (row,) = tables(report([part], ["data"], ["elmo.mix"], paper="table1"))["paper"].rows
    assert row[-1] == "all of CoNLL-2003"


def test_bert_stands_beside_its_own_paper(tmp_path):
    """Trained as there; and who reads two texts in one sequence, and who apart, is said."""
    own = {"encoder_name": "bert_base", "elmo_mix": "top", "finetune_name": "full"}
    squad = {"task_name": "squad", "data_name": "squad1"}
    scored_run(tmp_path / "ner", 0.9, data_name="conll2003", task_model={"crf": False}, **own)
    scored_run(tmp_path / "crf", 0.9, data_name="conll2003", task_model={"crf": True}, **own)
    scored_run(tmp_path / "squad", 0.8, **squad, task_joint=True, **own)
    scored_run(tmp_path / "apart", 0.7, **squad, task_joint=False, **own | {"elmo_mix": "all"})
    scored_run(
        tmp_path / "frozen", 0.7, **squad, task_joint=True, **own | {"finetune_name": "none"}
    )
    scored_run(tmp_path / "none", 0.6, **squad, task_joint=False, encoder_name="none")
    runs = {run.folder.name: run for run in collect([tmp_path])}
    found = {name: published(run, "f1", "test") for name, run in runs.items()}
    assert {name: found[name] for name in found if name != "none"} == {
        **{"ner": 0.924, "crf": None, "squad": 0.885, "apart": None, "frozen": None}
    }
    assert published(runs["squad"], "f1", "dev") is None
    first = {"task_joint": True, "task_model": {"pool": "first"}}
    scored_run(tmp_path / "glue" / "cola", 0.5, data_name="cola", **first, **own)
    (cola,) = collect([tmp_path / "glue"])
    assert published(cola, "matthews", "test") == 0.521
    some = report([runs[key] for key in ("squad", "apart", "none")], ["task"], ["elmo.mix"])
    said = (
        "squad, all layers: the texts of an example are read apart, and by others in one sequence"
    )
    assert some.notes == [said, "the sides differ in task.joint, too"]
    title = tables(report([runs["squad"]], ["task"], ["elmo.mix"]))["paper"].title
    assert title.endswith("beside Devlin et al. (2019)")


def test_what_the_paper_did_not_publish(tmp_path):
    scored_run(tmp_path / "none", 0.4, elmo_mix="none")
    others = {
        "elmo_at": ["output"],
        "encoder_pretrained": False,
        "encoder__target_": "elmo_bench.encoders.static.load",
        "encoder_directions": ["forward"],
        "finetune_name": "full",
        "elmo_mix_lr": 0.1,
        "elmo_norm": "word",
        "elmo_dropout": 0.1,
    }
    for number, (key, value) in enumerate(others.items()):
        scored_run(tmp_path / str(number), 0.5, **{key: value})
    scored_run(tmp_path / "part", 0.5)
    change(tmp_path / "part", lambda content: content["config"].update(fraction=0.5))
    found = {run.folder.name: published(run, "f1", "test") for run in collect([tmp_path])}
    assert {name for name, figure in found.items() if figure} == {"none"}


def test_the_tables_of_the_paper(tmp_path):
    """Which figure a setting has on dev: the first, or that of the table that is asked for."""
    settings = {
        "none": {"elmo_mix": "none", "elmo_l2": 1.0},
        "top": {"elmo_mix": "top", "elmo_l2": 1.0},
        "far": {"elmo_l2": 0.001},
        "near": {"elmo_l2": 1},
        "another": {"elmo_l2": 0.5},
        "output": {"elmo_at": ["output"]},
    }
    for name, setting in settings.items():
        scored_run(tmp_path / name, 0.4, task_name="srl", **setting)
    runs = {run.folder.name: run for run in collect([tmp_path])}

    def figures(*which):
        return {name: published(run, "f1", *which) for name, run in runs.items()}

    first = {"none": 0.816, "top": 0.841, "far": 0.848, "near": 0.846}
    assert figures("dev") == first | {"another": None, "output": 0.809}
    assert figures("dev", "table2") == first | {"another": None, "output": None}
    only = dict.fromkeys(settings) | {"far": 0.847, "output": 0.809}
    assert figures("dev", "table3") == only
    assert figures("test") == dict.fromkeys(settings) | {"none": 0.814, "far": 0.846}
    assert figures("dev", "figure1") == dict.fromkeys(settings)
    assert {published(run, "recall", "dev") for run in runs.values()} == {None}
    with pytest.raises(
        ValueError, match="paper=table4, but it must be table1, table2, table3, fig"
    ):
        figures("dev", "table4")


def test_a_run_stands_in_every_table_that_has_its_setting(tmp_path):
    """If it is of one of the paper's sweeps; in that one whatever else the command line set."""
    settings = {"task_name": "srl"}
    for name, table, setting in (
        ("base", 1, {"elmo_mix": "none"}),
        ("mix", 1, {}),
        ("top", 2, {"elmo_mix": "top"}),
        ("changed", 3, {"elmo_l2": 0.5}),
        ("another", None, {}),
    ):
        scored_run(tmp_path / name, 0.4, **settings, **setting)
        of_sweep = {"published": {"table": table}} if table else {}
        change(tmp_path / name, lambda content, it=of_sweep: content["config"].update(it))
    runs = collect([tmp_path])
    found = {
        place: {run.folder.name for run in runs if stands_in(run, place)}
        for place in ("table1", "table2", "table3", "figure1", "figure2")
    }
    assert found == {
        "table1": {"base", "mix"},
        "table2": {"base", "mix", "top"},
        "table3": {"mix", "changed"},
        "figure1": {"base", "mix"},
        "figure2": {"mix"},
    }
    change(tmp_path / "base", lambda content: content["config"].update(fraction=0.1))
    (part,) = collect([tmp_path / "base"])
    assert [stands_in(part, place) for place in ("table2", "figure1")] == [False, True]


def test_a_file_with_a_part_of_the_training_set_is_not_all_of_it(tmp_path):
    """As a fraction below 1: `data=snli data.files.train=PART`, and experiment=snli fraction=1."""
    for file in ("snli_1.0_train.jsonl.gz", "snli_1.0_train.jsonl", "part.jsonl"):
        of_data = {"name": "snli", "files": {"train": f"/elsewhere/{file}"}}
        scored_run(tmp_path / file, 0.4, task_name="snli")
        change(tmp_path / file, lambda content, it=of_data: content["config"].update(data=it))
    runs = [*collect([tmp_path])]
    assert {
        run.folder.name: (published(run, "accuracy", "test"), paper_corpus(run)) for run in runs
    } == {
        "part.jsonl": (None, "all of SNLI"),
        "snli_1.0_train.jsonl": (0.887, ""),
        "snli_1.0_train.jsonl.gz": (0.887, ""),
    }


def test_all_formats_say_the_same(compared):
    cell = by_column(compared)["all"]
    mean = f"{100 * cell.mean:.2f} ± {100 * cell.deviation:.2f} (5)"
    assert f"**{mean}**" in markdown([compared])
    assert r"\textbf{" + mean.replace("±", r"$\pm$") + "}" in latex([compared])
    for shown in (markdown([compared]), latex([compared]), text(compared)):
        assert "no encoder" in shown
        assert "mini, all layers" in shown
        assert "elmo.mix" not in shown
    assert mean in text(compared)
    read = Tables([compared]).records()
    assert [record["elmo.mix"] for record in read if record["best"]] == ["all"]
    rows = list(csv.DictReader(io.StringIO(as_csv([compared]))))
    for record, row in zip(read, rows, strict=True):
        assert row == {key: " ".join(map(str, as_list(value))) for key, value in record.items()}
    test = cell.comparison.test
    (ours,) = (record for record in read if record["elmo.mix"] == "all")
    assert float(rows[read.index(ours)]["p_holm"]) == cell.comparison.p_holm
    assert (ours["low"], ours["high"]) == test.interval
    assert ours["figures"] == [*cell.figures]
    for field in {*test._fields} - {"scales", "runs", "interval", "most"}:  # nothing else is lost
        assert ours[field] == getattr(test, field)
    assert {key for key, value in read[0].items() if value is None} >= {"p", "detectable"}
    described = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    _, _, table = described.partition("## Fields of CSV")
    asked = {"task.name", "encoder.name", "elmo.mix"}
    assert {*ours} - asked <= {*re.findall(r"`(\w+)`", table)}
    for grid in tables(compared).values():
        assert {len(row) for row in grid.rows} == {len(grid.heads)}


def test_several_reports_in_every_format(runs, tmp_path):
    found = [
        report(collect([runs]), None, ["elmo.mix"], split=split, title=split.upper())
        for split in ("test", "dev")
    ]
    assert re.findall(r"^(DEV|TEST): ", markdown(found), re.M) == ["TEST", "TEST", "DEV"]
    assert re.findall(r"^% (DEV|TEST): ", latex(found), re.M) == ["TEST", "TEST", "DEV"]
    labels = re.findall(r"label{tab:(.*)}", latex(found))
    assert labels == ["test-means", "test-paper", "dev-means"]
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [row["table"] for row in rows] == ["TEST"] * 3 + ["DEV"] * 3
    assert [float(row["mean"]) for row in rows] == [
        record["mean"] for record in Tables(found).records()
    ]


def test_negative_scores_in_csv(tmp_path):
    """As numbers, which a program reads."""
    for seed, score in ((1, -0.05), (2, 0.1)):
        scored_run(tmp_path / str(seed), score, seed)
    found = report(collect([tmp_path]), None, ["elmo.mix"])
    (row,) = csv.DictReader(io.StringIO(as_csv([found])))
    assert row["figures"] == "-0.05 0.1"


def test_one_baseline_serves_every_encoder(tmp_path):
    """In tables by encoder and by mix."""
    scored_run(tmp_path / "base", 0.4, encoder_name="none")
    for number, (encoder, mix) in enumerate((e, m) for e in ("books", "mini") for m in ("all", 0)):
        scored_run(tmp_path / f"{number}", 0.5 + number / 10, encoder_name=encoder, elmo_mix=mix)
    runs = collect([tmp_path])
    for rows, columns, baseline in (
        (["task"], ["encoder", "elmo.mix"], ("none", "none")),
        (["encoder"], ["elmo.mix"], ("none",)),
        (None, ["elmo.mix"], ("none",)),
        (["elmo.mix"], ["encoder"], ("none",)),
    ):
        found = report(runs, rows, columns, baseline=baseline)
        differences = [cell.comparison.difference for cell in found.cells if cell.comparison]
        assert sorted(differences) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert len(where(runs, {"encoder": "mini"}, with_baseline=True)) == 3
    assert len(where(runs, {"encoder": "mini", "elmo.mix": 0}, with_baseline=True)) == 2
    assert len(where(runs, {"encoder": "mini"})) == 2
    stored = {"encoder": {"name": "none"}, "store": {"dtype": "float32"}}
    assert where([a_run(config=stored)], {"store.dtype": "int8"}, with_baseline=True)


def test_a_baseline_for_which_the_rows_do_nothing_serves_every_row(tmp_path):
    """λ does nothing without ELMo: its one run is what each λ is compared with, but for a row that
    has a baseline of its own.
    """
    scored_run(tmp_path / "none", 0.4, encoder_name="none", elmo_mix="none", elmo_l2=0.1)
    for l2 in (0.1, 1.0):
        scored_run(tmp_path / f"{l2}", 0.4 + l2 / 2, elmo_l2=l2)
    found = report(collect([tmp_path]), ["elmo.l2"], ["encoder"], baseline=("none",))
    differences = {
        cell.row: cell.comparison and round(cell.comparison.difference, 6) for cell in found.cells
    }
    assert differences == {("-",): None, (0.1,): 0.05, (1.0,): 0.5}
    assert all("no baseline run" not in note for note in found.notes)
    assert [row[-1] for row in tables(found)["paper"].rows] == ["", "21.02"]  # λ = 0.1
    scored_run(tmp_path / "own", 0.1, elmo_mix="all", elmo_l2=1.0)
    runs = collect([tmp_path])
    for run in runs:  # as if λ did something without ELMo, too
        if run.folder.name == "own":
            run.settings["encoder.name"] = "none"
    found = report(runs, ["elmo.l2"], ["encoder"], baseline=("none",))
    (served,) = (cell for cell in found.cells if (cell.row, cell.column) == ((1.0,), ("mini",)))
    assert served.comparison.difference == pytest.approx(0.8)


def test_a_baseline_stands_in_every_row_that_it_serves(tmp_path):
    """And has no row of its own then; the best of a row may be the baseline."""
    scored_run(tmp_path / "none", 0.4, encoder_name="none", elmo_mix="none")
    for name, f1 in (("books", 0.5), ("mini", 0.3)):
        scored_run(tmp_path / name, f1, encoder_name=name)
    found = report(collect([tmp_path]), ["encoder"], ["elmo.mix"], baseline=("none",))
    grid = tables(found)["means"]
    assert grid.heads == ["encoder", "no encoder", "all layers"]
    assert grid.rows == [["books", "40.00 (1)", "50.00 (1)"], ["mini", "40.00 (1)", "30.00 (1)"]]
    assert grid.bold == {(0, 2), (1, 1)}
    assert [cell.mean for cell in filter(found.is_best, found.cells)] == [0.4, 0.5]


def test_figures_and_examples_are_said(compared, tmp_path):
    """By task and corpus, if there are several."""
    grid = tables(compared)["differences"]
    assert grid.title.startswith(
        "ner (conll2003), test F1, percent: mean ± standard deviation (runs)"
    )
    assert "Test examples: 100." in grid.caption
    about = {"task_name": "srl", "task_monitor_title": "argument F1", "task_title": "roles"}
    more = {"examples": {"train": 900, "test": 30}}
    scored_run(tmp_path / "other", 1.0, 1, np.ones(30), more=more, **about)
    for rows, columns in ((["encoder", "elmo.mix"], ["task"]), (["task"], ["encoder", "elmo.mix"])):
        grid = tables(report(collect([tmp_path]), rows, columns))["means"]
        assert grid.title.startswith("Test scores, percent")
        assert "Scores: ner F1; roles argument F1." in grid.caption
        assert (
            "Test examples: conll2003 100; ontonotes5 30. Training examples: 900." in grid.caption
        )


def test_the_only_corpus_stands_in_every_title(tmp_path):
    """Of a table, of a figure, of LaTeX and of the page; where a row names it, it does not."""
    for seed, size in ((1, 900), (2, 1900)):
        for mix in ("all", "top"):
            more = {"examples": {"train": size}, "parameters": {"trainable": 1, "frozen": 2}}
            about = {"task_title": "text classes", "data_name": "agnews", "elmo_mix": mix}
            right = np.arange(10) < 5 + seed
            scored_run(tmp_path / f"{mix}{seed}", right.mean(), seed, right, more=more, **about)
    runs = collect([tmp_path])
    found = report(runs, None, ["elmo.mix"], baseline=("top",))
    grid = tables(found)["differences"]
    assert grid.title.startswith("Text classes (agnews), test F1, percent")
    assert "Training examples: 900 to 1,900." in grid.caption
    assert r"\caption{Text classes (agnews), test F1" in latex([found])
    plot = comparison(found)
    assert plot
    assert plot.title.startswith("Text classes (agnews): test F1, every run a dot")
    page = as_page([found])
    assert "<h1>Text classes (agnews): layers</h1>" in page
    assert "1,900" in page
    named = report(runs, ["data.name"], ["elmo.mix"])
    assert tables(named)["means"].title.startswith("agnews, test F1")


def test_what_else_differs_between_the_columns_is_said(tmp_path):
    """But not what belongs to an encoder, or to having none."""
    for name, size in (("none", 50), ("mini", 50), ("books", 500)):
        mix = "none" if name == "none" else "all"
        scored_run(tmp_path / name, 0.5, encoder_name=name, elmo_mix=mix, task_size=size)
    runs = collect([tmp_path])
    unlike = "the sides differ in task.size, too"
    for baseline in (("none",), None):
        assert unlike in report(runs, ["task"], ["encoder"], baseline=baseline).notes
    lent = report(runs, ["task", "encoder"], ["elmo.mix"], baseline=("none",))  # from its own row
    assert unlike in lent.notes
    alike = where(runs, {"encoder": "mini"}, with_baseline=True)
    for columns in (["encoder"], ["elmo.mix"]):
        notes = report(alike, ["task"], columns, baseline=("none",)).notes
        assert not [note for note in notes if note.startswith("the sides")]


@pytest.mark.parametrize("settings", [("data_size",), ("encoder_dir", "encoder_options")])
def test_files_follow_from_what_a_column_names(tmp_path, settings):
    group, _, name = settings[0].partition("_")
    for value in (1, 2):
        more = {"inputs": {f"{group}.train": f"{value}" * 64}}
        scored_run(tmp_path / f"{value}", 0.5, more=more, **dict.fromkeys(settings, value))
    notes = report(collect([tmp_path]), ["task"], [f"{group}.{name}"], baseline=(1,)).notes
    assert not [note for note in notes if note.startswith("the sides")]


def test_runs_on_other_files_are_not_compared(tmp_path):
    """Though the column tells them apart."""
    for name, digest in (("none", "a"), ("mini", "b")):
        more = {"inputs": {"data.train": digest * 64}}
        mix = "none" if name == "none" else "all"
        scored_run(tmp_path / name, 0.5, encoder_name=name, elmo_mix=mix, more=more)
    with pytest.raises(ValueError, match=r"runs on other data cannot be compared"):
        report(collect([tmp_path]), ["task"], ["encoder"], baseline=("none",))


def test_two_metrics_are_not_compared(tmp_path):
    """A difference between F1 and recall is none of the models'."""
    for number, monitor in enumerate(("f1", "recall")):
        scored_run(tmp_path / monitor, 0.5, task_monitor=monitor, seed=number)
    runs, columns = collect([tmp_path]), ["task.monitor"]
    with pytest.raises(ValueError, match=r"by f1 and recall; give one .* metric=f1"):
        report(runs, ["task"], columns, baseline=("f1",))
    found = report(runs, ["task"], columns, baseline=("f1",), metric="f1")
    assert by_column(found)["recall"].comparison.difference == 0


def test_nothing_is_bold_where_all_are_equal(tmp_path):
    """Nor beside another task; the baseline counts wherever its row is."""
    scored_run(tmp_path / "none", 0.0, encoder_name="none", elmo_mix="none", elmo_l2=0.1)
    for l2, f1 in ((0.0, 0.0), (0.1, 0.2)):
        scored_run(tmp_path / f"{l2}", f1, elmo_l2=l2)
    scored_run(tmp_path / "srl", 0.9, task_name="srl", elmo_l2=0.1)
    runs = collect([tmp_path])
    found = report(where(runs, {"task": "ner"}), ["elmo.l2"], ["encoder"], baseline=("none",))
    assert [cell.row[0] for cell in filter(found.is_best, found.cells)] == [0.1]
    assert tables(found)["means"].bold == {(1, 2)}
    across = report(where(runs, {"encoder": "mini", "elmo.l2": 0.1}), ["encoder"], ["task"])
    assert not any(map(across.is_best, across.cells))


def test_runs_without_counts_or_on_other_examples_have_no_test(tmp_path):
    right = np.arange(10) < 5
    scored_run(tmp_path / "base", 0.5, 1, right, elmo_mix="none")
    scored_run(tmp_path / "old", 0.6, elmo_mix="all")
    scored_run(tmp_path / "else", 0.5, 1, right, sentences=np.arange(10) + 1, elmo_mix="top")
    scored_run(tmp_path / "gold", 0.25, 1, np.ones(10), elmo_mix=0)
    path = tmp_path / "gold" / "counts" / "test.npz"
    counts = dict(np.load(path))
    counts["f1"][..., [1, 3]] = 4  # chunks to find
    np.savez(path, **counts)
    found = report(collect([tmp_path]), None, ["elmo.mix"], baseline=("none",))
    assert [cell.comparison.test for cell in found.cells[1:]] == [None] * 3
    why = "no test, since counts/test.npz of a run is missing or lacks the metric"
    assert found.notes[0] == f"ner, all layers ({tmp_path.name}/old): {why}"
    assert "no test, since the runs' test examples differ in what is right" in found.notes[1]
    assert "no test, since the runs' test examples are different" in found.notes[2]
    assert "+10.00" in text(found)
    (tmp_path / "old" / "counts" / "test.npz").write_text("?")
    with pytest.raises(ValueError, match=r"old/counts/test.npz: not an .npz file of numeric"):
        report(collect([tmp_path]), None, ["elmo.mix"], baseline=("none",))


def test_documents_are_the_units(tmp_path):
    """A test by document is the test of the documents' sums, whatever numbers they have and in
    whatever order the sentences are; other documents, or none, are not compared with these.
    """
    rng, documents = np.random.default_rng(5), np.arange(60) // 6
    rights = {mix: rng.integers(0, 2, 60) for mix in ("none", "all", "top", "old")}

    def of(mix, groups, sentences=None, way=1, **settings):
        right = rights[mix]
        scored_run(tmp_path / mix, right.mean(), 1, right[::way], sentences, groups, **settings)

    of("none", documents, elmo_mix="none")
    of("all", documents, np.arange(60)[::-1], -1, elmo_mix="all")
    found = report(collect([tmp_path]), None, ["elmo.mix"], baseline=("none",))
    sums = [
        np.stack([rights[mix].reshape(10, 6).sum(1), np.full(10, 6)] * 2, 1)[None, :, None] / 1.0
        for mix in ("all", "none")
    ]
    test = found.cells[1].comparison.test
    assert test.interval == pytest.approx(compare(*sums).interval)
    assert (test.clusters, test.unit) == (10, "document")
    assert "Test examples: 60 in 10 documents." in markdown([found])
    of("top", documents // 2, elmo_mix="top")
    of("old", None, elmo_mix=0)
    found = report(collect([tmp_path]), None, ["elmo.mix"], baseline=("none",))
    tests = [cell.column for cell in found.cells if cell.comparison and cell.comparison.test]
    assert tests == [("all",)]
    (note,) = found.notes
    assert note.endswith(": no test, since the runs' test examples are grouped differently")


def test_a_figure_is_that_of_its_counts(tmp_path):
    """Whatever is shown is what is tested: a result.json of other runs is an error."""
    for mix in ("none", "all"):
        scored_run(tmp_path / mix, 0.5, 1, np.arange(10) < 5, elmo_mix=mix)
    change(tmp_path / "all", lambda content: content["metrics"].update({"test/f1": 0.35}))
    with pytest.raises(
        ValueError, match=r"all/result.json: test/f1 is 35.0000, but counts/test.npz gives 50.0000"
    ):
        report(collect([tmp_path]), None, ["elmo.mix"], baseline=("none",))


def test_few_runs_are_preliminary(tmp_path):
    """However small their p: no star, no share in the correction, no verdict."""
    trained(tmp_path, {"none": 0.3, "top": 0.9}, 100)
    runs = trained(tmp_path, {"all": 0.9}, 100, seeds=(1, 2, 3, 4), start=3)
    found = report(runs, None, ["elmo.mix"], baseline=("none",))
    cells = by_column(found)
    few, enough = cells["all"].comparison, cells["top"].comparison
    assert few.test.p < 0.001
    assert (few.p_holm, few.family, few.test.detectable) == (None, None, None)
    assert (enough.p_holm, enough.family) == (enough.test.p, 1)
    shown = {row[0]: row for row in tables(found)["differences"].rows}
    assert (shown["all layers"][5], shown["top layer"][5]) == ("preliminary", "<0.001*")
    assert "Preliminary: fewer than 5 runs a side" in tables(found)["differences"].caption


def test_the_same_comparison_has_the_same_p_in_every_table(tmp_path):
    """It counts once for the correction, of each split by itself."""
    runs = trained(tmp_path, {"none": 0.5, "top": 0.6, "all": 0.62}, 80)
    both = report(runs, None, ["elmo.mix"], baseline=("none",))
    one = report(
        [run for run in runs if run.settings["elmo.mix"] != "top"],
        *(None, ["elmo.mix"]),
        baseline=("all",),
    )
    assert one.cells[1].comparison.family == 1
    (one, both) = corrected([one, both])
    asked = by_column(both)["all"].comparison, by_column(one)["none"].comparison
    assert {(each.family, each.p_holm) for each in asked} == {(2, asked[0].p_holm)}
    assert asked[0].p_holm > asked[0].test.p


def test_without_variance_there_is_no_test(tmp_path):
    """Runs that all get the same right show nothing, not that they are equal; they count for no
    other.
    """
    rng = np.random.default_rng(1)
    same = rng.random(200) < 0.3
    for mix in ("none", "top", "all"):
        for seed in SEEDS:
            right = rng.random(200) < 0.8 if mix == "all" else same
            scored_run(tmp_path / f"{mix}{seed}", right.mean(), seed, right, elmo_mix=mix)
    found = report(collect([tmp_path]), None, ["elmo.mix"], baseline=("none",))
    top, both = (by_column(found)[mix].comparison for mix in ("top", "all"))
    assert top[:4] == (0.0, 0.0, None, None)
    assert both.p_holm == both.test.p < 0.05
    assert "no test, since the difference varies neither with seeds nor with" in found.notes[0]


def test_power_is_of_the_corrected_test(tmp_path):
    """A table of three comparisons finds less than one of a single comparison."""
    runs = trained(tmp_path, {"none": 0.5, "top": 0.6, "all": 0.6, "uniform": 0.6}, 80)
    alone = where(runs, {"elmo.mix": "top"}) + where(runs, {"elmo.mix": "none"})
    one, three = (
        by_column(report(some, None, ["elmo.mix"], baseline=("none",)))["top"].comparison.test
        for some in (alone, runs)
    )
    assert one.p == three.p
    for test, comparisons in ((one, 1), (three, 3)):
        ends = (scale.error * noncentrality(scale.freedom, comparisons) for scale in test.scales)
        assert test.detectable == pytest.approx(max(ends))


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"runs=.*no finished run in or below it"):
        collect([tmp_path])
    for content, said in NO_RESULTS:
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(ValueError, match=rf"result.json: {said}"):
            collect([tmp_path])


NO_RESULT = "not a result of elmo-bench"
CONFIG = {"task": {"name": "a", "monitor": "f1"}, "encoder": {"name": "a"}, "elmo": {"mix": "all"}}
NO_RESULTS = [
    ("{", "not JSON"),
    ('{"seed": 1}', f"{NO_RESULT}: config.task.name is None: Input should be a valid string"),
    *(
        (json.dumps({"seed": 1, "metrics": {}, "config": CONFIG} | wrong), f"{NO_RESULT}: {said}")
        for wrong, said in (
            ({"metrics": {"test/f1": "0.5"}}, "metrics.test/f1 is '0.5': Input should be"),
            ({"metrics": None}, "metrics is None: Input should be"),
            ({"config": CONFIG | {"elmo": {}}}, "config.elmo.mix is None: Input should be"),
            ({"config": CONFIG | {"encoder": None}}, "config.encoder.name is None: Input should"),
            ({"config": CONFIG | {"fit": {"patience": "x"}}}, "config.fit.patience is 'x': "),
            ({"mix": {"input": {"layers": [0], "gamma": 1}}}, "mix.input.shares is .*: Field req"),
            ({"epochs": 2}, "examples_per_second is None: Input should be"),
        )
    ),
]


def test_a_latex_row_is_no_starred_line_break(tmp_path):
    for name in "*x":
        scored_run(tmp_path / f"run{name}", 0.5, data_name=name)
    assert "\n{}* &" in latex([report(collect([tmp_path]), ["data"], ["encoder"])])


def test_the_columns_of_a_mean_over_scores_stand_in_their_order(capsys):
    """Coreference's F1 is the mean of three scores', each with a precision and a recall."""
    kinds = ("precision", "recall", "f1")
    print_metrics(
        {"test/f1": 0.6}
        | {f"test/{score}/{kind}": 0.5 for score in ("muc", "b3") for kind in kinds},
        "test",
        "title",
    )
    head = next(line for line in capsys.readouterr().out.splitlines() if "f1" in line)
    assert [word for word in head.split() if word.isalnum()] == [*kinds]
