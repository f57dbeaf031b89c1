"""The figures of seqeval, which users of Hugging Face compare with."""

import warnings
from collections.abc import Sequence
from typing import Any

Tags = Sequence[Sequence[str]]
FIGURES = {"precision": "precision", "recall": "recall", "f1-score": "f1"}  # its names and ours


def seqeval_scores(predicted: Tags, gold: Tags) -> dict[str, float]:
    """Return `seqeval/f1` and `seqeval_strict/f1`, also with `precision` and `recall`, over all
    types and of each (`seqeval/PER/f1`), as fractions of 1, and 0 without entities.

    Its default mode reads chunks as conlleval does. In its strict mode, here of IOB2, an entity
    begins at B- only: an I- without its B- belongs to none.
    """
    from seqeval.metrics import classification_report  # imports scikit-learn, which takes a second
    from seqeval.scheme import IOB2

    gold_tags = list(map(list, gold))
    predicted_tags = list(map(list, predicted))
    modes: dict[str, dict[str, Any]] = {
        "seqeval": {},
        "seqeval_strict": {"mode": "strict", "scheme": IOB2},
    }
    scores: dict[str, float] = {}
    for mode, options in modes.items():
        with warnings.catch_warnings():
            # Without any entity: it takes the mean over no types, which is not used here.
            warnings.simplefilter("ignore", RuntimeWarning)
            report = classification_report(
                gold_tags, predicted_tags, output_dict=True, zero_division=0, **options
            )
        for name, figures in report.items():
            if name in ("macro avg", "weighted avg"):
                continue
            group = mode if name == "micro avg" else f"{mode}/{name}"
            for its, ours in FIGURES.items():
                scores[f"{group}/{ours}"] = float(figures[its])
    return scores
