from .conll import (
    Row as Row,
    document_name as document_name,
    read_blocks as read_blocks,
    read_conllu as read_conllu,
)
from .joined import BREAK as BREAK, SUMMARY as SUMMARY, joined as joined, texts_of as texts_of
from .lines import (
    decode as decode,
    gold_of as gold_of,
    paired as paired,
    read_bytes as read_bytes,
    read_lines as read_lines,
    read_objects as read_objects,
)
from .sentences import Sentences as Sentences, read_sentences as read_sentences
from .spans import (
    TAGS as TAGS,
    Span as Span,
    is_tag as is_tag,
    spans_to_bioul as spans_to_bioul,
    spans_to_iob2 as spans_to_iob2,
    tag_moves as tag_moves,
    tags_to_spans as tags_to_spans,
    types as types,
)
from .tokenize import (
    BRACKETS as BRACKETS,
    are_words as are_words,
    token_offsets as token_offsets,
    tokenize as tokenize,
    unescape as unescape,
    words_of as words_of,
)
from .vectors import read_vectors as read_vectors
from .vocab import Vocab as Vocab, forms as forms
