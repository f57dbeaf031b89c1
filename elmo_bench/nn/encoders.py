"""The task's recurrent layers, over padded batches.

Axes: B batch, T tokens, I input features, H output features (both directions).
"""

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


class BiGru(nn.Module):
    """A bidirectional GRU with variational dropout on its input and, if need be, its output; 0 past a sentence's end.

    Starts from a normal distribution cut at two deviations of 0.05, biases from 0 (Clark and Gardner 2018).
    """

    def __init__(self, *, input_size: int, hidden_size: int, dropout: float = 0.0, output_dropout: float = 0.0) -> None:
        super().__init__()
        self.dim, self.dropout, self.output_dropout = 2 * hidden_size, dropout, output_dropout
        self.gru = nn.GRU(input_size, hidden_size, batch_first=True, bidirectional=True)
        for weight in self.gru.parameters():
            if weight.dim() > 1:
                nn.init.trunc_normal_(weight, std=0.05, a=-0.1, b=0.1)
            else:
                nn.init.zeros_(weight)

    def forward(self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T H"]:
        x = variational_dropout(x, self.dropout, self.training)
        lengths = mask.sum(1).clamp(min=1).cpu()  # a sentence without words reads one padding
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=mask.shape[1])
        return variational_dropout(h, self.output_dropout, self.training) * mask[..., None]


class ReluBiLstm(nn.Module):
    """A ReLU layer at each token, dropout before and after it, then a BiLSTM: the encoder of McCann et al. (2017)."""

    def __init__(
        self,
        *,
        input_size: int,
        projection_size: int,
        hidden_size: int,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.projection = nn.Sequential(
            nn.Dropout(input_dropout), nn.Linear(input_size, projection_size), nn.ReLU(), nn.Dropout(dropout)
        )
        self.bilstm = BiLstm(input_size=projection_size, hidden_size=hidden_size)
        self.dim = self.bilstm.dim

    def forward(self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T H"]:
        return self.bilstm(self.projection(x), mask)
