"""One table of the `probe.json` files of several encoders and corpora."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from reprlib import repr as shown
from statistics import fmean, stdev
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Le, MinLen
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from elmo_bench.files import read_json
from elmo_bench.runs import as_text

from .grid import Grid
from .grids import points
from .names import NONE, name

TITLES = {
    "pos": "POS",
    "chunk": "chunks",
    "entity": "entities",
    "head": "heads",
    "sense": "senses",
}
FIGURES = {"accuracy": "accuracy", "control": "control", "selectivity": "selectivity"}
FIGURES["f1"] = "span F1"
NAMED = ("name", "pretrained", "directions")  # settings that form an encoder's name
CAPTION = (
    "Percent, mean ± standard deviation over seeds ({}); one figure where no chance is involved. "
    "Layer 0 is the lowest. Baseline: the most frequent label of a word in training (distance to "
    "its head, sense of its lemma). Selectivity: accuracy less that of the same probe on a control "
    "task, in which each word type has a label at random (Hewitt and Liang 2019)."
)

Fraction = Annotated[float, Ge(0), Le(1)]
Fractions = Annotated[list[Fraction], MinLen(1)]


class Checked(BaseModel):
    """A model of a file's content, with strict types."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Baseline(Checked):
    """The figures of a guess without vectors, in fractions of 1."""

    accuracy: Fraction
    f1: Fraction | None = None


class Layer(Checked):
    """The figures of a layer in fractions of 1, one for each seed."""

    accuracy: Fractions
    control: Fractions | None = None
    f1: Fractions | None = None

    @model_validator(mode="after")
    def _are_as_many(self) -> "Layer":
        for figures in (self.control, self.f1):
            if figures is not None and len(figures) != len(self.accuracy):
                raise ValueError("accuracy, control and f1 must have equal lengths")
        return self

    @property
    def selectivity(self) -> list[float] | None:
        """Accuracy minus control accuracy of each seed; None without a control task."""
        if self.control is None:
            return None
        return [ours - theirs for ours, theirs in zip(self.accuracy, self.control, strict=True)]


class Property(Checked):
    """The figures of a property."""

    baseline: Baseline
    layers: Annotated[list[Layer], MinLen(1)]


class Probed(Checked):
    """The content of a `probe.json`: the probes of an encoder on a corpus."""

    source: str  # the file
    encoder: dict[str, Any]
    corpus: str
    data: dict[str, Any]
    settings: dict[str, Any]
    seeds: Annotated[list[int], MinLen(1)]
    properties: Annotated[dict[str, Property], MinLen(1)]
    command: str

    @model_validator(mode="after")
    def _have_the_same_layers(self) -> "Probed":
        if len({len(each.layers) for each in self.properties.values()}) > 1:
            counts = {name: len(each.layers) for name, each in self.properties.items()}
            raise ValueError(
                f"properties must have equally many layers, but they have {shown(counts)}"
            )
        return self

    @property
    def num_layers(self) -> int:
        """The number of the encoder's layers."""
        return len(next(iter(self.properties.values())).layers)

    @property
    def title(self) -> str:
        """The encoder's display name."""
        keys = [key for key in NAMED if key in self.encoder]
        texts = [as_text(self.encoder[key]) for key in keys]
        return name([f"encoder.{key}" for key in keys], texts) if keys else NONE


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
        key = ".".join(map(str, fault["loc"])) or "properties"
        whole = fault["type"] in ("missing", "value_error")  # The fault is of a whole record.
        came = "" if whole else f"{repr(fault['input'])[:60]}: "
        raise ValueError(
            f"{path}: not a probe.json of elmo-bench: {key}: {came}"
            f"{fault['msg'].removeprefix('Value error, ')}"
        ) from error


class Column(NamedTuple):
    """A figure of a property of a corpus."""

    corpus: str
    name: str
    figure: str


def probes_grid(probes: Sequence[Probed], *, controls: bool = False) -> Grid:
    """Return a table: a row for each encoder and layer, columns for each corpus and property.

    `controls` adds the accuracy on the control tasks.

    Raises ValueError if two files have the same encoder and corpus, or if the files of a corpus
    differ in data, settings or seeds.
    """
    by_pair: dict[tuple[str, str], Probed] = {}
    by_corpus: dict[str, Probed] = {}
    for probe in probes:
        pair = probe.title, probe.corpus
        if pair in by_pair:
            raise ValueError(
                f"{probe.source}: {probe.title} on {probe.corpus} is also in "
                f"{by_pair[pair].source}: leave one out, or rename its encoder with "
                "encoder.name=NAME"
            )
        _check_same(probe, by_corpus.setdefault(probe.corpus, probe))
        by_pair[pair] = probe
    columns = [*_columns(by_corpus.values(), controls)]
    rows = [
        [NONE, "baseline", *(_baseline(by_corpus[column.corpus], column) for column in columns)]
    ]
    for title in dict.fromkeys(title for title, _ in by_pair):
        of_title = {
            corpus: probe for (encoder, corpus), probe in by_pair.items() if encoder == title
        }
        rows += [
            [title, str(layer), *(_figures(of_title.get(c.corpus), c, layer) for c in columns)]
            for layer in range(max(probe.num_layers for probe in of_title.values()))
        ]
    several = len(by_corpus) > 1
    heads = [
        f"{f'{c.corpus} ' * several}{TITLES.get(c.name, c.name)}: {FIGURES[c.figure]}"
        for c in columns
    ]
    seeds = sorted({len(probe.seeds) for probe in probes})
    return Grid(
        f"What each layer knows{'' if several else f', on {probes[0].corpus}'}",
        ["encoder", "layer", *heads],
        rows,
        bold=set(),
        left=2,
        caption=CAPTION.format(" or ".join(map(str, seeds))),
    )


def _check_same(probe: Probed, other: Probed) -> None:
    for key in ("data", "settings", "seeds"):
        mine, others = getattr(probe, key), getattr(other, key)
        if mine != others:
            raise ValueError(
                f"{probe.source}: its `{key}` is {shown(mine)}, but that of {other.source}, of the "
                f"same corpus {probe.corpus}, is {shown(others)}: their scores cannot be compared; "
                "leave one of them out"
            )


def _columns(probes: Iterable[Probed], controls: bool) -> Iterator[Column]:
    for probe in probes:
        for key, probed in probe.properties.items():
            for figure in FIGURES:
                if getattr(probed.layers[0], figure) is not None and (
                    controls or figure != "control"
                ):
                    yield Column(probe.corpus, key, figure)


def _baseline(probe: Probed, column: Column) -> str:
    return points(getattr(probe.properties[column.name].baseline, column.figure, None))


def _figures(probe: Probed | None, column: Column, layer: int) -> str:
    """Format a cell in percent: mean ± standard deviation; "" if the probe lacks the figure."""
    if probe is None or layer >= probe.num_layers or column.name not in probe.properties:
        return ""
    figures = getattr(probe.properties[column.name].layers[layer], column.figure)
    if figures is None:
        return ""
    spread = f" ± {100 * stdev(figures):.2f}" if len(figures) > 1 else ""
    return points(fmean(figures)) + spread
