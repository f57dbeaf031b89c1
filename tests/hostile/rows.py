"""Every reader and loader of the project: good files, made here, and how a user comes to read them."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from elmo_bench.checkpoint import MODEL, restore
from elmo_bench.data import TaskData
from elmo_bench.encoders import build_store, find_store
from elmo_bench.encoders.bilm import BiLm, Options, load, save
from elmo_bench.jobs import embed as embedding
from elmo_bench.jobs import predict as prediction
from elmo_bench.jobs.diff import diff
from elmo_bench.jobs.pretrain import pretrain
from elmo_bench.jobs.report import report
from elmo_bench.jobs.score import score
from elmo_bench.jobs.train import train
from elmo_bench.layer_file import VectorFile
from elmo_bench.lm import Corpus, LanguageModel, load_language_model, save_softmax
from elmo_bench.module import TaskModule
from elmo_bench.report.plots import rendering
from elmo_bench.runs import dev_figure, finished, unfinished
from elmo_bench.sample import files as sample
from elmo_bench.text import (
    Vocab,
    cached_vectors,
    read_conllu,
    read_sentences,
    read_table,
    read_text,
    read_vectors,
)
from tests.jobs.small import SMALL
from tests.jobs.test_pretrain import LINES, TINY
from tests.jobs.test_resume import train_and_kill, until

from . import mutate
from .mutate import SECRET, Mutant, Mutator

CONF = str(Path(__file__).parents[2] / "conf")
SENTENCES = [["It", "rains", "."], ["No"], ["Ann", "sleeps", "and", "Bob", "sings"]]
RECORDS: dict[str, list[dict[str, Any]]] = {
    "ner": [{"id": 7, "tokens": ["Ann", "slept", "."]}, {"text": "Bob Smith sings."}],
    "sst5": [{"id": 7, "text": "Very good."}, {"tokens": ["Bad"]}],
    "snli": [{"id": 7, "sentence1": "A man sleeps.", "sentence2": ["A", "man", "runs", "."]}],
    "squad": [{"id": 7, "question": "Who sings?", "context": "Bob Smith sings, and Ann sleeps."}],
    "srl": [
        {"id": 7, "text": "Bob sings.", "predicate": 1},
        {"tokens": ["Ann", "slept"], "predicate": "slept"},
    ],
    "coref": [
        {"id": "nw/7", "text": "Bob sings. He smiles.", "speakers": ["a", "b"]},
        {"sentences": [["Ann", "slept"], ["She", "smiled"]]},
    ],
}
TASKS = tuple(RECORDS)


class WrongError(Exception):
    """What was read without an error, and is not right."""


class Seed(NamedTuple):
    """A good file, what may be done to it, and the files beside it."""

    file: str
    content: bytes
    mutators: Sequence[Mutator]
    beside: Mapping[str, bytes] = {}


class Row(NamedTuple):
    """A reader: its good files, how one is read, and what is done with its content next.

    Of a row that is `checked`, damage must be seen: its files have checksums. `says` picks of what
    was read what the file says. `gate` is the number of cases that the tests run.
    """

    name: str
    seeds: Callable[[], list[Seed]]
    read: Callable[[Path], Any]
    use: Callable[[Any, Path], Any] | None = None
    is_checked: bool = False
    gate: int = 25
    says: Callable[[Any], Any] = lambda content: content


@cache
def _workshop() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hostile-seeds-")


def workshop() -> Path:
    """Where the good files are made; it goes when the process ends."""
    return Path(_workshop().name)


def composed(*overrides: str) -> DictConfig:
    """The config of a command, on one processor and without a progress bar."""
    with initialize_config_dir(CONF, version_base="1.3"):
        return compose("config", [*overrides, "trainer=cpu", "trainer.enable_progress_bar=false"])


def given(cfg: DictConfig, **values: Any) -> DictConfig:
    """A copy of a config with other values."""
    cfg = cfg.copy()
    for key, value in values.items():
        OmegaConf.update(cfg, key, value)
    return cfg


def finite(name: str, array: Any) -> None:
    """Wrong, where a number is not finite."""
    if not np.isfinite(np.asarray(array)).all():
        raise WrongError(f"{name} holds numbers that are not finite")


# --- corpora ---


def corpus(task: str) -> Path:
    """The training file of a generated corpus of one story."""
    return sample(task=task, root=workshop(), size=1)["train"]


def corpus_seeds(task: str, mutators: Sequence[Mutator]) -> list[Seed]:
    path = corpus(task)
    return [Seed(path.name, path.read_bytes(), mutators)]


def read_corpus(task: str, path: Path) -> list[Any]:
    return list(import_module(f"tasks.{task}.data").read(path))


def gold(task: str, example: Any) -> Any:
    """What a model that is always right, or an untrained one, would predict."""
    if task == "squad":
        answer = import_module("tasks.squad.data").Answer
        return answer(example.answers[0], 0, 1) if example.answers else answer("", 0, 0)
    if example.gold == "-":
        return "2" if task == "sst5" else "neutral"
    return example.gold


def train_on(task: str, examples: Sequence[Any], path: Path) -> None:
    """Batches of the examples, and the file of right predictions, read again."""
    module = import_module(f"tasks.{task}.data")
    data = TaskData(
        {"train": path},
        read={"train": lambda _: iter(examples)},
        collate=module.collate,
        batch_size=4,
    )
    data.vocab = Vocab.build(data.sentences("train"), data.labels)
    for _ in islice(data.train_dataloader(), 3):
        pass
    write_and_read(task, examples, path)


def write_and_read(task: str, examples: Sequence[Any], path: Path) -> None:
    """What the task writes of its examples, it reads."""
    module, written = import_module(f"tasks.{task}.data"), path.with_name("as-written")
    predictions = [gold(task, example) for example in examples]
    module.write(examples, predictions, written)
    try:
        again = module.read_predictions(written, examples)
    except ValueError as error:
        if written.name not in str(error):  # of the gold file, which cannot be scored
            raise
        raise WrongError(f"what the task has written, it does not read: {error!s:.60}") from error
    if task in ("ner", "srl", "sst5", "snli") and again != predictions:
        raise WrongError("what the task has written is read as something else")


# --- text that is no corpus of a task ---

CONLLU = "# sent_id = 1\n1-2\tthedog" + "\t_" * 8 + "\n"
CONLLU += (
    "".join(f"{k}\t{word}" + "\t_" * 8 + "\n" for k, word in enumerate(["the", "dog"], 1)) + "\n"
)
VECTORS = "".join(
    f"{word} 0.25 -1.5 3e-2 {k}\n" for k, word in enumerate(("the", "dog", ",", "a", "New"))
)
RAW = "Dr. Ada said \"no.\" It's 5% off (really), see https://a.org/b?c=d.\n\nNew: don't!\n"


def text_seed(name: str, text: str, mutators: Sequence[Mutator] = mutate.LINES) -> list[Seed]:
    return [Seed(name, text.encode(), mutators)]


def binary_vectors() -> list[Seed]:
    rows = (
        b"%s " % word + np.arange(4, dtype="<f4").tobytes() + b"\n"
        for word in (b"the", b"dog", b"a")
    )
    return [
        Seed(
            "vectors.bin",
            b"3 4\n" + b"".join(rows),
            (*mutate.BINARY, mutate.gzipped(mutate.some_bytes)),
        )
    ]


def all_vectors(path: Path) -> dict[str, np.ndarray]:
    words, table = read_table(path)
    finite("the table", table)
    if len(table) != 1 + max(words.values()):
        raise WrongError("the table is not as long as its words")
    return {word: table[row] for word, row in words.items()}


def some_vectors(path: Path) -> dict[str, np.ndarray]:
    vectors = read_vectors(path, {"the", "dog", "New York", "a", "nan"})
    for word, vector in vectors.items():
        finite(f"the vector of {word}", vector)
    return vectors


def text_seeds() -> list[Seed]:
    lines = "".join(f"{' '.join(sentence)}\n" for sentence in SENTENCES)
    records = "".join(f"{json.dumps(sentence)}\n" for sentence in SENTENCES)
    return [
        *text_seed("sentences.txt", f"{lines}\n"),
        *text_seed("sentences.jsonl", records, mutate.JSON_LINES),
    ]


def read_lines_of(path: Path) -> list[Sequence[str]]:
    """The beginning of a file, which job=embed reads as a stream."""
    return list(islice(read_sentences(path), 100_000))


def read_raw(path: Path) -> list[Sequence[str]]:
    """The beginning of a text, which a pretraining reads as a stream."""
    return list(islice(read_text([path], raw=True), 20_000))


def use_sentences(sentences: Sequence[Sequence[str]], _: Path) -> None:
    encoder = bilm()
    for sentence in sentences[:5]:  # as job=embed does
        encoder.prepare([list(sentence)[:50]])
        json.dumps({" ".join(sentence): "0"}).encode()


# --- biLMs ---


@cache
def bilm() -> BiLm:
    """A small random biLM."""
    torch.manual_seed(0)
    return BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)))).eval()


@cache
def bilm_folder() -> dict[str, bytes]:
    """The files of a biLM with its softmax."""
    folder = workshop() / "bilm"
    torch.manual_seed(0)
    model = LanguageModel(bilm(), ["<S>", "</S>", "<UNK>", "rains", "Ann"])
    save(bilm(), folder / "weights.safetensors")
    save_softmax(model, folder)
    save(bilm(), folder / "weights.hdf5")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def bilm_seeds(target: str, *beside: str, mutators: Sequence[Mutator]) -> list[Seed]:
    files = bilm_folder()
    return [Seed(target, files[target], mutators, {name: files[name] for name in beside})]


def read_bilm(path: Path) -> BiLm:
    folder = path.parent
    weights = folder / "weights.safetensors" if path.suffix == ".json" else path
    encoder = load(folder / "options.json", weights)
    for name, tensor in encoder.state_dict().items():
        finite(name, tensor)
    return encoder


def run_bilm(encoder: BiLm, _: Path) -> None:
    layers = encoder(encoder.prepare(SENTENCES))
    if layers.shape[1:] != (3, 5, encoder.dim):
        raise WrongError(f"layers of shape {tuple(layers.shape)}")


def read_softmax(path: Path) -> LanguageModel:
    folder = path.parent
    model = load_language_model(folder / "options.json", folder / "weights.safetensors")
    for name, tensor in model.state_dict().items():
        finite(name, tensor)
    return model


def run_softmax(model: LanguageModel, _: Path) -> None:
    finite("the perplexity", list(model.perplexity(SENTENCES).values()))


# --- predictions ---


@cache
def score_config(task: str) -> DictConfig:
    return composed("job=score", f"task={task}", "gold=x", "predicted=x")


def prediction_seeds(task: str) -> list[Seed]:
    """What the task writes, and what job=predict writes, of its corpus."""
    module, path = import_module(f"tasks.{task}.data"), corpus(task)
    examples = list(module.read(path))
    written = workshop() / f"{task}-written"
    answers = [gold(task, example) for example in examples]
    module.write(examples, answers, written)
    labelled = [
        {"line": line} | ({"id": example.identity} if task == "squad" else {})
        | ({"pairID": example.identity} if task == "snli" else {}) | module.render(example, answer)
        for line, (example, answer) in enumerate(zip(examples, answers, strict=True), 1)
    ]  # fmt: skip
    lines = "".join(f"{json.dumps(record)}\n" for record in labelled).encode()
    beside = {f"gold-{path.name}": path.read_bytes()}
    official = (
        mutate.JSON if task == "squad" else mutate.JSON_LINES if task == "snli" else mutate.LINES
    )
    return [
        Seed(
            "predicted.out",
            written.read_bytes(),
            official,
            beside,
        ),
        Seed("predicted.jsonl", lines, mutate.JSON_LINES, beside),
    ]


def read_predicted(task: str, path: Path) -> dict[str, float]:
    gold_file = next(path.parent.glob("gold-*"))
    figures = score(given(score_config(task), gold=str(gold_file), predicted=str(path)))
    for name, value in figures.items():
        finite(name, value)
    return figures


def input_seeds(task: str) -> list[Seed]:
    records = "".join(f"{json.dumps(record)}\n\n" for record in RECORDS[task])
    text = (
        text_seed("input.txt", "Bob sings well.\nAnn slept.\n")
        if task in ("ner", "sst5", "coref")
        else []
    )
    return [*text, *text_seed("input.jsonl", records, mutate.JSON_LINES)]


@cache
def vocabulary(task: str) -> Vocab:
    examples = read_corpus(task, corpus(task))
    labels = {label for example in examples for label in example.labels}
    return Vocab.build([s for example in examples for s in example.sentences], labels | {"O"})


def read_input(task: str, path: Path) -> tuple[Any, TaskData]:
    """As job=predict reads, without a model."""
    module, records = import_module(f"tasks.{task}.data"), prediction._records(path)
    data = TaskData(
        {"test": path},
        read={"test": partial(prediction._parse, module.parse, records)},
        collate=module.collate,
        batch_size=4,
        vocab=vocabulary(task),
    )
    return records, data


def label_input(task: str, content: tuple[Any, TaskData], path: Path) -> None:
    """Batches, and a file of labels, JSON lines that are as many as the records."""
    module, (records, data) = import_module(f"tasks.{task}.data"), content
    for _ in islice(data.predict_dataloader(), 3):
        pass
    rendered = [module.render(example, gold(task, example)) for example in data.examples["test"]]
    output = path.with_name("labelled")
    prediction._write(records, rendered, str(output))
    lines = output.read_text(encoding="utf-8").split("\n")
    if len([json.loads(line) for line in lines if line]) != len(records):
        raise WrongError("not a line of output for each record")


# --- runs ---


@cache
def run_folder() -> Path:
    """A finished run of NER on a small biLM."""
    bilm_folder()
    folder = workshop() / "run"
    encoder = ["encoder=files", f"encoder.dir={workshop()}/bilm", f"cache_dir={workshop()}"]
    (workshop() / "bilm" / "weights.hdf5").unlink(missing_ok=True)
    small = [*SMALL["ner"], "fit.max_epochs=2", "data.size=1"]
    train(composed("task=ner", *encoder, *small, f"run_dir={folder}"))
    return folder


def run_files() -> dict[str, bytes]:
    """Two runs in a folder: the second is called the baseline, so that a report compares them."""
    names = ("result.json", "run.json", "metrics.csv", "counts/test.npz", "counts/dev.npz")
    names += ("predictions/test.conll",)
    files = {f"a/{name}": (run_folder() / name).read_bytes() for name in names}
    result = json.loads(files["a/result.json"])
    result["config"]["encoder"] = {"name": "none"}
    baseline = {name.replace("a/", "b/", 1): content for name, content in files.items()}
    return files | baseline | {"b/result.json": json.dumps(result).encode()}


def run_seeds(*targets: str, mutators: Sequence[Mutator]) -> list[Seed]:
    files = run_files()
    return [
        Seed(name, files[name], mutators, {other: files[other] for other in files if other != name})
        for name in targets
    ]


@cache
def report_config() -> DictConfig:
    return composed("job=report", "runs=x", "columns=encoder", "baseline=none")


def read_report(path: Path) -> None:
    """As job=report reads: all runs of a folder, in every format; what figures show is read, and
    they are not drawn.
    """
    folder = next(parent for parent in path.parents if parent.name in "ab").parent
    outputs = [str(folder / f"report.{suffix}") for suffix in ("html", "md", "tex", "csv", "json")]
    try:
        with patch.object(rendering, "inline", lambda plot: ""):
            report(given(report_config(), runs=str(folder), output=outputs))
    except ValueError as error:  # an edited result is of another run, and no baseline is left
        if not str(error).startswith("baseline=") and "cannot be compared" not in str(error):
            raise


@cache
def diff_config() -> DictConfig:
    return composed("job=diff", "a=x", "b=x", f"cache_dir={workshop()}")


def read_diff(path: Path) -> None:
    """As job=diff reads: both runs, their counts and predictions."""
    folder = next(parent for parent in path.parents if parent.name in "ab").parent
    try:
        diff(given(diff_config(), a=str(folder / "a"), b=str(folder / "b")))
    except ValueError as error:  # an edited run cannot be compared with the other
        if not str(error).startswith(("a=", "metric=")):
            raise


def read_run(path: Path) -> None:
    """As a sweep reads what earlier runs left: what is damaged is no run."""
    folder = path.parents[1]
    if path.is_file():
        finished([folder]), unfinished([folder])
        dev_figure(path.parent)


# --- checkpoints ---


@cache
def restore_config() -> DictConfig:
    return composed("job=evaluate", "checkpoint=x", f"cache_dir={workshop()}")


def checkpoint_seeds() -> list[Seed]:
    return [Seed("best.ckpt", (run_folder() / "best.ckpt").read_bytes(), mutate.TORCH)]


def read_checkpoint(path: Path) -> Any:
    config, module, vocab = restore(given(restore_config(), checkpoint=str(path)))
    model = OmegaConf.masked_copy(config, list(MODEL))
    plain = OmegaConf.to_container(model, resolve=True)
    if "secret-of-this-machine" in f"{plain} {vocab.state()}":
        raise WrongError(f"the variable {SECRET} was read")
    weights = module.state_dict()
    for name, tensor in weights.items():
        finite(name, tensor)
    return (
        plain,
        vocab.state(),
        {name: tensor.numpy().tobytes() for name, tensor in weights.items()},
    )


@cache
def unfinished_run() -> tuple[DictConfig, dict[str, bytes]]:
    """The config of a run of NER, and what is in its folder when it is killed."""
    folder = workshop() / "killed"
    small = ["rnn.hidden_size=8", "embed.num_filters=4", "task.model.hidden_size=8", "encoder=none"]
    steps = ["fit.max_epochs=2", "fit.batch_size=2", "fit.save_minutes=0", "resume=true"]
    where = [f"cache_dir={workshop()}", f"run_dir={folder}"]
    cfg = composed("task=ner", "data.size=1", *small, *steps, *where)
    train_and_kill(cfg, TaskModule, "training_step", until(3))
    return cfg, {
        name: (folder / name).read_bytes() for name in ("run.json", "best.ckpt", "last.ckpt")
    }


def unfinished_seeds() -> list[Seed]:
    _, files = unfinished_run()
    beside = {name: files[name] for name in ("run.json", "best.ckpt")}
    return [Seed("last.ckpt", files["last.ckpt"], mutate.TORCH, beside)]


def go_on(path: Path) -> Any:
    """As a killed run goes on: to its end, whose figures and weights are those of any other."""
    cfg, _ = unfinished_run()
    metrics = train(given(cfg, run_dir=str(path.parent)))
    best = torch.load(path.with_name("best.ckpt"), weights_only=True)["state_dict"]
    for name, array in (*metrics.items(), *best.items()):
        finite(name, array)
    return metrics, {name: tensor.numpy().tobytes() for name, tensor in best.items()}


@cache
def unfinished_training() -> tuple[DictConfig, dict[str, bytes]]:
    """The config of a pretraining, and what is in its folder half way."""
    text, out = workshop() / "text.txt", workshop() / "pretrained"
    text.write_text("".join(f"{line}\n" for line in LINES))
    where = ["text=files", f"text.files.train={text}", f"text.files.dev={text}", f"out={out}"]
    cfg = composed("job=pretrain", *where, f"cache_dir={workshop()}", *TINY)
    pretrain(given(cfg, **{"pretrain.max_steps": 6}))
    return cfg, {path.name: path.read_bytes() for path in out.iterdir()}


def training_seeds() -> list[Seed]:
    _, files = unfinished_training()
    beside = {name: content for name, content in files.items() if name != "last.ckpt"}
    return [Seed("last.ckpt", files["last.ckpt"], mutate.TORCH, beside)]


def go_on_pretraining(path: Path) -> Any:
    """As a pretraining that was stopped goes on, to its end."""
    cfg, _ = unfinished_training()
    figures = pretrain(given(cfg, out=str(path.parent)))
    for name, figure in figures.items():
        finite(name, figure)
    return figures, path.with_name("weights.safetensors").read_bytes()


# --- what is kept beside runs ---


def encoded_seeds() -> list[Seed]:
    """A text as numbers, as a pretraining keeps it."""
    folder = workshop() / "encoded"
    Corpus.encode(SENTENCES, folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return [
        Seed(
            name,
            content,
            mutate.JSON if name.endswith(".json") else mutate.BINARY,
            {other: files[other] for other in files if other != name},
        )
        for name, content in files.items()
    ]


def use_encoded(text: Corpus, _: Path) -> None:
    text.vocabulary(), text.frames(20), text.digest()
    for direction in ("forward", "backward"):
        rng = np.random.default_rng(0)
        list(text.windows(direction, batch_size=2, unroll=2, rng=rng))


def kept_seeds() -> list[Seed]:
    """The vectors of a data set's words, as a sweep keeps them."""
    (workshop() / "some.txt").write_text(VECTORS)
    read_kept(workshop() / "vectors" / "x")
    return [
        Seed(path.name, path.read_bytes(), mutate.NPZ)
        for path in (workshop() / "vectors").iterdir()
        if path.suffix == ".npz"
    ]


def read_kept(path: Path) -> Any:
    words = cached_vectors(str(workshop() / "some.txt"), {"the", "dog"}, path.parent)
    for word, vector in words.items():
        finite(word, vector)
    return {word: vector.tolist() for word, vector in words.items()}


@cache
def mix_config() -> DictConfig:
    """The encoder of `run_folder`."""
    folder = workshop() / "bilm"
    encoder = [f"encoder.options={folder}/options.json", "encoder=files"]
    encoder.append(f"encoder.weights={folder}/weights.safetensors")
    return composed("job=embed", "input=x", "output=x", *encoder, f"cache_dir={workshop()}")


def read_mix(path: Path) -> None:
    """As job=embed reads the mix of a finished run."""
    shares, gamma, _ = embedding._learned(mix_config(), path)
    finite("the mix", [*shares, gamma])


def store_seeds() -> list[Seed]:
    folder = workshop() / "layers"
    build_store(bilm(), SENTENCES, [0, 1, 2], folder).close()
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return [
        Seed(
            name,
            content,
            store_mutators(files, name),
            {o: c for o, c in files.items() if o != name},
        )
        for name, content in files.items()
        if content
    ]


def store_mutators(files: Mapping[str, bytes], name: str) -> Sequence[Mutator]:
    def swapped(data: bytes, rng: Any) -> Mutant:
        other = rng.choice([other for other in files if other != name])
        return Mutant(files[other], f"{other} instead")

    return (*mutate.BINARY, swapped)


def read_store(path: Path) -> Any:
    """As a run does: find the layers or compute them again."""
    folder = path.parents[1]
    encoder, mask = bilm(), torch.tensor([[k < len(s) for k in range(5)] for s in SENTENCES])
    contents = []
    for opened in (find_store, build_store):
        store = opened(encoder, SENTENCES, [0, 1, 2], folder)
        if store is not None:
            layers = store(SENTENCES, mask)
            finite("the store", layers)
            contents.append(layers.numpy().tobytes())
            store.close()
    if len({*contents}) > 1:
        raise WrongError("a store that was found differs from the one that is built")
    return contents[-1]


SHAPES = [(3, length, 8) for length in (3, 1, 5)]
PURPOSE = {"input": "x", "encoder": "y", "layers": "all", "dtype": "float32", "layout": "lines"}


def part_file(output: Path, until: int) -> VectorFile:
    """A file of vectors, filled up to a sentence."""
    file = VectorFile(output, SHAPES, torch.float32, PURPOSE, None)
    with file.filling():
        for number in range(file.done, until):
            file.write(number, torch.full(SHAPES[number], float(number)))
            file.keep(number + 1)
    return file


def part_seeds() -> list[Seed]:
    seeds = []
    for suffix in ("h5", "safetensors"):
        folder = workshop() / f"part-{suffix}"
        folder.mkdir()
        part_file(folder / f"x.{suffix}", 2)
        journal, part = f"x.{suffix}.part.json", f"x.{suffix}.part"
        files = {name: (folder / name).read_bytes() for name in (journal, part)}
        seeds.append(Seed(journal, files[journal], mutate.JSON, {part: files[part]}))
        seeds.append(Seed(part, files[part], mutate.BINARY, {journal: files[journal]}))
    return seeds


def read_part(path: Path) -> dict[str, list[float]]:
    """As job=embed goes on: the file is filled and must then be one of the format."""
    output = path.with_name(path.name.partition(".part")[0])
    part_file(output, len(SHAPES)).close()
    try:
        content = {name: array.copy() for name, array in arrays(output)}
    except Exception as error:
        raise WrongError(f"the finished file cannot be read: {error!s:.60}") from error
    if {name: array.shape for name, array in content.items()} != {
        str(number): shape for number, shape in enumerate(SHAPES)
    }:
        raise WrongError("the finished file has other arrays")
    return {name: array.reshape(-1).tolist() for name, array in content.items()}


def arrays(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    if path.suffix == ".h5":
        import h5py

        with h5py.File(path) as file:
            yield from ((name, file[name][()]) for name in file)
    else:
        from safetensors.numpy import load_file

        yield from load_file(path).items()


def rows() -> Iterator[Row]:
    """All rows of the table."""
    corpora = {
        "ner": mutate.LINES,
        "srl": mutate.LINES,
        "coref": mutate.LINES,
        "sst5": mutate.LINES,
        "snli": mutate.JSON_LINES,
        "squad": (*mutate.JSON, mutate.gzipped(mutate.some_json)),
    }
    for task, mutators in corpora.items():
        seeds = cache(partial(corpus_seeds, task, mutators))
        yield Row(task, seeds, partial(read_corpus, task), partial(train_on, task))
    yield Row(
        "conllu",
        cache(partial(text_seed, "x.conllu", CONLLU)),
        lambda path: list(read_conllu(path)),
    )
    yield Row("vectors", cache(partial(text_seed, "vectors.txt", VECTORS)), some_vectors)
    yield Row("table", cache(partial(text_seed, "vectors.txt", VECTORS)), all_vectors)
    yield Row("binary-table", cache(binary_vectors), all_vectors)
    yield Row("sentences", cache(text_seeds), read_lines_of, use_sentences)
    raw = cache(partial(text_seed, "raw.txt", RAW))
    yield Row("raw-text", raw, read_raw, use_sentences, gate=10)
    options, weights = "options.json", "weights.safetensors"
    hdf5 = partial(bilm_seeds, "weights.hdf5", options, mutators=mutate.HDF5)
    yield Row("hdf5", cache(hdf5), read_bilm, run_bilm)
    safetensors = partial(bilm_seeds, weights, options, mutators=mutate.SAFETENSORS)
    yield Row("safetensors", cache(safetensors), read_bilm, run_bilm)
    yield Row(
        "options",
        cache(partial(bilm_seeds, options, weights, mutators=mutate.JSON)),
        read_bilm,
        run_bilm,
    )
    softmax, words = "softmax.safetensors", "vocabulary.txt"
    vocabulary_seeds = partial(
        bilm_seeds, words, softmax, options, weights, mutators=mutate.PLAIN_LINES
    )
    yield Row("vocabulary", cache(vocabulary_seeds), read_softmax, run_softmax)
    softmax_seeds = partial(
        bilm_seeds, softmax, words, options, weights, mutators=mutate.SAFETENSORS
    )
    yield Row("softmax", cache(softmax_seeds), read_softmax, run_softmax)
    for task in TASKS:
        yield Row(
            f"{task}-predictions",
            cache(partial(prediction_seeds, task)),
            partial(read_predicted, task),
        )
    for task in TASKS:
        reader, user = partial(read_input, task), partial(label_input, task)
        seeds = cache(partial(input_seeds, task))
        yield Row(f"{task}-input", seeds, reader, user, gate=15, says=lambda content: content[0])
    results = partial(run_seeds, "a/result.json", "b/result.json", mutators=mutate.JSON)
    yield Row("result", cache(results), read_report, gate=12)
    compared = partial(run_seeds, "a/result.json", "b/result.json", mutators=mutate.JSON)
    yield Row("diff", cache(compared), read_diff, gate=8)
    begun = partial(run_seeds, "a/run.json", "a/result.json", mutators=mutate.JSON)
    yield Row("run", cache(begun), read_run)
    counts = partial(run_seeds, "a/counts/test.npz", mutators=mutate.NPZ)
    yield Row("counts", cache(counts), read_report, gate=12)
    curves = partial(run_seeds, "a/metrics.csv", mutators=mutate.PLAIN_LINES)
    yield Row("metrics", cache(curves), read_report, gate=12)
    yield Row("best.ckpt", cache(checkpoint_seeds), read_checkpoint, is_checked=True, gate=12)
    yield Row("last.ckpt", cache(unfinished_seeds), go_on, is_checked=True, gate=5)
    yield Row("pretraining", cache(training_seeds), go_on_pretraining, is_checked=True, gate=5)
    encoded = cache(encoded_seeds)
    yield Row("encoded-text", encoded, lambda path: Corpus.open(path.parent), use_encoded)
    yield Row("kept-vectors", cache(kept_seeds), read_kept, is_checked=True)
    mix = partial(run_seeds, "a/result.json", mutators=mutate.JSON)
    yield Row("mix", cache(mix), read_mix)
    yield Row("store", cache(store_seeds), read_store, is_checked=True)
    yield Row("part", cache(part_seeds), read_part, is_checked=True)


ROWS = {row.name: row for row in rows()}
