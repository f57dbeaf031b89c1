from .elmo import Elmo, ElmoVectors
from .finetune import FineTuning
from .mix import ScalarMix

__all__ = ["Elmo", "ElmoVectors", "FineTuning", "ScalarMix"]
