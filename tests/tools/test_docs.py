"""README.md and the pages of docs/: every command in them exists and has right settings, their
Python runs, their examples of files are read, and the errors they explain are raised somewhere.

That links lead somewhere, `make docs` sees to; `tests/report/test_browser.py` looks at the pages.
"""

import ast
import importlib
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep

import elmo_bench
from elmo_bench.build import dry_run
from elmo_bench.settings.check import faults
from tasks.classify import data as classify
from tasks.classify import snli, sst
from tasks.coref import data as coref
from tasks.ner import data as ner
from tasks.squad import data as squad
from tasks.srl import data as srl
from tasks.treebank import parse
from tests.conftest import FENCED, composed, printed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
INLINE = re.compile(r"`((?:python|make|pip|torchrun) [^`]+)`")
RUN = re.compile(r".*?(?:python(?: -m)? run\.py|\brun\.py|elmo-bench)(?: (.*))?$")
REFUSED = "seed=1.5 elmo.mix=best"  # what the pages show of wrong settings
TABLE_1 = "reproduce_table1.md"
FLAGS = ("-m", "--multirun", "--dry-run", "--download-only", "--help")


def _lines() -> list[tuple[str, str]]:
    """Each command of the pages, once, and the page that has it first."""
    lines: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [content for kind, _, content in FENCED.findall(text) if kind in ("", "bash")]
        inline = [" ".join(command.split()) for command in INLINE.findall(FENCED.sub("", text))]
        for line in [*"\n".join(blocks).splitlines(), *inline]:
            words = re.sub(" +", " ", re.sub(r"\s+#.*", "", line.removeprefix("$ "))).strip()
            if "…" not in words and "..." not in words:
                lines.setdefault(words, page.name)
    return [*lines.items()]


LINES = _lines()
RUNS = [(found[1] or "", page) for line, page in LINES if (found := RUN.fullmatch(line))]


def _one_of_each(overrides: list[str]) -> list[str]:
    """Of a sweep its last point."""
    points = []
    for text, parsed in zip(
        overrides, OverridesParser.create().parse_overrides(overrides), strict=True
    ):
        if not parsed.is_sweep_override():
            points.append(text)
            continue
        sweep = parsed.value()
        if isinstance(sweep, ChoiceSweep):
            value = parsed._get_value_element_as_str([*parsed.sweep_iterator()][-1])
        else:
            value = sweep.start if isinstance(sweep, IntervalSweep) else [*sweep.range()][-1]
        points.append(f"{parsed.input_line.partition('=')[0]}={value}")
    return points


def test_every_command_has_right_settings(documented_parts):
    assert len(RUNS) > 60
    wrong = []
    for arguments, page in RUNS:
        words = shlex.split(arguments.replace("=TASK", "=ner"), comments=True)
        folders = [documented_parts]
        for option in ("--cfg", "--config-dir"):
            if option in words:
                place = words.index(option)
                if (ROOT / words[place + 1] / "experiment").is_dir():  # results/conf
                    folders.append(ROOT / words[place + 1])
                del words[place : place + 2]
        overrides = [word for word in words if word not in FLAGS]
        search = f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in folders)}]"
        try:
            cfg = composed(search, *_one_of_each(overrides), "run_dir=here")
            lines = faults(cfg)
        except Exception as error:
            lines = [f"{type(error).__name__}: {error}"]
        if arguments == REFUSED:
            shown = (DOCS / "quickstart.md").read_text(encoding="utf-8")
            block = "\n".join(["```", f"$ python run.py {REFUSED}", *lines, "```"])
            lines = [] if lines and block in shown else [f"the page does not show {lines}"]
        wrong += [f"{page}: {arguments}\n    {line}" for line in lines]
    assert wrong == [], "\n".join(wrong)


def test_the_commands_of_table_1_read_its_files(tmp_path):
    """All of them, on small files of each format under their names: corpora and word vectors."""
    examples = printed("formats.md")
    texts = {name.partition(".")[0]: text for name, text in examples.items()}
    texts["srl"] += texts["coref"]  # OntoNotes' files are both tasks'
    # Training reads phrases of four tokens: two have the labels of the example's shorter ones.
    texts["sst5"] += "".join(
        f"({label} (2 A) (2 (2 very) (2 (2 good) (2 one))))\n" for label in "04"
    )
    words = {kind: {*re.findall(r"\w+", text)} for kind, text in texts.items()}
    commands = [shlex.split(run, comments=True) for run, page in RUNS if page == TABLE_1]
    trained = [each for each in commands if "sweep=table1" in each and not {*FLAGS} & {*each}]
    here = [f"data_dir={tmp_path}", "run_dir=here"]
    configs = [composed(*_one_of_each(each), *here, whole=True) for each in trained]
    for cfg in configs:
        vectors = cfg.vocab.vectors
        files = [vectors] if isinstance(vectors, str) else vectors
        kind = "srl" if cfg.data.name == "ontonotes5" else cfg.task.name
        vector = {file: "\n".join(f"{word} 1 2" for word in words[kind]) for file in files}
        for path in [*files, *(tmp_path / file for file in cfg.data.files.values())]:
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_text(vector.get(path, texts[kind]), encoding="utf-8")
    assert {cfg.task.name for cfg in configs} == {"coref", "ner", "snli", "squad", "srl", "sst5"}
    corpora = {cfg.data.name for cfg in configs if cfg.task.name == "coref"}
    assert corpora == {"conll2012", "ontonotes5"}
    for cfg in configs:
        lines = dry_run.lines([cfg])
        assert len([line for line in lines if line.endswith(" examples")]) == 3, lines
        assert any(line.startswith("vocab.vectors=") for line in lines), lines


def test_the_list_of_sweeps_is_whole():
    page = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^\| `sweep=` .*?\n\n", page, re.M | re.S)
    listed = {
        name
        for row in rows.strip().splitlines()[2:]
        for name in re.findall("`(.*?)`", row.split("|")[1])
    }
    assert listed == {path.stem for path in (ROOT / "conf" / "sweep").glob("*.yaml")}


def test_every_other_command_exists():
    makes = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line, page in LINES:
        if not line.startswith(("make ", "pip ", "python ")):
            continue
        said, words = f"{page}: {line}", shlex.split(line, comments=True)
        if words[0] == "make":
            assert words[1] in makes, said
        if words[:2] == ["pip", "install"]:
            for extra in re.findall(r"\[([\w,]+)\]", line):
                assert {*extra.split(",")} <= {*project["optional-dependencies"]}, said
        if words[:2] == ["python", "-m"] and words[2].startswith(("benchmarks", "tests")):
            module = ROOT / words[2].replace(".", "/")
            assert (module / "__main__.py").is_file() or module.with_suffix(".py").is_file(), said
            if words[2] == "benchmarks" and len(words) > 3 and not words[3].startswith("-"):
                assert (module / f"{words[3]}.py").is_file(), said


@pytest.mark.parametrize("page", ["README.md", "docs/vectors.md"])
def test_python(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [
        content for kind, name, content in FENCED.findall(text) if kind == "python" and not name
    ]
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if "layers" in names:
        first, second = names["layers"]
        assert (first.shape, second.shape) == ((3, 5, 128), (3, 1, 128))
    if "vectors" in names:  # a mix begins with equal shares
        torch.testing.assert_close(names["vectors"][0], first.mean(0))


@pytest.mark.parametrize(
    ("name", "reader", "count"),
    [
        ("ner.txt", ner, 1),
        ("srl.txt", srl, 1),
        ("coref.txt", coref, 1),
        ("squad.json", squad, 1),
        ("snli.jsonl", snli, 3),
        ("ud.conllu", parse, 1),
        ("sst5.txt", sst, 5),
        ("classify.tsv", classify, 2),
    ],
)
def test_examples_of_files(name, reader, count, tmp_path):
    (tmp_path / name).write_text(printed("formats.md")[name], encoding="utf-8")
    examples = [*reader.read(tmp_path / name)]
    assert len(examples) == count
    assert all(example.sentences for example in examples)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_command_that_converts_columns(tmp_path, end):
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    (awk,) = re.findall("^awk .*OLD > NEW$", page, re.M)
    rows = [
        "# id = 1",
        "#\thttps://a.org/b c\t[2005-02-26]",  # as in GermEval 2014
        "1\tAda\t_\tB-PER",
        "2\tMarn\t_\tE-PER",
        "3\t#\t_\tO",
        "",
        "1\tBo\t_\tS-PER",
    ]
    (tmp_path / "OLD").write_bytes(end.join([*rows, ""]).encode())
    subprocess.run(awk, shell=True, cwd=tmp_path, check=True)
    read = [(example.words, example.gold) for example in ner.read(tmp_path / "NEW")]
    assert read == [(("Ada", "Marn", "#"), ["B-PER", "I-PER", "O"]), (("Bo",), ["B-PER"])]


def test_the_errors_are_real():
    """Each message that the page on troubleshooting explains stands in the code."""
    folders = [ROOT / name for name in ("elmo_bench", "tasks", "hydra_plugins")]
    files = [ROOT / "run.py", *(path for folder in folders for path in folder.rglob("*.py"))]
    code = " ".join(
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^- `(.+?)`: ", page, re.M)
    assert len(messages) > 20
    assert [each for each in messages if each not in code] == []


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("reference")


def test_settings_from_comments(reference):
    about, settings = reference.read(
        "# What it is,\n# and why.\nname: x\nfit:   # how\n  size: 3   # how many,\n            # and no more\n"
    )
    assert about == ["What it is,", "and why."]
    assert settings == [
        ("name", "x", ""),
        ("fit", "", "how"),
        ("fit.size", "3", "how many, and no more"),
    ]


def test_the_reference_is_up_to_date(reference):
    pages = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    old = [name for name, page in pages.items() if reference.filled(page) != page]
    assert old == [], "run `make reference`"
    for key in ("seed", "fit.batch_tokens", "elmo.mix", "adapt.lr", "encoder"):
        assert f"\n- `{key}` = " in pages["settings.md"]
    assert f"*({reference.may_be(reference.types()['seed'])})*" in pages["settings.md"]


def test_every_exported_name_is_in_the_reference():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert {*elmo_bench.__all__} <= {*re.findall(r"^### `elmo_bench\.(\w+)`$", page, re.M)}


def test_the_length_of_the_reading_path():
    text = (DOCS / "code.md").read_text(encoding="utf-8")
    said = int(re.search(r"`runs/folder.py`, about ([\d,]+) lines", text)[1].replace(",", ""))
    of_run = text.partition("**The run**")[2].partition("**A config.**")[0]
    files = re.findall(r"^\| \[`.*?`\]\((.+?)\)", of_run, re.M)
    lines = sum((DOCS / file).read_text(encoding="utf-8").count("\n") for file in files)
    assert lines == pytest.approx(said, abs=30)
