"""What can be counted without a GPU: each figure by a function of its own, beside the most that it
may be.

A count is exact and the same on every machine. `tests/test_counts.py` fails where one is above
what it may be.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode

from elmo_bench.encoders import batches, build_store
from elmo_bench.encoders.bilm import Options, bilm, char_ids
from elmo_bench.encoders.static import WordVectors

from . import steps

COPIES = ("aten._to_copy", "aten.copy_", "aten._local_scalar_dense", "aten.clone")


class Count(NamedTuple):
    """A figure, what it counts, and the most that it may be."""

    what: str
    figure: Callable[[], int]
    most: int


class Operations(TorchDispatchMode):
    """The names of torch's operations within `with`, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not func.is_view:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def defined_step() -> int:
    """Operations of a time step of the definition."""
    return _operations(bilm.BiLm, 9) - _operations(bilm.BiLm, 8)


def _operations(kind: type[bilm.BiLm], num_words: int) -> int:
    """Operations of reading two sentences with a biLM that has one layer."""
    options = Options(8, 4, ((1, 4),), num_layers=1)
    model = kind(options).eval().requires_grad_(False)
    chars = char_ids([["a"] * num_words] * 2)
    with torch.no_grad(), Operations() as operations:
        model.read(chars)
    return len(operations.names)


def store_copies() -> int:
    """Copies of tensors, and waits for a number, a batch of a store's build, in the thread that
    computes: on a GPU, each copy is one to the host.
    """
    words = {f"w{number}": number for number in range(1, 100)}
    encoder = WordVectors(words, torch.rand(100, 4))
    sentences = [[f"w{number % 100}"] * 30 for number in range(500)]
    sentences = [[*sentence, f"{number}"] for number, sentence in enumerate(sentences)]
    with tempfile.TemporaryDirectory() as folder, Operations() as operations:
        store = build_store(encoder, sentences, [0], Path(folder), dtype="float16")
        if store is None:
            raise OSError(f"{folder} has no room for a store")
        store.close()
    copies = [name for name in operations.names if name.startswith(COPIES)]
    return -(-len(copies) // len([*batches([len(sentence) for sentence in sentences])]))


COUNTS: Sequence[Count] = (
    Count("store: copies to the host a batch of its build", store_copies, 1),
    Count("definition: operations a time step, both directions, one layer", defined_step, 38),
    *(
        Count(
            f"{task}: waits for the device in a training step",
            partial(steps.waits, task),
            1 if task == "coref" else 0,  # its spans are chosen on the host
        )
        for task in steps.TASKS
    ),
    Count("a batch from a store: bytes beyond the chosen layers'", steps.needless_bytes, 0),
)


def rows() -> list[dict[str, Any]]:
    """Each count with its figure."""
    return [{"what": count.what, "figure": count.figure(), "most": count.most} for count in COUNTS]


def table(rows: Sequence[dict[str, Any]], width: int) -> Table:
    """The counts, for a person."""
    shown = Table(title="counted", title_justify="left", width=width)
    shown.add_column("what", ratio=5)
    shown.add_column("figure", justify="right", ratio=1)
    shown.add_column("may be", justify="right", ratio=1)
    for row in rows:
        shown.add_row(row["what"], f"{row['figure']:,}", f"{row['most']:,}")
    return shown
