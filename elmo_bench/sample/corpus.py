"""A small invented corpus in the official file formats of the tasks, in columns, and as raw text.

We generated its stories once with our own grammar and word lists, in elmo-bench 0.2.
"""

import json
import lzma
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from elmo_bench.bounds import one_of
from elmo_bench.files import atomic


def _columns(trees: str) -> str:
    """Return trees of SST as rows: label and words."""
    rows = []
    for tree in trees.splitlines():
        label = tree[1]
        words = re.findall(r" ([^ ()]+)\)", tree)
        rows.append(f"{label}\t{' '.join(words)}\n")
    return "".join(rows)


class Format(NamedTuple):
    """How the stories of a file are put together."""

    stories: str  # the file of the stories, below this folder
    suffix: str  # of the written file
    opening: str = ""
    between: str = ""
    closing: str = ""
    most: int = 400  # stories of the training file
    spell: Callable[[str], str] = str  # writes the stories in another format


FORMATS = {  # some tasks share their stories; those of lm have other names
    "ner": Format("ner", ".txt"),
    "srl": Format("ontonotes", ".gold_conll"),
    "coref": Format("ontonotes", ".gold_conll"),
    "snli": Format("snli", ".jsonl"),
    "squad": Format("squad", ".json", '{"version": "1.1", "data": [', ", ", "]}\n"),
    "sst5": Format("sst5", ".txt"),
    "classify": Format("sst5", ".tsv", "label\ttext\n", spell=_columns),
    "pos": Format("ud", ".conllu"),
    "parse": Format("ud", ".conllu"),
    "lm": Format("lm", ".txt", most=8000),
}
SPLITS = ("train", "dev", "test")
_SMALLEST = 10  # minimum number of stories in dev and test


def files(*, task: str, root: str | Path, size: int, **given: str | None) -> dict[str, Path]:
    """Return the train, dev and test files of a task's sample corpus; write all if none are there.

    `size` is the number of training stories, the first of the frozen ones; dev and test have a
    quarter as many, at least ten. `root` is the folder of sample corpora. Raises ValueError for a
    task without one, a `size` below 1 or above the number of stories, an empty `root`, or a file in
    `given`, since the files are ours.
    """
    for split, file in given.items():
        if file:
            raise ValueError(
                f"data.files.{split}={file}, but data=sample has its own: choose data=files"
            )
    one_of("task.name", task, FORMATS)
    form = FORMATS[task]
    if not root:  # else the files would stand in the working folder
        raise ValueError("data.files.root must be a folder, but it is empty")
    if not 1 <= size <= form.most:
        raise ValueError(f"data.size={size}, but it must be from 1 to {form.most} stories")
    packed = Path(__file__).with_name(f"{form.stories}.json.xz").read_bytes()
    folder = Path(root).expanduser() / f"sample-{size}-{sha256(packed).hexdigest()[:10]}" / task
    paths = {split: folder / f"{split}{form.suffix}" for split in SPLITS}
    if not folder.is_dir():
        stories = json.loads(lzma.decompress(packed))
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic(folder) as part:
            part.mkdir()
            for split, path in paths.items():
                number = size if split == "train" else max(size // 4, _SMALLEST)
                text = form.spell(form.between.join(stories[split][:number]))
                text = form.opening + text + form.closing
                (part / path.name).write_text(text, encoding="utf-8", newline="\n")
    return paths
