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
from .store import LayerStore as LayerStore
from .store_build import (
    LayerMemory as LayerMemory,
    build_store as build_store,
    check_room as check_room,
)
from .tensors import read_tensors as read_tensors
