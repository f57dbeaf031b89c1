"""One table of the `probe.json` files of several encoders and corpora."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, get_type_hints

from annotated_types import Ge, Le, MinLen
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from elmo_bench.files import listed, read_json
from elmo_bench.runs import check_types, frozen

from .grid import Grid
from .grids import points
from .names import NONE, name

TITLES = {"chunk": "chunks", "entity": "entities", "pos": "POS", "sense": "senses"}
FIGURES = {"accuracy": "accuracy", "selectivity": "selectivity", "f1": "span F1"}
NAMED = ("name", "pretrained", "directions")  # settings that form an encoder's name
CAPTION = (
    "Percent, mean ± standard deviation over seeds ({}); one figure where no chance is involved. "
    "Layer 0 is the lowest. Baseline: the most frequent label of a word in training (sense of its "
    "lemma). Selectivity: accuracy less that of the same probe on a control task, in which each "
    "word type has a label at random (Hewitt and Liang 2019)."
)

Fraction = Annotated[float, Ge(0), Le(1)]
Fractions = Annotated[list[Fraction], MinLen(1)]


class Property(TypedDict):
    """The figures of a property, in fractions of 1: those of a guess without vectors, and of each
    layer, one for each seed.
    """

    baseline: dict[str, Fraction]
    layers: Annotated[list[dict[str, Fractions]], MinLen(1)]


@dataclass(frozen=True)
class Probed:
    """The content of a `probe.json`: the probes of an encoder on a corpus."""

    encoder: dict[str, Any]
    corpus: str
    data: dict[str, Any]
    settings: dict[str, Any]
    seeds: Annotated[list[int], MinLen(1)]
    properties: Annotated[dict[str, Property], MinLen(1)]
    command: str
    source: str  # the file

    @property
    def title(self) -> str:
        """The encoder's display name."""
        keys = [key for key in NAMED if key in self.encoder]
        settings = [frozen(self.encoder[key]) for key in keys]
        return name([f"encoder.{key}" for key in keys], settings) if keys else NONE


def read_probe(path: Path) -> Probed:
    """Read a `probe.json`, plain or .gz.

    Raises OSError if the file cannot be read, and ValueError, with the file and key, if it is
    invalid.
    """
    content = read_json(path) | {"source": str(path)}
    types = get_type_hints(Probed, include_extras=True)
    check_types(content, types, f"{path}: not a probe.json of elmo-bench")
    return Probed(**{name: content[name] for name in types})


def probes_grid(probes: Sequence[Probed]) -> Grid:
    """Return a table: a row for each encoder and layer, columns for each corpus and property.

    Raises ValueError if two files have the same encoder and corpus, or if the files of a corpus
    differ in data, settings or seeds.
    """
    baselines: dict[tuple[str, str, str], float | None] = {}  # corpus, property, figure
    cells: dict[tuple[str, int], dict[tuple[str, str, str], str]] = defaultdict(dict)
    for number, probe in enumerate(probes):
        _check(probe, probes[:number])
        for kind, probed in probe.properties.items():
            for figure, layer in product(FIGURES, range(len(probed["layers"]))):
                if values := _values(probed["layers"][layer], figure):
                    column = (probe.corpus, kind, figure)
                    baselines.setdefault(column, probed["baseline"].get(figure))
                    cells[probe.title, layer][column] = _cell(values)
    rows = [[NONE, "baseline", *map(points, baselines.values())]]
    for (title, layer), texts in cells.items():
        rows.append([title, str(layer), *(texts.get(column, "") for column in baselines)])
    seeds = sorted({len(probe.seeds) for probe in probes})
    return Grid(
        "What each layer knows",
        ["encoder", "layer", *(f"{c} {TITLES.get(n, n)}: {FIGURES[f]}" for c, n, f in baselines)],
        rows,
        left=2,
        caption=CAPTION.format(" or ".join(map(str, seeds))),
    )


def _check(probe: Probed, others: Sequence[Probed]) -> None:
    """Raise ValueError if a probe's encoder and corpus are also in another file, or if it cannot be
    compared with another of the same corpus.
    """
    for other in (other for other in others if other.corpus == probe.corpus):
        if other.title == probe.title:
            raise ValueError(
                f"{probe.source}: {probe.title} on {probe.corpus} is also in {other.source}: leave "
                "one out, or rename its encoder with encoder.name=NAME"
            )
        keys = ("data", "settings", "seeds")
        if differing := [key for key in keys if getattr(probe, key) != getattr(other, key)]:
            raise ValueError(
                f"{probe.source} and {other.source}, of the same corpus {probe.corpus}, differ in "
                f"{listed(differing)}: leave one of them out"
            )


def _values(figures: Mapping[str, list[float]], figure: str) -> list[float]:
    """Return the figures of a layer, one for each seed; none if it has none of this name."""
    if figure == "selectivity" and "control" in figures:
        pairs = zip(figures["accuracy"], figures["control"], strict=True)
        return [ours - theirs for ours, theirs in pairs]
    return figures.get(figure, [])


def _cell(values: Sequence[float]) -> str:
    """Format values in percent: mean ± standard deviation."""
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return points(fmean(values)) + spread
