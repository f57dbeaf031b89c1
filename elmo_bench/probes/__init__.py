from .heads import Heads
from .read import Sentence, read
from .senses import Senses
from .tags import Tags
from .words import Probe, Text, Training, encoded, labelled, measure, properties

__all__ = [
    "Heads",
    "Probe",
    "Senses",
    "Sentence",
    "Tags",
    "Text",
    "Training",
    "encoded",
    "labelled",
    "measure",
    "properties",
    "read",
]
