from .elmo import Elmo, ElmoVectors, Layers
from .finetune import FineTuning
from .mix import ScalarMix

__all__ = ["Elmo", "ElmoVectors", "FineTuning", "Layers", "ScalarMix"]
