"""Overrides that make each task's model small enough to train in a second."""

CHARS, RNN = ["embed.num_filters=8"], ["rnn.hidden_size=8"]
BOTH = [*RNN, "task.model.hidden_size=8"]
SMALL = {
    "ner": [*CHARS, *BOTH],
    "sst5": [*BOTH, "rnn.projection_size=8", "task.model.layer_sizes=[8,8]", "task.phrases=null"],
    "snli": BOTH,
    "classify": RNN,
    "squad": [*CHARS, *BOTH, "embed.word_dim=8"],
    "srl": ["data.size=20", *RNN, "rnn.num_layers=2", "task.model.indicator_dim=4"],
    "coref": [*CHARS, *BOTH],
    "pos": [*CHARS, *RNN],
    "parse": [*CHARS, *RNN, "task.model.head_size=8", "task.model.relation_size=8"],
}
