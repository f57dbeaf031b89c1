"""Corpora of the Hugging Face hub: parquet files, written once in their task's official format.

Needs `pip install 'elmo-bench[hub]'`. Only data is read from the hub: no code of a dataset is ever
run.
"""

import hashlib
import importlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_bench.files import atomic

if TYPE_CHECKING:
    from pyarrow import Schema

log = logging.getLogger(__name__)

# A parquet file and the name of its split -> the text of the official file.
Convert = Callable[[Path, str], Iterator[str]]

LABELS = {0: "entailment", 1: "neutral", 2: "contradiction", -1: "-"}


def corpus(
    *,
    source: str,
    revision: str,
    cache_dir: str,
    train: str,
    dev: str,
    convert: Convert,
    test: str | None = None,
) -> Mapping[str, Path]:
    """Return the files of a corpus in their official format, written below `cache_dir` if missing.

    Args:
        source: the dataset's name on the hub, or a folder with the same files.
        revision: the commit, tag or branch on the hub; a folder has none.
        cache_dir: the folder below which the converted files lie (the hub's own stay in the hub's
            cache).
        train: the path, in the dataset, of the parquet file of the training split.
        dev: as `train`, of the dev split.
        test: as `train`, of the test split; may be the same file as `dev`, or None.
        convert: `pairs` or `questions`.

    Raises:
        FileNotFoundError: a file is neither in the folder nor to be had from the hub.
        ValueError: the packages of the extra are missing, or a file has other columns than
            `convert` reads.

    """
    _need_the_extra(source)
    folder = Path(cache_dir).expanduser() / "hub"
    splits = {"train": train, "dev": dev, "test": test}
    return {
        split: _converted(_parquet(file, source, revision), split, folder, convert)
        for split, file in splits.items()
        if file
    }


def _need_the_extra(source: str) -> None:
    try:
        for package in ("pyarrow", "huggingface_hub"):
            importlib.import_module(package)
    except ImportError as error:
        raise ValueError(
            f"data.source={source} requires more packages ({error}): pip install 'elmo-bench[hub]'"
        ) from error


def _parquet(file: str, source: str, revision: str) -> Path:
    """Return a file of the dataset: in the folder `source`, if there is one, else from the hub."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / file).is_file():
            raise FileNotFoundError(
                f"no file {folder / file} (data.source={source}); save the dataset's {file} there"
            )
        return folder / file
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(source, file, repo_type="dataset", revision=revision))
    except Exception as error:  # networks fail with many types of errors
        raise FileNotFoundError(
            f"no folder {source}, and cannot download {file} of the dataset {source}, "
            f"revision {revision}, from the hub ({type(error).__name__}: {error}). Download "
            "it elsewhere and give its folder: data.source=FOLDER"
        ) from error


def _converted(parquet: Path, split: str, folder: Path, convert: Convert) -> Path:
    """Return the official file."""
    # The name has a hash of the source and of this module, so the file is never outdated.
    digest = hashlib.sha256(Path(__file__).read_bytes() + parquet.read_bytes()).hexdigest()[:12]
    path = folder / f"{split}-{digest}.json"
    if not path.is_file():
        log.info("converting %s to %s", parquet, path)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic(path) as part, part.open("w", encoding="utf-8") as file:
            file.writelines(convert(parquet, split))
    return path


def pairs(parquet: Path, split: str) -> Iterator[str]:
    """Yield SNLI's lines, of the columns premise, hypothesis and label (0 to 2, -1 for none).

    The hub has no pairIDs: a pair is called by its split and row. ValueError for other columns or
    labels.
    """
    import pyarrow as pa

    columns = pa.schema({"premise": pa.string(), "hypothesis": pa.string(), "label": pa.int64()})
    for number, row in enumerate(_rows(parquet, columns)):
        if row["label"] not in LABELS:
            came = f"row {number} (from 0): label {row['label']!r}"
            raise ValueError(f"{parquet}: {came}, but it must be one of {sorted(LABELS)}")
        record = {
            "pairID": f"{split}-{number}",
            "gold_label": LABELS[row["label"]],
            "sentence1": row["premise"],
            "sentence2": row["hypothesis"],
        }
        yield json.dumps(record) + "\n"


def questions(parquet: Path, split: str) -> Iterator[str]:
    """Yield SQuAD's articles, of the columns id, title, context, question and answers.

    Answers are texts and their first characters. Rows of one title that follow each other are an
    article, those of one context a paragraph. ValueError for other columns.
    """
    import pyarrow as pa

    answers = pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int32())})
    columns = pa.schema(
        {name: pa.string() for name in ("id", "title", "context", "question")}
        | {"answers": answers}
    )
    yield '{"version": "1.1", "data": ['
    articles = groupby(_rows(parquet, columns), key=lambda row: row["title"])
    for i, (title, article) in enumerate(articles):
        paragraphs = [
            {"context": context, "qas": [_question(row, parquet) for row in rows]}
            for context, rows in groupby(article, key=lambda row: row["context"])
        ]
        yield (",\n" if i else "\n") + json.dumps({"title": title, "paragraphs": paragraphs})
    yield "\n]}\n"


def _question(row: Mapping[str, Any], parquet: Path) -> dict[str, Any]:
    texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
    if texts is None or starts is None or len(texts) != len(starts):
        raise ValueError(
            f"{parquet}: question {row['id']}: answers must have as many texts as "
            f"answer_starts, but they are {row['answers']}"
        )
    answers = [
        {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
    ]
    return {"id": row["id"], "question": row["question"], "answers": answers}


def _rows(parquet: Path, columns: "Schema") -> Iterator[dict[str, Any]]:
    """Yield the rows, with these columns only; ValueError for a missing column or value."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    try:
        table = pq.ParquetFile(parquet).read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{parquet}: not a parquet file: {error}") from error
    try:
        chosen = table.select(columns.names).cast(columns)
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(
            f"{parquet}: it has the columns {_in_words(table.schema)}, but must have "
            f"{_in_words(columns)}, with values of these types: {error}"
        ) from error
    for name in columns.names:
        if empty := chosen.column(name).null_count:
            raise ValueError(
                f"{parquet}: {name!r} is empty in {empty} rows; it must have a value in every row"
            )
    for batch in chosen.to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


def _in_words(columns: "Schema") -> str:
    return ", ".join(f"{column.name} ({column.type})" for column in columns)
