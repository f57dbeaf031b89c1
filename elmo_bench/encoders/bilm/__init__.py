from .bilm import BiLm as BiLm, Chars as Chars, State as State
from .options import DIRECTIONS as DIRECTIONS, Direction as Direction, Options as Options
from .weights import in_folder as in_folder, load as load, save as save, shipped as shipped
