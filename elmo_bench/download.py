"""Files from outside: where they should lie, how they are fetched, what to do when they are not there."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pooch

log = logging.getLogger(__name__)


def corpus(*, name: str, data_dir: str, train: str, dev: str, test: str, origin: str) -> Mapping[str, Path]:
    """The three files of a corpus, as the user has put them under `data_dir`, plain or .gz; the error says where to get them."""
    return {
        split: _find(path, data_dir, f"data={name}: {origin}") for split, path in (("train", train), ("dev", dev), ("test", test))
    }


def _find(path: str, folder: str, help_text: str) -> Path:
    """A file by its path below a folder, by its name alone in that folder, or as it stands; gzipped or not."""
    places = [Path(folder, path), Path(folder, Path(path).name), Path(path)]
    for place in places:
        for candidate in (place, place.with_name(place.name + ".gz")):
            if candidate.is_file():
                return candidate
    raise FileNotFoundError(f"no file {places[0]} (data_dir={folder}). {help_text}")


def fetch(url: str, *, folder: str, sha256: str | None = None) -> str:
    """The path of a downloaded file: as it lies in `folder`, or fetched there with progress and checked.

    Raises FileNotFoundError that says where to put the file by hand, and ValueError for a wrong checksum.
    """
    path = Path(folder).expanduser() / url.rpartition("/")[2]
    if path.is_file() and sha256 is None:
        return str(path)
    try:
        known = f"sha256:{sha256}" if sha256 else None
        pooch.retrieve(url, known, fname=path.name, path=path.parent, progressbar=True)
    except ValueError as error:
        raise ValueError(f"{url} is not the file it should be: {error}") from error
    except Exception as error:  # the many ways in which a network fails
        raise FileNotFoundError(
            f"could not download {url} ({type(error).__name__}). Fetch it elsewhere and put it at {path}"
        ) from error
    if sha256 is None:
        log.warning("%s has no published checksum; what came has sha256 %s", path, pooch.file_hash(str(path)))
    return str(path)
