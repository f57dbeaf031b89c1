"""Where a page's figures come from."""

import pytest

from elmo_bench.report.provenance import commands, typed

from .made import a_run


def ran(folder, seed, *overrides):
    (folder / ".hydra").mkdir(parents=True)
    text = "".join(f"- {each}\n" for each in (*overrides, f"seed={seed}"))
    (folder / ".hydra" / "overrides.yaml").write_text(text)
    return a_run(folder=folder, seed=seed)


def test_commands(tmp_path):
    """A line for the seeds of a setting; what changes no figure and where files are is not said."""
    setting = ("task=ner", "'encoder.directions=[forward]'", "+vocab.vectors=/home/me/glove.gz")
    aside = ("outputs_dir=/home/me/out", "resume=true", "logger=csv", "hydra.sweep.dir=/tmp/x")
    runs = [
        ran(tmp_path / "10", 10, *setting, *aside),
        ran(tmp_path / "2", 2, *setting),
        ran(tmp_path / "none", 1, "task=ner", "encoder=none"),
        a_run(folder=tmp_path),  # came without its command
        *(
            ran(
                tmp_path / f"evaluated{seed}", seed, "job=evaluate", f"checkpoint=/home/{seed}.ckpt"
            )
            for seed in (1, 2)
        ),
    ]
    assert commands(runs) == [
        "python run.py -m task=ner 'encoder.directions=[forward]' +vocab.vectors=glove.gz seed=2,10",
        "python run.py task=ner encoder=none seed=1",
        "python run.py job=evaluate checkpoint=1.ckpt seed=1",
        "python run.py job=evaluate checkpoint=2.ckpt seed=2",
    ]


def test_what_was_typed():
    """Paths below the user's folder stay whole, and so do names of models."""
    own = ["vocab.vectors=corpora/glove/glove.6B.txt", "encoder.model=sentence-transformers/a/b"]
    assert typed(own) == " ".join(["python run.py", *own])
    there = ["runs=[outputs/card/mini,~/secret/CARD]", "output=/home/me/all.html"]
    assert typed(there) == "python run.py 'runs=[outputs/card/mini,CARD]' output=all.html"


@pytest.mark.parametrize("content", ["{", "a: 1", "- 1", "- [a]", "\x00", "- " + "x" * 1_000_001])
def test_no_list_of_overrides(content, tmp_path):
    run = ran(tmp_path, 1)
    (tmp_path / ".hydra" / "overrides.yaml").write_text(content)
    with pytest.raises(ValueError, match=r"overrides.yaml: damaged"):
        commands([run])
