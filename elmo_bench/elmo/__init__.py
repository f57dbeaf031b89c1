from .elmo import Elmo as Elmo, ElmoVectors as ElmoVectors, Layers as Layers
from .mix import ScalarMix as ScalarMix
