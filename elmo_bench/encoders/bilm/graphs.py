"""CUDA graphs for a layer's window of pretraining: one launch replaces hundreds (four a step, and
five for its gradient).

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
    """`StackedScan.apply` for windows of one shape: the first window is captured, then replayed.

    The next window overwrites all results, including gradients, so they must be used or copied
    before. The training loop must therefore compute one window a step and set gradients to None, as
    `lm.Trainer` does. If the capture fails, windows run without a graph, with a warning.
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
        # A graph reads the parameters from their addresses at the time of the capture.
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
            except RuntimeError as error:  # includes out of memory
                log.warning("the biLM trains more slowly, without CUDA graphs: %s", error)
            self._graphs[key] = graphed
        return self._graphs[key](x, h, c, *parameters)
