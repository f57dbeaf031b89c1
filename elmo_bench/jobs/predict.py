"""`job=predict`: write a trained model's predictions for raw text or JSON lines, as JSON lines."""

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench import build
from elmo_bench.build import hardware
from elmo_bench.build.checkpoint import extend, restore
from elmo_bench.build.task_format import parser, required, task_format
from elmo_bench.files import atomic, begins, check_output
from elmo_bench.settings.types import arguments, misfits, shown
from elmo_bench.text import Vocab, read_bytes, read_lines, read_objects
from elmo_bench.training.cautions import of_encoder, tell
from elmo_bench.training.data import Examples
from elmo_bench.training.log import is_first
from elmo_bench.training.module import TaskModule

log = logging.getLogger(__name__)
# The beginning of an earlier output, which differs from that of job=perplexity.
OWN = r'\s*\{"line": \d+(?!, "tokens": \[[^\n]*"unknown": \[)'
Records = list[tuple[int, dict[str, Any]]]  # line in the input (from 1), record
# A line of an annotated file: with tabs but no blanks, or a word first and its tag last. Two texts,
# which a tab separates, may have no blanks either.
_TABS = re.compile(r"[^ ]*\t[^ ]*")
_TAGGED = re.compile(r"\S+\s(.*\s)?(O|-|[BI]-\S+)\s*")


def predict(cfg: DictConfig) -> None:
    """Write a labelled record for each record of `cfg.input` to `cfg.output`, atomically.

    An input with `.jsonl` or `.json` in its name has one JSON object a line, with the keys that the
    task's `parse` reads, or those of the columns in training. A table, of a task that reads tables,
    has these columns; others, such as the label, are not read. Any other input is text with one
    example a line. The output has the same lines, including blank ones before the last record. A
    record has `line`, its number, and `id`, if the input has it.
    """
    config, module, vocab, records, examples = prepare(cfg)
    extend(config, module, vocab, examples.all_sentences)
    trainer = hardware.trainer(config, [])
    data = build.data(config, examples, vocab, module.model.backbone)
    if is_first() and module.elmo.mixes:
        tell(of_encoder(config.encoder.name, module.elmo.encoder, examples.words))
    trainer.predict(module, data, return_predictions=False)
    if trainer.is_global_zero:
        render = required(task_format(config), "render", "job=predict")
        rendered = []
        for number, example in enumerate(examples.by_split["test"]):
            rendered.append(render(example, module.predictions[number]))
        _write(records, rendered, cfg.output)
        log.info("%d examples of %s labelled: %s", len(records), cfg.input, cfg.output)


def prepare(cfg: DictConfig) -> tuple[DictConfig, TaskModule, Vocab, Records, Examples]:
    """Return the model's config, module and vocabulary, the input's records, and their examples."""
    inputs = {"input": cfg.input, "checkpoint": cfg.checkpoint}
    check_output("output", cfg.output, inputs, begins(OWN))
    next(read_bytes(cfg.input))  # whether there is one, before the model is read
    restored = restore(cfg)
    config = restored.config
    records = _table(config, restored.content)
    if records is None:
        records = _records(Path(cfg.input))
        _check_text(cfg.input, records, is_pair=bool(OmegaConf.select(config, "task.parse.pair")))
    parse = parser(config)
    required(task_format(config), "render", "job=predict")
    parsed = (parse(record, f"{cfg.input}:{line}") for line, record in records)
    read = {"test": lambda path: parsed}
    examples = build.examples(config, {"test": Path(cfg.input)}, read, restored.vocab)
    return config, restored.module, restored.vocab, records, examples


def _write(records: Records, rendered: Sequence[dict[str, Any]], output: str) -> None:
    lines = [""] * records[-1][0]
    for (line, record), labelled in zip(records, rendered, strict=True):
        identity = {"id": record["id"]} if "id" in record else {}
        lines[line - 1] = json.dumps({"line": line} | identity | labelled, ensure_ascii=False)
    text = "\n".join(lines) + "\n"
    with atomic(output) as part:  # UTF-8 has no lone surrogates, so they are written as escapes
        part.write_text(text, encoding="utf-8", errors="backslashreplace")


def _is_json(path: Path) -> bool:
    return ".json" in path.suffixes or ".jsonl" in path.suffixes


def _records(path: Path) -> Records:
    if _is_json(path):
        return list(read_objects(path))
    return [(number, {"text": line}) for number, line in read_lines(path) if line.strip()]


def _table(cfg: DictConfig, content: dict[str, Any]) -> Records | None:
    """Return the texts of an input in the columns of the model's training, or in those that the
    command line names; None if the task reads no tables, or the input is none.
    """
    read_texts = task_format(cfg).read_texts
    if read_texts is None:
        return None
    hints = arguments(f"{cfg.task.data}.read_texts")
    columns = {}
    for key, value in _columns(cfg, content).items():
        if key not in hints:
            continue
        wrong = misfits(value, hints[key])
        if wrong:
            raise ValueError(
                f"checkpoint={cfg.checkpoint}: data.columns.{key}={shown(value)}, but it must "
                f"{wrong[0][2]}"
            )
        columns[key] = value
    return read_texts(Path(cfg.input), **columns)


def _columns(cfg: DictConfig, content: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the model's training, replaced by those that the command line names."""
    columns: dict[str, Any] = {}
    data = content["config"].get("data")
    stored = data.get("columns") if isinstance(data, dict) else None
    if isinstance(stored, dict):
        columns |= stored
    asked: Any = OmegaConf.to_container(OmegaConf.create(cfg.data.get("columns") or {}))
    for key, value in asked.items():
        if value is not None:
            columns[key] = value
    return columns


def _is_annotated(lines: Sequence[str], *, is_pair: bool) -> bool:
    """Whether a text that begins with these lines has one word per line, in columns."""
    if lines and lines[0].startswith(("#begin document", "-DOCSTART-")):
        return True
    rows = [line for line in lines if not line.startswith("#")]
    for row in rows:
        if not _TAGGED.fullmatch(row) and (is_pair or not _TABS.fullmatch(row)):
            return False
    return len(rows) > 1


def _check_text(file: str, records: Records, *, is_pair: bool) -> None:
    """Raise ValueError for an annotated file, which has one word per line, and for one in columns,
    whose labels would be words.
    """
    path = Path(file)
    if _is_json(path):
        return
    if _is_annotated([str(record.get("text")) for _, record in records[:50]], is_pair=is_pair):
        raise ValueError(
            f"input={path} has one word per line, in columns, but job=predict reads text with one "
            "example per line, or JSON Lines (.jsonl); to evaluate on an annotated file, use "
            "job=evaluate data=files data.files.test=FILE"
        )
    if ".csv" in path.suffixes:
        raise ValueError(
            f"input={path}: commas separate its columns, but job=predict reads text with one "
            "example per line, or JSON Lines (.jsonl), for this task"
        )
    for number, record in records:
        if not is_pair and "\t" in record["text"].strip():
            raise ValueError(
                f"{path}:{number}: a tab, but a line must be one text without columns: "
                "`cut -f1 OLD > NEW` keeps the first column, say"
            )
