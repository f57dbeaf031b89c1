"""One function for a notebook: an encoder by its name, its folder or its file."""

from pathlib import Path
from typing import Any

from . import bilm


def load_encoder(name: str | Path, **settings: Any) -> Any:
    """An encoder, frozen and ready to use: "mini" or "books" (biLMs that ship), or the folder of a
    biLM.

    `settings` are those of its constructor, such as `precision="bfloat16"` of a biLM. Raises
    FileNotFoundError and ValueError that say what is missing.
    """
    folder = Path(name) if Path(name).is_dir() else Path(bilm.shipped(str(name)))
    if not folder.is_dir():
        names = sorted(path.parent.name for path in Path(bilm.shipped("")).glob("*/options.json"))
        raise FileNotFoundError(
            f"{name}: no such folder, and no biLM that ships ({', '.join(names)})"
        )
    options, weights = bilm.in_folder(folder, "options"), bilm.in_folder(folder, "weights")
    if options is None or weights is None:
        raise FileNotFoundError(
            f"{folder}: no {'weights' if options else 'options.json'} of a biLM in this folder"
        )
    return bilm.load(options, weights, **settings).requires_grad_(False).eval()
