"""Metrics that several tasks share.

Their states are sums, so several processes get the score of the whole corpus: integer counts,
exactly, or floats (Mean). Correlations keeps all pairs instead, since ranks need them.

`by_example` returns numbers of each example for each score, for significance tests. Their sums give
the score, as `elmo_bench.runs.figure` says: F1 from the numerator and denominator of recall, then
of precision (accuracy has the same ratio twice), or a correlation from six moments.

`tally` counts what one side has, of gold or of the predictions: how often each label occurs, type
of chunk, or number (`training/cautions.py` says what is silent nonsense). A metric of things that a
text may lack says in `sought` what one is called.

Axes: N examples, S scores whose mean is meant (3 for CoNLL's F1 of coreference, else mostly 1), M
numbers of a score (4 counts, or 6 moments of each label), K types or labels and one row for others.
"""

from .correlations import Correlations as Correlations
from .counts import (
    ByExample as ByExample,
    BySplit as BySplit,
    Counts as Counts,
    Mean as Mean,
)
from .details import Details as Details, details as details
from .labels import Accuracy as Accuracy, Classification as Classification
from .spans import SpanF1 as SpanF1, Tags as Tags
