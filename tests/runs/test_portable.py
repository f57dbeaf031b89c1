"""What is shared has no paths of the machine."""

import pytest

from elmo_bench.runs import overrides, portable, portable_overrides


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("{train:/home/u/t.txt,dev: /home/u/d.txt}", "{train:t.txt,dev: d.txt}"),
        ("data/../../me/corpora", "corpora"),
        ("[~me/a,'/home/me/b']", "[a,'b']"),
        ("/home/me/my old data/x.txt", "x.txt"),
        ("/home/me/runs/", "runs"),
        ("//host/share/x", "x"),
        ("C:\\Users\\me\\x", "x"),
        ("\\\\host\\me\\x", "x"),
        (
            "a=/home/me/a/p.txt is not there; b=/home/me/b split=test",
            "a=p.txt is not there; b=b split=test",
        ),
        *(
            (same, same)
            for same in (
                "[outputs/card/mini,s3://a/b]",
                "corpora/glove/glove.6B.txt",
                "precision / recall",
            )
        ),
    ],
)
def test_portable(text, shared):
    assert portable({"key": [text]}) == {"key": [shared]}


def test_a_deletion_is_no_folder():
    words = ["~logger/wandb", "~db/a=/home/me/b", "--config-dir", "/home/me/conf"]
    assert portable_overrides(words) == ["~logger/wandb", "~db/a=b", "--config-dir", "conf"]


@pytest.mark.parametrize("content", ["2026-13-32", "[" * 5000, "{seed: 1}", "[1]"])
def test_what_is_no_list_of_overrides_is_named(tmp_path, content):
    path = tmp_path / "overrides.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"overrides\.yaml: damaged: a run writes a YAML list"):
        overrides(path)
