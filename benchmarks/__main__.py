"""`python -m benchmarks` prints tables of times, with ratios to the first row, and of counts."""

import argparse
import dataclasses
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import rich
import torch
from rich.console import Console
from rich.table import Table

from elmo_bench.sample import files
from elmo_bench.text import read_sentences

from . import (
    bilm,
    counts,
    growth,
    heads,
    processes,
    starting,
    store,
    sweep,
    tasks,
    transformers,
)
from .timing import SIZES, Comparison, Setting, seconds

GROUPS = {
    "bilm": bilm,
    "store": store,
    "transformers": transformers,
    "growth": growth,
    "sweep": sweep,
    "tasks": tasks,
    "heads": heads,
    "processes": processes,
    "starting": starting,
}
COUNTS = "counts"  # the group that measures no time
WIDTH = 110


def main() -> None:
    """Run the benchmarks of the command line and print each table when it is complete."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="What is fast, and how fast, as ratios."
    )
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        help=f"what to measure: {', '.join([COUNTS, *GROUPS])} (default: all)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few repetitions: whether it runs, not how fast",
    )
    parser.add_argument(
        "--sizes", nargs="+", choices=SIZES, help="of the biLM (default: small original)"
    )
    parser.add_argument("--batch-size", type=int, help="sentences in a batch (default: 32)")
    parser.add_argument(
        "--repeats", type=int, help="repetitions, of which the median counts (default: 5)"
    )
    parser.add_argument(
        "--text",
        type=Path,
        help="real text, one tokenised sentence a line (default: the sample's raw text)",
    )
    parser.add_argument(
        "--peers", type=Path, help="the folder in which AllenNLP's wheel is unpacked"
    )
    parser.add_argument(
        "--simple-elmo",
        type=Path,
        metavar="PYTHON",
        help="an interpreter that has simple_elmo and tf_keras",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="what the models run on (default: cpu)",
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the process's CPU time: for one thread on a busy machine",
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    groups = chosen.groups or [COUNTS, *GROUPS]
    if unknown := sorted({*groups} - {COUNTS, *GROUPS}):
        parser.error(
            f"there is no group {', '.join(unknown)}: choose from {', '.join([COUNTS, *GROUPS])}"
        )
    if chosen.cpu_time and (timed := {"growth", "starting", "sweep"} & {*groups}):
        parser.error(
            f"--cpu-time: {' and '.join(sorted(timed))} have clocks of their own; choose other "
            "groups"
        )
    if chosen.cpu_time and chosen.simple_elmo:
        parser.error(
            "--cpu-time: simple_elmo is another process, whose time it does not count; leave out "
            "--simple-elmo"
        )
    if chosen.peers and not Path(chosen.peers, "allennlp/modules/elmo.py").is_file():
        parser.error(
            f"--peers {chosen.peers}: it has no allennlp/modules/elmo.py; unpack AllenNLP's wheel "
            "there"
        )
    if chosen.simple_elmo and not chosen.simple_elmo.is_file():
        parser.error(
            f"--simple-elmo {chosen.simple_elmo}: no such file; give the python of an environment "
            "that has simple_elmo"
        )
    if chosen.text and not chosen.text.is_file():
        parser.error(f"--text {chosen.text}: no such file")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here; choose cpu")
    quick = chosen.quick
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            quick=quick,
            sizes=chosen.sizes or (["mini"] if quick else ["small", "original"]),
            sentences=sentences(chosen.text, Path(folder)),
            batch_size=chosen.batch_size or (8 if quick else 32),
            scratch=Path(folder),
            peers=chosen.peers,
            device=chosen.device,
            simple_elmo=chosen.simple_elmo,
        )
        rows: list[dict[str, Any]] = []
        console = Console(width=WIDTH)
        rich.reconfigure(quiet=True)  # the store's progress
        counted = counts.rows() if COUNTS in groups else []
        if counted:
            console.print(counts.table(counted, WIDTH))
        for group in (group for group in groups if group != COUNTS):
            for comparison in GROUPS[group].compare(setting):
                if chosen.cpu_time and comparison.measure is seconds:
                    measure = partial(seconds, clock=time.process_time)
                    comparison = dataclasses.replace(
                        comparison, measure=measure, measured="s of CPU"
                    )
                repeats = chosen.repeats or (0 if quick else 5)
                measurements = list(measured(comparison, repeats))
                console.print(table(measurements))
                rows += measurements
    if chosen.json:
        machine = {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "cores": os.cpu_count(),
        }
        machine |= {"device": torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu"}
        machine |= {
            "processor": platform.processor() or platform.machine(),
            "batch_size": setting.batch_size,
        }
        chosen.json.write_text(
            json.dumps({"machine": machine, "counts": counted, "rows": rows}, indent=1) + "\n",
            encoding="utf-8",
        )


def sentences(text: Path | None, scratch: Path) -> list[list[str]]:
    """Up to 4,096 sentences of 3 to 60 tokens, of a text or of the generated corpus."""
    path = text or files(task="lm", root=scratch, size=100)["train"]
    fitting = (sentence for sentence in read_sentences(path) if 3 <= len(sentence) <= 60)
    chosen = list(islice(fitting, 4096))
    if not chosen:
        raise SystemExit(f"--text {text}: it contains no sentence of 3 to 60 tokens")
    return chosen


def measured(comparison: Comparison, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each of the means: median, rate, and ratio to the first."""
    medians = comparison.medians(repeats)
    first = next(iter(medians.values()))
    for means, median in medians.items():
        row = {
            "work": comparison.title,
            "means": means,
            "median": median,
            "measured": comparison.measured,
        }
        if comparison.unit:
            row |= {"rate": comparison.amount / median, "unit": f"{comparison.unit}/s"}
        yield row | {"ratio": median / first}


def table(rows: list[dict[str, Any]]) -> Table:
    """The table of one comparison."""
    shown = Table(title=rows[0]["work"], title_justify="left", width=WIDTH)
    for column in ("means", "median", "rate", "ratio"):
        shown.add_column(
            column,
            justify="left" if column == "means" else "right",
            ratio=3 if column == "means" else 1,
        )
    for row in rows:
        rate = f"{_short(row['rate'])} {row['unit']}" if "rate" in row else ""
        shown.add_row(
            row["means"], f"{_short(row['median'])} {row['measured']}", rate, f"{row['ratio']:.2f}"
        )
    return shown


def _short(figure: float) -> str:
    """Format with three significant digits, or all digits of the integer part."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


if __name__ == "__main__":
    main()
