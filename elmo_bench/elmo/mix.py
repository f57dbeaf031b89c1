"""The task-specific mix of the biLM's layers (paper, equation 1): gamma * sum_j softmax(w)_j h_j.

An ablation is the same module with a shorter weight vector: the softmax of one weight is 1.
Axes: L layers, B batch, T tokens, D biLM.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Choice = str | int | Sequence[int]  # "all" | "top" | "uniform" | j | [i, j, ...]


def chosen_layers(choice: Choice, num_layers: int) -> list[int]:
    """The layers that `elmo.mix` names.

    >>> chosen_layers("top", 3), chosen_layers([0, 2], 3)
    ([2], [0, 2])
    """
    if choice in ("all", "uniform"):
        return list(range(num_layers))
    if choice == "top":
        return [num_layers - 1]
    layers = [choice] if isinstance(choice, int) else choice
    if isinstance(layers, str) or not layers or not all(isinstance(layer, int) for layer in layers):
        raise ValueError(f"elmo.mix={choice}, but it may be all, top, uniform, a layer such as 0, or a list such as [0,1]")
    if unknown := [layer for layer in layers if not 0 <= layer < num_layers]:
        raise ValueError(f"elmo.mix={choice} names layers {unknown}, but the biLM has layers 0..{num_layers - 1}")
    if len(set(layers)) != len(layers):
        raise ValueError(f"elmo.mix={choice} names a layer twice")
    return list(layers)


class ScalarMix(nn.Module):
    """One task-specific vector per token out of the layers of a biLM.

    `weights` are the logits of s_j over the chosen layers, `gamma` scales the whole; "uniform" keeps s_j equal and trains gamma
    alone. `layer_norm` normalises each layer first, by one mean and variance over all unmasked values of the batch.
    """

    def __init__(self, num_layers: int, choice: Choice = "all", *, layer_norm: bool = False) -> None:
        super().__init__()
        self.layers = chosen_layers(choice, num_layers)
        self.layer_norm = layer_norm
        self.weights = nn.Parameter(torch.zeros(len(self.layers)), requires_grad=choice != "uniform")
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Float[Tensor, "L B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        chosen = layers if len(self.layers) == len(layers) else layers[self.layers]
        if self.layer_norm:
            chosen = masked_layer_norm(chosen, mask)
        return torch.einsum("l,lbtd->btd", self.gamma * self.shares, chosen)

    @property
    def shares(self) -> Float[Tensor, " L"]:
        """s_j: how much of the mix each chosen layer is; they add up to 1."""
        return self.weights.softmax(0)

    def penalty(self) -> Float[Tensor, ""]:
        """The sum of w_j squared: on the logits, never on gamma."""
        return self.weights.square().sum()


def masked_layer_norm(
    layers: Float[Tensor, "L B T D"], mask: Bool[Tensor, "B T"], epsilon: float = 1e-12
) -> Float[Tensor, "L B T D"]:
    """Each layer minus its mean, over its deviation: one number of each for the whole batch, without padding (bilm-tf)."""
    keep = mask[None, :, :, None].to(layers)
    count = keep.sum() * layers.shape[-1]
    mean = (layers * keep).sum((1, 2, 3), keepdim=True) / count
    variance = ((layers - mean) * keep).square().sum((1, 2, 3), keepdim=True) / count
    return (layers - mean) * (variance + epsilon).rsqrt()
