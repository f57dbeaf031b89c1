from .corpus import Corpus
from .likelihood import Likelihoods, sentence_likelihoods, text_likelihoods
from .lm import LanguageModel
from .softmax import load_language_model, save_softmax
from .training import Step, Trainer, Training

__all__ = [
    "Corpus",
    "LanguageModel",
    "Likelihoods",
    "Step",
    "Trainer",
    "Training",
    "load_language_model",
    "save_softmax",
    "sentence_likelihoods",
    "text_likelihoods",
]
