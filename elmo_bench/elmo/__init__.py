from .elmo import Elmo, ElmoVectors, Layers
from .mix import ScalarMix

__all__ = ["Elmo", "ElmoVectors", "Layers", "ScalarMix"]
