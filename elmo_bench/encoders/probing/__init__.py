from .corpora import Sentence as Sentence, read as read
from .probes import (
    Text as Text,
    Training as Training,
    encoded as encoded,
    labelled as labelled,
    measure_senses as measure_senses,
    measure_tags as measure_tags,
    properties as properties,
)
