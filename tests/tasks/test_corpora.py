"""Every real corpus: gold written as predictions scores 1 in `job=score`, and comes back as it was."""

import gzip
import itertools
import json
import lzma
import shutil
from collections import Counter

import pytest

from elmo_bench.build.task_format import reader, task_format
from elmo_bench.jobs.score import score
from elmo_bench.settings import inputs
from elmo_bench.text import read_lines
from tasks.classify import snli, sst
from tasks.coref import data as coref
from tasks.ner import data as ner
from tasks.squad import data as squad
from tasks.squad.data import Answer
from tasks.srl import data as srl
from tasks.srl.metric import arguments
from tasks.treebank import parse
from tests.conftest import composed

FILES = [
    *(("ner", f"ner/{name}") for name in ("wikigold.train.txt", "wnut17.test.official.conll")),
    *(("srl", f"srl/ewt.{split}.gold_conll.gz") for split in ("train", "test")),
    *(("coref", f"coref/ontogum.{split}.gold_conll.gz") for split in ("dev", "test")),
    *(("squad", f"squad/{name}.json.gz") for name in ("train-v1.1.subset", "dev-v1.1")),
    *(("snli", f"snli/snli_1.0_{name}.jsonl.gz") for name in ("train.subset", "dev")),
    *(("sst5", f"sst/{split}.txt") for split in ("dev", "test")),
    ("parse", "ud/Italian-TWITTIRO/it_twittiro-ud-dev.conllu"),
    ("pos", "ud/Vietnamese-VTB/vi_vtb-ud-test.conllu.gz"),
]
# How much of a large file: articles of SQuAD, lines of the others. All of each has been tried, but
# takes a minute.
PART = {
    **dict.fromkeys(("squad/train-v1.1.subset.json.gz", "squad/dev-v1.1.json.gz"), 5),
    **dict.fromkeys(("snli/snli_1.0_train.subset.jsonl.gz", "snli/snli_1.0_dev.jsonl.gz"), 3000),
    "srl/ewt.train.gold_conll.gz": 20_000,
}


def beginning(path, count, folder):
    """A file of the beginning of another, in whole documents."""
    if ".json." in path.name:
        corpus = json.loads(gzip.decompress(path.read_bytes()))
        text = json.dumps(corpus | {"data": corpus["data"][:count]})
    else:
        text = "".join(f"{line}\n" for _, line in itertools.islice(read_lines(path), count))
        text = text[: text.rindex("#end document\n") + 14] if "_conll" in path.name else text
    (folder / path.name).write_bytes(gzip.compress(text.encode(), 1))
    return folder / path.name


@pytest.mark.parametrize(("task", "name"), FILES, ids=[name for _, name in FILES])
def test_gold_against_gold(shared_data, tmp_path, monkeypatch, task, name):
    gold, predicted = shared_data / name, tmp_path / "predicted"
    if name in PART:
        gold = beginning(gold, PART[name], tmp_path)
    cfg = composed("job=score", f"task={task}", f"gold={gold}", f"predicted={predicted}")
    examples, form = list(reader(cfg, "test")(gold)), task_format(cfg)
    answers = [Answer(example.gold[0]) if task == "squad" else example.gold for example in examples]
    form.write(examples, answers, predicted)
    assert form.read_predictions(predicted, examples) == answers
    # Gold need not be read twice.
    monkeypatch.setattr("elmo_bench.jobs.score.reader", lambda cfg, split: lambda path: examples)
    figures = score(cfg)
    assert figures[cfg.task.monitor] == 1
    # The part of SNLI lacks a label, whose scores are 0 for want of examples.
    counted = set(figures)
    if task == "snli":
        labels = {example.gold for example in examples}
        counted = {name for name in figures if name.rpartition("/")[0] in {"", *labels}}
    assert {figures[name] for name in counted} == {1.0}


@pytest.mark.parametrize(
    ("split", "sentences", "entities"),
    [("train", 3394, 1975), ("dev", 1009, 836), ("test", 1287, 1079)],
)
def test_two_and_four_columns_are_the_same_corpus(shared_data, split, sentences, entities):
    """WNUT-17 as its authors give it (IOB2) and in the columns of CoNLL-2003 (IOB1)."""
    official, columns = (
        [
            (one.words, one.entities)
            for one in ner.read(shared_data / "ner" / f"wnut17.{split}.{end}")
        ]
        for end in ("official.conll", "txt")
    )
    assert official == columns
    assert (len(official), sum(len(spans) for _, spans in official)) == (sentences, entities)


def test_comments_of_multiconer_are_no_words(shared_data):
    examples = list(ner.read(shared_data / "ner" / "multiconer2.en-dev.conll"))
    counts = len(examples), sum(len(each.words) for each in examples)
    assert counts == (871, 13_323)
    assert sum(len(each.entities) for each in examples) == 1296


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("English-EWT/en_ewt-ud-dev.conllu.gz", (2001, 25_147, 359, 4, 318)),
        ("Italian-TWITTIRO/it_twittiro-ud-dev.conllu", (144, 2995, 137, 0, 1)),
        ("Vietnamese-VTB/vi_vtb-ud-test.conllu.gz", (800, 11_692, 0, 0, 1)),
    ],
)
def test_counts_of_treebanks(shared_data, name, counts):
    """Sentences, words, multiword tokens, empty nodes, documents."""
    examples = list(parse.read(shared_data / "ud" / name))
    ids = [line.split("\t")[0] for one in examples for line in one.lines if line[0] != "#"]
    others = (sum(mark in number for number in ids) for mark in "-.")
    words = sum(len(example.words) for example in examples)
    documents = len({example.document for example in examples})
    assert (len(examples), words, *others, documents) == counts


def test_counts_of_ewt_and_ontogum(shared_data):
    """The figures of the corpora's READMEs."""
    examples = list(srl.read(shared_data / "srl" / "ewt.test.gold_conll.gz"))
    assert sum(bool(example.predicate) for example in examples) == 4799
    assert len({example.source for example in examples}) == 2059
    assert sum(role != "V" for each in examples for role, _ in arguments(each.gold)) == 9258
    documents = list(coref.read(shared_data / "coref" / "ontogum.dev.gold_conll.gz"))
    mentions = [len(cluster) for document in documents for cluster in document.gold]
    assert (len(documents), len(mentions), sum(mentions)) == (12, 296, 1233)
    assert sum(len(document.sentences) for document in documents) == 438


BINARY = ["0", "1"]
GLUE = {  # split, labels (for scores their mean) and how many examples each has, or all
    "cola": ("test", BINARY, [322, 721]),
    "mnli": ("test", ["contradiction", "entailment", "neutral"], [3213, 3479, 3123]),
    "mrpc": ("test", BINARY, [578, 1147]),
    "qnli": ("test", ["entailment", "not_entailment"], [2702, 2761]),
    "rte": ("train", ["entailment", "not_entailment"], [1249, 1241]),
    "sst2": ("test", BINARY, [428, 444]),
    "stsb": ("test", 2.608, 1379),
    "trec": (
        "train",
        ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"],
        [86, 1162, 1250, 1223, 835, 896],
    ),
}


@pytest.mark.parametrize("name", GLUE)
def test_counts_of_glue_and_trec(shared_data, name, monkeypatch):
    """As published."""
    monkeypatch.setattr("tasks.classify.data.tokenize", str.split)  # takes most of the time
    cfg = composed("task=classify", f"data={name}", f"data_dir={shared_data}")
    split, labels, counts = GLUE[name]
    file = inputs.corpus(cfg, [split])[split]
    gold = [example.gold for example in reader(cfg, split)(file)]
    if isinstance(labels, float):
        assert (round(sum(gold) / len(gold), 3), len(gold)) == (labels, counts)
    else:
        assert Counter(gold) == dict(zip(labels, counts, strict=True))


def test_counts_of_snli_sst_and_squad(shared_data):
    labels, words = Counter(), 0
    for example in snli.read(shared_data / "snli" / "snli_1.0_dev.jsonl.gz"):
        labels[example.gold] += 1
        words += sum(map(len, example.sentences))
    assert labels == {"entailment": 3329, "neutral": 3235, "contradiction": 3278}
    assert words > 211_101  # its words between white space: punctuation comes on top
    dev = shared_data / "sst" / "dev.txt"
    labels = Counter(example.gold for example in sst.read(dev))
    assert labels == {"0": 139, "1": 289, "2": 229, "3": 279, "4": 165}
    assert sum(len(example.texts[0]) for example in sst.read(dev)) == 21274
    assert sum(1 for _ in sst.read(dev, min_tokens=1)) == 41447
    assert sum(1 for _ in sst.read(dev, classes=2)) == 872
    on_borders = []
    for one in itertools.islice(squad.read(shared_data / "squad" / "dev-v1.1.json.gz"), 1500):
        text, offsets = one.paragraph.text, one.paragraph.offsets
        for (first, last), answer in zip(one.spans, one.gold, strict=True):
            whole = text[offsets[first][0] : offsets[last][1]]
            assert answer in whole
            on_borders.append(answer == whole)
    assert sum(on_borders) / len(on_borders) > 0.98


@pytest.mark.slow
def test_the_test_set_of_ontonotes_is_read(shared_data, tmp_path):
    """The columns of release v12, without its words: examples and propositions of SRL."""
    path = tmp_path / "test.gold_conll"
    packed = shared_data / "ontonotes" / "conll-2012-test.gold_conll.xz"
    with lzma.open(packed) as archive, path.open("wb") as file:
        shutil.copyfileobj(archive, file)
    counts = Counter(bool(example.predicate) for example in srl.read(path))
    assert (counts.total(), counts[True]) == (25_624, 24_462)
    # With names: those of Chiu and Nichols (2016), without the New Testament.
    named = list(ner.read(path, annotated=True))
    counts = len(named), sum(len(each.words) for each in named)
    assert counts == (8262, 152_728)
    assert sum(len(each.entities) for each in named) == 11_257
