"""Map between a model's labels and the labels of a corpus with other names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def label_map(labels: Mapping[Any, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the model's types for a corpus's types, and for the model's own, as `data.labels` maps
    them: each of the model's types of chunks to its name or names in the corpus.

    Model types with the same name in the corpus are merged into the first of them. Raises
    ValueError if a corpus type would still have several model types.

    >>> gold, predicted = label_map({"PER": ["who", "whom"], "GPE": 1, "LOC": 1})
    >>> gold, predicted
    ({'who': 'PER', 'whom': 'PER', '1': 'GPE'}, {'PER': 'PER', 'GPE': 'GPE', 'LOC': 'GPE'})
    >>> rename(["B-LOC", "I-LOC", "B-MISC", "O"], predicted)
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
    return gold, predicted


def rename(tags: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Return IOB2 tags with other names of their types; chunks of types without one are removed."""
    return [f"{tag[:2]}{names[tag[2:]]}" if tag[2:] in names else "O" for tag in tags]


def types(labels: Iterable[str]) -> list[str]:
    """Return the distinct labels, sorted; tags (B-, I-, L- or U- and a type) become types.

    >>> types(["B-PER", "U-PER", "O", "B-ARG0", "I-ARG0"]), types(["neutral"])
    (['ARG0', 'O', 'PER'], ['neutral'])
    """
    return sorted(
        {label[2:] if label[:2] in ("B-", "I-", "L-", "U-") else label for label in labels}
    )
