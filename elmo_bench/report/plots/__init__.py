"""The plots of a report. Importing this loads matplotlib: import it where a plot is drawn."""

from .comparison import comparison as comparison
from .curves import QUANTITIES as QUANTITIES, curve as curve, learning as learning
from .document import picture as picture, telling as telling
from .tuning import tuning as tuning
