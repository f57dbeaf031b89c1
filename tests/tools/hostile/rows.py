"""The readers of the project: good files, made here, and how a user comes to read them.

A new reader gets a row here.
"""

import json
import tempfile
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from elmo_bench.build.checkpoint import MODEL, restore
from elmo_bench.encoders.bilm import BiLm, load, save
from elmo_bench.jobs import predict as prediction
from elmo_bench.jobs.report import report
from elmo_bench.jobs.score import score
from elmo_bench.jobs.train import train
from elmo_bench.lm import LanguageModel, load_language_model, save_softmax
from elmo_bench.report.plots import style
from elmo_bench.sample import files as sample
from elmo_bench.text import read_conllu, read_sentences, read_vectors
from elmo_bench.text.sentences import read_text
from elmo_bench.training.in_parts import InParts
from tests import conftest
from tests.encoders.random_bilm import random_bilm
from tests.jobs.killed import kill_at, train_and_kill
from tests.jobs.small_settings import SMALL
from tests.tasks.small_files import RECORDS, format_module

from . import damages
from .damages import Damage

SENTENCES = [["It", "rains", "."], ["No"], ["Ann", "sleeps", "and", "Bob", "sings"]]
TASKS = tuple(task for task in RECORDS if task != "pos")  # which reads the same files as parse
RAW_TEXT = ("ner", "sst5", "coref")  # tasks whose input may be raw text


class WrongError(Exception):
    """What was read without an error, and is not right."""


class Seed(NamedTuple):
    """A good file, what may be done to it, and the files beside it."""

    file: str
    content: bytes
    damages: Mapping[str, Damage] = damages.TEXT
    beside: Mapping[str, bytes] = {}


class Row(NamedTuple):
    """A reader: its good files, and how one is read.

    Of a row that is `checked`, damage must be seen: its files have checksums. `weight` and `repeats`
    are more for what is read fast: cases in a round of the fuzz, and of each damage in the tests.
    """

    name: str
    seeds: Callable[[], list[Seed]]
    read: Callable[[Path], Any]
    is_checked: bool = False
    weight: int = 20
    repeats: int = 2


@cache
def _workshop() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hostile-seeds-")


def workshop() -> Path:
    """Where the good files are made; it goes when the process ends."""
    return Path(_workshop().name)


def composed(*overrides: str) -> DictConfig:
    """The config of a command, on one processor and without a progress bar."""
    return conftest.composed(*overrides, "trainer=cpu", "trainer.enable_progress_bar=false")


def given(cfg: DictConfig, **values: Any) -> DictConfig:
    """A copy of a config with other values."""
    cfg = cfg.copy()
    for key, value in values.items():
        OmegaConf.update(cfg, key, value)
    return cfg


def finite(arrays: Mapping[str, Any]) -> None:
    """Wrong, where a number is not finite."""
    for name, array in arrays.items():
        if not np.isfinite(np.asarray(array)).all():
            raise WrongError(f"{name} holds numbers that are not finite")


def corpus(task: str) -> Path:
    """The training file of a sample corpus of one story."""
    return sample(task=task, root=workshop(), size=1)["train"]


def corpus_seeds(task: str) -> list[Seed]:
    path = corpus(task)
    kinds = {"snli": damages.LINES, "squad": damages.JSON}.get(task, damages.TEXT)
    return [Seed(path.name, path.read_bytes(), kinds | damages.PACKED)]


def read_corpus(task: str, path: Path) -> list[Any]:
    return list(format_module(task).read(path))


WORD = "{}\t{}" + "\t_" * 8 + "\n"
CONLLU = f"# sent_id = 1\n{WORD}{WORD}{WORD}\n".format("1-2", "thedog", 1, "the", 2, "dog")
VECTORS = "".join(f"{word} 0.25 -1.5 3e-2 7\n" for word in ("the", "dog", ",", "a", "New"))
RAW = "Dr. Ada said \"no.\" It's 5% off (really), see https://a.org/b?c=d.\n\nNew: don't!\n"


def text_seeds(**texts: str) -> list[Seed]:
    """Texts by their names, in which _ stands for a dot."""
    named = {name.replace("_", "."): text.encode() for name, text in texts.items()}
    return [
        Seed(name, text, damages.LINES if name.endswith("jsonl") else damages.TEXT)
        for name, text in named.items()
    ]


def all_vectors(path: Path, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """As encoder=static reads."""
    rows, table = read_vectors(path, wanted)
    finite({"the table": table})
    return {word: table[row] for word, row in rows.items()}


def some_vectors(path: Path) -> dict[str, np.ndarray]:
    return all_vectors(path, {"the", "dog", "New York", "a", "nan"})


@cache
def bilm_folder() -> dict[str, bytes]:
    """The files of a biLM with its softmax."""
    folder = workshop() / "bilm"
    torch.manual_seed(0)
    encoder = random_bilm(cell_size=8, filters=((1, 4), (3, 4))).eval()
    model = LanguageModel(encoder, ["<S>", "</S>", "<UNK>", "rains", "Ann"])
    save(encoder, folder / "weights.safetensors")
    save_softmax(model, folder)
    save(encoder, folder / "weights.hdf5")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def bilm_seeds(target: str, *beside: str, kinds: Mapping[str, Damage]) -> list[Seed]:
    files = bilm_folder()
    return [Seed(target, files[target], kinds, {name: files[name] for name in beside})]


def read_bilm(path: Path) -> BiLm:
    folder = path.parent
    weights = folder / "weights.safetensors" if path.suffix == ".json" else path
    encoder = load(folder / "options.json", weights)
    finite(encoder.state_dict())
    return encoder


def read_softmax(path: Path) -> LanguageModel:
    folder = path.parent
    model = load_language_model(folder / "options.json", folder / "weights.safetensors")
    finite(model.state_dict())
    return model


def gold(task: str, example: Any) -> Any:
    """What a model that is always right, or an untrained one, would predict."""
    if task == "squad":
        answer = format_module("squad").Answer
        return answer(example.gold[0], 0, 1) if example.gold else answer("", 0, 0)
    if example.gold is None:
        return "2" if task == "sst5" else "neutral"
    return example.gold


@cache
def score_config(task: str) -> DictConfig:
    return composed("job=score", f"task={task}", "gold=x", "predicted=x")


def prediction_seeds(task: str) -> list[Seed]:
    """What the task writes of its corpus."""
    form, path = format_module(task), corpus(task)
    examples = list(form.read(path))
    written = workshop() / f"{task}-written"
    form.write(examples, [gold(task, example) for example in examples], written)
    beside = {f"gold-{path.name}": path.read_bytes()}
    kinds = damages.JSON if task == "squad" else damages.TEXT
    return [Seed("predicted.out", written.read_bytes(), kinds, beside)]


def read_predicted(task: str, path: Path) -> dict[str, float]:
    gold_file = next(path.parent.glob("gold-*"))
    figures = score(given(score_config(task), gold=str(gold_file), predicted=str(path)))
    finite(figures)
    return figures


def input_seeds(task: str) -> list[Seed]:
    records = "".join(f"{json.dumps(record)}\n\n" for record in RECORDS[task])
    text = {"input_txt": "Bob sings well.\nAnn slept.\n"} if task in RAW_TEXT else {}
    return text_seeds(input_jsonl=records, **text)


def read_input(task: str, path: Path) -> Any:
    """As job=predict reads, without a model."""
    records, parse = prediction._records(path), format_module(task).parse
    for line, record in records:
        parse(record, f"{path}:{line}")
    return records


@cache
def run_folder() -> Path:
    """A finished run of NER on a small biLM."""
    bilm_folder()
    folder = workshop() / "run"
    encoder = ["encoder=files", f"encoder.dir={workshop()}/bilm", f"cache_dir={workshop()}"]
    (workshop() / "bilm" / "weights.hdf5").unlink(missing_ok=True)
    small = [*SMALL["ner"], "fit.max_epochs=2", "data.size=2"]
    train(composed("task=ner", *encoder, *small, f"run_dir={folder}"))
    return folder


def run_files() -> dict[str, bytes]:
    """Two runs in a folder: the second is called the baseline, so that a report compares them."""
    names = ("result.json", "run.json", "metrics.csv", "counts/test.npz", "counts/dev.npz")
    files = {f"a/{name}": (run_folder() / name).read_bytes() for name in names}
    result = json.loads(files["a/result.json"])
    result["config"]["encoder"] = {"name": "none"}
    baseline = {name.replace("a/", "b/", 1): content for name, content in files.items()}
    return files | baseline | {"b/result.json": json.dumps(result).encode()}


def run_seeds(target: str, kinds: Mapping[str, Damage]) -> list[Seed]:
    files = run_files()
    return [Seed(target, files[target], kinds, files)]


@cache
def report_config() -> DictConfig:
    return composed("job=report", "runs=x", "columns=encoder", "baseline=none")


def read_report(path: Path) -> None:
    """As job=report reads: all runs of a folder, in every format; what figures show is read, and
    they are not drawn.
    """
    folder = next(parent for parent in path.parents if parent.name in "ab").parent
    outputs = [str(folder / f"report.{suffix}") for suffix in ("html", "md", "tex", "csv")]
    try:
        with patch.object(style, "svg", lambda plots: ""):
            report(given(report_config(), runs=str(folder), output=outputs))
    except ValueError as error:  # an edited result is of another run, and no baseline is left
        if not str(error).startswith("baseline=") and "cannot be compared" not in str(error):
            raise


@cache
def restore_config() -> DictConfig:
    return composed("job=evaluate", "checkpoint=x", f"cache_dir={workshop()}")


def checkpoint_seeds() -> list[Seed]:
    return [Seed("best.ckpt", (run_folder() / "best.ckpt").read_bytes(), damages.ANY)]


def read_checkpoint(path: Path) -> Any:
    config, module, vocab, _ = restore(given(restore_config(), checkpoint=str(path)))
    model = OmegaConf.masked_copy(config, list(MODEL))
    plain = OmegaConf.to_container(model, resolve=True)
    weights = module.state_dict()
    finite(weights)
    contents = {name: tensor.numpy().tobytes() for name, tensor in weights.items()}
    return plain, vocab.state(), contents


@cache
def unfinished_run() -> tuple[DictConfig, dict[str, bytes]]:
    """The config of a run of NER, and what is in its folder when it is killed."""
    folder = workshop() / "killed"
    small = ["rnn.hidden_size=8", "embed.num_filters=4", "task.model.hidden_size=8", "encoder=none"]
    steps = ["fit.max_epochs=2", "fit.batch_size=2", "fit.save_minutes=0", "resume=true"]
    where = [f"cache_dir={workshop()}", f"run_dir={folder}"]
    cfg = composed("task=ner", "data.size=2", *small, *steps, *where)
    train_and_kill(cfg, InParts, "training_step", kill_at(6))
    names = ("run.json", "best.ckpt", "last.ckpt")
    return cfg, {name: (folder / name).read_bytes() for name in names}


def unfinished_seeds() -> list[Seed]:
    _, files = unfinished_run()
    return [Seed("last.ckpt", files["last.ckpt"], damages.ANY, files)]


def go_on(path: Path) -> Any:
    """As a killed run goes on: to its end, whose figures and weights are those of any other."""
    cfg, _ = unfinished_run()
    metrics = train(given(cfg, run_dir=str(path.parent)))
    best = torch.load(path.with_name("best.ckpt"), weights_only=True)["state_dict"]
    finite(metrics | best)
    return metrics, {name: tensor.numpy().tobytes() for name, tensor in best.items()}


def rows() -> list[Row]:
    """All rows of the table."""
    found = []

    def add(name: str, seeds: Callable[[], list[Seed]], read: Any, **more: Any) -> None:
        found.append(Row(name, cache(seeds), read, **more))

    slow, seldom = {"weight": 5, "repeats": 1}, {"weight": 1, "repeats": 1}
    checked = {"is_checked": True}
    for task in TASKS:
        add(task, partial(corpus_seeds, task), partial(read_corpus, task))
        predictions = partial(prediction_seeds, task)
        add(f"{task}-predictions", predictions, partial(read_predicted, task), **slow)
        add(f"{task}-input", partial(input_seeds, task), partial(read_input, task))
    add("conllu", partial(text_seeds, x_conllu=CONLLU), lambda path: list(read_conllu(path)))
    add("vectors", partial(text_seeds, vectors_txt=VECTORS), some_vectors)
    add("all-vectors", partial(text_seeds, vectors_txt=VECTORS), all_vectors)
    lines = "".join(f"{' '.join(sentence)}\n" for sentence in SENTENCES)
    records = "".join(f"{json.dumps(sentence)}\n" for sentence in SENTENCES)
    texts = partial(text_seeds, sentences_txt=f"{lines}\n", sentences_jsonl=records)
    add("sentences", texts, lambda path: list(islice(read_sentences(path), 100_000)))
    raw = partial(text_seeds, raw_txt=RAW)
    add("raw-text", raw, lambda path: list(islice(read_text([path], raw=True), 20_000)))
    files = ("options.json", "weights.safetensors", "vocabulary.txt", "softmax.safetensors")
    for name, target, kinds, read in (
        ("hdf5", "weights.hdf5", damages.ANY, read_bilm),
        ("safetensors", "weights.safetensors", damages.ANY, read_bilm),
        ("options", "options.json", damages.JSON, read_bilm),
        ("vocabulary", "vocabulary.txt", damages.TEXT, read_softmax),
        ("softmax", "softmax.safetensors", damages.ANY, read_softmax),
    ):
        add(name, partial(bilm_seeds, target, *files, kinds=kinds), read)
    for name, target, kinds in (
        ("result", "a/result.json", damages.JSON),
        ("counts", "a/counts/test.npz", damages.ANY),
        ("metrics", "a/metrics.csv", damages.TEXT),
    ):
        add(name, partial(run_seeds, target, kinds), read_report, **seldom)
    add("best.ckpt", checkpoint_seeds, read_checkpoint, **checked, **slow)
    add("last.ckpt", unfinished_seeds, go_on, **checked, **seldom)
    return found


ROWS = {row.name: row for row in rows()}
