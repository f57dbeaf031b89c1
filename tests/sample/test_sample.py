"""The sample corpus: the same bytes even if written at once, and as many stories as asked for."""

import json
import lzma
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from elmo_bench import sample
from elmo_bench.sample import files
from elmo_bench.sample.corpus import FORMATS

TASKS = ("ner", "srl", "coref", "snli", "squad", "sst5", "pos", "parse", "lm")


def written(root: Path, task: str, size: int) -> dict[str, str]:
    paths = files(task=task, root=root, size=size)
    return {split: path.read_text() for split, path in paths.items()}


def test_same_bytes_even_if_written_at_once(tmp_path: Path) -> None:
    together = tmp_path / "together"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        twice = [task for task in TASKS for _ in range(2)]
        jobs = [pool.submit(files, task=task, root=together, size=16) for task in twice]
        for job in jobs:
            job.result()
    for task in TASKS:
        assert written(together, task, 16) == written(tmp_path / "alone", task, 16)
        assert len(set(written(together, task, 16).values())) == 3
    for folder in together.iterdir():
        assert all(path.name in TASKS for path in folder.iterdir())


@pytest.mark.parametrize("task", TASKS)
def test_a_size_takes_the_first_stories(task: str, tmp_path: Path) -> None:
    small, large = (written(tmp_path, task, size) for size in (4, 48))
    assert 6 < len(large["train"]) / len(small["train"]) < 24
    assert large["train"].startswith(small["train"].removesuffix("]}\n"))
    assert len(large["dev"]) > len(small["dev"]) > len(written(tmp_path, task, 1)["train"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "pas"}, "task.name=pas, but it must be ner, srl, .*, pos, parse or lm"),
        ({"dev": "mine"}, "data.files.dev=mine, but data=sample has its own"),
        ({"root": ""}, "data.files.root must be a folder, but it is empty"),
    ],
)
def test_errors_name_what_is_allowed(settings, said, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        files(**{"task": "ner", "root": tmp_path, "size": 1} | settings)


@pytest.mark.parametrize("task", TASKS)
def test_a_size_that_no_file_has_is_refused_even_if_its_folder_exists(task, tmp_path: Path) -> None:
    form = FORMATS[task]
    packed = Path(sample.__file__).with_name(f"{form.stories}.json.xz").read_bytes()
    assert len(json.loads(lzma.decompress(packed))["train"]) == form.most
    folder = files(task=task, root=tmp_path, size=1)["train"].parents[1]
    for size in (-1, 0, form.most + 1):
        (tmp_path / folder.name.replace("-1-", f"-{size}-") / task).mkdir(parents=True)
        with pytest.raises(ValueError, match=rf"data\.size={size}, .* from 1 to {form.most}"):
            files(task=task, root=tmp_path, size=size)
