"""From words to the windows of a transformer: each distinct word tokenised once, against whole
sentences.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from elmo_bench.encoders.encode import batches
from elmo_bench.encoders.transformer.windows import Windows, special_tokens

from .timing import Comparison, Setting

Parts = Sequence[Sequence[Sequence[str]]]  # batches of sentences
TOKENIZERS = {"WordPiece": "BertTokenizer", "byte-level BPE": "RobertaTokenizer"}


def compare(setting: Setting) -> Iterator[Comparison]:
    """With two tokenizers that are trained on the sentences."""
    import transformers  # an optional package

    sentences = setting.sentences
    parts = [[sentences[k] for k in rows] for rows in batches([*map(len, sentences)])]
    for name, kind in TOKENIZERS.items():
        tokenizer = getattr(transformers, kind)().train_new_from_iterator(
            (" ".join(words) for words in sentences), vocab_size=20_000, show_progress=False
        )
        once, whole = _windows(tokenizer), _windows(tokenizer)
        whole.subwords._begin(None)  # as of a tokenizer that fails the proof
        yield Comparison(
            f"subwords, {name}",
            {
                "words that it has met": partial(_split, once, parts),
                "words that are new": partial(_new, tokenizer, parts),
                "whole sentences": partial(_split, whole, parts),
            },
            sum(map(len, sentences)),
            "words",
        )


def _windows(tokenizer: Any) -> Windows:
    special = special_tokens(tokenizer, SimpleNamespace(vocab_size=20_000))
    return Windows(tokenizer, "first", special, 512)


def _new(tokenizer: Any, parts: Parts) -> None:
    _split(_windows(tokenizer), parts)


def _split(windows: Windows, parts: Parts) -> None:
    for part in parts:
        windows.split(part)
