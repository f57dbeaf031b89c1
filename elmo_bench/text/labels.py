"""A model's labels beside those of a corpus that calls them otherwise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Labelled = str | list[str]  # a class, or IOB2 tags


class LabelMap(NamedTuple):
    """New names, all the model's, for a corpus's labels and for the model's predictions."""

    gold: dict[str, str]
    predicted: dict[str, str]

    def rename(self, prediction: Labelled) -> Labelled:
        """A prediction by the map's names.

        A chunk of another type is none; a class that is not named stays, and so is wrong.

        >>> names = label_map({"PER": "person", "ORG": ["group", "firm"]})
        >>> names.rename(["B-PER", "I-PER", "B-MISC", "O"])
        ['B-PER', 'I-PER', 'O', 'O']
        """
        if isinstance(prediction, str):
            return self.predicted.get(prediction, prediction)
        return [self._tag(tag) for tag in prediction]

    def _tag(self, tag: str) -> str:
        prefix, _, label = tag.partition("-")
        return f"{prefix}-{self.predicted[label]}" if label in self.predicted else "O"


def label_map(labels: Mapping[str, str | Sequence[str]]) -> LabelMap:
    """The map that `data.labels` says: each of the model's labels, and its names in the corpus.

    Several labels of the model that have one name in the corpus are one label here, the first of
    them. Raises ValueError where that leaves open which label a corpus's is.

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
    """The labels in alphabetical order; tags, with B-, I-, L- or U- before a type, as one a type.

    >>> types(["B-PER", "U-PER", "O", "B-ARG0", "I-ARG0"]), types(["neutral"])
    (['ARG0', 'O', 'PER'], ['neutral'])
    """
    return sorted(
        {label[2:] if label[:2] in ("B-", "I-", "L-", "U-") else label for label in labels}
    )


def kinds(labelled: Labelled) -> Iterable[str]:
    """The class, or the types of the chunks that IOB2 tags begin.

    >>> list(kinds(["B-PER", "I-PER", "B-LOC"])), list(kinds("neutral"))
    (['PER', 'LOC'], ['neutral'])
    """
    if isinstance(labelled, str):
        return [labelled]
    return [tag[2:] for tag in labelled if tag.startswith("B-")]
