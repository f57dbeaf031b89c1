"""The folder of a generated corpus, written once and atomically, even by several processes."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random

from elmo_bench.files import atomic

from .grammar import Story, converse, narrate
from .world import cast, names
from .write import FORMATS

SPLITS = ("train", "dev", "test")
_SMALLEST = 10  # minimum number of stories in dev and test
_NAMES_PER_STORY, _FEWEST_NAMES = 1, 60


@cache
def fingerprint() -> str:
    """Return a digest of this package's source: a changed grammar never uses old files."""
    digest = sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:10]


def stories(*, task: str, split: str, size: int, seed: int) -> Iterator[tuple[str, Story, Random]]:
    """Yield the stories of a split with their identities and random generators.

    Tasks share their stories; raw text (`lm`) has its own stories and names. `seed`, `split`,
    `size` and, for `lm` and `squad`, the task determine the stories. Every fifth story is a
    conversation; for `squad` it is narrated, like the others, since questions are about narrated
    events.
    """
    raw = task == "lm"
    number = size if split == "train" else max(size // 4, _SMALLEST)
    origin = f"{seed}/{'raw' if raw else 'tasks'}/{split}"
    pool = names(
        count=max(_NAMES_PER_STORY * number, _FEWEST_NAMES),
        rng=Random(origin),
        split=split,
        raw=raw,
    )
    for index in range(number):
        rng = Random(f"{origin}/{index}")
        talks = index % 5 == 4 and task != "squad"
        story = (converse if talks else narrate)(rng, cast(rng, pool))
        yield f"{'bc' if talks else 'nw'}/sample/{split}_{index:05d}", story, rng


def _write(path: Path, *, task: str, size: int, seed: int) -> None:
    form = FORMATS[task]
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(form.opening)
        for index, (identity, story, rng) in enumerate(
            stories(task=task, split=path.stem, size=size, seed=seed)
        ):
            file.write(
                (form.between if index else "")
                + form.part(story, rng, identity, path.stem != "train")
            )
        file.write(form.closing)


def files(
    *, task: str, root: str | Path, size: int, seed: int, **given: str | None
) -> dict[str, Path]:
    """Return the train, dev and test files of a task's generated corpus; write all if none are there.

    Args:
        task: one of ner, srl, coref, snli, squad, sst5, lm.
        root: the folder of generated corpora.
        size: number of training stories; dev and test have a quarter as many, at least ten.
        seed: random seed of the corpus.
        given: must be empty or None, since the files are generated.

    Raises:
        ValueError: for an unknown task, a `size` below 1, no `root`, or a file in `given`.

    """
    for split in (split for split in given if given[split]):
        raise ValueError(
            f"data.files.{split}={given[split]}, but data=sample is generated: choose data=files"
        )
    if task not in FORMATS:
        raise ValueError(
            f"no sample corpus for task {task!r}: choose one of {', '.join(sorted(FORMATS))}"
        )
    if size < 1:
        raise ValueError(f"data.size={size}, but it must be at least 1")
    if not root:
        raise ValueError(f"data.files.root={root}, but it must be a folder")
    folder = Path(root).expanduser() / f"sample-{size}-{seed}-{fingerprint()}" / task
    paths = {split: folder / f"{split}{FORMATS[task].suffix}" for split in SPLITS}
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic(folder) as scratch:
            scratch.mkdir()
            for path in paths.values():
                _write(scratch / path.name, task=task, size=size, seed=seed)
    return paths
