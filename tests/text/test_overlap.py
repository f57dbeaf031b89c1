"""Examples that also stand in training or in another text, against a comparison of all with all."""

import random

import pytest

from elmo_bench.text import overlap


def drawn(number, most, rng):
    """Examples of one or two sentences of three words, which often repeat."""
    return [
        [
            [rng.choice("abc") for _ in range(rng.randint(0, most))]
            for _ in range(rng.choice((1, 2)))
        ]
        for _ in range(number)
    ]


def grams(sentence):
    """All words that stand in a row in a sentence, as many as count."""
    ends = range(overlap.WORDS, len(sentence) + 1)
    return [sentence[end - overlap.WORDS : end] for end in ends]


@pytest.mark.parametrize("words", [3, 5])
def test_as_all_with_all(monkeypatch, words):
    monkeypatch.setattr(overlap, "WORDS", words)
    rng = random.Random(words)
    splits = {"train": drawn(60, 4, rng), "dev": drawn(80, 4, rng), "test": drawn(80, 8, rng)}
    expected = {
        split: [sum(each in splits["train"] for each in splits[split]), 80]
        for split in ("dev", "test")
    }
    assert overlap.in_training(splits) == expected
    assert expected["dev"][0] not in (0, 80)
    text = [sentence for example in drawn(40, 8, rng) for sentence in example]
    texts = [gram for sentence in text for gram in grams(sentence)]
    whole, parts = overlap.in_text(splits, iter(text))
    for split in ("dev", "test"):
        examples = splits[split]
        assert whole[split] == [sum(all(s in text for s in each) for each in examples), 80]
        shared = [any(gram in texts for s in each for gram in grams(s)) for each in examples]
        assert parts[split] == [sum(shared), 80]
    assert 0 < parts["test"][0] < 80
