from .load import LATER
from .transformer import Transformer

__all__ = ["LATER", "Transformer"]
