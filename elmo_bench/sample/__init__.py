"""A small invented corpus in the official file formats of the six tasks, and as raw text."""

from elmo_bench.sample.corpus import files

__all__ = ["files"]
