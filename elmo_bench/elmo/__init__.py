from .elmo import Elmo, ElmoVectors, LayerRows, Layers
from .finetune import FineTuning
from .mix import ScalarMix

__all__ = ["Elmo", "ElmoVectors", "FineTuning", "LayerRows", "Layers", "ScalarMix"]
