"""Examples that also stand in the training of a run, or in the text that its encoder has read."""

from collections.abc import Mapping, Sequence

from omegaconf import DictConfig

from elmo_bench.files import watched
from elmo_bench.runs import Overlap
from elmo_bench.text import texts_of
from elmo_bench.text.overlap import in_text, in_training
from elmo_bench.training.data import Example

from . import inputs


def overlap(cfg: DictConfig, examples: Mapping[str, Sequence[Example]]) -> Overlap:
    """Count the examples of splits that also stand in training, or in the text of `cfg.text`."""
    splits = {
        split: [texts_of(example.sentences) for example in part] for split, part in examples.items()
    }
    counts = {"training": in_training(splits)}
    if cfg.get("text"):
        text = watched(inputs.sentences(cfg, "train"), "text.files.train, sentences")
        counts["text"], counts["n-grams"] = in_text(splits, text)
    return counts
