"""Premises and hypotheses whose label follows from a small logic.

If a specific statement Q implies a general one P (by a more specific verb or noun, or one more
adjective or adjunct), labels are

    entailment     Q to P        not P to not Q    Q to Q'       not Q to not Q'
    contradiction  Q to not P    not P to Q        Q to not Q'   not Q to Q'
    neutral        P to Q        not Q to not P    P to not Q    not Q to P

where Q' is a paraphrase of Q. Antonyms, kinds of entities and exchanged roles add three more such
tables. In each table every label has negated and plain hypotheses, so that the hypothesis alone is
a weak cue.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import no_type_check

from .grammar import STOP, Narrator, described, pp, willing
from .lexicon import (
    ADJECTIVES,
    ANTONYMS,
    GENERALISES,
    HYPERNYM,
    KINDS,
    OPPOSITES,
    PLACE_PREPS,
    listed,
    verb,
    zipf,
)
from .tree import Phrase, finish, leaf, phrase
from .world import Entity, Event, Filler, Thing, event

LABELS = ("entailment", "contradiction", "neutral")
_ONE_WAY = frozenset(
    verb(base)
    for base in listed(
        "outlive tutor coach adopt nurse rescue acquire outbid swallow subsidise absorb "
        "outperform bankroll "
        "predate dwarf encircle outgrow outsell precede teach insure"
    )
)
_ANTONYMS = {**{b: a for a, b in ANTONYMS.items()}, **ANTONYMS}


@dataclass(frozen=True, slots=True)
class Statement:
    """An event and the form of its sentence: negated, passive, fronted, and its adjuncts."""

    event: Event
    negated: bool = False
    passive: bool = False
    fronted: bool = False
    adjuncts: tuple[Phrase, ...] = ()

    def denied(self) -> "Statement":
        return replace(self, negated=not self.negated)


@dataclass(frozen=True, slots=True)
class Pair:
    """A premise, a hypothesis and their label."""

    premise: Phrase
    hypothesis: Phrase
    label: str


def _reversible(what: Event) -> bool:
    """Whether subject and object could be exchanged."""
    named = isinstance(what.subject, Entity) and isinstance(what.object, Entity)
    return named and what.frame.subject == what.frame.object and not what.frame.prep


@no_type_check  # not checked at run time, like `Phrase`
class Logician:
    """Generates pairs about the entities of a story."""

    def __init__(self, narrator: Narrator) -> None:
        self.narrator = narrator
        self.rng: Random = narrator.rng
        self.styles: dict[int, str] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # --- from statements to sentences ---

    def denote(self, it: Filler) -> Phrase:
        """Return a participant's noun phrase, the same in both sentences unless `pair` shortens it."""
        if isinstance(it, Thing):
            tag = "NNS" if it.plural else "NN"
            if it.sort in ("goods", "topic") or tag == "NNS":
                return phrase(
                    "NP", *([leaf("JJ", it.adjective)] if it.adjective else []), leaf(tag, it.noun)
                )
            return described(it.noun, it.adjective, definite=it.sort == "weather")
        assert isinstance(it, Entity)
        style = self.styles.setdefault(it.number, self.rng.choice(("named", "titled", "definite")))
        np = phrase("NP", *(leaf("NNP", token) for token in it.name))
        if style == "named":
            return np
        kind = (leaf("DT", "the"), leaf("NN", it.kind))
        return phrase("NP", *kind, *(np.children if style == "titled" else ()))

    def say(self, it: Statement) -> Phrase:
        """Return the sentence of a statement."""
        what, narrator = it.event, self.narrator
        subject = self.denote(what.subject)
        complement = [] if what.object is None else [self.denote(what.object)]
        if it.passive and complement:
            _, group = narrator.verbs(
                what.verb,
                "passive",
                narrator.agreement(what.object or what.subject),
                negated=it.negated,
            )
            vp = phrase("VP", *group, phrase("PP", leaf("IN", "by"), subject))
            subject = complement[0]
        else:
            if complement and what.frame.prep:
                tag = "TO" if what.frame.prep == "to" else "IN"
                complement = [phrase("PP", leaf(tag, what.frame.prep), *complement)]
            _, group = narrator.verbs(
                what.verb, "past", narrator.agreement(what.subject), negated=it.negated
            )
            vp = phrase("VP", *group, *complement)
        if it.fronted and it.adjuncts:
            return finish(phrase("S", it.adjuncts[0], leaf(",", ","), subject, vp, STOP))
        return finish(phrase("S", subject, replace(vp, children=vp.children + it.adjuncts), STOP))

    def pair(self, premise: Statement, hypothesis: Statement, label: str) -> Pair | None:
        """Return a pair, or None if both sentences are equal.

        An entity with kind and name in the premise may have only one of them in the hypothesis.
        """
        first = self.say(premise)
        shorter = ("named", "titled", "definite")
        self.styles = {
            number: self.rng.choice(shorter) if style == "titled" else style
            for number, style in self.styles.items()
        }
        second = self.say(hypothesis)
        same = [token.word for token in first.leaves()] == [token.word for token in second.leaves()]
        return None if same else Pair(first, second, label)

    # --- statements ---

    def happening(self, wanted: Callable[[Event], bool]) -> Event | None:
        """Return an event that fulfils a condition, or None after 40 attempts; no parts of entities."""
        for _ in range(40):
            what = event(self.rng, self.narrator.cast)
            plain = all(
                isinstance(each, Entity | Thing)
                for each in (what.subject, what.object)
                if each is not None
            )
            if plain and what.clued and wanted(what):
                return what
        return None

    def paraphrase(self, it: Statement) -> Statement:
        """Return a paraphrase: the other voice, or the adjunct moved to or from the front."""
        direct = it.event.object is not None and not it.event.frame.prep
        if direct and self.chance(0.6):
            return replace(it, passive=not it.passive)
        return replace(it, fronted=not it.fronted)

    def _when(self) -> tuple[Phrase, ...]:
        return (self.narrator.time()[0],)

    def _how(self, what: Event) -> tuple[Phrase, ...]:
        if willing(what) and self.chance(0.6):
            return (self.narrator.manner()[0],)
        return (pp(zipf(self.rng, PLACE_PREPS), self.narrator.place_np()),)

    def special_and_general(self) -> tuple[Statement, Statement] | None:
        """Return Q and P, a specific statement and a more general one; None if no event fits."""
        lexical = self.chance(0.7)
        what = self.happening(lambda each: not lexical or each.verb.lemma in GENERALISES or
                              (isinstance(each.object, Thing) and each.object.noun in HYPERNYM))  # fmt: skip
        if what is None:
            return None
        general = what
        if what.verb.lemma in GENERALISES and self.chance(0.8):
            general = replace(general, verb=verb(GENERALISES[what.verb.lemma]))
        it = what.object
        if (
            isinstance(it, Thing)
            and it.noun in HYPERNYM
            and HYPERNYM[it.noun] != it.noun
            and (general is what or self.chance(0.3))
        ):
            general = replace(general, object=replace(it, noun=HYPERNYM[it.noun]))
        elif isinstance(it, Thing) and it.adjective and self.chance(0.5):
            general = replace(general, object=replace(it, adjective=""))
        shared, extra = self._when(), self._how(what)
        if self.chance(0.5):
            shared, extra = extra, shared
        shared = shared if self.chance(0.3) else ()
        extra = extra if general is what or self.chance(0.2) else ()
        return Statement(what, adjuncts=shared + extra), Statement(general, adjuncts=shared)

    # --- the tables of labels ---

    def monotone(self, label: str) -> Pair | None:
        """Return a pair of a specific and a general statement, or of paraphrases."""
        statements = self.special_and_general()
        if statements is None:
            return None
        q, p = statements
        also = self.paraphrase(q)
        options = {
            "entailment": (
                (q, p),
                (p.denied(), q.denied()),
                (q, also),
                (q.denied(), also.denied()),
            ),
            "contradiction": (
                (q, p.denied()),
                (p.denied(), q),
                (q, also.denied()),
                (q.denied(), also),
            ),
            "neutral": ((p, q), (q.denied(), p.denied()), (p, q.denied()), (q.denied(), p)),
        }
        return self.pair(*self.rng.choice(options[label]), label)

    def antonym(self, label: str) -> Pair | None:
        """Return a pair of antonyms, such as to open and to close."""
        what = self.happening(lambda each: each.verb.lemma in _ANTONYMS)
        if what is None:
            return None
        a = Statement(what, adjuncts=self._when() if self.chance(0.4) else ())
        b = replace(a, event=replace(what, verb=verb(_ANTONYMS[what.verb.lemma])))
        options = {
            "entailment": ((a, b.denied()), (a, self.paraphrase(a))),
            "contradiction": ((a, b), (a, self.paraphrase(a).denied())),
            "neutral": ((a.denied(), b), (b.denied(), a.denied())),
        }
        return self.pair(*self.rng.choice(options[label]), label)

    def exchanged(self, label: str) -> Pair | None:
        """Return a pair with subject and object exchanged."""
        what = self.happening(
            lambda each: _reversible(each) and (label == "neutral") == (each.verb not in _ONE_WAY)
        )
        if what is None or what.object is None:
            return None
        turned = Statement(replace(what, subject=what.object, object=what.subject))
        if label == "neutral":
            return self.pair(
                Statement(what), turned.denied() if self.chance(0.5) else turned, label
            )
        passive = Statement(what, passive=True)
        agrees = label == "entailment"
        chosen = self.rng.choice(
            (turned.denied(), passive) if agrees else (turned, passive.denied())
        )
        return self.pair(Statement(what), chosen, label)

    def kind(self, label: str) -> Pair | None:
        """Return a pair on an entity's kind: a sculptor is an artist, no musician, perhaps shy."""
        what = self.happening(lambda each: isinstance(each.subject, Entity))
        if what is None or not isinstance(what.subject, Entity):
            return None
        entity, negated = what.subject, self.chance(0.5)
        kinds = KINDS[entity.type]
        own = kinds[entity.kind]
        others = [general for general in dict.fromkeys(kinds.values()) if general != own]
        self.styles[entity.number] = "titled"
        premise = self.say(Statement(what, adjuncts=self._how(what) if self.chance(0.4) else ()))
        if label == "neutral":
            predicate = phrase("ADJP", leaf("JJ", zipf(self.rng, ADJECTIVES[entity.type])))
            if self.chance(0.5):
                predicate = described(own, zipf(self.rng, ADJECTIVES[entity.type]), definite=False)
        else:
            true = (label == "entailment") != negated
            predicate = described(own if true else self.rng.choice(others), "", definite=False)
        name = phrase("NP", *(leaf("NNP", token) for token in entity.name))
        no = [leaf("RB", self.rng.choice(("not", "n't")))] if negated else []
        be = leaf("VBZ", "is") if self.chance(0.5) else leaf("VBD", "was")
        return Pair(
            premise, finish(phrase("S", name, phrase("VP", be, *no, predicate), STOP)), label
        )

    def unrelated(self, label: str) -> Pair | None:
        """Return a neutral pair of two events, neither of which implies or denies the other.

        Returns None for another label, or if the events drawn are missing or related.
        """
        one, two = self.happening(lambda each: True), self.happening(lambda each: True)
        if label != "neutral" or one is None or two is None or one.verb == two.verb:
            return None
        if _are_related(one.verb.lemma, two.verb.lemma):
            return None
        two = (
            replace(two, subject=one.subject)
            if two.frame.subject == one.frame.subject and one.subject != two.object
            else two
        )
        return self.pair(Statement(one), Statement(two, negated=self.chance(0.5)), label)

    def draw(self, label: str) -> Pair:
        """Draw a pair with a given label."""
        families = (self.monotone, self.kind, self.antonym, self.exchanged, self.unrelated)
        while True:
            self.styles = {}
            pair = self.rng.choices(families, weights=(60, 15, 12, 8, 5))[0](label)
            if pair is not None:
                return pair


def _are_related(a: str, b: str) -> bool:
    """Whether a verb implies the other, or it or what it implies is an antonym of the other's.

    >>> _are_related("giggle", "weep"), _are_related("dismiss", "hire"), _are_related("hug", "fry")
    (True, True, False)
    """
    implied_by_a, implied_by_b = ({verb, GENERALISES.get(verb, verb)} for verb in (a, b))
    opposites = any(frozenset((x, y)) in OPPOSITES for x in implied_by_a for y in implied_by_b)
    return a in implied_by_b or b in implied_by_a or opposites


def pairs(narrator: Narrator, count: int) -> list[Pair]:
    """Return pairs about a cast, with the labels in turn."""
    start = narrator.rng.randrange(3)
    return [Logician(narrator).draw(LABELS[(start + i) % 3]) for i in range(count)]
