"""Coreference: the bracket column, the official scores, the span ranker against naive loops."""

import itertools
import json
import logging
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_bench.build.task_format import reader
from elmo_bench.elmo import Elmo, Layers
from elmo_bench.nn import Backbone, BiLstm, WordsChars
from elmo_bench.text import Vocab
from tasks.coref import model as ranker
from tasks.coref.data import GENRES, collate, parse, read, read_predictions, render, truncate, write
from tasks.coref.metric import CorefScores, b3, ceafe, mentions, muc
from tasks.coref.model import Ranking, SpanRanker, candidates, prune
from tests.conftest import composed
from tests.encoders.random_bilm import random_bilm
from tests.tasks.clusterings import clusterings
from tests.tasks.small_models import learnt


def conll(*sentences, name="nw/owls", part=0):
    """A document's lines, from sentences of (word, cell) or (word, cell, speaker)."""
    lines = [f"#begin document ({name}); part {part:03d}"]
    for sentence in sentences:
        for number, (word, cell, *speaker) in enumerate(sentence):
            who = (speaker or ["-"])[0]
            lines.append(f"{name}  {part}  {number}  {word}  NN  *  -  -  -  {who}  *  {cell}")
        lines.append("")
    return "\n".join([*lines, "#end document"]) + "\n"


def file(folder, *documents):
    path = folder / "some.gold_conll"
    path.write_text("".join(documents), encoding="utf-8")
    return path


def example(*sentences, clusters=(), speakers=None, name="nw/owls", part=0):
    words = [sentence.split() for sentence in sentences]
    record = {"sentences": words, "speakers": speakers or ["-"] * len(words), "id": name}
    header = f"#begin document ({name}); part {part:03d}"
    gold = [list(cluster) for cluster in clusters]
    return replace(parse(record, "here:1"), part=part, header=header, gold=gold)


TALK = conll(
    [("An", "(0|(3", "Ann"), ("owl", "0)", "Ann"), ("'s", "-", "Ann"), ("nest", "3)", "Ann"), ("/.", "-", "Ann")],
    [("Her", "(3|(0)", "Bob"), ("own", "-", "Bob"), ("one", "3)", "Bob"), ("/?", "_", "Bob")],
)  # fmt: skip


def test_read(tmp_path):
    second = conll([("It", "(7)"), ("is", "-"), ("it", "(7)")], name="pt/nt/41", part=12)
    talk, it = read(file(tmp_path, TALK, second))
    assert talk.sentences == (("An", "owl", "'s", "nest", "."), ("Her", "own", "one", "?"))
    assert talk.speakers == (("Ann",) * 5, ("Bob",) * 4)
    assert talk.gold == [[(0, 1), (5, 5)], [(0, 3), (5, 7)]]
    assert (talk.document, talk.part) == ("nw/owls", 0)
    assert talk.source == f"{tmp_path}/some.gold_conll:2"
    assert (it.document, it.part, it.gold) == ("pt/nt/41", 12, [[(0, 0), (2, 2)]])


def test_brackets_open_before_they_close_and_close_the_latest(tmp_path):
    """As in the official scorer: the second word's own mention, then the inner, then the outer one."""
    nested = conll([("a", "(1"), ("b", "(1"), ("c", "1)|(1)"), ("d", "1)")])
    (document,) = read(file(tmp_path, nested))
    assert document.gold == [[(0, 3), (1, 2), (2, 2)]]
    (document,) = read(file(tmp_path, conll([("a", "(1"), ("b", "1)|(1"), ("c", "1)")])))
    assert document.gold == [[(0, 2), (1, 1)]]


def test_files_without_annotation_are_left_out(tmp_path, caplog):
    """OntoNotes 5 has coreference in a part of its files; all parts of such a file stay."""
    caplog.set_level("INFO")
    chain, none = [("she", "(1)"), ("her", "(1)")], [("it", "-")]
    everything = [("wb/a", 0), ("nw/b", 0), ("nw/b", 1), ("wb/c", 0)]
    texts = [conll(chain if part else none, name=name, part=part) for name, part in everything]
    path = file(tmp_path, *texts)
    cfg = composed("task=coref", "data=ontonotes5", "run_dir=here")
    for split, of_file, kept in [
        *(("train", "", everything[1:3]), ("dev", "", everything[1:3]), ("test", "", everything)),
        *(("test", "dev", everything[1:3]), ("test", "test", everything)),  # job=evaluate
    ]:
        found = list(reader(cfg, split, of_file)(path))
        assert [(document.document, document.part) for document in found] == kept
    assert f"{path}: 1 of 2 documents have no mention (if they are not annotated" in caplog.text
    assert "2 more are left out" in caplog.text
    few = conll(none) + "".join(conll(chain, part=part) for part in range(1, 5))
    caplog.clear()
    assert len(list(read(file(tmp_path, few)))) == 5
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_brackets_side_by_side(tmp_path):
    """As in the official scorer's own tests: no part in the first line, tabs, one of them at a
    row's end.
    """
    cells = ["(0", "0)", "(1(2", "(3(3", "3)3)", "1)2)", "(0)(4", "(4)4)", "-\t"]
    begin = "Luo\t0\t{}\tw\t-\t*" + "\t-" * 5
    rows = "".join(f"{begin.format(k)}\t{cell}\n" for k, cell in enumerate(cells))
    path = tmp_path / "some.key"
    path.write_text(f"#begin document (Luo); \n{rows}\n#end document\n")
    (document,) = read(path)
    assert document.gold == [[(0, 1), (6, 6)], [(2, 5)], [(3, 4)], [(6, 7), (7, 7)]]
    assert (document.document, document.part) == ("Luo", 0)
    assert document.speakers == (("-",) * 9,)


def test_clusters_that_share_a_mention_are_merged(tmp_path, caplog):
    path = file(
        tmp_path, conll([("a", "(1)"), ("b", "(1)|(2)"), ("c", "(2)"), ("d", "(4)"), ("e", "(4)")])
    )
    with caplog.at_level(logging.WARNING):
        (document,) = read(path)
    assert document.gold == [[(0, 0), (1, 1), (2, 2)], [(3, 3), (4, 4)]]
    assert "1 mentions are in two clusters, which are merged" in caplog.text


@st.composite
def documents(draw):
    """Sentences, and clusters whose mentions stay within sentences, do not repeat, and do not cross
    in a cluster.
    """
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    starts = list(itertools.accumulate(lengths, initial=0))
    spans = [
        (a, b)
        for i, n in enumerate(lengths)
        for a in range(starts[i], starts[i] + n)
        for b in range(a, starts[i] + n)
    ]
    clusters: list[list] = [[] for _ in range(draw(st.integers(0, 4)))]
    drawn = st.lists(st.sampled_from(spans), unique=True, max_size=12)
    for span in draw(drawn) if clusters else ():
        home = clusters[draw(st.integers(0, len(clusters) - 1))]
        if not any(crosses(span, other) for other in home):
            home.append(span)
    sentences = [" ".join(f"w{place}" for place in range(n)) for n in lengths]
    return sentences, sorted(tuple(sorted(cluster)) for cluster in clusters if cluster)


def crosses(one, other):
    return one[0] < other[0] <= one[1] < other[1] or other[0] < one[0] <= other[1] < one[1]


@settings(max_examples=60, deadline=None)
@given(drawn=documents())
def test_what_is_written_is_read(tmp_path_factory, drawn):
    document = example(*drawn[0], clusters=drawn[1])
    path = tmp_path_factory.mktemp("coref") / "p.conll"
    write([document], [document.gold], path)
    assert read_predictions(path, [document]) == [document.gold]
    (again,) = read(path)
    assert (again.sentences, again.gold) == (document.sentences, document.gold)


def test_the_written_file(tmp_path):
    path = tmp_path / "p.conll"
    said = example("Ann left .", "She ran", speakers=["Ann", "-"], part=3)
    write([said], [[[(0, 0), (3, 3)], [(0, 2)]]], path)
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    assert lines[0] == ["#begin document (nw/owls); part 003"]
    assert lines[1] == ["nw/owls", "3", "0", "Ann", "-", "*", "-", "-", "-", "Ann", "*", "(0)|(1"]
    last = [line[-1] for line in lines[1:]]
    assert last == ["(0)|(1", "-", "1)", "", "(0)", "-", "", "#end document"]


@pytest.mark.parametrize(
    "header", ["#begin document (nw/owls); part 0", "#begin document (nw/owls);"]
)
def test_the_first_line_is_written_as_it_was_read(tmp_path, header):
    """Otherwise the official scorer finds no such document."""
    (document,) = read(file(tmp_path, f"{header}\n{TALK.partition(chr(10))[2]}"))
    write([document], [document.gold], tmp_path / "p.conll")
    assert (tmp_path / "p.conll").read_text().splitlines()[0] == header


def test_a_mention_in_two_predicted_clusters_counts_in_the_first(tmp_path, caplog):
    caplog.set_level("WARNING")
    gold, path = example("a b c d e", clusters=[[A, B], [C, D]]), tmp_path / "predicted"
    write([gold], [[[A, B], [B, C, D]]], path)
    (clusters,) = read_predictions(path, [gold])
    assert clusters == [[A, B], [C, D]]
    assert score((gold.gold, clusters))["f1"] == 1
    assert f"{path}: 1 predicted mention removed from clusters, since an earlier" in caplog.text


def test_a_mention_that_gold_does_not_have_counts_in_both_clusters(tmp_path):
    """As in the official scorer, which looks for repeats of gold mentions only."""
    gold, path = example("a b c d e", clusters=[[A, B], [C, D]]), tmp_path / "predicted"
    write([gold], [[[A, E], [C, E]]], path)
    assert read_predictions(path, [gold]) == [[[A, E], [C, E]]]


def test_the_first_cluster_is_the_one_that_begins_first(tmp_path):
    """As in the official scorer: at one word, its mentions of one word come before longer ones."""
    gold = example("a b c d", clusters=[[A, B], [C, D]])
    for cells, expected in [
        (["(9", "(2)|9)|(9)", "(9)", "(2)"], [[(0, 1), B, C], [D]]),
        (["(9)|(10)", "(9)", "(10)", "-"], [[A, B], [C]]),
        (["(9|(2)", "(9)|9)|(2)", "-", "-"], [[A, B], [(0, 1)]]),
    ]:
        words = zip("abcd", cells, strict=True)
        assert read_predictions(file(tmp_path, conll([*words])), [gold]) == [expected]


def test_parse_sentences():
    words = [["Ann", "left"], ["She", "ran"]]
    document = parse({"sentences": words, "speakers": ["Bob", "Cy"], "id": "tc/1"}, "in.jsonl:4")
    assert document.sentences == (("Ann", "left"), ("She", "ran"))
    assert document.speakers == (("Bob", "Bob"), ("Cy", "Cy"))
    assert (document.document, document.source, document.gold) == ("tc/1", "in.jsonl:4", [])
    assert parse({"sentences": [["Ann"]]}, "x").speakers == (("-",),)


def test_parse_text():
    """Its brackets are read as the treebank's."""
    document = parse({"text": 'Ann left. "She ran!" (Why?) \n\nNobody knows\n'}, "x")
    assert [" ".join(sentence) for sentence in document.sentences] == [
        "Ann left .",
        '" She ran ! "',
        "-LRB- Why ? -RRB-",
        "Nobody knows",
    ]
    assert document.speakers == (("-",) * 3, ("-",) * 5, ("-",) * 4, ("-",) * 2)
    assert parse({"sentences": [["(", "-LRB-"]]}, "x").sentences == (("(", "-LRB-"),)


def test_render():
    rendered = render(example("Ann left .", "She ran"), [[(0, 0), (3, 3)]])
    assert json.loads(json.dumps(rendered)) == {
        "sentences": [["Ann", "left", "."], ["She", "ran"]],
        "clusters": [[[0, 0], [3, 3]]],
        "mentions": [["Ann", "She"]],
    }


def score(*pairs):
    metric = CorefScores()
    for key, response in pairs:
        metric.update([response], [key])
    return {name: float(value) for name, value in metric.compute().items()}


A, B, C, D, E, X, Y = ((place, place) for place in range(7))


@pytest.mark.parametrize(
    ("key", "response", "expected"),
    [  # recall's and precision's numerators and denominators of MUC, B3, CEAFe, counted by hand
        ([[A, B], [C]], [[A, B]], [[1, 1, 1, 1], [2, 3, 2, 2], [1, 2, 1, 1]]),
        ([[A, B], [C]], [[A, B], [X]], [[1, 1, 1, 1], [2, 3, 2, 3], [1, 2, 1, 2]]),
        ([[A, B, C]], [[A, B, X]], [[1, 2, 1, 2], [4 / 3, 3, 4 / 3, 3], [2 / 3, 1, 2 / 3, 1]]),
        ([[A, B, C]], [[A], [B], [C]], [[0, 2, 0, 0], [1, 3, 3, 3], [1 / 2, 1, 1 / 2, 3]]),
        ([[A, B], [C, D]], [[A, B, C, D, X]], [[2, 2, 2, 4], [4, 4, 8 / 5, 5], [4 / 7, 2, 4 / 7, 1]]),
        ([[A, B, C, D, E]], [[A, B], [C, D], [X, Y]], [[2, 4, 2, 3], [8 / 5, 5, 4, 6], [4 / 7, 1, 4 / 7, 3]]),
        ([[A, B]], [], [[0, 1, 0, 0], [0, 2, 0, 0], [0, 1, 0, 0]]),
        ([], [], [[0, 0, 0, 0]] * 3),
    ],
)  # fmt: skip
def test_counts(key, response, expected):
    (counts,) = CorefScores().count([response], [key])
    torch.testing.assert_close(counts[:3], torch.tensor(expected, dtype=torch.double))


def test_official_scorer(shared_fixtures):
    """Numerators and denominators of the Perl scorer; it prints percentages cut off after two
    places.
    """
    cases = json.loads((shared_fixtures / "derived" / "coref_scores.json").read_text())["cases"]
    assert len(cases) == 25
    for case in cases:
        metric = CorefScores()
        sides = (
            [[[tuple(m) for m in c] for c in d["clusters"]] for d in case[side]]
            for side in ("response", "key")
        )
        metric.update(*sides)
        figures = metric.compute()
        for counts, ours, theirs in zip(
            metric.counts, ("muc", "b3", "ceafe"), ("muc", "bcub", "ceafe"), strict=False
        ):
            official = case["official"][theirs]
            expected = [official[name] for name in ("r_num", "r_den", "p_num", "p_den")]
            assert counts.tolist() == pytest.approx(expected, abs=1e-12)
            f1 = 100 * float(figures[f"{ours}/f1"])
            assert official["f1_percent"] == pytest.approx(f1, abs=0.0101)
        f1 = 100 * float(figures["f1"])
        assert case["official"]["avg_f1_percent"] == pytest.approx(f1, abs=0.0101)


@settings(max_examples=100, deadline=None)
@given(key=clusterings(0), response=clusterings(0))
def test_the_best_match_is_the_best_of_all(key, response):
    def phi4(one, other):
        return 2 * len(set(one) & set(other)) / (len(one) + len(other))

    few, many = sorted((key, response), key=len)
    orders = itertools.permutations(many, len(few))
    best = max(sum(map(phi4, few, order)) for order in orders)
    assert ceafe(key, response) == (pytest.approx(best), len(key))


@settings(max_examples=100, deadline=None)
@given(key=clusterings(0), response=clusterings(0))
def test_recall_by_definition(key, response):
    home = {mention: set(cluster) for cluster in response for mention in cluster}
    found = sum(len(set(c) & home.get(m, set())) / len(c) for c in key for m in c)
    assert b3(key, response) == (pytest.approx(found), sum(map(len, key)))
    parts = [len({frozenset(home.get(m, {m})) for m in c}) for c in key]
    assert muc(key, response) == (sum(map(len, key)) - sum(parts), sum(map(len, key)) - len(key))
    assert mentions(key, response)[0] == sum(m in home for c in key for m in c)


OWLS = example(
    "the old owl saw a mouse",
    "it ate it",
    "then she slept",
    clusters=[[(0, 2), (6, 6), (10, 10)], [(4, 5), (8, 8)]],
    speakers=["Ann", "Bob", "Ann"],
)
CATS = example("a cat", "it sleeps now", clusters=[[(0, 1), (2, 2)]], name="wb/cats")
VOCAB = Vocab.build([s for e in (OWLS, CATS) for s in e.sentences], [])
SIZES = {
    "max_width": 3,
    "spans_per_word": 1.0,
    "max_antecedents": 4,
    "max_sentences": 50,
    "hidden_size": 8,
    "feature_dim": 3,
    "dropout": 0.0,
    "lexical_dropout": 0.0,
}


def build(at=("input", "output"), vocab=VOCAB, word_dim=6, rnn_size=5, **changes):
    torch.manual_seed(0)
    embed = WordsChars(
        vocab=vocab, vectors={}, word_dim=word_dim, char_dim=3, num_filters=4, width=3
    )
    layers = random_bilm(filters=((1, 3),)) if at else None
    backbone = partial(
        Backbone, embed, Elmo(layers, at=at, dropout=0.0), partial(BiLstm, hidden_size=rnn_size)
    )
    return SpanRanker(backbone, [], **SIZES | changes)


def test_collate():
    batch = collate([OWLS, CATS], VOCAB)
    assert batch.tokens.mask.sum(1).tolist() == [6, 3, 3, 2, 3]
    owls, cats = batch.documents
    assert owls.speakers.tolist() == [0] * 6 + [1] * 3 + [0] * 3
    assert owls.mentions.tolist() == [[0, 2, 1], [6, 6, 1], [10, 10, 1], [4, 5, 2], [8, 8, 2]]
    genres = GENRES.index("nw"), GENRES.index("wb")
    assert (owls.num_sentences, int(owls.genre), int(cats.genre)) == (3, *genres)
    (alone,) = collate([example("alone", name="GUM_news_iodine")], VOCAB).documents
    assert (alone.mentions.shape, int(alone.genre)) == ((0, 3), len(GENRES))


def test_truncate():
    batch = collate([OWLS, CATS], VOCAB)
    assert truncate(batch, 3) is batch
    layers = torch.arange(5)[None, :, None, None].expand(2, -1, 6, 3).float()
    batch = batch._replace(tokens=batch.tokens._replace(elmo=Layers(layers)))
    seen = set()
    for _ in range(20):
        cut = truncate(batch, 1)
        owls = cut.documents[0]
        row = int(cut.tokens.elmo.layers[0, 0, 0, 0])
        seen.add(row)
        assert cut.tokens.words.shape == cut.tokens.mask.shape == cut.tokens.elmo.layers.shape[1:3]
        assert cut.tokens.words[0, :3].tolist() == batch.tokens.words[row, :3].tolist()
        assert owls.speakers.tolist() == [[0] * 6, [1] * 3, [0] * 3][row]
        expected = [[[0, 2, 1], [4, 5, 2]], [[0, 0, 1], [2, 2, 2]], [[1, 1, 1]]][row]
        assert owls.mentions.tolist() == expected
        assert owls.num_sentences == 1
    assert seen == {0, 1, 2}
    two = {tuple(truncate(batch, 2).documents[0].speakers.tolist()) for _ in range(20)}
    assert two == {(0,) * 6 + (1,) * 3, (1,) * 3 + (0,) * 3}


def test_documents_are_cut_in_training_only():
    model, batch = build(max_sentences=1, spans_per_word=10.0), collate([OWLS], VOCAB)
    lengths = {int(model(batch)[0].ends.max()) + 1 for _ in range(20)}
    assert lengths == {6, 3}
    assert int(model.eval()(batch)[0].ends.max()) == 11


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), width=st.integers(1, 4))
def test_candidates(lengths, width):
    sentence = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    starts, after = candidates(sentence, width).nonzero(as_tuple=True)
    every = itertools.combinations_with_replacement(range(len(sentence)), 2)
    expected = [(a, b) for a, b in every if b - a < width and sentence[a] == sentence[b]]
    assert list(zip(starts.tolist(), (starts + after).tolist(), strict=True)) == expected


@settings(max_examples=100, deadline=None)
@given(length=st.integers(1, 9), width=st.integers(1, 5), most=st.integers(0, 12), data=st.data())
def test_prune_as_a_naive_loop(length, width, most, data):
    spans = [(a, b) for a in range(length) for b in range(a, min(a + width, length))]
    drawn = st.lists(st.integers(0, 5), min_size=len(spans), max_size=len(spans))
    scores = torch.tensor(data.draw(drawn)).float()
    accepted: list[int] = []
    for place in sorted(range(len(spans)), key=lambda place: -scores[place]):
        crossed = any(crosses(spans[place], spans[other]) for other in accepted)
        if len(accepted) < most and not crossed:
            accepted.append(place)
    starts, ends = zip(*spans, strict=True)
    assert prune(starts, ends, scores, most).tolist() == sorted(accepted)


def test_encode_is_what_the_backbone_does():
    """The model takes the backbone's steps itself; should the backbone change, this is to say so."""
    model, batch = build().eval(), collate([OWLS], VOCAB)
    torch.testing.assert_close(
        model.word_vectors(batch.tokens)[1], model.backbone(batch.tokens)[batch.tokens.mask]
    )


def test_spans_as_a_naive_loop(monkeypatch):
    model, batch = build(spans_per_word=9.0).eval(), collate([OWLS], VOCAB)
    x, h = model.word_vectors(batch.tokens)
    ranked, given = model._antecedents, []
    monkeypatch.setattr(model, "_antecedents", lambda *parts: given.append(parts) or ranked(*parts))
    (ranking,) = model(batch)
    ((vectors, mention, *_),) = given
    torch.testing.assert_close(mention, model.mention(vectors).squeeze(-1))
    for vector, start, end in zip(vectors, ranking.starts, ranking.ends, strict=True):
        words = slice(start, end + 1)
        head = model.head(h[words]).softmax(0).T @ x[words]
        expected = torch.cat([h[start], h[end], model.width.weight[end - start], head[0]])
        torch.testing.assert_close(vector, expected)


def test_scores_differ_under_autocast():
    """Ties would decide which spans are kept, and which antecedent is the best."""
    model, tokens = build().eval(), collate([OWLS, CATS], VOCAB)
    with torch.no_grad():
        exact, *_ = model(tokens)
        with torch.autocast("cpu", torch.bfloat16):
            x, h = model.word_vectors(tokens.tokens)
            real = candidates(tokens.tokens.mask.nonzero()[:, 0], 3)
            mention, _ = model._mentions(x, h, real, model._shares(h, real))
            found, *_ = model(tokens)
    assert mention.dtype == found.scores.dtype == torch.float32
    assert len(mention.unique()) == len(mention)
    pairs = found.scores[:, 1:][found.scores[:, 1:].isfinite()]
    assert len(pairs.unique()) == len(pairs)
    torch.testing.assert_close(
        model.loss([found], tokens), model.loss([exact], tokens), rtol=0.05, atol=0
    )


@pytest.mark.parametrize("sizes", [(1, 1, 1), (13, 2, 3)])
@pytest.mark.parametrize("from_store", [True, False])
def test_blocks_change_nothing(monkeypatch, sizes, from_store):
    """However few tokens, words and pairs are in memory at a time."""
    model, batch = build(spans_per_word=2.0).eval(), collate([OWLS, CATS], VOCAB)
    if from_store:
        layers = model.backbone.elmo.encoder(model.backbone.elmo.prepare(batch.tokens.sentences))
        batch = batch._replace(tokens=batch.tokens._replace(elmo=Layers(layers)))
    whole = model(batch)
    for name, size in zip(("TOKENS", "WORDS", "BLOCK"), sizes, strict=True):
        monkeypatch.setattr(ranker, name, size)
    for ours, theirs in zip(model(batch), whole, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


def naive_scores(model, vectors, mention, speakers, genre):
    """The table of antecedent scores, pair by pair, with the first layer in one piece."""
    bins = dict(enumerate([1, 2, 3, 4, *[5] * 3, *[6] * 8, *[7] * 16], 1))
    table = torch.full((len(vectors), 1 + min(model.max_antecedents, len(vectors) - 1)), -torch.inf)
    table[:, 0] = 0
    for i, j in itertools.combinations(range(len(vectors)), 2):
        if j - i <= model.max_antecedents:
            features = [model.speaker.weight[int(speakers[i] == speakers[j])]]
            features += [model.genre.weight[genre], model.distance.weight[bins[j - i]]]
            pair = torch.cat([vectors[j], vectors[i], vectors[j] * vectors[i], *features])
            table[j, j - i] = model.pair(pair)[0] + mention[i] + mention[j]
    return table


@pytest.mark.parametrize("block", [7, 4096])
@pytest.mark.parametrize("near", [4, 25])
def test_antecedents_as_a_naive_loop(monkeypatch, near, block):
    monkeypatch.setattr(ranker, "BLOCK", block)
    model = build(max_antecedents=near)
    vectors = torch.randn(30, model.mention[0].in_features)
    mention, speakers, genre = torch.randn(30), torch.randint(3, (30,)), torch.tensor(2)
    scores, expected = model._antecedents(vectors, mention, speakers, genre), None
    expected = naive_scores(model, vectors, mention, speakers, genre)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    weight = model.pair[0].weight
    ours, theirs = (
        torch.autograd.grad(table.logsumexp(1).sum(), weight)[0] for table in (scores, expected)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_dropout_is_the_same_when_pairs_are_scored_again(monkeypatch):
    def gradient():
        model = build(dropout=0.3).train()
        torch.manual_seed(3)
        batch = collate([OWLS], VOCAB)
        model.loss(model(batch), batch).backward()
        return model.pair[0].weight.grad

    once = gradient()
    monkeypatch.setattr(
        ranker, "checkpoint", lambda function, *arguments, use_reentrant: function(*arguments)
    )
    torch.testing.assert_close(gradient(), once)


def test_loss_as_a_naive_loop():
    model, batch = build().eval(), collate([OWLS], VOCAB)
    with torch.no_grad():
        (ranking,) = model(batch)
    numbers = {mention: k for k, cluster in enumerate(OWLS.gold, 1) for mention in cluster}
    spans = zip(ranking.starts.tolist(), ranking.ends.tolist(), strict=True)
    names = [numbers.get(span, 0) for span in spans]
    assert names == ranking.clusters.tolist()
    assert sorted(filter(None, names))
    expected = 0.0
    for i, row in enumerate(ranking.scores):
        shares = row.softmax(0)
        right = [d for d in range(1, len(row)) if d <= i and names[i] and names[i - d] == names[i]]
        expected -= float(shares[right or [0]].sum().log())
    assert float(model.loss([ranking], batch)) == pytest.approx(expected, rel=1e-4)
    assert expected > 0


def test_decode_follows_chains():
    spans = [(1, 2), (3, 4), (3, 7), (14, 56), (17, 80)]
    scores = torch.full((5, 5), -torch.inf)
    scores[:, 0] = 0
    # (3, 4) -> (1, 2), (14, 56) -> (3, 7), (17, 80) -> (3, 4)
    scores[1, 1] = scores[3, 1] = scores[4, 3] = 2.0
    scores[2, 2] = -1.0  # worse than none
    starts, ends = torch.tensor(spans).unbind(1)
    ranking = Ranking(starts, ends, torch.zeros(5, dtype=torch.long), scores)
    clusters = build().decode([ranking], collate([OWLS], VOCAB))
    assert clusters == [[[(1, 2), (3, 4), (17, 80)], [(3, 7), (14, 56)]]]


def test_every_parameter_learns():
    model = build(at=("input",), spans_per_word=3.0)  # spans of several words among them
    batch = collate([OWLS], VOCAB)
    model.loss(model(batch), batch).backward()
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    still = {name for name in learning if not model.get_parameter(name).grad.any()}
    assert not still


NAMES, VERBS = ("Ada", "Ben", "Cleo", "Dan", "Eve"), ("saw", "met", "called", "heard")


def stories():
    """Ten documents: `X saw Y . then X left and Y slept`, some with a third sentence."""
    for number, (one, other) in enumerate(itertools.islice(itertools.permutations(NAMES, 2), 10)):
        first = f"the old {one} {VERBS[number % 4]} {other} ."
        second = f"then {one} left and {other} slept ."
        third = [f"nobody woke {other}"] if number % 2 else []
        last = [(15, 15)] if third else []
        clusters = [[(0, 2), (7, 7)], [(4, 4), (10, 10), *last]]
        yield example(first, second, *third, clusters=clusters, part=number)


def test_overfits_ten_documents():
    examples = list(stories())
    vocab = Vocab.build([s for e in examples for s in e.sentences], [])
    model = build(at=(), vocab=vocab, word_dim=16, rnn_size=16, hidden_size=32, max_antecedents=20)
    metric = CorefScores()
    found = learnt(model, collate(examples, vocab), lr=0.01, steps=60)
    metric.update(found, [example.gold for example in examples])
    assert float(metric.compute()["f1"]) == 1
