"""A generated miniature corpus: one small world and one grammar, in the official file formats of six tasks and as raw text."""

from elmo_bench.sample.corpus import files

__all__ = ["files"]
