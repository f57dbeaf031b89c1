"""Read the kept files of job=probe, and check that they can stand in one table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from elmo_bench.bounds import NotNegative
from elmo_bench.files import read_json
from elmo_bench.report.probes import encoder_title
from elmo_bench.runs import check_types
from elmo_bench.terminal import listed

Fraction = Annotated[float, Ge(0), Le(1)]
Fractions = Annotated[list[Fraction], MinLen(1)]
Probe = dict[str, Any]  # the content of a file, and as `source` the file


class Layer(TypedDict, total=False):
    """The figures of a layer, one for each seed; a description length may be above 1."""

    accuracy: Fractions
    control: Fractions
    f1: Fractions
    code: Annotated[list[NotNegative], MinLen(1)]


class Property(TypedDict):
    """The figures of a property, in fractions of 1: those of a guess without vectors, and of each
    layer, one for each seed.
    """

    baseline: dict[str, Fraction]
    layers: Annotated[list[Layer], MinLen(1)]


TYPES: dict[str, Any] = {
    "encoder": dict[str, Any],
    "corpus": str,
    "data": dict[str, Any],
    "settings": dict[str, Any],
    "seeds": Annotated[list[int], MinLen(1)],
    "properties": Annotated[dict[str, Property], MinLen(1)],
    "command": str,
}


def read(paths: Sequence[Path]) -> list[Probe]:
    """Read `probe.json` files, plain or .gz.

    Raises OSError if a file cannot be read, and ValueError, with the file and key, if one is
    invalid, if two have the same encoder and corpus, or if the files of a corpus differ in data,
    settings or seeds.
    """
    probes: list[Probe] = []
    for path in paths:
        probe = read_json(path) | {"source": str(path)}
        check_types(probe, TYPES, f"{path}: not a probe.json of elmo-bench")
        _check_beside(probe, probes)
        probes.append(probe)
    return probes


def _check_beside(probe: Probe, others: Sequence[Probe]) -> None:
    for other in (other for other in others if other["corpus"] == probe["corpus"]):
        if (title := encoder_title(probe)) == encoder_title(other):
            raise ValueError(
                f"{probe['source']}: {title} on {probe['corpus']} is also in {other['source']}: "
                "leave one out, or rename its encoder with encoder.name=NAME"
            )
        keys = ("data", "settings", "seeds")
        if differing := [key for key in keys if probe[key] != other[key]]:
            raise ValueError(
                f"{probe['source']} and {other['source']}, of the same corpus {probe['corpus']}, "
                f"differ in {listed(differing)}: leave one of them out"
            )
