from .bilm import BiLm, Options, State
from .chars import char_ids
from .elmo import Elmo, ElmoVectors
from .lm import Corpus, LanguageModel
from .mix import ScalarMix
from .weights import digest, load, save, shipped

__all__ = [
    "BiLm",
    "Corpus",
    "Elmo",
    "ElmoVectors",
    "LanguageModel",
    "Options",
    "ScalarMix",
    "State",
    "char_ids",
    "digest",
    "load",
    "save",
    "shipped",
]
