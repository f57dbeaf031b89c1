"""`job=predict`: what a trained model says of raw text or JSON lines, as JSON lines."""

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from elmo_bench.data import TaskData
from elmo_bench.files import atomic
from elmo_bench.text import read_lines, read_objects

from . import build
from .checkpoint import restore

log = logging.getLogger(__name__)
Parse = Callable[[dict[str, Any], str], Any]


def predict(cfg: DictConfig) -> None:
    """Write a labelled record for each record of `cfg.input` to `cfg.output`, in the same order, whole or not at all.

    A file with `.jsonl` (or `.json`) in its name has a JSON object a line, with the keys that the task's `parse` asks for;
    any other is text, a line an example. A record's `id`, where it has one, is kept.
    """
    if not Path(cfg.output).absolute().parent.is_dir():
        raise FileNotFoundError(f"output={cfg.output}: there is no such folder")
    cfg, module, vocab = restore(cfg)
    task = build.task_files(cfg)
    records = list(_records(Path(cfg.input)))
    data = TaskData(
        {"test": Path(cfg.input)},
        read={"test": partial(_parse, task.parse, records)},
        collate=task.collate,
        batch_size=cfg.fit.batch_size,
        num_workers=cfg.num_workers,
        vocab=vocab,
    )
    trainer = build.trainer(cfg, [])
    trainer.predict(module, data, return_predictions=False)
    if trainer.is_global_zero:
        # Half a surrogate pair stays as JSON writes it.
        with atomic(cfg.output) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for number, (record, _) in enumerate(records):
                labelled = task.render(data.examples["test"][number], module.predictions[number])
                known = {"id": record["id"]} if "id" in record else {}
                file.write(json.dumps(known | labelled, ensure_ascii=False) + "\n")
        log.info("%d examples of %s labelled: %s", len(records), cfg.input, cfg.output)


def _parse(parse: Parse, records: list[tuple[dict[str, Any], str]], path: Path) -> Iterator[Any]:
    return (parse(record, source) for record, source in records)


def _records(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each record and the file and line it stands at; blank lines are passed over."""
    if {".json", ".jsonl"} & set(path.suffixes):
        records = read_objects(path)
    else:
        records = ((number, {"text": line}) for number, line in read_lines(path) if line.strip())
    return ((record, f"{path}:{number}") for number, record in records)
