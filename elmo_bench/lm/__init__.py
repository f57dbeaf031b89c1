from .corpus import Corpus as Corpus
from .model import LanguageModel as LanguageModel
from .softmax_file import (
    SOFTMAX as SOFTMAX,
    VOCABULARY as VOCABULARY,
    load_language_model as load_language_model,
    save_softmax as save_softmax,
)
from .training import Trainer as Trainer, Training as Training
