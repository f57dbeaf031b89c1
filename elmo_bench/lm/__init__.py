from .adaptation import BilmFiles as BilmFiles, adapt as adapt, adapted_name as adapted_name
from .corpus import Corpus as Corpus
from .model import (
    LanguageModel as LanguageModel,
    load_language_model as load_language_model,
    save_softmax as save_softmax,
)
from .training import Trainer as Trainer, Training as Training
