"""A sentence as one tree that carries every annotation, and the flat layers read off it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

_CLOSING = frozenset({",", ".", ";", "?", ":"})


@dataclass(frozen=True, slots=True)
class Phrase:
    """A constituent or, where `word` is set, a token; what a span means to a task hangs on its constituent.

    `entity` is the type of a name, `referent` the entity a mention stands for, `roles` the (frame, role) pairs it fills,
    `frame` the number a predicate's arguments refer to, `lemma` the predicate's lemma.
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
        """The tokens from left to right."""
        if self.word:
            yield self
        for child in self.children:
            yield from child.leaves()

    def playing(self, *roles: tuple[int, str]) -> "Phrase":
        """The same phrase as an argument of some more predicates."""
        return replace(self, roles=self.roles + roles)


def leaf(label: str, word: str) -> Phrase:
    """One token."""
    return Phrase(label, word=word)


def phrase(label: str, *children: Phrase) -> Phrase:
    """A constituent over its children."""
    return Phrase(label, children)


COMMA = leaf(",", ",")


def finish(tree: Phrase) -> Phrase:
    """Drop commas that meet other punctuation and capitalise the first word, as spelling asks."""
    leaves = list(tree.leaves())
    dropped = {
        i
        for i, token in enumerate(leaves)
        if token.word == "," and (i == 0 or i + 1 == len(leaves) or leaves[i + 1].word in _CLOSING)
    }
    first = next(i for i, token in enumerate(leaves) if token.word[0].isalnum())
    position = -1

    def rebuild(node: Phrase) -> Phrase | None:
        nonlocal position
        if not node.word:
            kept = tuple(child for child in map(rebuild, node.children) if child is not None)
            return (node if kept == node.children else replace(node, children=kept)) if kept else None
        position += 1
        if position in dropped:
            return None
        return replace(node, word=node.word[0].upper() + node.word[1:]) if position == first else node

    finished = rebuild(tree)
    assert finished is not None
    return finished


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate of a sentence with its arguments (start, end, role); ends are exclusive throughout this package."""

    frame: int
    index: int
    lemma: str
    arguments: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A finished sentence: its tree and what the tree says, as flat layers of spans."""

    tree: Phrase
    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[tuple[int, int, str], ...]
    mentions: tuple[tuple[int, int, int], ...]
    predicates: tuple[Predicate, ...]
    speaker: str = "-"


def annotate(tree: Phrase, speaker: str = "-") -> Sentence:
    """Read the layers off a tree in one walk."""
    words: list[str] = []
    tags: list[str] = []
    entities: list[tuple[int, int, str]] = []
    mentions: list[tuple[int, int, int]] = []
    heads: dict[int, tuple[int, str]] = {}
    arguments: dict[int, list[tuple[int, int, str]]] = {}

    def walk(node: Phrase) -> None:
        start = len(words)
        if node.word:
            words.append(node.word)
            tags.append(node.label)
            if node.frame is not None:
                heads[node.frame] = (start, node.lemma)
        for child in node.children:
            walk(child)
        end = len(words)
        if node.entity:
            entities.append((start, end, node.entity))
        if node.referent is not None:
            mentions.append((start, end, node.referent))
        for frame, role in node.roles:
            arguments.setdefault(frame, []).append((start, end, role))

    walk(tree)
    predicates = tuple(
        Predicate(frame, index, lemma, tuple(sorted(arguments.get(frame, ()))))
        for frame, (index, lemma) in sorted(heads.items(), key=lambda item: item[1])
    )
    return Sentence(tree, tuple(words), tuple(tags), tuple(entities), tuple(mentions), predicates, speaker)


def brackets(tree: Phrase) -> str:
    """A tree in Penn Treebank brackets.

    >>> brackets(phrase("NP", leaf("DT", "the"), leaf("NN", "lamp")))
    '(NP (DT the) (NN lamp))'
    """
    return f"({tree.label} {tree.word or ' '.join(map(brackets, tree.children))})"


def binary(tree: Phrase) -> Phrase:
    """The same words under nodes of two children: the head side of a phrase is peeled word by word from its left.

    A sentence's final stop and a list's last comma hang highest, so that whatever precedes them is a whole.
    """
    if tree.word:
        return tree
    children = [binary(child) for child in tree.children]
    if len(children) > 2 and children[-1].word in _CLOSING:
        last = children.pop()
        return phrase(tree.label, binary(phrase(tree.label, *children)), last)
    node = children.pop()
    while children:
        node = phrase(tree.label, children.pop(), node)
    return node
