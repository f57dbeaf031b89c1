"""How good a run was after each epoch, from its `metrics.csv`."""

import csv
import math
from pathlib import Path

from elmo_bench.runs import Run

from .comparison import metric_of


def after_epochs(run: Run, metric: str | None) -> dict[int, float]:
    """Return the dev figure after each epoch, by the epoch's number from 1; empty without a file.

    Raises ValueError, with file and line, for rows that are not metrics of an epoch.
    """
    path = Path(run.folder, "metrics.csv")
    if not path.is_file():
        return {}
    name = f"dev/{metric_of(run, metric)}"
    values: dict[int, float] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in reader:
                if not row.get("epoch") or not row.get(name):
                    continue
                epoch = int(row["epoch"])
                values[epoch] = float(row[name])
                if epoch < 0 or not math.isfinite(values[epoch]):
                    raise ValueError(f"epoch {epoch}, {name} {row[name]}")
        except (ValueError, csv.Error) as error:
            line = f"{path}:{reader.line_num}"
            raise ValueError(f"{line}: not the metrics of an epoch: {error}") from error
    # Rows after the last epoch repeat the best one, which is measured again.
    return {epoch + 1: value for epoch, value in values.items() if epoch < run.epochs}
