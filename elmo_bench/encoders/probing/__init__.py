from .corpora import Sentence, read
from .probes import (
    Heads,
    Probe,
    Senses,
    Tags,
    Text,
    Training,
    encoded,
    labelled,
    measure,
    properties,
)

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
