"""The task's recurrent layers, over padded batches.

Axes: B batch, T tokens, I input features, H output features (both directions).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .dropout import variational_dropout


class BiLstm(nn.Module):
    """A bidirectional LSTM with variational dropout on its input; 0 past a sentence's end."""

    def __init__(self, *, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim, self.dropout = 2 * hidden_size, dropout
        self.layers = nn.ModuleList(
            nn.LSTM(input_size if k == 0 else self.dim, hidden_size, batch_first=True, bidirectional=True)
            for k in range(num_layers)
        )

    def forward(self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T H"]:
        lengths = mask.sum(1).clamp(min=1).cpu()  # a sentence without words reads one padding
        for lstm in self.layers:
            x = variational_dropout(x, self.dropout, self.training)
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return x * mask[..., None]
