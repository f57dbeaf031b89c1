from .bilm import Options, State
from .chars import char_ids
from .corpus import Corpus
from .elmo import Elmo, ElmoVectors
from .embed import batches, embed
from .fast import BiLm
from .likelihood import chunks, sentence_likelihoods, text_likelihoods
from .lm import LanguageModel
from .mix import ScalarMix
from .softmax import load_language_model, save_softmax
from .store import LayerStore, build_store, find_store, remove_store
from .training import Step, Trainer, Training
from .weights import digest, in_folder, load, save, shipped

__all__ = [
    "BiLm",
    "Corpus",
    "Elmo",
    "ElmoVectors",
    "LanguageModel",
    "LayerStore",
    "Options",
    "ScalarMix",
    "State",
    "Step",
    "Trainer",
    "Training",
    "batches",
    "build_store",
    "char_ids",
    "chunks",
    "digest",
    "embed",
    "find_store",
    "in_folder",
    "load",
    "load_language_model",
    "remove_store",
    "save",
    "save_softmax",
    "sentence_likelihoods",
    "shipped",
    "text_likelihoods",
]
