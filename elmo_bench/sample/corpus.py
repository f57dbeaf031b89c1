"""The sample corpus: frozen stories in the official formats of the six tasks, and raw text.

We generated them once with our own grammar and word lists, in elmo-bench 0.2.
"""

import json
import lzma
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from elmo_bench.files import atomic


class Format(NamedTuple):
    """How the stories of a file are put together."""

    stories: str  # the file of the stories, below this folder
    suffix: str  # of the written file
    opening: str = ""
    between: str = ""
    closing: str = ""
    most: int = 400  # stories of the training file


FORMATS = {
    "ner": Format("ner", ".txt"),
    "srl": Format("ontonotes", ".gold_conll"),
    "coref": Format("ontonotes", ".gold_conll"),
    "snli": Format("snli", ".jsonl"),
    "squad": Format("squad", ".json", '{"version": "1.1", "data": [', ", ", "]}\n"),
    "sst5": Format("sst5", ".txt"),
    "lm": Format("lm", ".txt", most=8000),
}
SPLITS = ("train", "dev", "test")
_SMALLEST = 10  # minimum number of stories in dev and test


def files(*, task: str, root: str | Path, size: int, **given: str | None) -> dict[str, Path]:
    """Return the train, dev and test files of a task's sample corpus; write all if none are there.

    Args:
        task: one of ner, srl, coref, snli, squad, sst5, lm. srl and coref have the same stories,
            lm its own, with other names.
        root: the folder of sample corpora.
        size: number of training stories, the first of the frozen ones; dev and test have a quarter
            as many, at least ten.
        given: must be empty or None, since the files are ours.

    Raises:
        ValueError: for an unknown task, a `size` below 1 or above the number of stories, no
            `root`, or a file in `given`.

    """
    _check(task, root, size, given)
    form = FORMATS[task]
    packed = (Path(__file__).parent / f"{form.stories}.json.xz").read_bytes()
    folder = Path(root).expanduser() / f"sample-{size}-{sha256(packed).hexdigest()[:10]}" / task
    paths = {split: folder / f"{split}{form.suffix}" for split in SPLITS}
    if not folder.is_dir():
        stories = json.loads(lzma.decompress(packed))
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic(folder) as part:
            part.mkdir()
            for split, path in paths.items():
                number = size if split == "train" else max(size // 4, _SMALLEST)
                text = form.opening + form.between.join(stories[split][:number]) + form.closing
                (part / path.name).write_text(text, encoding="utf-8", newline="\n")
    return paths


def _check(task: str, root: str | Path, size: int, given: Mapping[str, str | None]) -> None:
    for split in (split for split in given if given[split]):
        raise ValueError(
            f"data.files.{split}={given[split]}, but data=sample has its own: choose data=files"
        )
    if task not in FORMATS:
        raise ValueError(
            f"no sample corpus for task {task!r}: choose one of {', '.join(sorted(FORMATS))}"
        )
    if not 1 <= size <= FORMATS[task].most:
        raise ValueError(
            f"data.size={size}, but it must be a number of stories, from 1 to {FORMATS[task].most}"
        )
    if not root:
        raise ValueError(f"data.files.root={root}, but it must be a folder")
