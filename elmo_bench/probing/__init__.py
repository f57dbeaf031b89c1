"""What each layer of an encoder knows of words: `job=probe`."""

from .corpora import Sentence as Sentence, read as read
from .probes import (
    encoded as encoded,
    labelled as labelled,
    linear as linear,
    measure_senses as measure_senses,
    measure_tags as measure_tags,
    properties as properties,
)
