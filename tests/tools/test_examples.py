"""The notebooks of examples/ run, and the outputs that they show are those of today."""

import ast
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# Machines differ in the last digits, and so may what a small model says.
VARIES = re.compile(r"\d+\.\d*|nan|'(O|[BI]-[A-Z]+)'")


def value_of(source, names):
    """Run a cell as a notebook does; the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return last and eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def words(text):
    return VARIES.sub("#", text).split()


@pytest.mark.parametrize("name", ["report", "train", "vectors"])
def test_example(name, tmp_path, tmp_path_factory, monkeypatch):
    (tmp_path / "examples").mkdir()
    (tmp_path / "results").symlink_to(EXAMPLES.parent / "results")
    monkeypatch.chdir(tmp_path / "examples")
    monkeypatch.setenv("ELMO_BENCH_CACHE", str(tmp_path_factory.getbasetemp()))
    names = {"__name__": "__main__"}
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            value = value_of("".join(cell["source"]), names)
        streams = [each for each in cell["outputs"] if each["output_type"] == "stream"]
        for stream in (each for each in streams if each["name"] == "stdout"):
            assert words("".join(stream["text"])) == words(printed.getvalue())
        results = [each for each in cell["outputs"] if each["output_type"] == "execute_result"]
        assert bool(results) == (value is not None)
        for result in results:
            shown = "".join(result["data"]["text/plain"])
            assert ("text/html" in result["data"]) == hasattr(value, "_repr_html_")
            assert words(shown) == words(repr(value)), shown


def test_every_example_is_listed_and_run():
    files = {path.name for path in EXAMPLES.glob("*.ipynb")}
    assert files == {"report.ipynb", "train.ipynb", "vectors.ipynb"}
    assert files == set(re.findall(r"\((\w+\.ipynb)\)", (EXAMPLES / "README.md").read_text()))
