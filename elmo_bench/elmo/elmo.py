"""ELMo as a task sees it (paper, sections 3.2 and 3.3): a biLM, and one mix of its layers for each place where the task reads it.

Axes: L layers, B batch, T tokens, C characters, D biLM.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .embed import embed
from .mix import Choice, ScalarMix
from .weights import in_folder, load, shipped

PLACES = ("input", "output")


class ElmoVectors(NamedTuple):
    """ELMo_k for the task's input and for its encoder's output; width 0 at a place that does not read it."""

    input: Float[Tensor, "B T I"]
    output: Float[Tensor, "B T O"]


class Elmo(nn.Module):
    """The mixed layers of a biLM, frozen unless `finetune`.

    `layers` is a biLM or any module under its contract: `num_layers`, `dim`, and characters -> (layers "L B T D", state).
    `layers=None` is the baseline without a biLM: every width is 0, and nothing downstream can tell it from a narrow ELMo.
    `at` names the places that read a mix (each place has its own), `l2` is the paper's lambda.
    """

    def __init__(
        self,
        layers: Any,
        *,
        mix: Choice = "all",
        at: Sequence[str] = ("input",),
        dropout: float = 0.5,
        l2: float = 0.0,
        norm: str = "none",
        finetune: bool = False,
    ) -> None:
        super().__init__()
        if unknown := [place for place in at if place not in PLACES]:
            raise ValueError(f"elmo.at={list(at)} names {unknown}, but the places are {list(PLACES)}")
        if not 0 <= dropout < 1:
            raise ValueError(f"elmo.dropout={dropout}, but it may be 0 to less than 1")
        if l2 < 0:
            raise ValueError(f"elmo.l2={l2}, but it may not be negative")
        self.layers, self.dropout, self.l2, self.finetune = layers, dropout, l2, finetune
        places = at if layers is not None else ()
        self.mixes: Any = nn.ModuleDict(
            {place: ScalarMix(layers.num_layers, mix, norm=norm) for place in PLACES if place in places}
        )
        if layers is not None:
            layers.requires_grad_(finetune)

    @classmethod
    def load(cls, model: str | Path, weights: str | Path | None = None, *, precision: str = "float32", **settings: Any) -> "Elmo":
        """ELMo over a biLM on disk, ready to use: "mini" (shipped), a folder as job=pretrain writes it, or two files.

        The two files are `options.json` and its weights; `precision` is float32 or bfloat16, `settings` are those of the
        constructor (`mix`, `at`, `dropout` ...).
        Raises FileNotFoundError and ValueError as `load` of weights does.
        """
        if weights is None:
            folder = Path(model) if Path(model).is_dir() else Path(shipped(str(model)))
            if not folder.is_dir():
                names = sorted(path.parent.name for path in Path(shipped("")).glob("*/options.json"))
                raise FileNotFoundError(f"{model}: no such folder, and no biLM that ships ({', '.join(names)})")
            options, weights = in_folder(folder, "options"), in_folder(folder, "weights")
            if options is None or weights is None:
                raise FileNotFoundError(f"{folder}: no {'weights' if options else 'options.json'} of a biLM in this folder")
            model = options
        return cls(load(model, weights, precision=precision), **settings).eval()

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Float[Tensor, "L T D"]]:
        """All layers of each sentence (a list of words), in order: (layers, words, width); layer 0 is the token layer.

        >>> [layers.shape for layers in Elmo.load("mini").embed([["Hello", "world"], ["!"]])]
        [torch.Size([3, 2, 128]), torch.Size([3, 1, 128])]
        """
        if self.layers is None:
            raise ValueError("an Elmo without a biLM has no layers to embed with")
        found = dict(embed(self.layers, sentences))
        return [found[place].clone() for place in range(len(sentences))]

    @property
    def chosen(self) -> list[int]:
        """The layers that the mixes take, in their order; every place takes the same."""
        return next((mix.layers for mix in self.mixes.values()), [])

    def dim(self, place: str) -> int:
        """The width of ELMo at a place, 0 where it is not read."""
        return self.layers.dim if place in self.mixes else 0

    def train(self, mode: bool = True) -> "Elmo":
        super().train(mode)
        if self.layers is not None and not self.finetune:
            self.layers.eval()  # a frozen biLM has no dropout
        return self

    def forward(
        self,
        chars: Int[Tensor, "B T C"],
        mask: Bool[Tensor, "B T"],
        layers: Sequence[Float[Tensor, "B T _"]] | None = None,
    ) -> ElmoVectors:
        """The vectors for each place; `layers` are the `chosen` ones as a store gives them, and save running the biLM."""
        if not self.mixes:
            known = None
        elif layers is not None:
            known = widened(layers, self.layers.dim)
        else:
            with torch.set_grad_enabled(self.finetune and torch.is_grad_enabled()):
                known, _ = self.layers(chars)
            if self.chosen != [*range(len(known))]:
                known = known[self.chosen]
        return ElmoVectors(*(self._at(place, known, mask) for place in PLACES))

    def _at(self, place: str, layers: Tensor | None, mask: Tensor) -> Tensor:
        if place not in self.mixes:
            return torch.zeros(*mask.shape, 0, device=mask.device)
        return F.dropout(self.mixes[place](layers, mask), self.dropout, self.training)

    def penalty(self) -> Float[Tensor, ""] | float:
        """Lambda times the sum of w squared over all mixes (paper, section 3.3): what training adds to the loss."""
        return self.l2 * sum(mix.penalty() for mix in self.mixes.values())


def widened(layers: Sequence[Float[Tensor, "B T _"]], dim: int) -> Float[Tensor, "L B T D"]:
    """Layers in float32 and D wide; one that a store keeps half as wide, the token layer, is the same vector twice."""
    wide = layers[0].new_empty(len(layers), *layers[0].shape[:2], dim, dtype=torch.float32)
    for place, layer in zip(wide, layers, strict=True):
        place.unflatten(-1, (-1, layer.shape[-1])).copy_(layer[..., None, :])
    return wide
