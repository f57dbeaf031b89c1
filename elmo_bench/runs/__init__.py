from .collect import EARLIER, Run, as_text, choice, collect, distinguishing, full_keys, number, varies, where
from .folder import Result, about, begin, checkpoint, dev_figure, finished, unfinished, write_result
from .identity import Identity, acting, hash_files

__all__ = [
    "EARLIER",
    "Identity",
    "Result",
    "Run",
    "about",
    "acting",
    "as_text",
    "begin",
    "checkpoint",
    "choice",
    "collect",
    "dev_figure",
    "distinguishing",
    "finished",
    "full_keys",
    "hash_files",
    "number",
    "unfinished",
    "varies",
    "where",
    "write_result",
]
