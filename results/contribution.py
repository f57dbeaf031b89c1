"""May an archive of runs be added to the board? The archive is data: nothing in it is run, and no
score, p or identity that it says is believed.

`check` has the list of what is looked at. docs/board.md says it to people.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import cells
import numpy as np
from cells import Name

from elmo_bench.files import read_arrays
from elmo_bench.report.comparison import EXACT, SPLITS, metric_of
from elmo_bench.report.learning import after_epochs
from elmo_bench.runs import (
    NOTHING,
    OVERRIDES,
    SHORT,
    Counts,
    Run,
    counted,
    figure,
    leaves,
    overrides,
    read_counts,
    read_run,
    unpacked,
    values,
)
from elmo_bench.terminal import counted_noun, duration, listed, plain

MOST_BYTES = 1 << 23  # of an archive; fifteen runs take a third of a million
RESULT = "result.json"
FILES = {OVERRIDES.as_posix(), "counts/dev.npz", "counts/test.npz", "metrics.csv", RESULT}
PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,39}", re.ASCII)  # what an encoder may be called
COMMIT = re.compile(r"[0-9a-f]{40}")
TOO_ALIKE = 0.2  # of the share of examples in which the two most similar runs of the board differ
AHEAD = timedelta(days=1)  # what another machine's clock may be ahead
RIGHT, GOLD, MATCHED, PREDICTED = range(4)  # the numbers of a score, as elmo_bench.runs.counts says


class Reference(NamedTuple):
    """What all runs of a corpus have in common, from a run of the board."""

    run: Run
    counts: dict[str, dict[str, Counts]]  # by split and metric


def check(archive: Path, cache_dir: str | Path, board: Sequence[Run] | None = None) -> list[str]:
    """Return what a person may want to know of a sound archive of runs of `sweep=board`.

    `board` are the runs that it is checked against, by default those of all other archives.

    Raises ValueError, with a line for each run in which something is wrong:

    - the archive is larger than MOST_BYTES, damaged, or has files that no run writes (paths that
      lead out of it, links, files twice); a run has not finished, or lacks a file;
    - its recipe is not the board's, so that its settings, recomputed from the board's own files,
      do not give its identity; nor do its files' hashes; corpus or word vectors are other files;
    - its counts have other examples, groups, gold or metrics than the board's, numbers that no
      predictions give, or other sums than its scores; its learning curve has another best epoch;
    - a seed is missing, is not the board's, or came twice; two runs are copies of each other or of
      a run of the board, or more alike than any two runs of the board;
    - the encoder's files or settings change from run to run; its name is not plain, or taken;
    - the code was changed, is no commit of this repository, or the times cannot be.
    """
    size = archive.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{archive.name}: {size:,} bytes, but at most {MOST_BYTES:,} are read")
    if board is None:
        others = [path for path in cells.archives() if path.name != archive.name]
        board = cells.board_runs(cache_dir, others)
    runs = _read(unpacked(archive, cache_dir))
    references = {corpus: _reference(board, corpus) for corpus in cells.recipes()}
    faults: list[str] = []
    for run in runs:
        fault = next(_faults(run, references), None)
        if fault:
            faults.append(f"{run.folder.name}: {fault}")
    if not faults:
        faults += _together(runs, board)
    if faults:
        raise ValueError("\n".join(map(plain, faults)))
    return [plain(line) for line in _told(runs, board)]


def _read(folder: Path) -> list[Run]:
    """Return the runs of an unpacked archive; ValueError for one that is not whole."""
    runs: list[Run] = []
    faults: list[str] = []
    for path in sorted(folder.iterdir()):
        files = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
        missing = sorted(FILES - files)
        unknown = sorted(files - FILES)
        if RESULT in missing:
            faults.append(f"{path.name}: {RESULT} is missing: the run did not finish")
        elif missing:
            faults.append(f"{path.name}: {missing[0]} is missing")
        elif unknown:
            faults.append(f"{path.name}: {unknown[0]} is no file of a run of sweep=board")
        else:
            runs.append(read_run(path / RESULT))
    if faults:
        raise ValueError("\n".join(map(plain, faults)))
    return runs


def _reference(board: Sequence[Run], corpus: str) -> Reference:
    """Return what runs on a corpus have in common; ValueError if the board has none."""
    for run in board:
        if run.settings["data.name"] == corpus:
            return Reference(run, {split: _counts(run, split) for split in SPLITS})
    raise ValueError(f"the board has no run on {corpus}: get the archives of results/")


def _counts(run: Run, split: str) -> dict[str, Counts]:
    """Return a run's counts by metric; ValueError for numbers that no run writes."""
    path = run.folder / "counts" / f"{split}.npz"
    by_metric: dict[str, Counts] = {}
    for metric in counted(path):
        counts = read_counts(path, metric)
        if counts is not None:
            by_metric[metric] = counts
    return by_metric


def _faults(run: Run, references: Mapping[str, Reference]) -> Iterator[str]:
    """Yield what is wrong with a run by itself."""
    yield from _of_settings(run)
    corpus = str(run.settings.get("data.name"))
    if corpus not in references:
        yield f"data.name={corpus}, but the board has {listed(references)}"
        return
    yield from _of_recipe(run, corpus)
    yield from _of_inputs(run, references[corpus].run)
    for split in SPLITS:
        try:
            yield from _of_counts(run, split, references[corpus])
        except ValueError as error:  # an .npz of numbers that no run writes
            yield f"{error}".replace(f"{run.folder}/", "")
    yield from _of_curve(run)
    yield from _of_code(run)


def _of_settings(run: Run) -> Iterator[str]:
    """Yield what makes settings unreadable, or disagree with each other."""
    for key, value in leaves(run.config):
        if "${" in repr(value):
            yield f"{key} has ${{...}}, but a run writes values"
    for section in ("encoder", "elmo", "data", "task"):
        if not isinstance(run.config.get(section), dict):
            yield f"config.{section} is missing"
    seed = run.config.get("seed")
    if run.seed != seed:
        yield f"seed is {run.seed}, but config.seed {seed}"
    for override in overrides(run.folder / OVERRIDES):
        key, _, value = override.partition("=")
        if key == "seed" and value != str(run.seed):
            yield f"seed is {run.seed}, but its command had {override}"
    if run.seed not in cells.seeds():
        yield f"seed {run.seed} is none of the board's: {listed(map(str, cells.seeds()))}"
    if run.is_baseline:
        yield "encoder=none, which the board has: archive the runs of your encoder alone"
    name = str(run.settings.get("encoder.name"))
    if not PLAIN.fullmatch(name):
        yield (
            f"encoder.name is {name[:60]!r}, but must be a plain name of up to 40 letters, digits, "
            ". _ -"
        )


def _of_recipe(run: Run, corpus: str) -> Iterator[str]:
    """Yield the first setting that is not the recipe's, or that the identity is not of these."""
    config = cells.expected(run.config, cells.recipes()[corpus])
    if run.identity in cells.identities(config, run.inputs, cells.FOLDER):
        return
    for change in cells.changes(run, config):
        yield f"{change}, which is the board's recipe"
    yield (
        f"identity {run.identity[:40]}: the board's recipe with this encoder, layers, seed and "
        "files has another one; if nothing was changed, give the encoder's files by paths within "
        "the working folder"
    )


def _of_inputs(run: Run, reference: Run) -> Iterator[str]:
    """Yield a file that is not the board's."""
    ours = _shared(run.inputs)
    theirs = _shared(reference.inputs)
    for name in sorted(ours | theirs):
        if ours.get(name) != theirs.get(name):
            yield (
                f"inputs.{name} is {ours.get(name, NOTHING)[:SHORT]}, but the board's file has "
                f"sha256 {theirs.get(name, NOTHING)[:SHORT]}"
            )


def _shared(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of the files that runs of all encoders read."""
    return {name: digest for name, digest in inputs.items() if not name.startswith("encoder.")}


def _of_counts(run: Run, split: str, reference: Reference) -> Iterator[str]:
    """Yield what is wrong with the counts of a split."""
    ours = _counts(run, split)
    theirs = reference.counts[split]
    file = f"counts/{split}.npz"
    if ours.keys() != theirs.keys():
        yield f"{file} has {listed(ours) or 'no metric'}, but the board's {listed(theirs)}"
        return
    for metric, counts in ours.items():
        of_board = theirs[metric]
        if len(counts.rows) != len(of_board.rows):
            yield f"{file}: {len(counts.rows):,} examples, but the file has {len(of_board.rows):,}"
            return
        if not np.array_equal(counts.sentences, of_board.sentences):
            yield f"{file}: its examples are not those of the board's file"
        if not np.array_equal(counts.groups, of_board.groups) or counts.unit != of_board.unit:
            yield f"{file}: its examples are grouped in another way than the board's"
        if counts.rows.shape != of_board.rows.shape:
            yield f"{file}: {metric} is of shape {counts.rows.shape}, not {of_board.rows.shape}"
            return
        gold = slice(0) if metric == "precision" else GOLD
        if not np.array_equal(counts.rows[..., gold], of_board.rows[..., gold]):
            yield f"{file}: {metric} has other gold labels than the board's"
        yield from _of_numbers(counts.rows, f"{file}: {metric}")
        shown = run.metrics.get(f"{split}/{metric}")
        sums = float(figure(counts.rows.sum(0)))
        if shown is None or abs(shown - sums) > EXACT:
            said = "missing" if shown is None else f"{100 * shown:.4f}"
            yield f"{split}/{metric} is {said}, but {file} gives {100 * sums:.4f}"
    yield from _of_metrics(ours, file)


def _of_numbers(rows: np.ndarray, what: str) -> Iterator[str]:
    """Yield why no predictions give such numbers."""
    if not np.array_equal(rows, np.floor(rows)):
        yield f"{what} has fractions, but counts are whole numbers"
    for part, whole, told in (
        (RIGHT, GOLD, "more is right than there is gold"),
        (MATCHED, PREDICTED, "more is right than was predicted"),
    ):
        wrong = np.flatnonzero((rows[..., part] > rows[..., whole]).any(1))
        if len(wrong):
            yield f"{what}: in example {wrong[0] + 1:,} {told}"


def _of_metrics(counts: Mapping[str, Counts], file: str) -> Iterator[str]:
    """Yield metrics of one prediction that contradict each other."""
    for metric, columns in (("recall", slice(2)), ("precision", slice(2, 4))):
        if metric in counts and "f1" in counts:
            whole = counts["f1"].rows[..., columns]
            if not np.array_equal(whole, counts[metric].rows[..., columns]):
                yield f"{file}: f1 and {metric} are not of the same predictions"
    if "las" not in counts or "uas" not in counts:
        return
    if (counts["las"].rows[..., RIGHT] > counts["uas"].rows[..., RIGHT]).any():
        yield f"{file}: more labelled heads are right than heads"


def _of_curve(run: Run) -> Iterator[str]:
    """Yield why the learning curve is not of the run."""
    try:
        curve = after_epochs(run, None)
    except ValueError as error:
        yield f"{error}".replace(f"{run.folder}/", "")
        return
    metric = metric_of(run, None)
    best = max(curve.values(), default=None)
    if best is None or abs(best - run.metrics[f"dev/{metric}"]) > EXACT:
        said = "nothing" if best is None else f"{100 * best:.4f}"
        yield (
            f"metrics.csv: the best dev/{metric} is {said}, but {RESULT} has "
            f"{100 * run.metrics[f'dev/{metric}']:.4f}"
        )


def _of_code(run: Run) -> Iterator[str]:
    """Yield why times or code cannot be, or may not."""
    try:
        started = datetime.fromisoformat(run.started)
        finished = datetime.fromisoformat(run.finished)
        is_possible = started <= finished <= datetime.now(UTC) + AHEAD
    except (ValueError, TypeError):  # TypeError: one has no time zone
        is_possible = False
    training = run.seconds.get("training", 0.0)
    if not is_possible or not 0 < training <= run.seconds.get("total", 0.0) or not run.epochs:
        yield "its times (started, finished, seconds, epochs) cannot be"
    commit = run.commit or ""
    if commit.endswith("+"):
        yield f"commit {commit[:SHORT]}+: the code had changes that nobody can see; commit them"
    elif not COMMIT.fullmatch(commit):
        yield f"commit is {commit[:50]!r}: train in a clone of the repository"
    elif _is_known(commit) is False:
        yield f"commit {commit[:SHORT]} is not in this repository"


@cache
def _is_known(commit: str) -> bool | None:
    """Whether a commit is in this repository; None if its history is not here."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(cells.FOLDER), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    if git("cat-file", "-t", commit) == "commit":
        return True
    has_history = git("rev-parse", "--is-shallow-repository") == "false"
    return False if has_history else None


def _together(runs: Sequence[Run], board: Sequence[Run]) -> Iterator[str]:
    """Yield what is wrong with the runs beside each other, and beside those of the board."""
    yield from _of_seeds(runs)
    yield from _of_encoders(runs, board)
    yield from _of_copies(runs, board)


def _of_seeds(runs: Sequence[Run]) -> Iterator[str]:
    """Yield seeds that are missing or came twice, and corpora that are missing."""
    by_place: dict[tuple[Name, str], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        by_seed = by_place[cells.name_of(run), str(run.settings["data.name"])]
        other = by_seed.setdefault(run.seed, run)
        if other is not run:
            yield f"{run.folder.name}: seed {run.seed} is that of {other.folder.name}, too"
    for name in dict.fromkeys(map(cells.name_of, runs)):
        for corpus in cells.recipes():
            missing = [seed for seed in cells.seeds() if seed not in by_place[name, corpus]]
            if missing:
                seeds = listed(map(str, missing))
                yield f"{name}, {corpus}: no run with seed {seeds}: sweep=board resume=true"


def _of_encoders(runs: Sequence[Run], board: Sequence[Run]) -> Iterator[str]:
    """Yield encoders that are not one, or have the name of another."""
    taken = {str(run.settings["encoder.name"]) for run in board}
    first: dict[str, Run] = {}
    for run in runs:
        name = str(run.settings["encoder.name"])
        if name in taken:
            yield f"{run.folder.name}: encoder.name={name} is an encoder of the board: rename yours"
            continue
        other = first.setdefault(name, run)
        for key in sorted(run.acting | other.acting):
            is_of_encoder = key.startswith(("encoder.", "inputs.encoder."))
            if is_of_encoder and values(run, [key]) != values(other, [key]):
                yield f"{run.folder.name}: {key} is not that of {other.folder.name}"
                break


def _of_copies(runs: Sequence[Run], board: Sequence[Run]) -> Iterator[str]:
    """Yield runs that are copies of others, or more alike than two runs are."""
    curves: dict[bytes, Run] = {}
    for run in [*board, *runs]:
        curve = (run.folder / "metrics.csv").read_bytes()
        other = curves.setdefault(curve, run)
        if other is not run and run not in board:
            yield f"{run.folder.name}: its metrics.csv is that of {other.folder.name}"
    for corpus in cells.recipes():
        of_board = [run for run in board if run.settings["data.name"] == corpus]
        ours = [run for run in runs if run.settings["data.name"] == corpus]
        for split in SPLITS:
            rows = {run.folder: _monitored(run, split) for run in [*of_board, *ours]}
            least = min(
                _differing(rows[one.folder], rows[other.folder])
                for one, other in combinations(of_board, 2)
            )
            for position, run in enumerate(ours):
                for other in [*of_board, *ours[:position]]:
                    share = _differing(rows[run.folder], rows[other.folder])
                    if share == 0:
                        yield f"{run.folder.name}: its {split} counts are {other.folder.name}'s"
                    elif share < TOO_ALIKE * least:
                        yield (
                            f"{run.folder.name}: its {split} counts differ from "
                            f"{other.folder.name}'s in {100 * share:.1f} % of the examples, but "
                            f"those of two runs of the board in {100 * least:.1f} % or more"
                        )


def _monitored(run: Run, split: str) -> np.ndarray:
    """Return the counts that give a run's score."""
    return read_arrays(run.folder / "counts" / f"{split}.npz")[metric_of(run, None)]


def _differing(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the share of examples on which two runs differ."""
    return float((ours != theirs).any((1, 2)).mean())


def _told(runs: Sequence[Run], board: Sequence[Run]) -> Iterator[str]:
    """Yield what was checked by nobody, and what may explain a difference."""
    names = listed(dict.fromkeys(str(cells.name_of(run)) for run in runs))
    yield f"sound: {counted_noun(len(runs), 'run')}: {names}"
    for what, key in (("device", "device"), ("commit", "commit")):
        of_runs = listed(sorted({str(getattr(run, key)) for run in runs}))
        of_board = listed(sorted({str(getattr(run, key)) for run in board}))
        yield f"{what}: {of_runs}; of the board: {of_board}"
    if None in [_is_known(str(run.commit)) for run in runs]:
        yield "not checked, since the history is not here: whether the commits are in it"
    seconds: Any = [run.seconds["total"] for run in runs]
    yield f"time of all runs: {duration(sum(seconds))}"
    for name, files in _encoder_files(runs).items():
        yield f"{name}: {files}"
    yield "not checked: that the encoder is what its name says"


def _encoder_files(runs: Sequence[Run]) -> dict[str, str]:
    """Return the hashes of the files of each encoder, as text; else what names it."""
    told: dict[str, str] = {}
    for run in runs:
        name = str(run.settings["encoder.name"])
        files = [
            f"{file.removeprefix('encoder.')} {digest[:SHORT]}"
            for file, digest in run.inputs.items()
            if file.startswith("encoder.")
        ]
        if files:
            told[name] = ", ".join(files)
        else:
            model = run.settings.get("encoder.model", run.settings.get("encoder._target_"))
            revision = run.settings.get("encoder.revision")
            told[name] = f"{model}, revision {revision}; its files have no hashes"
    return told
