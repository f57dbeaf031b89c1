from .corpora import Sentence as Sentence, read as read
from .probes import (
    Heads as Heads,
    Probe as Probe,
    Senses as Senses,
    Tags as Tags,
    Text as Text,
    Training as Training,
    encoded as encoded,
    labelled as labelled,
    measure as measure,
    properties as properties,
)
