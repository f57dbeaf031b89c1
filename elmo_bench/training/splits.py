"""Shares of the examples of a corpus, and the labels that its splits have in common."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from elmo_bench.text import Vocab, types

E = TypeVar("E", bound=Any)  # an `Example`


def draw(examples: Sequence[E], fraction: float, seed: int) -> list[E]:
    """Return all examples of a random share of the groups; the seed determines the groups and the
    order of examples.
    """
    groups = list(dict.fromkeys(example.group for example in examples))
    kept = set(random.Random(seed).sample(groups, max(1, round(fraction * len(groups)))))
    shuffled = random.Random(seed).sample(examples, len(examples))
    return [example for example in shuffled if example.group in kept]


def divide(examples: Sequence[E], share: float) -> tuple[list[E], list[E]]:
    """Return examples to train on, and as dev a random share of the groups, always the same ones.

    Raises ValueError if nothing is left to train on.
    """
    groups = {example.group for example in draw(examples, share, 0)}
    rest = [example for example in examples if example.group not in groups]
    if not rest:
        raise ValueError(
            f"data.held_out={share}: no training example is left, since examples that share text "
            "stay together; give data.files.dev"
        )
    return rest, [example for example in examples if example.group in groups]


def known_labels(examples: Mapping[str, Sequence[E]], vocab: Vocab | None) -> list[str]:
    """Return the labels of the training examples, or those of `vocab` if a model has been trained.

    Raises ValueError if another split has others.
    """
    if vocab is None:
        labels = {label for example in examples["train"] for label in example.labels}
        owner, hint = "the training file", ""
    else:
        labels, owner, hint = set(vocab.labels), "the model", "; rename or remove them in the file"
    for split, part in examples.items():
        for example in part:
            if unknown := set(example.labels) - labels:
                # Name the types, unless only a tag is new.
                named = types if set(types(unknown)) - set(types(labels)) else sorted
                raise ValueError(
                    f"{example.source}: labels {named(unknown)} of the {split} file do not occur "
                    f"in {owner}, which has {named(labels)}{hint}"
                )
    return sorted(labels)
