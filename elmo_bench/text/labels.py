"""Map between a model's labels and the labels of a corpus with other names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class LabelMap(NamedTuple):
    """The model's types for a corpus's types (`gold`) and for its own predictions."""

    gold: dict[str, str]
    predicted: dict[str, str]

    def rename(self, prediction: Sequence[str]) -> list[str]:
        """Return predicted IOB2 tags with the map's names; chunks of other types are removed."""
        return [
            f"{tag[:2]}{self.predicted[tag[2:]]}" if tag[2:] in self.predicted else "O"
            for tag in prediction
        ]


def label_map(labels: Mapping[Any, Any]) -> LabelMap:
    """Return the map of `data.labels`, which gives the name or names in the corpus of each of the
    model's types of chunks; numbers become text.

    Model types with the same name in the corpus are merged into the first of them. Raises
    ValueError if a corpus type would still have several model types.

    >>> names = label_map({"PER": ["who", "whom"], "GPE": 1, "LOC": 1})
    >>> names.gold, names.predicted
    ({'who': 'PER', 'whom': 'PER', '1': 'GPE'}, {'PER': 'PER', 'GPE': 'GPE', 'LOC': 'GPE'})
    >>> names.rename(["B-LOC", "I-LOC", "B-MISC", "O"])
    ['B-GPE', 'I-GPE', 'O', 'O']
    """
    gold, predicted = dict[str, str](), dict[str, str]()
    for label, value in labels.items():
        names = [str(name) for name in (value if isinstance(value, list) else [value])]
        images = {gold.setdefault(name, str(label)) for name in names}
        if len(images) != 1:
            raise ValueError(
                f"data.labels: {label} is mapped to {names}, one of which is already mapped "
                "to another label"
            )
        predicted[str(label)] = images.pop()
    return LabelMap(gold, predicted)


def types(labels: Iterable[str]) -> list[str]:
    """Return the distinct labels, sorted; tags (B-, I-, L- or U- and a type) become types.

    >>> types(["B-PER", "U-PER", "O", "B-ARG0", "I-ARG0"]), types(["neutral"])
    (['ARG0', 'O', 'PER'], ['neutral'])
    """
    return sorted(
        {label[2:] if label[:2] in ("B-", "I-", "L-", "U-") else label for label in labels}
    )
