"""One form for configs that are the same run, and what a person is told of a config."""

from omegaconf import DictConfig

from elmo_bench.runs import as_baseline, fold_of, is_baseline, reads_apart, smoke_batches

from .check import applied_options


def normalise(cfg: DictConfig) -> list[str]:
    """Give a config without layers, whose texts are read apart, or whose seed chooses the fold, its
    one form, in place; return a line for each thing that the command line does not show.
    """
    lines = list[str]()
    if is_baseline(cfg):
        lines.append(
            f"encoder={cfg.encoder.name} elmo.mix={cfg.elmo.mix} is the baseline: it has no layers"
        )
        as_baseline(cfg)
    lines += applied_options(cfg)
    if reads_apart(cfg):
        cfg.task.joint = False
    fold = fold_of(cfg)
    if fold is not None:
        cfg.data.fold = fold
        lines.append(f"data.folds={cfg.data.folds}: fold {fold} is test, the next one dev")
    batches = smoke_batches(cfg)
    if batches:
        lines.append(f"a smoke run of {batches} batches: its scores mean nothing")
    return lines
