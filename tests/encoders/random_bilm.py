"""A small biLM with random weights."""

from elmo_bench.encoders.bilm import BiLm, Options


def random_bilm(**sizes):
    return BiLm(Options(**{"cell_size": 6, "projection_size": 4, "filters": ((1, 4),)} | sizes))
