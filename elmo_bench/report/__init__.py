from .collect import collect
from .table import cells, table

__all__ = ["cells", "collect", "table"]
