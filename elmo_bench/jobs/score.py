"""`job=score`: compute a task's official metric from a gold file and a file of predictions."""

import json
from pathlib import Path

from omegaconf import DictConfig

from elmo_bench import build
from elmo_bench.build.task_format import reader, required, task_format
from elmo_bench.report.result import print_line
from elmo_bench.training.cautions import of_examples, of_predictions, tell


def score(cfg: DictConfig) -> dict[str, float]:
    """Print the scores as one JSON object, in fractions of 1, as the only standard output.

    Raises ValueError for a gold file without examples, and the errors of the task's readers.
    """
    figures = prepare(cfg)
    print_line(json.dumps(figures))
    return figures


def prepare(cfg: DictConfig) -> dict[str, float]:
    """Return the scores."""
    gold = list(reader(cfg, "test")(Path(cfg.gold)))
    if not gold:
        raise ValueError(f"gold={cfg.gold}: the file has no examples, so nothing can be scored")
    form = task_format(cfg)
    read_predictions = required(form, "read_predictions", "job=score")
    predicted = read_predictions(Path(cfg.predicted), gold)
    labels: set[str] = set()
    for example in gold:
        labels.update(example.labels)
    labels |= {label for label in predicted if isinstance(label, str)}  # which gold may lack
    metric = build.metric(cfg, sorted(labels))
    tell(of_examples(metric, {"gold": gold}))
    tell(of_predictions(metric, "gold", gold, predicted))
    metric.update(predicted, [example.gold for example in gold])
    figures = {name: float(value) for name, value in metric.compute().items()}
    return figures | form.other_scores(gold, predicted)
