from .adaptation import BilmFiles as BilmFiles, adapt as adapt, name_of as name_of
from .corpus import Corpus as Corpus
from .model import (
    SOFTMAX as SOFTMAX,
    VOCABULARY as VOCABULARY,
    LanguageModel as LanguageModel,
    load_language_model as load_language_model,
    save_softmax as save_softmax,
)
from .training import Trainer as Trainer, Training as Training
