"""The labels of one corpus beside those of another."""

import pytest

from elmo_bench.text import Span, label_map
from tasks.ner import data as ner


def test_a_label_has_one_image():
    with pytest.raises(ValueError, match=r"data.labels: ORG is mapped to \['firm', 'person'\]"):
        label_map({"PER": "person", "ORG": ["firm", "person"]})


def test_examples_by_a_models_labels():
    entity = ner.Example(("Ann", "in", "Rome"), (Span("person", 0, 0), Span("place", 2, 2)), "here")
    assert ner.relabel(entity, {"person": "PER"}).gold == ["B-PER", "O", "O"]
