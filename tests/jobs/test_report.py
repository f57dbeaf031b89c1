"""The whole way: two systems trained, compared, and the comparison in every format."""

import itertools
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from elmo_bench.files import hash_file
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.report import prepare, report
from elmo_bench.jobs.train import train
from elmo_bench.report.plots import style
from elmo_bench.runs import begin, finished, identity_of, text, write_result
from elmo_bench.settings.earlier import same_run
from tests.conftest import COSTS, composed, result_of
from tests.runs.made_runs import write_run

FIGURES = {"test/f1": 0.5}
SWEEPS = ("table1", "table2", "table3", "figure1", "figure2")


def reported(*overrides):
    """Run the job; return what it has written of each table."""
    cfg = composed("job=report", *overrides)
    report(cfg)
    return prepare(cfg)[1]


def test_an_evaluation_names_the_word_vectors_that_it_read(tiny_ner, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 2\na 3 4\n")
    trained = tiny_ner("encoder=none", f"vocab.vectors={vectors}")
    train(trained)
    vectors.write_text("the 1 2\na 3 4\nzork 5 6\n")  # more words, since
    tested = tiny_ner("job=evaluate", f"checkpoint={trained.run_dir}/best.ckpt")
    evaluate(tested)
    read = [result_of(cfg.run_dir)["inputs"] for cfg in (trained, tested)]
    assert read[0].keys() | {"checkpoint"} == read[1].keys()
    assert read[1]["vocab.vectors"] == hash_file(vectors) != read[0]["vocab.vectors"]


def test_trained_on_one_corpus_and_tested_on_another(tiny_ner, tmp_path):
    """`job=evaluate` leaves what fills the table beside the training runs' own cells; dev figures
    stand apart.
    """
    other = ["data.name=other", "data.size=48"]
    systems = {
        "sample": tiny_ner("encoder=none", "seed=2", "task.optimizer.lr=0.02"),
        "other": tiny_ner("encoder=none", *other),
    }
    own = {name: train(cfg)["test/f1"] for name, cfg in systems.items()}
    crossed = tiny_ner(
        "job=evaluate", f"checkpoint={systems['sample'].run_dir}/best.ckpt", "data=sample", *other
    )
    figure = evaluate(crossed)["test/f1"]
    folder = Path(crossed.run_dir)
    assert same_run(crossed, finished([folder])) == folder  # for resume=true of several evaluations
    evaluate(
        tiny_ner("job=evaluate", f"checkpoint={systems['sample'].run_dir}/best.ckpt", "split=dev")
    )
    result = json.loads(Path(crossed.run_dir, "result.json").read_text())
    assert (result["seed"], result["config"]["task"]["optimizer"]["lr"]) == (2, 0.02)
    assert result["config"]["trained_on"]["name"] == "sample"
    trained = json.loads(Path(systems["sample"].run_dir, "result.json").read_text())["inputs"]
    tested = json.loads(Path(systems["other"].run_dir, "result.json").read_text())["inputs"]
    assert result["inputs"]["data.train"] == trained["data.train"]
    assert result["inputs"]["data.test"] == tested["data.test"] != trained["data.test"]
    where = "where={task.optimizer.lr:0.02}"
    (found,) = reported(f"runs={tmp_path}", "rows=trained_on", "columns=data", where)
    assert table_of(found) == {("sample", "sample"), ("sample", "other")}
    assert [cell.mean for cell in found.cells] == [figure, own["sample"]]  # other, sample
    assert found.notes == ["left out: 1 run not evaluated on test"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "cells,mean\n1,2\n"),
        ("x.tex", "\\documentclass{article}\n% Table 1: mean ± standard deviation (runs)\n"),
        ("x.md", "# Notes\n\nmean ± standard deviation (runs)\n"),
    ],
)
def test_a_file_with_a_table_of_ours_stays(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name} exists and was not written by this job"):
        reported(f"runs={tmp_path}", f"output={tmp_path}/{name}")


def test_nobody_reads_on(tmp_path, closed_pipe):
    """The files are there, whatever happens to what is printed."""
    write_run(tmp_path, FIGURES)
    outputs = [tmp_path / f"report.{suffix}" for suffix in ("html", "md", "tex", "csv")]
    with redirect_stdout(closed_pipe), pytest.raises(SystemExit):  # by rich
        reported(f"runs={tmp_path}", "rows=task", f"output=[{','.join(map(str, outputs))}]")
    assert all(re.search(r"50\.00|0\.5,", output.read_text()) for output in outputs)


def points(sweep):
    """The overrides of each run of a sweep, as Hydra's sweeper makes them; of Figure 1 a part."""
    hydra = composed(f"sweep={sweep}", whole=True).hydra
    params = dict(hydra.sweeper.params)
    params |= {"fraction": "0.1,1"} if "fraction" in params else {}
    overrides = OverridesParser.create().parse_overrides([f"{k}={v}" for k, v in params.items()])
    axes = (
        [f"{one.key_or_group}={value}" for value in one.sweep_string_iterator()]
        for one in overrides
    )
    return [list(point) for point in itertools.product(*axes)]


def test_the_papers_tables_and_figures(tmp_path, monkeypatch):
    """All its sweeps on one page, made-up results: who stands in which table, and what the paper
    has for it. What one sweep has run, the next leaves out, and it stands in its table all the same.
    """
    identities = set()
    one = {"input": {"layers": [0], "shares": [1.0], "gamma": 1.0, "norms": []}}
    every = [(sweep, *each) for sweep in SWEEPS for each in enumerate(points(sweep))]
    for sweep, number, point in every:
        folder = tmp_path / "runs" / sweep / str(number)
        here = ["data=sample", "encoder=mini", f"run_dir={folder}"]
        cfg = composed(f"sweep={sweep}", *here, *point)
        if (identity := identity_of(cfg, {})) in identities:
            continue
        identities.add(identity)
        folder.mkdir(parents=True)
        figure, mix = 0.5 + number / 1000, {} if cfg.elmo.mix == "none" else one
        metrics = {f"{split}/{cfg.task.monitor}": figure for split in ("dev", "test")}
        begin(cfg, {})
        write_result(cfg, COSTS | {"metrics": metrics, "mix": mix})
    assert len(identities) == 12 + 6 + 6 + 4
    monkeypatch.setattr(style, "svg", lambda plots: "")  # drawn elsewhere
    cfg = composed("job=paper", f"runs={tmp_path}/runs", f"output={tmp_path}/paper.html")
    report(cfg)
    found = prepare(cfg)[1]
    shapes = {each.title.partition(":")[0]: table_of(each) for each in found}
    assert [*shapes] == ["Table 1", "Table 2", "Table 3", "Figure 1", "Figure 2"]
    tasks, three = {"coref", "ner", "snli", "squad", "srl", "sst5"}, ("snli", "squad", "srl")
    assert shapes["Table 1"] == {(task, mix) for task in tasks for mix in ("none", "all")}
    settings = [("none", "-"), ("top", "-"), ("all", "1.0"), ("all", "0.001")]
    assert shapes["Table 2"] == {(task, *setting) for task in three for setting in settings}
    places = ("[input]", "[output]", "[input,output]")
    assert shapes["Table 3"] == {*itertools.product(three, places)}
    cells = {(task, share.removesuffix(".0"), mix) for task, share, mix in shapes["Figure 1"]}
    assert cells == {*itertools.product(("snli", "srl"), ("0.1", "1"), ("none", "all"))}
    assert shapes["Figure 2"] == {(task, "all") for task in tasks}
    for part in found:
        for cell in part.cells:
            assert cell.published or part.title.startswith("Figure")
            is_compared = not part.title.startswith("Figure 2") and cell.column != part.baseline
            assert (cell.comparison is not None) == is_compared


def table_of(part):
    """The cells by what rows and columns say of them."""
    return {tuple(map(text, cell.key)) for cell in part.cells}


def test_a_part_of_the_runs(tmp_path):
    for fraction in (0.5, 1.0):
        write_run(tmp_path / f"{fraction}", FIGURES, {"fraction": fraction})
    where = "where={fraction:0.5,elmo.mix:all}"
    (found,) = reported(f"runs={tmp_path}", "columns=encoder", where)
    assert [len(cell.runs) for cell in found.cells] == [1]
    with pytest.raises(ValueError, match=r"the table's conditions: where={'seed': 7} paper=None"):
        reported(f"runs={tmp_path}", "columns=encoder", "where={seed:7}")
    said = r"tables.mine: unknown keys colums; a table may have where, rows, columns"
    with pytest.raises(ValueError, match=said):
        reported(f"runs={tmp_path}", "tables={mine:{colums:elmo}}")
    with pytest.raises(ValueError, match=r"^tables.mine: baseline=x: no such column"):
        reported(f"runs={tmp_path}", "columns=encoder", "tables={mine:{baseline:x}}")
    with pytest.raises(ValueError, match=r"^tables.mine: paper=x, but it must be"):
        reported(f"runs={tmp_path}", "columns=encoder", "tables={mine:{paper:x}}")


def test_runs_that_failed_are_named(tmp_path):
    write_run(tmp_path / "done", FIGURES)
    write_run(tmp_path / "mine", {}, {"seed": 2}, identity="mine", inputs={})
    for asked, failed in (("task:ner", 1), ("seed:1", 0)):
        (found,) = reported(f"runs={tmp_path}", "rows=task", f"where={{{asked}}}")
        note = f"1 of 2 runs failed or did not finish: {tmp_path.name}/mine (did not end)"
        assert found.notes == [note] * failed
