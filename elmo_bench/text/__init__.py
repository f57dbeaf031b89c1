from .conll import Row, read_blocks
from .conll2012 import (
    FEWEST_COLUMNS,
    MIN_COLUMNS,
    NO_WORD,
    PAIR,
    Document,
    bracket_spans,
    read_documents,
)
from .conllu import read_conllu
from .labels import LabelMap, kinds, label_map, named, types
from .lines import decode, read_bytes, read_lines, read_objects
from .records import check_same, is_predicted, paired, tags_of
from .sentences import chunks, part_sentences, read_sentences, read_text, text_files
from .spans import Span, bio_moves, bioul_moves, spans_to_bioul, spans_to_iob2, tags_to_spans
from .tokenize import BRACKETS, tokenize, tokenize_with_offsets, words_of
from .vectors import cached_vectors, read_table, read_vectors, side_by_side
from .vocab import FALLBACK, PADDING, UNKNOWN, Case, Vocab, forms

__all__ = [
    "BRACKETS",
    "FALLBACK",
    "FEWEST_COLUMNS",
    "MIN_COLUMNS",
    "NO_WORD",
    "PADDING",
    "PAIR",
    "UNKNOWN",
    "Case",
    "Document",
    "LabelMap",
    "Row",
    "Span",
    "Vocab",
    "bio_moves",
    "bioul_moves",
    "bracket_spans",
    "cached_vectors",
    "check_same",
    "chunks",
    "decode",
    "forms",
    "is_predicted",
    "kinds",
    "label_map",
    "named",
    "paired",
    "part_sentences",
    "read_blocks",
    "read_bytes",
    "read_conllu",
    "read_documents",
    "read_lines",
    "read_objects",
    "read_sentences",
    "read_table",
    "read_text",
    "read_vectors",
    "side_by_side",
    "spans_to_bioul",
    "spans_to_iob2",
    "tags_of",
    "tags_to_spans",
    "text_files",
    "tokenize",
    "tokenize_with_offsets",
    "types",
    "words_of",
]
