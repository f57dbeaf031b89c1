"""Scores of an encoder of the board in formats of others.

`evaluation.json` is a record of Every Eval Ever (evaleval/every_eval_ever, eval.schema.json 0.2),
`model-index.yaml` what a model card on the Hugging Face hub begins with (hub-docs, modelcard.md).
"""

import json
import logging
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cells
import scipy
import yaml
from cells import Entry, Name

from elmo_bench import __version__
from elmo_bench.files import write_text
from elmo_bench.report.comparison import SPLITS, metric_of, size
from elmo_bench.report.names import metric_title
from elmo_bench.report.provenance import commands
from elmo_bench.runs import Run

log = logging.getLogger(__name__)
SCHEMA = "0.2.1"
LEVEL = 0.95
LIBRARY = "elmo-bench"
TASKS = {"parse": "dependency parsing", "srl": "semantic role labeling", "ner": "NER"}
HUB_TASK = "token-classification"  # the hub's name for what is nearest to all three
DATASETS = {
    "en_ewt": ("Universal Dependencies English EWT", "universal_dependencies"),
    "ewt_propbank": ("English Web Treebank, PropBank roles", "propbank_ewt"),
    "wnut17": ("WNUT-17 emerging entities", "wnut_17"),
}


def export(added: Mapping[Name, Entry], folder: Path) -> None:
    """Write both formats of each entry into a folder; scores are made of the counts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in added.items():
        stem = f"{name.encoder}-{name.layers}".replace(",", "-").strip("[]")
        record = json.dumps(evaluation(name, entry), indent=2) + "\n"
        card = yaml.safe_dump(model_index(name, entry), sort_keys=False, allow_unicode=True)
        for file, content in ((f"{stem}.json", record), (f"{stem}.yaml", f"---\n{card}---\n")):
            write_text(folder / file, content)
            log.info("written: %s", folder / file)


def evaluation(name: Name, entry: Entry) -> dict[str, Any]:
    """Return an entry as a record of Every Eval Ever; its further details are texts."""
    runs = [run for of_corpus in entry.values() for run in of_corpus]
    now = f"{time.time():.0f}"
    identity = _model(runs[0])
    commit = runs[0].commit or ""
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{LIBRARY}/{identity}/{now}",
        "evaluation_timestamp": max(run.finished for run in runs),
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "the board of elmo-bench",
            "source_type": "evaluation_run",
            "source_organization_name": LIBRARY,
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": LIBRARY,
            "version": runs[0].versions.get(LIBRARY, __version__),
            "additional_details": {"commit": commit},
        },
        "model_info": {
            "name": name.encoder,
            "id": identity,
            "additional_details": {
                "use": "frozen: a task's model is trained on its layers",
                "layers": name.layers,
            },
        },
        "evaluation_results": list(_results(entry)),
    }


def _results(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the mean over seeds of each corpus's score on dev and test."""
    for corpus, runs in entry.items():
        for split in SPLITS:
            scores = [cells.score(run, split) for run in runs]
            seeds = [f"seed {run.seed}" for run in runs]
            deviation = statistics.stdev(scores)
            error = deviation / len(scores) ** 0.5
            half = error * float(scipy.stats.t.ppf((1 + LEVEL) / 2, len(scores) - 1))
            mean = statistics.fmean(scores)
            yield {
                "evaluation_name": f"{DATASETS[corpus][0]}, {split}",
                "source_data": {
                    "dataset_name": DATASETS[corpus][0],
                    "source_type": "other",
                    "additional_details": {
                        "sha256": runs[0].inputs[f"data.{split}"],
                        "examples": size(runs[:1], None, split),
                    },
                },
                "metric_config": {
                    "evaluation_description": f"{_task(runs[0])}, {metric_title(runs[0])}",
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": 0.0,
                    "max_score": 1.0,
                },
                "score_details": {
                    "score": mean,
                    "details": dict(zip(seeds, map("{:.6f}".format, scores), strict=True)),
                    "uncertainty": {
                        "standard_error": {"value": error, "method": "over seeds"},
                        "confidence_interval": {
                            "lower": mean - half,
                            "upper": mean + half,
                            "confidence_level": LEVEL,
                            "method": "t, over seeds of training on this split",
                        },
                        "standard_deviation": deviation,
                        "num_samples": len(scores),
                    },
                },
                "generation_config": {
                    "additional_details": {"execution_command": " ; ".join(commands(runs))}
                },
            }


def model_index(name: Name, entry: Entry) -> dict[str, Any]:
    """Return an entry as the hub's metadata; scores in percent, as on the hub."""
    results: list[dict[str, Any]] = []
    for corpus, runs in entry.items():
        title, dataset = DATASETS[corpus]
        scores = [100 * cells.score(run, "test") for run in runs]
        spread = f"± {statistics.stdev(scores):.2f} over {len(scores)} seeds"
        results.append(
            {
                "task": {"type": HUB_TASK, "name": _task(runs[0])},
                "dataset": {"type": dataset, "name": title, "split": "test"},
                "metrics": [
                    {
                        "type": metric_of(runs[0], None),
                        "value": round(statistics.fmean(scores), 2),
                        "name": f"{metric_title(runs[0])}, frozen, layers {name.layers}, {spread}",
                    }
                ],
            }
        )
    runs = next(iter(entry.values()))
    return {"model-index": [{"name": _model(runs[0]), "results": results}]}


def _task(run: Run) -> str:
    return TASKS.get(run.task, run.task)


def _model(run: Run) -> str:
    """Return the name on the hub; of a folder's model, or another encoder, its name in the runs."""
    model = run.settings.get("encoder.model")
    return str(model) if model else str(run.settings["encoder.name"])
