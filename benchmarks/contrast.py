"""Level of the test of contrasts between tasks, where nothing differs:

    python -m benchmarks.contrast

Four cells of five runs: two layers on each of two tasks. The tasks' scores are accuracy and F1, or
both F1; their examples are the same texts or others. A cell of the table is how often p is small.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.significance import Setting, clusters, spread_over_clusters, system
from benchmarks.simulation import LEVELS, heading, options, percent
from elmo_bench.report.contrast import WEIGHTS, scales_of
from elmo_bench.report.significance import largest_p
from elmo_bench.runs import Counts, figure

RUNS = 5
PROCESSES = {
    "examples differ": Setting(taste=1.0),
    "seeds differ": Setting(skill=0.3),
    "both differ": Setting(skill=0.3, taste=1.0),
    "both differ, 40 documents": Setting(skill=0.3, taste=1.0, clusters=40),
    "second layer: twice the spread": Setting(skill=0.3, taste=1.0, steady=2.0),
}
METRICS = (("accuracy", "f1"), ("f1", "f1"))


def p_of(setting: Setting, metrics: tuple[str, str], is_shared: bool, seed: int) -> float:
    """Return p of one contrast; shared texts are as easy on one task as on the other."""
    rng = np.random.default_rng(seed)
    groups = clusters(setting)
    gold = rng.poisson(1.5, setting.examples)
    ease = spread_over_clusters(rng, setting, 1.0)
    cells = []
    for number, metric in enumerate(metrics):
        sentences = np.arange(setting.examples, dtype=np.uint64)
        if number and not is_shared:
            gold = rng.poisson(1.5, setting.examples)
            ease = spread_over_clusters(rng, setting, 1.0)
            sentences += np.uint64(setting.examples)
        for skill in (setting.skill, setting.skill * setting.steady):
            of_layer = replace(setting, metric=metric, skill=skill)
            runs, _ = system(rng, of_layer, RUNS, gold, ease, None)
            cells.append([Counts(run, sentences, groups) for run in runs])
    difference = 0.0
    for weight, of_cell in zip(WEIGHTS, cells, strict=True):
        difference += weight * float(np.mean([figure(run.rows.sum(0)) for run in of_cell]))
    return largest_p(difference, scales_of(cells))


def main() -> None:
    asked = options(__doc__, 1000).parse_args()
    processes = {name: setting for name, setting in PROCESSES.items() if asked.only in name}
    table = Table(title=heading(asked.repeats))
    table.add_column("process")
    columns = [(metrics, is_shared) for metrics in METRICS for is_shared in (False, True)]
    for metrics, is_shared in columns:
        texts = "same texts" if is_shared else "other texts"
        table.add_column(f"{' and '.join(metrics)}, {texts}", justify="right")
    with ProcessPoolExecutor(asked.processes) as pool:
        for name, setting in processes.items():
            cells = []
            for metrics, is_shared in columns:
                task = partial(p_of, setting, metrics, is_shared)
                ps = np.array(list(pool.map(task, range(asked.repeats), chunksize=20)))
                cells.append(percent([float(np.mean(ps <= level)) for level in LEVELS]))
            table.add_row(name, *cells)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
