"""Trees: the best of all, as brute force finds it; the files of predictions; the published sizes."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from elmo_bench.build.task_format import task_format
from tasks.treebank import parse, pos
from tasks.treebank.parse import Biaffine, best_tree, is_tree
from tests.conftest import OF_RESULTS, composed
from tests.tasks.small_files import TREES
from tests.tasks.small_models import built


def reaches_the_root(heads):
    """Whether each word does, by walking, and one alone directly."""
    for word in range(1, len(heads) + 1):
        steps = 0
        while word and steps <= len(heads):
            word, steps = heads[word - 1], steps + 1
        if word:
            return False
    return sum(head == 0 for head in heads) == 1


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_the_best_tree_by_brute_force(length):
    """Of all assignments of heads; half of the scores favour several roots, some are far apart."""
    assignments = [*itertools.product(range(length + 1), repeat=length)]
    every = [heads for heads in assignments if reaches_the_root(heads)]
    assert len(every) == length ** (length - 1)  # Cayley's trees, by each of their words as root
    assert [heads for heads in assignments if is_tree(heads)] == every
    rng = np.random.default_rng(length)
    for trial in range(60):
        scores = rng.normal(size=(length, length + 1)) * 10 ** rng.uniform(-2, 4)
        scores[:, 0] += (trial % 2) * scores.max()
        scores[range(length), range(1, length + 1)] = np.finfo(np.float32).min  # its own head
        found = best_tree(scores.astype(np.float32))
        totals = {heads: scores[range(length), heads].sum() for heads in every}
        assert totals[tuple(found)] == pytest.approx(max(totals.values()), rel=1e-5)


def test_a_sentence_of_many_cycles():
    """One inside the other, more than Python nests calls: each word is nearest to its neighbours."""
    heads, words = np.arange(1101), np.arange(1, 1101)[:, None]
    assert best_tree(-1.0 * abs(heads - words)) == [*range(1100)]


@pytest.mark.parametrize("task", [pos, parse])
def test_predictions_are_the_file_with_other_columns(tmp_path, task):
    """Comments, multiword tokens, empty nodes and words with blanks are kept."""
    (tmp_path / "gold").write_text(TREES + "\n")
    examples = list(task.read(tmp_path / "gold"))
    assert examples[0].words == ("It", "'s", "a", "mill pond")
    if task is pos:
        tags = [("PRON",), ("AUX",), ("X",), ("NOUN",)]
        answers, old, new = [tags, examples[1].gold], "DET", "X"
    else:
        answers = [examples[0].gold, [("2", "dep"), ("0", "root")]]
        old = "0\troot\t_\t_\n2\t!\t_\tPUNCT\t_\t_\t1\tpunct:x"
        new = "2\tdep\t_\t_\n2\t!\t_\tPUNCT\t_\t_\t0\troot"
    task.write(examples, answers, tmp_path / "predicted")
    assert (tmp_path / "predicted").read_text() == (TREES + "\n").replace(old, new)


def test_biaffine_scores():
    """Each pair by itself: [x; 1] U [y; 1]."""
    biaffine = Biaffine(4, 3, 2, 0.5).eval()
    words, heads = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    scores = biaffine(words, heads)
    for t, n, k in itertools.product(range(2), range(3), range(2)):
        x, y = (
            torch.cat([F.leaky_relu(layer(vector), 0.1), torch.ones(1)])
            for layer, vector in ((biaffine.word, words[0, t]), (biaffine.head, heads[0, n]))
        )
        torch.testing.assert_close(scores[0, t, n, k], x @ biaffine.weight[k] @ y)


def test_the_loss_is_a_mean_over_words_or_over_sentences(tmp_path):
    """Of the log-likelihoods of heads and of their relations, here one by one."""
    (tmp_path / "gold").write_text(TREES)
    examples = list(parse.read(tmp_path / "gold"))
    assert [len(example.words) for example in examples] == [4, 2]
    losses = {}
    for kind in ("words", "sentences"):
        settings = ["task=parse", "~task/for", "encoder=none", "run_dir=here", "rnn.hidden_size=8"]
        chosen = [] if kind == "words" else [f"task.model.loss={kind}"]  # words: the default
        torch.manual_seed(1)
        model, vocab, batch = built(composed(*settings, *chosen), examples)
        with torch.no_grad():
            scores = model.eval()(batch)
            losses[kind] = model.loss(scores, batch).item()
        arcs, relations = (part.log_softmax(-1) for part in scores)
        sums = []
        for row, example in enumerate(examples):
            gold = [(int(head), vocab.label_id(name)) for head, name in example.gold]
            of_words = [arcs[row, k, h] + relations[row, k, h, r] for k, (h, r) in enumerate(gold)]
            sums.append(-sum(of_words).item())
    assert losses["words"] == pytest.approx(sum(sums) / 6)
    assert losses["sentences"] == pytest.approx(sum(sums) / 2)


def test_the_runs_of_results_keep_their_loss():
    assert composed(OF_RESULTS, "experiment=ewt_parse").task.model.loss == "sentences"


def test_only_the_root_is_root_and_what_is_decoded_is_a_tree(tmp_path):
    (tmp_path / "gold").write_text(TREES)
    cfg = composed("task=parse", "encoder=none", "run_dir=here", "rnn.hidden_size=8")
    examples = list(parse.read(tmp_path / "gold"))
    model, _, batch = built(cfg, examples)
    with torch.no_grad():
        scores = model(batch)
        scores[1][..., model.labels.index("root")] += 100
        for arcs in model.decode(scores, batch):
            assert is_tree([int(head) for head, _ in arcs])
            assert all((head == "0") == (relation == "root") for head, relation in arcs)
    record = task_format(cfg).render(examples[1], examples[1].gold)
    assert record == {"tokens": ["Hush", "!"], "heads": [0, 1], "relations": ("root", "punct")}


def test_parameters_of_dozat_and_manning():
    """Their sizes, counted by hand; words, characters and biLM left out."""
    cfg = composed("task=parse", "~task/for", "encoder=none", "run_dir=here")
    model, vocab, _ = built(cfg, [parse.parse({"tokens": ["a"]}, "here")])
    size, labels = 2 * 400, len(vocab.labels)
    x = model.backbone.embed.dim
    lstm = sum(2 * 4 * 400 * (inputs + 400 + 2) for inputs in (x, size, size))
    layers = size + 2 * (size + 1) * 500 + 2 * (size + 1) * 100  # the root, four MLPs
    expected = lstm + layers + 501 * 501 + labels * 101 * 101
    left_out = {*model.backbone.embed.parameters()}
    assert sum(p.numel() for p in model.parameters() if p not in left_out) == expected
