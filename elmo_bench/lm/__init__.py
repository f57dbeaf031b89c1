from .corpus import Corpus
from .model import (
    LanguageModel,
    Likelihoods,
    perplexity_of,
    sentence_likelihoods,
    text_likelihoods,
)
from .softmax_file import SOFTMAX, VOCABULARY, load_language_model, save_softmax
from .training import Step, Trainer, Training

__all__ = [
    "SOFTMAX",
    "VOCABULARY",
    "Corpus",
    "LanguageModel",
    "Likelihoods",
    "Step",
    "Trainer",
    "Training",
    "load_language_model",
    "perplexity_of",
    "save_softmax",
    "sentence_likelihoods",
    "text_likelihoods",
]
