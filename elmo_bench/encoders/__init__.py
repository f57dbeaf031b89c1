from .contract import Encoder
from .encode import BATCH_TOKENS, batches, encode, encode_each, forget_words
from .load import load_encoder
from .lora import add_adapters
from .store import DeviceLayers, LayerStore, build_store, find_store
from .tensors import read_tensors

__all__ = [
    "BATCH_TOKENS",
    "DeviceLayers",
    "Encoder",
    "LayerStore",
    "add_adapters",
    "batches",
    "build_store",
    "encode",
    "encode_each",
    "find_store",
    "forget_words",
    "load_encoder",
    "read_tensors",
]
