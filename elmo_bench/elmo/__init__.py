from .elmo import Elmo, ElmoVectors
from .mix import ScalarMix

__all__ = ["Elmo", "ElmoVectors", "ScalarMix"]
