"""Counts of a GPU's work that need no GPU, each with its upper limit.

A count is exact and the same on every machine. `tests/test_counts.py` fails if one exceeds its
limit.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.table import Table

from elmo_bench.encoders import batches, build_store
from elmo_bench.encoders.static import WordVectors

from . import stacked, steps
from .stacked import Operations

COPIES = ("aten._to_copy", "aten.copy_", "aten._local_scalar_dense", "aten.clone")


class Count(NamedTuple):
    """A figure, what it counts, and its upper limit."""

    what: str
    figure: Callable[[], int]
    most: int


def store_copies() -> int:
    """Tensor copies and waits for a value per batch of a store's build, in the computing thread.

    On a GPU, each of these copies is one of layers to the host.
    """
    words = {f"w{number}": number for number in range(1, 100)}
    encoder = WordVectors(words, torch.rand(100, 4))
    sentences = [[f"w{number % 100}"] * 30 for number in range(500)]
    sentences = [[*sentence, f"{number}"] for number, sentence in enumerate(sentences)]
    with tempfile.TemporaryDirectory() as folder, Operations() as operations:
        store = build_store(encoder, sentences, [0], Path(folder), dtype="float16")
        if store is None:
            raise OSError(f"{folder}: not enough space for a store")
        store.close()
    copies = [name for name in operations.names if name.startswith(COPIES)]
    return -(-len(copies) // len([*batches([len(sentence) for sentence in sentences])]))


COUNTS: Sequence[Count] = (
    Count("store: copies of layers to the host a batch of its build", store_copies, 1),
    Count("biLM on a GPU: operations a time step, both directions, one layer", stacked.step, 8),
    Count("biLM on a GPU: operations a time step with its gradient", stacked.training_step, 9),
    Count("biLM on a GPU: waits for the device between steps, or in a window", stacked.waits, 0),
    Count("biLM on a GPU, original size: MB for 320,000 tokens at once", stacked.megabytes, 7500),
    *(
        Count(
            f"{task}: waits for the device in a training step",
            partial(steps.waits, task),
            1 if task == "coref" else 0,  # its spans are chosen on the CPU
        )
        for task in steps.TASKS
    ),
    Count("a batch from a store: bytes beyond the chosen layers'", steps.needless_bytes, 0),
)


def rows() -> list[dict[str, Any]]:
    """A row for each count."""
    return [{"what": count.what, "figure": count.figure(), "most": count.most} for count in COUNTS]


def table(rows: Sequence[dict[str, Any]], width: int) -> Table:
    """The table of counts."""
    shown = Table(title="counted", title_justify="left", width=width)
    shown.add_column("what", ratio=5)
    shown.add_column("figure", justify="right", ratio=1)
    shown.add_column("may be", justify="right", ratio=1)
    for row in rows:
        shown.add_row(row["what"], f"{row['figure']:,}", f"{row['most']:,}")
    return shown
