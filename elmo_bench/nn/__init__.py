from .backbone import Backbone
from .crf import Crf
from .dropout import variational_dropout
from .embed import Characters, Words, WordsChars
from .encoders import BiLstm
from .tokens import Tokens, tokens

__all__ = ["Backbone", "BiLstm", "Characters", "Crf", "Tokens", "Words", "WordsChars", "tokens", "variational_dropout"]
