"""`job=adapt`: train a pretrained biLM further on a task's training text, without labels, for
`adapt.epochs` epochs (Peters et al. 2018, section 3.4; theirs has one).
"""

from pathlib import Path

from omegaconf import DictConfig

from elmo_bench.config.adaptation import MARK, adapt_to, whole_sentences
from elmo_bench.config.encoders import bilm_files
from elmo_bench.files import check_bilm_folder, sole
from elmo_bench.training.data import TaskData


def adapt(cfg: DictConfig) -> dict[str, float]:
    """Write the adapted biLM to `cfg.out`.

    Returns the perplexity of each direction on the dev text, before and after.
    """
    data, out = check(cfg), Path(cfg.out)
    out.mkdir(parents=True, exist_ok=True)
    with sole(out / "adapt", f"out={out}", marks=True):
        return adapt_to(cfg, data, out)


def check(cfg: DictConfig) -> TaskData:
    """Return the task's data; raises what the job raises before it trains."""
    if (precision := cfg.encoder.get("precision", "float32")) != "float32":
        raise ValueError(
            f"encoder.precision={precision} has no effect on job=adapt: leave it out; "
            "adapt.bf16=true trains in bfloat16"
        )
    out, (_, weights), data = Path(cfg.out), bilm_files(cfg), whole_sentences(cfg)
    check_bilm_folder("out", out, ("adapt.lock", MARK))
    if out.is_dir() and out.samefile(Path(weights).parent):
        raise ValueError(f"out={out} contains the biLM to adapt: choose another folder")
    return data
