from .attention import attend, dot_attention, masked_max, masked_mean, masked_softmax
from .backbone import Backbone
from .crf import Crf
from .dropout import variational_dropout
from .embed import Characters, Words, WordsChars
from .highway_lstm import AlternatingHighwayLstm, HighwayLstm
from .rnn import BiGru, BiLstm, Identity, ReluBiLstm
from .scores import Scores
from .tokens import Tokens, to_device, tokens
from .viterbi import barrier, viterbi

__all__ = [
    "AlternatingHighwayLstm",
    "Backbone",
    "BiGru",
    "BiLstm",
    "Characters",
    "Crf",
    "HighwayLstm",
    "Identity",
    "ReluBiLstm",
    "Scores",
    "Tokens",
    "Words",
    "WordsChars",
    "attend",
    "barrier",
    "dot_attention",
    "masked_max",
    "masked_mean",
    "masked_softmax",
    "to_device",
    "tokens",
    "variational_dropout",
    "viterbi",
]
