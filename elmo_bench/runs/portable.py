"""What a run says of itself without where things are on its machine."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Of a config: where things are on the machine that it ran on. Other paths keep their names.
WHERE = ("run_dir", "outputs_dir", "data_dir", "cache_dir", "out", "checkpoint")
# A path of the machine stands alone or behind one of these; the // of an address do not begin one.
_PATH = re.compile(
    r"""(?<![^\s=:\[({,'"|;])
    (?: file:/+ | (?<!:)/+(?=[^\s/]) | /(?=[^\s/]) | ~[\w.-]*/ | [A-Za-z]:[/\\](?!/) | \\\\
      | (?:[^\s=:\[({,'"|;]*[/\\])?\.\.[/\\] )
    [^\s,]*(?:(?:[ ][^\s,/=]+)+/[^\s,]*)*  # folders may have spaces in their names
    """,
    re.VERBOSE,
)


def portable(value: Any) -> Any:
    """A value of a config, or a config, with the names alone of files and folders of the machine.

    >>> portable("{train:/home/me/a.txt}"), portable("see ~/me/b, ../c"), portable("google/electra")
    ('{train:a.txt}', 'see b, c', 'google/electra')
    >>> portable(["https://host/a/b", "file:///home/me/a"]), portable({"data_dir": "corpora"})
    (['https://host/a/b', 'a'], {'data_dir': None})
    """
    if isinstance(value, dict):
        return {key: None if key in WHERE else portable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(portable, value)]
    if isinstance(value, str):
        return _PATH.sub(lambda path: re.split(r"[/\\]", path[0].rstrip("/\\"))[-1], value)
    return value


def portable_overrides(overrides: Iterable[str]) -> list[str]:
    """The words of a command line, so: a deletion of Hydra's is no folder of a user.

    >>> portable_overrides(["data_dir=/home/me/data", "~logger/wandb", "runs=[outputs/a,/tmp/b]"])
    ['data_dir=data', '~logger/wandb', 'runs=[outputs/a,b]']
    """
    words = (one.partition("=") for one in overrides)
    return [
        f"{key}={portable(value)}" if sign else key if re.match("~[^/]", key) else portable(key)
        for key, sign, value in words
    ]


def short(folder: Path) -> str:
    """A run's folder as a file names it that is meant for others: with the one that it is in.

    >>> short(Path("/home/me/outputs/sweep/3"))
    'sweep/3'
    """
    return "/".join(folder.absolute().parts[-2:])
