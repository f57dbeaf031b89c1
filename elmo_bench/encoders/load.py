"""Load an encoder in one call, for notebooks: by its name, folder or file."""

from pathlib import Path
from typing import Any

from . import bilm, static
from .transformer import Transformer


def load_encoder(name: str | Path, **settings: Any) -> Any:
    """Load an encoder, frozen and ready to use.

    Args:
        name: "mini" or "wiki" (biLMs that ship with elmo-bench), the folder of a biLM, a file of
            word vectors, or a transformers model by its folder or its name on the hub, such as
            "bert-base-cased".
        settings: Arguments of its class, such as `precision="bfloat16"` for a biLM or
            `pooling="mean"` for a transformers model.

    Returns:
        An `Encoder`.

    Raises:
        FileNotFoundError: There is no such encoder, or one of its files is missing.
        ValueError: A file is damaged, or a setting is wrong.

    >>> encoder = load_encoder("mini")
    >>> encoder.num_layers, encoder.dim
    (3, 128)
    """
    path = Path(name).expanduser()
    if path.is_file():
        return static.load(path, **settings).eval()
    folder = path if path.is_dir() else Path(bilm.shipped(str(name)))
    options = bilm.in_folder(folder, "options") if folder.is_dir() else None
    if options:
        weights = bilm.in_folder(folder, "weights")
        if weights is None:
            raise FileNotFoundError(f"{folder}: this folder has no weights of a biLM")
        return bilm.load(options, weights, **settings).requires_grad_(False).eval()
    if path.is_dir() and not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{path}: this folder has neither an options.json of a biLM nor a config.json of a "
            "transformer"
        )
    try:
        return Transformer(model=name, **settings).requires_grad_(False).eval()
    except OSError as error:
        if path.is_dir():
            raise
        options_files = Path(bilm.shipped("")).glob("*/options.json")
        shipped = sorted(file.parent.name for file in options_files)
        raise FileNotFoundError(
            f"{name}: not a biLM that ships with elmo-bench ({', '.join(shipped)}), and {error}"
        ) from error
