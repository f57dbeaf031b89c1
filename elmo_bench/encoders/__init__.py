from .contract import Encoder as Encoder
from .encode import (
    BATCH_TOKENS as BATCH_TOKENS,
    batch_sizes as batch_sizes,
    batches as batches,
    encode as encode,
    encode_each as encode_each,
    forget_words as forget_words,
    parted as parted,
)
from .layer_files import row_bytes as row_bytes
from .load import load_encoder as load_encoder
from .lora import add_adapters as add_adapters
from .memory import LayerMemory as LayerMemory, check_room as check_room
from .store import LayerStore as LayerStore, build_store as build_store
from .tensors import read_tensors as read_tensors
