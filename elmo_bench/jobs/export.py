"""`job=export`: convert a biLM to the official HDF5, which all ELMo readers accept, or to
safetensors.
"""

import logging
from pathlib import Path

import torch
from omegaconf import DictConfig

from elmo_bench import build
from elmo_bench.encoders.bilm import DIRECTIONS, Options, save
from elmo_bench.layer_file import is_vectors
from elmo_bench.lm.softmax import SOFTMAX
from elmo_bench.outputs import check_output

log = logging.getLogger(__name__)
SUFFIXES = (".hdf5", ".h5", ".safetensors")
DTYPES = {"float32": torch.float32, "float16": torch.float16}


def export(cfg: DictConfig) -> None:
    """Write the biLM to `cfg.output`, in the format of its suffix, and `options.json` next to it.

    Raises ValueError for an unknown suffix, or if the folder belongs to another biLM.
    """
    output = Path(cfg.output)
    if output.suffix not in SUFFIXES:
        raise ValueError(f"output={output}, but it must end in {', '.join(SUFFIXES)}")
    bilm = build.bilm(cfg)
    weights = build.bilm_files(cfg)[1] if build.is_pretrained(cfg) else None
    if output.absolute().parent.is_dir():  # a missing folder is created
        check_output("output", output, {"encoder.weights": weights}, _is_export)
    options = output.parent / "options.json"
    if options.is_file() and Options.read(options) != bilm.options:
        raise ValueError(
            f"{options} belongs to another biLM: choose another folder for output={output}"
        )
    save(bilm, output, dtype=DTYPES[cfg.dtype])
    if output.suffix != ".safetensors" and bilm.options.directions != DIRECTIONS:
        log.warning(
            "%s contains only the %s LSTMs, as options.json says: unlike elmo-bench, other "
            "readers of ELMo require both directions",
            *(output, *bilm.options.directions),
        )
    log.info("%s and %s", output, options)


def _is_export(path: Path) -> bool:
    """Whether the file's folder has an exported biLM, and not one written by training."""
    folder = path.parent
    trained = any((folder / name).exists() for name in ("last.ckpt", "adaptation.json", SOFTMAX))
    return (folder / "options.json").is_file() and not trained and not is_vectors(path)
