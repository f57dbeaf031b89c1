"""`job=export`: convert a biLM to the official HDF5, which all ELMo readers accept, or to
safetensors.
"""

import logging
from pathlib import Path

import torch
from omegaconf import DictConfig

from elmo_bench.config import encoders
from elmo_bench.encoders.bilm import DIRECTIONS, BiLm, Options, save
from elmo_bench.encoders.vectors_file import notes
from elmo_bench.files import check_output

log = logging.getLogger(__name__)
SUFFIXES = (".hdf5", ".h5", ".safetensors")
MARK = "exported_by"  # a note in the files that this job writes
DTYPES = {"float32": torch.float32, "float16": torch.float16}


def export(cfg: DictConfig) -> None:
    """Write the biLM to `cfg.output`, in the format of its suffix, and `options.json` next to it.

    Raises ValueError for an unknown suffix, or if the folder belongs to another biLM.
    """
    output, options, bilm = check(cfg)
    save(bilm, output, dtype=DTYPES[cfg.dtype], notes={MARK: "elmo-bench"})
    if output.suffix != ".safetensors" and bilm.options.directions != DIRECTIONS:
        log.warning(
            "%s contains only the %s LSTMs, as options.json says: unlike elmo-bench, other "
            "readers of ELMo require both directions",
            *(output, *bilm.options.directions),
        )
    log.info("%s and %s", output, options)


def check(cfg: DictConfig) -> tuple[Path, Path, BiLm]:
    """Return the file to write, the options.json beside it, and the biLM."""
    output = Path(cfg.output)
    if output.suffix not in SUFFIXES:
        raise ValueError(f"output={output}, but it must end in {', '.join(SUFFIXES)}")
    bilm = encoders.encoder(cfg)
    if not isinstance(bilm, BiLm):
        raise ValueError(f"encoder={cfg.encoder.name} is not a biLM: choose one, such as mini")
    weights = encoders.bilm_files(cfg)[1] if encoders.is_pretrained(cfg.encoder) else None
    if output.absolute().parent.is_dir():  # a missing folder is created
        inputs = {"encoder.weights": weights}
        check_output("output", output, inputs, lambda path: MARK in notes(path))
    options = output.parent / "options.json"
    if options.is_file() and Options.read(options) != bilm.options:
        raise ValueError(
            f"{options} belongs to another biLM: choose another folder for output={output}"
        )
    return output, options, bilm
