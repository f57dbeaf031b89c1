from elmo_bench.elmo import Mask as Mask

from .attention import (
    Scores as Scores,
    attend as attend,
    masked_max as masked_max,
    masked_mean as masked_mean,
    masked_softmax as masked_softmax,
)
from .backbone import Backbone as Backbone
from .crf import Crf as Crf, viterbi as viterbi
from .embed import (
    Characters as Characters,
    Embed as Embed,
    Words as Words,
    WordsChars as WordsChars,
)
from .rnn import (
    AlternatingHighwayLstm as AlternatingHighwayLstm,
    BiGru as BiGru,
    BiLstm as BiLstm,
    Identity as Identity,
    ReluBiLstm as ReluBiLstm,
    Rnn as Rnn,
    variational_dropout as variational_dropout,
)
from .task_model import TaskModel as TaskModel
from .tokens import Tokens as Tokens, to_device as to_device, tokens as tokens
