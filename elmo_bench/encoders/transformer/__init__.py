from .transformer import Transformer as Transformer
