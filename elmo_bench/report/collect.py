"""`result.json` files, as runs leave them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Run = dict[str, Any]


def collect(folders: Iterable[str | Path]) -> list[Run]:
    """Every finished run at or below the folders, in the order of their paths.

    Raises FileNotFoundError where a folder does not exist or holds no result, ValueError for a damaged file.
    """
    runs = []
    for folder in folders:
        paths = sorted(Path(folder).rglob("result.json"))
        if not paths:
            raise FileNotFoundError(f"runs={folder}: no result.json at or below it")
        for path in paths:
            try:
                runs.append(json.loads(path.read_text(encoding="utf-8")))
            except ValueError as error:
                raise ValueError(f"{path}: not a result of elmo-bench: {error}") from error
    return runs


def choice(run: Run, key: str) -> str:
    """What a run's config says under a dotted key such as `elmo.mix`, as text; "-" where it has no such key."""
    node: Any = run["config"]
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return "-"
        node = node[part]
    return "[" + ",".join(map(str, node)) + "]" if isinstance(node, list) else str(node)
