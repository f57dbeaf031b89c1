"""Map between a model's labels and the labels of a corpus with other names."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Labelled = str | list[str]  # a class, or IOB2 tags


class LabelMap(NamedTuple):
    """The model's labels for a corpus's labels (`gold`) and for its own predictions."""

    gold: dict[str, str]
    predicted: dict[str, str]

    def rename(self, prediction: Labelled) -> Labelled:
        """Return a prediction with the map's names.

        Chunks of other types are removed. A class outside the map is kept, and thus counts as
        wrong.

        >>> names = label_map({"PER": "person", "ORG": ["group", "firm"]})
        >>> names.rename(["B-PER", "I-PER", "B-MISC", "O"])
        ['B-PER', 'I-PER', 'O', 'O']
        """
        if isinstance(prediction, str):
            return self.predicted.get(prediction, prediction)
        parts = [tag.partition("-") for tag in prediction]
        return [
            f"{prefix}-{self.predicted[label]}" if label in self.predicted else "O"
            for prefix, _, label in parts
        ]


def named(labels: Mapping[Any, Any]) -> dict[str, list[str]]:
    """Return `data.labels` as texts: YAML and the command line read SST-5's labels as numbers.

    >>> named({0: "bad", 4: ["good", 5]})
    {'0': ['bad'], '4': ['good', '5']}
    """
    return {
        str(label): [str(name) for name in (names if isinstance(names, list) else [names])]
        for label, names in labels.items()
    }


def label_map(labels: Mapping[str, str | Sequence[str]]) -> LabelMap:
    """Return the map of `data.labels`, which gives each model label's names in the corpus.

    Model labels with the same name in the corpus are merged into the first of them. Raises
    ValueError if a corpus label would still have several model labels.

    >>> label_map({"PER": "person", "ORG": ["group", "firm"]}).gold
    {'person': 'PER', 'group': 'ORG', 'firm': 'ORG'}
    >>> label_map({"0": "bad", "1": "bad", "4": "good"})
    LabelMap(gold={'bad': '0', 'good': '4'}, predicted={'0': '0', '1': '0', '4': '4'})
    """
    gold: dict[str, str] = {}
    predicted: dict[str, str] = {}
    for label, value in labels.items():
        names = [value] if isinstance(value, str) else list(value)
        images = {gold.setdefault(name, label) for name in names}
        if len(images) != 1:
            raise ValueError(
                f"data.labels: {label} is mapped to {names}, one of which is already mapped "
                "to another label"
            )
        predicted[label] = images.pop()
    return LabelMap(gold, predicted)


def types(labels: Iterable[str]) -> list[str]:
    """Return the distinct labels, sorted; tags (B-, I-, L- or U- and a type) become types.

    >>> types(["B-PER", "U-PER", "O", "B-ARG0", "I-ARG0"]), types(["neutral"])
    (['ARG0', 'O', 'PER'], ['neutral'])
    """
    return sorted(
        {label[2:] if label[:2] in ("B-", "I-", "L-", "U-") else label for label in labels}
    )


def kinds(labelled: Labelled) -> Iterable[str]:
    """Return the class, or the types of the chunks in IOB2 tags.

    >>> list(kinds(["B-PER", "I-PER", "B-LOC"])), list(kinds("neutral"))
    (['PER', 'LOC'], ['neutral'])
    """
    if isinstance(labelled, str):
        return [labelled]
    return [tag[2:] for tag in labelled if tag.startswith("B-")]
