"""One table of the `probe.json` files of several encoders and corpora."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from reprlib import repr as shown
from statistics import fmean, stdev
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen
from pydantic import BaseModel, ConfigDict, ValidationError

from elmo_bench.files import listed, read_json
from elmo_bench.runs import frozen

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


class Property(BaseModel):
    """The figures of a property, in fractions of 1: those of a guess without vectors, and of each
    layer, one for each seed.
    """

    baseline: dict[str, Fraction]
    layers: Annotated[list[dict[str, Fractions]], MinLen(1)]

    def of(self, layer: int, figure: str) -> list[float] | None:
        """Return a layer's figures; None if it has none of this name."""
        figures = self.layers[layer]
        if figure == "selectivity" and "control" in figures:
            pairs = zip(figures["accuracy"], figures["control"], strict=True)
            return [ours - theirs for ours, theirs in pairs]
        return figures.get(figure)


class Probed(BaseModel):
    """The content of a `probe.json`: the probes of an encoder on a corpus."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    source: str  # the file
    encoder: dict[str, Any]
    corpus: str
    data: dict[str, Any]
    settings: dict[str, Any]
    seeds: Annotated[list[int], MinLen(1)]
    properties: Annotated[dict[str, Property], MinLen(1)]
    command: str

    @property
    def num_layers(self) -> int:
        """The number of the encoder's layers."""
        return len(next(iter(self.properties.values())).layers)

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
    content = read_json(path)
    try:
        return Probed.model_validate(content | {"source": str(path)})
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise ValueError(
            f"{path}: not a probe.json of elmo-bench: {key}: {fault['msg']}, but it is "
            f"{shown(fault['input'])}"
        ) from error


def probes_grid(probes: Sequence[Probed]) -> Grid:
    """Return a table: a row for each encoder and layer, columns for each corpus and property.

    Raises ValueError if two files have the same encoder and corpus, or if the files of a corpus
    differ in data, settings or seeds.
    """
    by_title: dict[str, dict[str, Probed]] = defaultdict(dict)
    by_corpus: dict[str, Probed] = {}
    for probe in probes:
        same = by_title[probe.title].setdefault(probe.corpus, probe)
        _check(probe, same, by_corpus.setdefault(probe.corpus, probe))
    columns = [
        (corpus, name, figure)
        for corpus, probe in by_corpus.items()
        for (name, probed), figure in product(probe.properties.items(), FIGURES)
        if probed.of(0, figure) is not None
    ]
    baselines = (by_corpus[corpus].properties[name].baseline.get(f) for corpus, name, f in columns)
    rows = [[NONE, "baseline", *map(points, baselines)]]
    for title, of_title in by_title.items():
        for layer in range(max(probe.num_layers for probe in of_title.values())):
            cells = (_cell(of_title.get(corpus), layer, *which) for corpus, *which in columns)
            rows.append([title, str(layer), *cells])
    seeds = sorted({len(probe.seeds) for probe in probes})
    return Grid(
        "What each layer knows",
        ["encoder", "layer", *(f"{c} {TITLES.get(n, n)}: {FIGURES[f]}" for c, n, f in columns)],
        rows,
        left=2,
        caption=CAPTION.format(" or ".join(map(str, seeds))),
    )


def _check(probe: Probed, same: Probed, other: Probed) -> None:
    """Raise ValueError if a probe's encoder and corpus are also in the file `same`, or if it cannot
    be compared with `other`, of the same corpus.
    """
    if same is not probe:
        raise ValueError(
            f"{probe.source}: {probe.title} on {probe.corpus} is also in {same.source}: leave "
            "one out, or rename its encoder with encoder.name=NAME"
        )
    keys = ("data", "settings", "seeds")
    if differing := [key for key in keys if getattr(probe, key) != getattr(other, key)]:
        raise ValueError(
            f"{probe.source} and {other.source}, of the same corpus {probe.corpus}, differ in "
            f"{listed(differing)}: leave one of them out"
        )


def _cell(probe: Probed | None, layer: int, name: str, figure: str) -> str:
    """Format a cell in percent: mean ± standard deviation; "" if the probe lacks the figure."""
    probed = probe.properties.get(name) if probe else None
    if probed is None or layer >= len(probed.layers):
        return ""
    figures = probed.of(layer, figure) or []
    spread = f" ± {100 * stdev(figures):.2f}" if len(figures) > 1 else ""
    return points(fmean(figures)) + spread if figures else ""
