"""A sentence as a tree with all annotations, and flat layers of spans read from it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import no_type_check

_CLOSING = frozenset({",", ".", ";", "?", ":"})


@no_type_check  # no run-time checks: millions are created, and checks under pytest would take minutes
@dataclass(frozen=True, slots=True)
class Phrase:
    """A constituent or, if `word` is set, a token, with the annotations of its span.

    `entity` is the type of a name, `referent` the entity to which a mention refers, `roles` the
    (frame, role) pairs that the constituent fills, `frame` the number of a predicate, to which
    roles refer, and `lemma` the predicate's lemma.
    """

    label: str
    children: tuple["Phrase", ...] = ()
    word: str = ""
    entity: str = ""
    referent: int | None = None
    roles: tuple[tuple[int, str], ...] = ()
    frame: int | None = None
    lemma: str = ""

    def leaves(self) -> Iterator["Phrase"]:
        """Yield the tokens from left to right."""
        if self.word:
            yield self
        for child in self.children:
            yield from child.leaves()

    @staticmethod
    def token(label: str, word: str) -> "Phrase":
        """Return one token."""
        return Phrase(label, word=word)

    @staticmethod
    def over(label: str, *children: "Phrase") -> "Phrase":
        """Return a constituent over its children."""
        return Phrase(label, children)

    def playing(self, *roles: tuple[int, str]) -> "Phrase":
        """Return the same phrase with additional roles."""
        return replace(self, roles=self.roles + roles)

    def spans(self, start: int = 0) -> Iterator[tuple[int, int, "Phrase"]]:
        """Yield every node with its first word and last word (exclusive), children first."""
        end = start + bool(self.word)
        for child in self.children:
            for span in child.spans(end):
                yield span
            end = span[1]
        yield start, end, self

    def rebuilt(self, leaves: Iterator["Phrase | None"]) -> "Phrase | None":
        """Return the tree with its tokens replaced by `leaves`, or removed where these are None."""
        if self.word:
            return next(leaves)
        kept = tuple(
            child
            for child in [child.rebuilt(leaves) for child in self.children]
            if child is not None
        )
        return replace(self, children=kept) if kept else None

    def brackets(self) -> str:
        """Return the tree in the Penn Treebank's format.

        >>> phrase("NP", leaf("DT", "the"), leaf("NN", "lamp")).brackets()
        '(NP (DT the) (NN lamp))'
        """
        return (
            f"({self.label} {self.word or ' '.join(child.brackets() for child in self.children)})"
        )

    def binary(self) -> "Phrase":
        """Return a right-branching binary tree over the same words.

        Final punctuation is attached at the top.
        """
        if self.word:
            return self
        children = [child.binary() for child in self.children]
        last = [children.pop()] if len(children) > 2 and children[-1].word in _CLOSING else []
        node = children.pop()
        while children:
            node = Phrase(self.label, (children.pop(), node))
        return Phrase(self.label, (node, *last)) if last else node


leaf, phrase = Phrase.token, Phrase.over
COMMA = leaf(",", ",")


def finish(tree: Phrase) -> Phrase:
    """Capitalise the first word, and drop commas at the start or before other punctuation."""
    leaves: list[Phrase | None] = list(tree.leaves())
    following = [token.word if token else "" for token in leaves[1:]] + ["."]
    first = next(i for i, token in enumerate(leaves) if token and token.word[0].isalnum())
    for i, token in enumerate(leaves):
        if token and token.word == "," and (i == 0 or following[i] in _CLOSING):
            leaves[i] = None
        elif token and i == first:
            leaves[i] = replace(token, word=token.word[0].upper() + token.word[1:])
    finished = tree.rebuilt(iter(leaves))
    assert finished is not None
    return finished


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate with its arguments (start, end, role); ends are exclusive in this package."""

    frame: int
    index: int
    lemma: str
    arguments: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A finished sentence: its tree, and the tree's annotations as flat layers of spans."""

    tree: Phrase
    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[tuple[int, int, str], ...]
    mentions: tuple[tuple[int, int, int], ...]
    predicates: tuple[Predicate, ...]
    speaker: str = "-"


def annotate(tree: Phrase, speaker: str = "-") -> Sentence:
    """Read all layers of annotation from a tree."""
    leaves = list(tree.leaves())
    entities: list[tuple[int, int, str]] = []
    mentions: list[tuple[int, int, int]] = []
    heads: list[tuple[int, int, str]] = []
    arguments: dict[int, list[tuple[int, int, str]]] = {}
    for start, end, node in tree.spans():
        if node.entity:
            entities.append((start, end, node.entity))
        if node.referent is not None:
            mentions.append((start, end, node.referent))
        if node.frame is not None:
            heads.append((start, node.frame, node.lemma))
        for frame, role in node.roles:
            arguments.setdefault(frame, []).append((start, end, role))
    predicates = tuple(
        Predicate(frame, index, lemma, tuple(sorted(arguments.get(frame, ()))))
        for index, frame, lemma in sorted(heads)
    )
    words, tags = tuple(token.word for token in leaves), tuple(token.label for token in leaves)
    return Sentence(tree, words, tags, tuple(entities), tuple(mentions), predicates, speaker)
