"""Opinions, and the compositional sentiment of each of their phrases.

`opinion` generates a sentence top-down from a target grade; `sentiment` computes grades bottom-up
from the words. The labels in the files are those of `sentiment`, so that the same rules label each
node of a tree.
"""

from random import Random
from typing import no_type_check

from .grammar import STOP, Narrator, described
from .lexicon import (
    ADJECTIVES,
    GRADES,
    LOWERING,
    NEGATORS,
    NEUTRAL_ADJECTIVES,
    OPINION_ADJECTIVES,
    OPINION_ADVERBS,
    OPINION_NOUNS,
    OPINION_VERBS,
    PARTS,
    PEOPLE,
    PER,
    RAISING,
    STRONG_DEGREES,
    VIRTUES,
    Verb,
    article,
    listed,
    verb,
    zipf,
)  # fmt: skip
from .tree import COMMA, Phrase, finish, leaf, phrase
from .world import Entity

_DOES = tuple(verb(base) for base in listed("work perform open run develop end"))


def _clip(grade: int) -> int:
    return max(-2, min(2, grade))


def _sign(grade: int) -> int:
    return (grade > 0) - (grade < 0)


def _first(node: Phrase) -> str:
    return next((token.word.lower() for token in node.leaves() if token.word != ","), ",")


def sentiment(node: Phrase) -> int:
    """Return the sentiment of a binary tree, from -2 to 2.

    1. A word has the grade of the lexicon; names and other words are neutral. 2. A negator inverts
    and weakens its sister: 2 and 1 become -1, -2 and -1 become 1. 3. An intensifier sets its sister
    to 2 (-2), a downtoner to 1 (-1). 4. Of two contrasted clauses, the one after `but`, or the main
    clause beside `although`, determines the grade unless it is neutral. 5. Otherwise the grades of
    the sisters are added and clipped to -2..2.

    >>> sentiment(phrase("ADJP", leaf("RB", "not"), phrase("ADJP", leaf("RB", "very"), leaf("JJ", "dull"))))
    1
    """
    if not node.children:
        return 0 if node.label == "NNP" else GRADES.get(node.word.lower(), 0)
    left, right = node.children
    before, after = sentiment(left), sentiment(right)
    word = left.word.lower()
    if word in NEGATORS:
        return -_sign(after)
    if word in RAISING or word in STRONG_DEGREES:
        return 2 * _sign(after)
    if word in LOWERING:
        return _sign(after)
    if after and (_first(right) == "but" or _first(left) == "although"):
        return after
    return _clip(before + after)


def labelled(node: Phrase) -> str:
    """Return a binary tree in the Sentiment Treebank's format, labels 0 (very negative) to 4."""
    inside = node.word or " ".join(map(labelled, node.children))
    return f"({sentiment(node) + 2} {inside})"


@no_type_check  # not checked at run time, like `Phrase`
class Critic:
    """Generates opinions on an entity, given a target grade from -2 to 2."""

    def __init__(self, narrator: Narrator) -> None:
        self.narrator = narrator
        self.rng: Random = narrator.rng

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def adjective(self, grade: int) -> Phrase:
        """Return an adjective phrase of a grade: `superb`, `utterly superb`, `not bad`."""
        if grade == 0:
            return phrase("ADJP", leaf("JJ", zipf(self.rng, NEUTRAL_ADJECTIVES)))
        strong = abs(grade) == 2
        if strong and self.chance(0.3):
            return phrase("ADJP", leaf("RB", zipf(self.rng, RAISING)), self._bare(_sign(grade)))
        if not strong and self.chance(0.2):
            return phrase(
                "ADJP", leaf("RB", "not"), self.adjective(-grade * self.rng.choice((1, 1, 2)))
            )
        degrees = STRONG_DEGREES if strong else LOWERING
        first = self._bare(grade)
        if self.chance(0.4):
            first = phrase("ADJP", leaf("RB", zipf(self.rng, degrees)), first)
        if strong and self.chance(0.35):
            return phrase("ADJP", first, leaf("CC", "and"), self._bare(grade))
        return first

    def _bare(self, grade: int) -> Phrase:
        return leaf("JJ", zipf(self.rng, OPINION_ADJECTIVES[grade]))

    def target(self, entity: Entity) -> Phrase:
        """Return the entity, or a part of it."""
        if self.chance(0.35):
            noun = zipf(self.rng, PARTS[entity.type])
            head = phrase("NP", leaf("DT", "the"), leaf("NN", noun))
            return phrase("NP", head, phrase("PP", leaf("IN", "of"), self.narrator.mention(entity)))
        return self.narrator.mention(entity, 0)

    def _be(self, subject: Phrase, negated: bool, complement: Phrase) -> Phrase:
        heads = [token.word for token in subject.leaves()]
        plural = (
            subject.children[0].label == "NP"
            and len(subject.children[0].children) == 2
            and heads[1].endswith("s")
        )
        past = self.chance(0.5)
        form = ("were" if past else "are") if plural else ("was" if past else "is")
        no = [leaf("RB", self.rng.choice(("n't", "not")))] if negated else []
        return phrase("S", subject, phrase("VP", leaf("VB", form), *no, complement))

    def being(self, entity: Entity, grade: int) -> Phrase:
        """Return a clause that gives an entity, or a part of it, a grade from -2 to 2.

        `X was n't very dull`, `the plot of X is superb`.
        """
        if abs(grade) == 1 and self.chance(0.25):
            return self._be(
                self.target(entity), True, self.adjective(-grade * self.rng.choice((1, 2)))
            )
        return self._be(self.target(entity), False, self.adjective(grade))

    def kind(self, entity: Entity, grade: int) -> Phrase:
        """Return a clause that gives an entity's kind a grade from -2 to 2.

        `X is an utterly superb novel`, `X was a disaster`.
        """
        negated = abs(grade) == 1 and self.chance(0.2)
        inner = -grade * self.rng.choice((1, 2)) if negated else grade
        if inner and self.chance(0.3):
            np = described(zipf(self.rng, OPINION_NOUNS[inner]), "", definite=False)
        else:
            described_by = self.adjective(inner)
            first = next(described_by.leaves()).word
            np = phrase("NP", leaf("DT", article(first)), described_by, leaf("NN", entity.kind))
        return self._be(self.narrator.mention(entity, 0), negated, np)

    def reception(self, entity: Entity, grade: int) -> Phrase:
        """`Critics adored X`, `tourists did n't enjoy X`."""
        people = phrase("NP", leaf("NNS", zipf(self.rng, PEOPLE)))
        negated = abs(grade) == 1 and self.chance(0.3)
        inner = -grade * self.rng.choice((1, 2)) if negated else grade
        chosen: Verb = zipf(self.rng, OPINION_VERBS[inner]) if inner else verb("discuss")
        _, group = self.narrator.verbs(
            chosen, "past" if self.chance(0.7) else "present", "they", negated=negated
        )
        np = self.narrator.mention(entity, clued=False)
        return phrase("S", people, phrase("VP", *group, np))

    def virtue(self, entity: Entity, grade: int) -> Phrase:
        """`X has charm`, `X lacks charm`, `X had no flair`."""
        grade = _sign(grade) or 1
        subject = self.narrator.mention(entity, 0)
        good = leaf("NN", zipf(self.rng, VIRTUES[grade]))
        if self.chance(0.5):
            return phrase(
                "S",
                subject,
                phrase("VP", leaf("VB", self.rng.choice(("has", "had", "shows"))), good),
            )
        bad = leaf("NN", zipf(self.rng, VIRTUES[-grade]))
        if self.chance(0.5):
            return phrase(
                "S", subject, phrase("VP", leaf("VB", self.rng.choice(("lacks", "lacked"))), bad)
            )
        return phrase(
            "S", subject, phrase("VP", leaf("VB", "has"), phrase("NP", leaf("DT", "no"), bad))
        )

    def doing(self, entity: Entity, grade: int) -> Phrase:
        """`X ended brilliantly`."""
        adverbs = [leaf("RB", zipf(self.rng, OPINION_ADVERBS[grade]))] if grade else []
        if abs(grade) == 1 and self.chance(0.3):
            adverbs = [leaf("RB", zipf(self.rng, LOWERING)), *adverbs]
        told = phrase(
            "VP",
            leaf("VBD", zipf(self.rng, _DOES).past),
            *([phrase("ADVP", *adverbs)] if adverbs else []),
        )
        return phrase("S", self.narrator.mention(entity, 0), told)

    def fact(self, entity: Entity, grade: int) -> Phrase:
        """Return a neutral statement about the entity or something that happened."""
        if self.chance(0.4):
            attribute = leaf("JJ", zipf(self.rng, ADJECTIVES[entity.type]))
            return self._be(self.narrator.mention(entity, 0), self.chance(0.3), attribute)
        return self.narrator.clause(self.narrator.pick(entity), adjuncts=1)

    def clause(self, entity: Entity, grade: int) -> Phrase:
        rules = [self.being, self.being, self.kind, self.reception, self.doing]
        if abs(grade) == 1:
            rules.append(self.virtue)
        return self.rng.choice(
            [self.fact, self.fact, self.being, self.reception] if grade == 0 else rules
        )(entity, grade)

    def sentence(self, entity: Entity, grade: int) -> Phrase:
        """Return a sentence of one clause, or of two that contrast or agree."""
        choice = self.rng.random()
        self.narrator.here = []
        if choice < 0.55:
            whole = self.clause(entity, grade)
        elif choice < 0.72:
            first = self.clause(entity, self.rng.choice((-1, -2)) * (_sign(grade) or 1))
            whole = phrase("S", first, COMMA, leaf("CC", "but"), self.clause(entity, grade))
        elif choice < 0.85:
            first = self.clause(entity, self.rng.choice((-1, -2)) * (_sign(grade) or 1))
            concession = phrase("SBAR", leaf("IN", "although"), first)
            whole = phrase("S", concession, COMMA, self.clause(entity, grade))
        else:
            weak = grade if abs(grade) < 2 else self.rng.choice((1, 2)) * _sign(grade)
            other = self.clause(entity, 0 if abs(grade) < 2 else _sign(grade))
            whole = phrase("S", self.clause(entity, weak), COMMA, leaf("CC", "and"), other)
        self.narrator.recent = list(self.narrator.here)
        return finish(phrase("S", whole, STOP))


def opinion(narrator: Narrator, entity: Entity, grade: int) -> Phrase:
    """Return a sentence about an entity with the target grade as its sentiment."""
    critic = Critic(narrator)
    while True:
        known, recent = set(narrator.known), list(narrator.recent)
        tree = critic.sentence(entity, grade)
        if sentiment(tree.binary()) == grade:
            return tree
        narrator.known, narrator.recent = known, recent


def opinions(rng: Random, narrator: Narrator, count: int) -> list[Phrase]:
    """Return opinions on random entities of a cast except persons, with uniformly drawn grades."""
    targets = [each for each in narrator.cast.entities if each.type != PER]
    return [opinion(narrator, rng.choice(targets), rng.randrange(-2, 3)) for _ in range(count)]


def reviews(rng: Random, narrator: Narrator, count: int) -> list[Phrase]:
    """Return consecutive opinions on one entity, either all positive or all negative."""
    target = rng.choice([each for each in narrator.cast.entities if each.type != PER])
    side = rng.choice((-1, 1))
    return [opinion(narrator, target, side * rng.choice((1, 2, 2))) for _ in range(count)]
