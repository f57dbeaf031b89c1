"""Map between a model's labels and the labels of a corpus with other names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class LabelMap(NamedTuple):
    """The model's types for a corpus's types (`gold`) and for its own predictions."""

    gold: dict[str, str]
    predicted: dict[str, str]

    def rename(self, prediction: Sequence[str]) -> list[str]:
        """Return predicted IOB2 tags with the map's names; chunks of other types are removed.

        >>> names = label_map({"PER": "person", "ORG": ["group", "firm"]})
        >>> names.rename(["B-PER", "I-PER", "B-MISC", "O"])
        ['B-PER', 'I-PER', 'O', 'O']
        """
        parts = [tag.partition("-") for tag in prediction]
        return [
            f"{prefix}-{self.predicted[label]}" if label in self.predicted else "O"
            for prefix, _, label in parts
        ]


def label_map(labels: Mapping[Any, Any]) -> LabelMap:
    """Return the map of `data.labels`, which gives the name or names in the corpus of each of the
    model's types of chunks; numbers become text.

    Model types with the same name in the corpus are merged into the first of them. Raises
    ValueError if a corpus type would still have several model types.

    >>> label_map({"PER": "person", "ORG": ["group", "firm"]}).gold
    {'person': 'PER', 'group': 'ORG', 'firm': 'ORG'}
    >>> label_map({"PER": "who", "GPE": 1, "LOC": 1})
    LabelMap(gold={'who': 'PER', '1': 'GPE'}, predicted={'PER': 'PER', 'GPE': 'GPE', 'LOC': 'GPE'})
    """
    gold: dict[str, str] = {}
    predicted: dict[str, str] = {}
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
