from .contract import Encoder as Encoder, Misread as Misread
from .encode import batches as batches, encode as encode, encode_each as encode_each
from .load import load_encoder as load_encoder
from .lora import add_adapters as add_adapters
from .store import LayerStore as LayerStore
from .frozen_layers import build_store as build_store
from .memory import LayerMemory as LayerMemory
from .tensors import read_tensors as read_tensors
