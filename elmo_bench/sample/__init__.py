"""A generated miniature corpus: one small world, one grammar, six tasks' official file formats and
raw text.
"""

from elmo_bench.sample.corpus import files

__all__ = ["files"]
