"""Texts in columns: every format, and every fault by its line; heads against their definitions."""

import contextlib
import csv
import gzip
import json
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from elmo_bench.build import trusted
from elmo_bench.elmo import Elmo
from elmo_bench.jobs.evaluate import evaluate
from elmo_bench.jobs.predict import predict
from elmo_bench.jobs.score import score
from elmo_bench.jobs.train import train
from elmo_bench.nn import Backbone, BiLstm, Words
from elmo_bench.text import SUMMARY, Vocab, joined, texts_of
from elmo_bench.training.outputs import clusters
from tasks.classify.bcn import Bcn
from tasks.classify.data import (
    collate,
    parse,
    read,
    read_predictions,
    read_texts,
    render,
    write,
)
from tasks.classify.esim import Esim
from tasks.classify.examples import Example
from tasks.classify.pooled import Pooled
from tests.conftest import composed
from tests.tasks.small_models import built, learnt

ROWS = [("good", 'A "nice" shop.', "It is open."), ("bad", "A dull lamp.", "It is dark.")]
PAIR = {"text2": "text2"}
NUMBERED = {"label": 1, "text": 2, "text2": 3}
KEYS = ("label", "text", "text2")


def spelt(kind):
    """The rows in a format, and the arguments that read it."""
    if kind == "jsonl":
        return "\n\n".join(json.dumps(dict(zip(KEYS, row, strict=True))) for row in ROWS), PAIR
    if kind == "pattern":
        lines = [f"__label__{label} {text} || {text2}" for label, text, text2 in ROWS]
        form = r"__label__(?P<label>\S+) (?P<text>.*) \|\| (?P<text2>.*)"
        return "\n".join(lines), PAIR | {"pattern": form}
    head, named = ([], NUMBERED) if kind == "numbers" else ([KEYS], PAIR)
    if kind == "csv":
        quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in [*head, *ROWS]]
        return "\n".join(map(",".join, quoted)), named
    return "\n".join(map("\t".join, [*head, *ROWS])), named


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "numbers", "pattern"])
def test_every_format_has_the_same_examples(tmp_path, kind):
    text, columns = spelt(kind)
    path = tmp_path / f"some.{kind}.gz"
    path.write_bytes(gzip.compress(("\ufeff" + text.replace("\n", "\r\n")).encode()))
    good, bad = read(path, **columns)
    assert good.texts == (("A", '"', "nice", '"', "shop", "."), ("It", "is", "open", "."))
    assert (good.gold, bad.gold, bad.labels) == ("good", "bad", ["bad"])
    assert good.sentences == [*good.texts]
    assert clusters([good, bad]) == ([0, 1], "first text")
    (one, _) = read(path, **columns, joint=True)
    assert one.sentences == [joined(*good.texts)]
    assert texts_of(one) == texts_of(good)  # by which reports pair examples
    (left,) = read(
        path, **columns, tokenized=True, leave_out=["bad"], group=columns.get("label", "label")
    )
    assert left.texts[1] == ("It", "is", "open.")
    assert (left.group, left.units) == (("good",), ("group",))


def test_labels_that_training_lacks_and_columns_without_a_name(tmp_path):
    """Tables of pandas have a column of numbers without a name."""
    (tmp_path / "a.csv").write_text(f",label,text,\n0,a,{'x ' * 70_000},\n1,b,y,\n")
    (one,) = read(tmp_path / "a.csv", labels=["b", "a", 2], leave_out=["b"], tokenized=True)
    assert ({*one.labels}, one.gold) == ({"a", "b", "2"}, "a")
    assert len(one.texts[0]) == 70_000
    (tmp_path / "a.jsonl").write_text('{"label": true, "text": "x"}\n{"label": 1, "text": "y"}\n')
    (one,) = read(tmp_path / "a.jsonl", leave_out=["true"])
    assert one.gold == "1"


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=9)


@settings(max_examples=40)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_any_cell_of_a_csv_file_comes_back_or_is_refused(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    with contextlib.suppress(ValueError):
        found = [(one.gold, one.texts[0]) for one in read(path, label=1, text=2, tokenized=True)]
        assert found == [(label.strip(), tuple(text.split())) for label, text in rows]


TSV, CSV, JSONL = (
    "label\ttext\na\tx y\n",
    'label,text\na,"x\n y"\nb,z\n',
    '{"label": 1, "text": "x"}\n',
)


@pytest.mark.parametrize(
    ("name", "text", "columns", "where", "what"),
    [
        ("a.tsv", TSV + "b\n", {}, ":3", "1 column, but the first line has 2; FILE.csv has"),
        ("a.tsv", TSV + "b\t\n", {}, ":3", "text '', but it must be a text"),
        ("a.tsv", TSV + "b\t\x00\x01 \u200b\n", {}, ":3", "with a character that can be seen"),
        ("a.tsv", TSV + "\tx\n", {}, ":3", "label '', but a score must be"),
        ("a.tsv", TSV + "a\u200b\tx\n", {}, ":3", r"label 'a\\u200b', but"),
        ("a.tsv", "label\tlabel\na\tx\n", {}, ":1", "2 columns of the name 'label', but each needs"),
        ("a.tsv", TSV + "b\tx\n", {"labels": ["a", 1]}, ":3", "label 'b', but .* has a, 1"),
        ("a.tsv", TSV, {"text": "review"}, ":1", "no column review, only 'label' and 'text': set data.columns.text=COLUMN"),
        ("a.tsv", TSV, {"text": 2}, "", r"data.columns=\{'text': 2, 'label': 'label'\}, but all"),
        ("a.tsv", TSV, {"text": 9, "label": 1}, ":1", "no column 9, only 1 and 2"),
        ("a.tsv", TSV, {"score": 2, "label": 1}, "", "has label=1 or score=2, not both"),
        ("a.tsv", TSV, {"score": "label"}, ":2", "score 'a', but a score must be a finite number"),
        *(
            ("a.tsv", TSV + f"{number}\tx\n", {"score": "label", "leave_out": ["a"]}, ":3", "score")
            for number in ("nan", "-inf", "1e999", "1_0", "", "1,5")
        ),
        ("a.csv", CSV + 'c,"open\n', {}, ":5", "unexpected end of data; a cell with commas or"),
        ("a.csv", CSV + 'c,"x"y\n', {}, ":5", "',' expected after '\"'"),
        ("a.csv", CSV + "c,x,y\n", {}, ":5", "3 columns"),
        ("a.jsonl", JSONL + '{"text": "x"}\n', {}, ":2", "this row has no column label, only text: add it, or set"),
        ("a.jsonl", JSONL + '{"label": null, "text": "x"}\n', {}, ":2", "label None, but"),
        ("a.jsonl", JSONL + '{"label": 1.5, "text": "x"}\n', {}, ":2", "label 1.5, but .* an integer"),
        ("a.jsonl", JSONL + '{"label": 1, "text": 7}\n', {}, ":2", "text 7, but it must be a text"),
        ("a.jsonl", JSONL + '{"label": 1, "text": ["a b"]}\n', {}, ":2", r"text \['a b'\], but"),
        ("a.jsonl", JSONL + '{"label": 1, "text": "\\ud800x"}\n', {}, ":2", "text .*, but"),
        ("a.jsonl", '{"a": null, "b": "x"}', {"text": ["a", "b"], "label": "b"}, ":1", "text None, but"),
        ("a.jsonl", '{"a": null, "label": 1, "text": "x"}', {"group": "a"}, ":1", "no group, but each"),
        ("a.tsv", "text;label\nx;a\n", {}, ":1", "no column text, only 'text;label': semicolons"),
        ("a.jsonl", JSONL + '{"text": "x"}\n', {}, ":2", "this row has no column label, only text"),
        ("a.tsv", "Label\tText\na\tx\n", {}, ":1", "set data.columns.text=Text data.columns.label=Label$"),
        ("a.tsv", "x\n", {}, ":1", "no column text, only 'x': set data.columns.text=COLUMN; FILE.csv"),
        ("a.tsv", TSV, {"pattern": "(?P<label>.)x (?P<text>.*)"}, ":1", "must match .* as a whole"),
        ("a.tsv", TSV, {"pattern": ".*"}, ":1", "this row has no column text, only groups without a name: "),
        ("a.tsv", TSV, {"pattern": "(?P<label>"}, "", r"data.columns.pattern=\(\?P<label>: missing"),
        ("a.tsv", TSV, {"encoding": "utf-16"}, ":1", "byte 0x.* is not UTF-16 text"),
        ("a.tsv", TSV, {"encoding": "klingon"}, ":1", "unknown encoding: klingon"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path, name, text, columns, where, what):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=what) as error:
        list(read(tmp_path / name, **columns))
    assert not where or str(error.value).startswith(f"{tmp_path / name}{where}: ")


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_bytes("NUM:count How many \xf0 ?\n".encode("latin-1"))
    form = r"(?P<label>\w+):\w+ (?P<text>.*)"
    (one,) = read(path, pattern=form, encoding="latin-1", tokenized=True)
    assert (one.gold, one.texts[0]) == ("NUM", ("How", "many", "\xf0", "?"))
    with pytest.raises(ValueError, match=":1: byte 0xf0 is not UTF-8 text"):
        list(read(path, pattern=form))


@pytest.mark.parametrize(
    ("gold", "predicted", "cell", "wrong"),
    [("a", "b", "label", "\u200b"), (4.25, -0.1, "score", "x")],
)
def test_predictions_make_a_round_trip(tmp_path, gold, predicted, cell, wrong):
    examples = [Example((("A", "b"), ("c",)), gold, f"gold:{k}", (), ()) for k in (1, 2)]
    path = tmp_path / "predicted.tsv"
    write(examples, [predicted, gold], path)
    assert path.read_text().splitlines()[0] == f"{gold}\t{predicted}\tA b\tc"
    assert read_predictions(path, examples) == [predicted, gold]
    path.write_text(path.read_text().replace(f"\t{predicted}\t", f"\t{wrong}\t"))
    with pytest.raises(ValueError, match=f":1: .*, a {cell}, and the words of gold:1"):
        read_predictions(path, examples)
    write([Example((("other",),), gold, "", (), ())] * 2, [gold] * 2, path)
    said = f":1: .* columns: {gold}, a {cell}, and the words of gold:1"
    with pytest.raises(ValueError, match=said):
        read_predictions(path, examples)


@pytest.mark.parametrize("text", ["🤷\u200d♀️", "می\u200cخواهم", "co\u00adoperate"])
def test_a_word_with_a_joiner_can_be_seen(text):
    assert parse({"text": text}, "in:1").texts == ((text,),)


def test_parse_and_render():
    one = parse({"text": "It\trains.", "id": 7}, "in:1")
    assert (one.texts, one.gold, one.labels) == ((("It", "rains", "."),), None, [])
    assert render(one, "a") == {"text": ["It", "rains", "."], "label": "a"}
    for record in ({"text": "It rains.\tWet"}, {"text": ["It", "rains."], "text2": "Wet"}):
        two = parse(record, "in:1", pair="text2", tokenized=True, joint=True)
        assert two.sentences == [joined(["It", "rains."], ["Wet"])]
    assert render(two, 0.5) == {"text": ["It", "rains."], "text2": ["Wet"], "score": 0.5}
    both = {"text": "a", "text2": "b"}
    for record, pair in (({"text": "a"}, True), (both, None), ({"text2": "b"}, None), ({}, None)):
        with pytest.raises(ValueError, match=r"in:1: .*, but the model reads"):
            parse(record, "in:1", pair=pair)


def example(gold, *texts, **more):
    return Example(tuple(tuple(text.split()) for text in texts), gold, "here:1", (), (), **more)


def head(kind, examples, labels, **options):
    """A head over word vectors and an RNN, and a batch."""
    sentences = [sentence for each in examples for sentence in each.sentences]
    vocab = Vocab.build(sentences, labels)
    embed = Words(vocab=vocab, vectors={}, word_dim=6)
    backbone = partial(Backbone, embed, Elmo(None), partial(BiLstm, hidden_size=4, dropout=0.0))
    return kind(backbone, vocab.labels, **options).eval(), collate(examples, vocab)


@pytest.mark.parametrize("pool", ["first", "mean", "max", "attention"])
@pytest.mark.parametrize("joint", [False, True])
def test_pools_against_loops(pool, joint):
    """One pair at a time; a summary and a break are in no pool but `first`."""
    examples = [example("a", "x y z", "u", joint=joint), example("b", "y", "v x", joint=joint)]
    options = {"pool": pool, "dropout": 0.0, "pair": True, "joint": joint}
    model, batch = head(Pooled, examples, "ab", **options)
    scores = model(batch)
    for number, each in enumerate(examples):
        vectors = []
        for side, tokens in enumerate([batch.first] if joint else [batch.first, batch.second]):
            h = model.backbone(tokens)[number]
            kept = [k for k, word in enumerate(each.sentences[side]) if word[0] != "\ufdd0"]
            words = h[kept]
            shares = model.pool.score(words).softmax(0) if pool == "attention" else 1 / len(kept)
            chosen = {"first": h[0] if joint else words.mean(0), "max": words.amax(0)}
            vectors.append(chosen.get(pool, (shares * words).sum(0)))
        (u, v) = (*vectors, None)[:2]
        x = u if joint else torch.cat([u, v, (u - v).abs(), u * v])
        torch.testing.assert_close(scores[number], model.classifier[1](x))
    assert (SUMMARY in examples[0].sentences[0]) == joint


def test_class_weights():
    """`c` has no example: one that another file has must not have an infinite loss."""
    examples = [example(label, "x") for label in "aaab"]
    for given_, wanted in (("balanced", [4 / 9, 4 / 3, 4 / 3]), ({"b": 3.0}, [1.0, 3.0, 1.0])):
        options = {"pool": "mean", "dropout": 0.0, "class_weights": given_}
        model, batch = head(Pooled, examples, "abc", **options)
        model.observe(examples)
        assert model.class_weights.tolist() == pytest.approx(wanted)
        scores = model(batch)
        losses = F.cross_entropy(scores, batch.gold, reduction="none")
        weights = torch.tensor(wanted)[batch.gold]
        torch.testing.assert_close(model.loss(scores, batch), (losses * weights).mean())
    for labels, given_ in (("ab", {"c": 1.0}), ("", "balanced")):
        with pytest.raises(ValueError, match=r"task.model.class_weights=.*, but the labels are"):
            head(Pooled, examples[:0], labels, pool="mean", dropout=0.0, class_weights=given_)


SIZES = {"hidden_size": 4}


@pytest.mark.parametrize(
    ("kind", "options", "texts", "name"),
    [
        (Bcn, SIZES | {"layer_sizes": [4], "dropouts": [0.0, 0.0]}, "xy", "bcn reads 1"),
        (Esim, SIZES | {"dropout": 0.0}, "x", "esim reads 2"),
        (Pooled, {"pool": "mean", "dropout": 0.0}, "xy", "pooled reads 1"),
        (Pooled, {"pool": "mean", "dropout": 0.0, "pair": "b"}, "x", "pooled reads 2"),
    ],
)
def test_a_head_refuses_another_number_of_texts(kind, options, texts, name):
    model, batch = head(kind, [example("a", *texts)], "a", **options)
    for see in (lambda: model.observe([example("a", *texts)]), lambda: model(batch)):
        with pytest.raises(ValueError, match=f"texts? to read apart, but head={name} here"):
            see()


def test_a_regression_is_learnt_by_heart(tmp_path):
    texts = "score\ttext\ttext2\n4.5\tgood\twell\n-1\tbad\till\n2.25\tso so\twell\n"
    (tmp_path / "a.tsv").write_text(texts)
    columns = {"score": "score", **PAIR}
    chosen_columns = [f"data.columns.{key}={value}" for key, value in columns.items()]
    more = ["encoder=none", "run_dir=here", "rnn.hidden_size=16"]
    cfg = composed("task=classify", "data=files", *more, *chosen_columns)
    examples = list(read(tmp_path / "a.tsv", **columns))
    model, _, batch = built(cfg, examples)
    found = learnt(model.eval(), batch, lr=0.02, steps=40)
    assert found == pytest.approx([4.5, -1.0, 2.25], abs=0.5)
    assert (cfg.task.monitor, cfg.task.metric._target_[-12:]) == ("pearson", "Correlations")


def test_pairs_with_scores_from_the_command_line_to_predictions(tmp_path, new_run):
    rows = [f'{number},"It is {number}, or so.","{number}"' for number in range(8)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text("\n".join(["gold,one,two", *rows]))
    (tmp_path / "in.txt").write_text("Three.\t3\n\n今天天气很好\t5\n")

    files = [f"data.files.{split}={tmp_path}/{split}.csv" for split in ("train", "dev")]
    columns = [f"data.columns.{key}" for key in ("text=one", "text2=two", "score=gold")]
    small = ["encoder=mini", "rnn.hidden_size=8", "fit.max_epochs=1"]
    corpus = ["task=classify", "data=files", *files, *columns]
    scores = train(whole := new_run(*corpus, *small))
    stored = OmegaConf.to_container(whole.data, resolve=True) | {"option": "files"}
    assert trusted.corpus(new_run(), stored, "a checkpoint").columns == whole.data.columns
    assert {"dev/pearson", "dev/spearman"} <= scores.keys()
    checkpoint = f"checkpoint={tmp_path}/run0/best.ckpt"
    again = evaluate(new_run("job=evaluate", *corpus, checkpoint, "split=dev"))
    # An evaluation has no store: the encoder reads other batches, which moves the last digits.
    assert again == pytest.approx({name: scores[name] for name in again}, abs=1e-6)
    output = tmp_path / "out.jsonl"
    predict(new_run("job=predict", checkpoint, f"input={tmp_path}/in.txt", f"output={output}"))
    first, blank, third, _ = output.read_text().split("\n")
    assert (json.loads(first)["text2"], blank) == (["3"], "")
    assert isinstance(json.loads(third)["score"], float)
    gold, found = f"gold={tmp_path}/dev.csv", f"predicted={tmp_path}/run0/predictions/dev.tsv"
    scored = score(new_run("job=score", *corpus, gold, found))
    assert scored["pearson"] == pytest.approx(scores["dev/pearson"], abs=1e-6)


def test_several_columns_are_a_text_also_the_second(tmp_path):
    (tmp_path / "a.tsv").write_text("F\tbank\t2-1\tA river bank.\tMy bank closed.\n")
    (one,) = read(tmp_path / "a.tsv", text=[2, 4], text2=[2, 5], label=1, tokenized=True)
    assert one.texts == (("bank", "A", "river", "bank."), ("bank", "My", "bank", "closed."))
    with pytest.raises(ValueError, match="all must be names, or all numbers"):
        list(read(tmp_path / "a.tsv", text=[2, "b"], label=1))


@pytest.mark.parametrize(
    ("rows", "columns", "is_told"),
    [
        ("stars\treview\ngood\tA\nbad\tB\ngood\tC\n", {"label": 1, "text": 2}, True),
        ("good\tA\nbad\tB\ngood\tC\n", {"label": 1, "text": 2}, False),
        ("stars\tA\ngood\tB\n", {"label": 1, "text": 2}, False),  # too few to tell
        ("text\tlabel\nA\tgood\nB\tbad\nC\tbad\n", {}, False),
    ],
)
def test_names_that_are_read_as_an_example(tmp_path, caplog, rows, columns, is_told):
    (tmp_path / "a.tsv").write_text(rows)
    list(read(tmp_path / "a.tsv", **columns))
    assert ("no other line has the label 'stars' of the first" in caplog.text) == is_told


TABLES = {  # the same two texts, with labels that a model must not read, and without
    "in.tsv": "stars\treview\tid\ngood\tA shop.\t7\nbad\tThree lamps.\t8\n",
    "in.txt": "review\tstars\tid\nA shop.\tgood\t7\nThree lamps.\tbad\t8\n",
    "in.csv": 'id,review,stars\n7,"A\nshop.",good\n8,Three lamps.,bad\n',
    "in.jsonl": '{"review": "A shop.", "stars": "good", "id": "7"}\n'
    '{"text": ["Three", "lamps", "."], "id": "8"}\n',
}
REFUSED = {
    "other.tsv": ("stars\ttitle\ngood\tA shop.\n", r"other.tsv:1: no column review, only 'stars' and"),
    "other.csv": ("stars,title\ngood,A shop.\n", r"other.csv:1: no column review, only 'stars' and"),
    "lines.txt": ("One shop. I like it.\nA shop.\tgood\n", r"lines.txt:2: a tab, but a line must be one"),
    "names.txt": ("title\tstars\nA shop.\tgood\n", r"names.txt:1: a tab, but a line must be one text"),
}  # fmt: skip


def test_labels_of_a_table_are_no_words_of_its_texts(tmp_path, new_run):
    rows = "\n".join(
        f"{label}\t{text} {k}"
        for k in range(4)
        for label, text in (("good", "A shop."), ("bad", "Three lamps."))
    )
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text(f"stars\treview\n{rows}\n")
    files = [f"data.files.{split}={tmp_path}/{split}.tsv" for split in ("train", "dev")]
    columns = ["data.columns.text=review", "data.columns.label=stars"]
    small = ["encoder=none", "rnn.hidden_size=8", "fit.max_epochs=1"]
    train(new_run("task=classify", "data=files", *files, *columns, *small))
    checkpoint = f"checkpoint={tmp_path}/run0/best.ckpt"

    def labelled(name, *more):
        output = tmp_path / "out.jsonl"
        predict(
            new_run(
                "job=predict", checkpoint, f"input={tmp_path}/{name}", f"output={output}", *more
            )
        )
        return [json.loads(line) for line in output.read_text().splitlines() if line]

    for name, content in TABLES.items():
        (tmp_path / name).write_text(content)
        found = labelled(name)
        assert [each["text"] for each in found] == [["A", "shop", "."], ["Three", "lamps", "."]]
        assert [each["id"] for each in found] == ["7", "8"]
        first = 1 if name == "in.jsonl" else 2
        assert [each["line"] for each in found] == [first, first + 1 + (name == "in.csv")]
    for name, (content, said) in REFUSED.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=said):
            labelled(name)
    (one,) = labelled("other.tsv", "data=files", "data.columns.text=title")
    assert one["text"] == ["A", "shop", "."]
    (tmp_path / "plain.txt").write_text("  A shop.\t\n")
    assert labelled("plain.txt")[0]["text"] == ["A", "shop", "."]


@pytest.mark.parametrize(
    ("content", "columns", "texts"),
    [
        ("a b\tx\nc\ty\n", {"text": 1}, ["a b", "c"]),
        ("x\ta b\ny\tc\n", {"text": 2}, ["a b", "c"]),
        ("a b\nc\n", {"text": 2}, None),
        ("a b\nc\n", {"text": 1}, None),
        ("one\ttwo\n", {"text": 2, "text2": 3}, None),  # two texts, as `parse` reads them
        ("l\tone\ttwo\n", {"text": 2, "text2": 3}, ["one"]),
        ("text\nhere\n", {}, None),
        ("X:y a b\nZ:y c\n", {"pattern": r"(?P<label>\w+):\w+ (?P<text>.*)"}, ["a b", "c"]),
        ("X:y a b\nof Z:y c\n", {"pattern": r"(?P<label>\w+):\w+ (?P<text>.*)"}, None),
    ],
)
def test_which_files_are_tables(tmp_path, content, columns, texts):
    (tmp_path / "in.txt").write_text(content)
    found = read_texts(tmp_path / "in.txt", **columns)
    assert (found if found is None else [record["text"] for _, record in found]) == texts
