from .elmo import Elmo as Elmo, ElmoVectors as ElmoVectors, Layers as Layers
from .mix import Mask as Mask, ScalarMix as ScalarMix
