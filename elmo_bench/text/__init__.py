from .conll import Row, read_blocks
from .lines import read_lines
from .spans import Span, bioul_moves, spans_to_bioul, spans_to_iob2, tags_to_spans
from .vectors import read_vectors
from .vocab import PADDING, UNKNOWN, Vocab

__all__ = [
    "PADDING",
    "UNKNOWN",
    "Row",
    "Span",
    "Vocab",
    "bioul_moves",
    "read_blocks",
    "read_lines",
    "read_vectors",
    "spans_to_bioul",
    "spans_to_iob2",
    "tags_to_spans",
]
