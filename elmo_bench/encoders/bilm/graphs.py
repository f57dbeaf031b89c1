"""A layer's window of pretraining as a CUDA graph: what takes hundreds of launches, four a step and
five for its gradient, takes one each.

Axes: as in `stacked_scan.py`.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .stacked_scan import Clips, Read, StackedScan

log = logging.getLogger(__name__)


class Graphs:
    """`StackedScan.apply` for windows of one shape: the first of them is captured, then replayed.

    What a window leaves, gradients too, lies in memory that the next one overwrites: it has to be
    used, or copied, before. So this is for a loop that takes one window a step and sets gradients
    to None, as `lm.Trainer` does. What cannot be captured runs as it is, with a warning.
    """

    def __init__(self) -> None:
        self._graphs: dict[tuple[Any, ...], Callable[..., Read]] = {}

    def __call__(
        self,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        rows: Sequence[int],
        clips: Clips,
        dtype: torch.dtype,
        *parameters: Tensor,
    ) -> Read:
        # A graph reads the parameters where they lay when it was captured.
        memory = (parameter.data_ptr() for parameter in parameters)
        key = (x.shape, x.dtype, x.requires_grad, *rows, clips, dtype, *memory)
        if key not in self._graphs:

            def window(x: Tensor, h: Tensor, c: Tensor, *parameters: Tensor) -> Read:
                return StackedScan.apply(x, h, c, rows, clips, dtype, *parameters)

            inputs = [
                torch.zeros_like(tensor, memory_format=torch.contiguous_format).requires_grad_(
                    tensor.requires_grad
                )
                for tensor in (x, h, c)
            ]
            graphed: Any = window
            try:
                graphed = torch.cuda.make_graphed_callables(window, (*inputs, *parameters))
            except RuntimeError as error:  # of memory, too
                log.warning("the biLM trains more slowly, without CUDA graphs: %s", error)
            self._graphs[key] = graphed
        return self._graphs[key](x, h, c, *parameters)
