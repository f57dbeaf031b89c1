"""The grammar: from events of the small world to sentences, and from sentences to stories.

A rule is a method of `Narrator` that returns a tree. The narrator keeps track of known entities and
of the latest mentions, from which it chooses pronouns and definite descriptions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, combinations, count
from random import Random
from typing import no_type_check

from .lexicon import (
    ADJECTIVES,
    AIMS,
    CAUSES,
    CONTROL,
    DAYS,
    DISCOURSE,
    EVENTS,
    FRAMES,
    KINDS,
    LOC,
    MANNER,
    MASS,
    MISC,
    MONTHS,
    MOODS,
    NUMBERS,
    ORG,
    PER,
    PLACE_PREPS,
    PLACES,
    SAYING,
    SEASONS,
    STANCE,
    THINGS,
    TIME_ADVERBS,
    TIMES,
    UNITS,
    Verb,
    article,
    plural,
    verb,
    zipf,
)  # fmt: skip
from .tree import COMMA, Phrase, Sentence, annotate, finish, leaf, phrase
from .world import Cast, Entity, Event, Filler, Owned, Thing, event, owner

_CASES = {
    "I": ("I", "me", "my"), "you": ("you", "you", "your"), "he": ("he", "him", "his"), "she": ("she", "her", "her"),
    "it": ("it", "it", "its"),
}  # fmt: skip
_SUBJECT, _OBJECT, _POSSESSIVE = range(3)
STOP = leaf(".", ".")


def words(*tagged: str) -> tuple[Phrase, ...]:
    """Return tokens from `word/TAG` strings."""
    return tuple(leaf(tag, word) for word, _, tag in (each.rpartition("/") for each in tagged))


def simple_np(text: str) -> Phrase:
    """Return a noun phrase from `word/TAG word/TAG`."""
    return phrase("NP", *words(*text.split()))


def pp(prep: str, np: Phrase) -> Phrase:
    """Return a prepositional phrase."""
    return phrase("PP", leaf("TO" if prep == "to" else "IN", prep), np)


def described(noun: str, adjective: str, *, definite: bool, tag: str = "NN") -> Phrase:
    """`a rusty lamp`, `the lamp`, or without article if plural or mass."""
    first = adjective or noun
    determiner = (
        [leaf("DT", "the" if definite else article(first))] if definite or tag == "NN" else []
    )
    return phrase(
        "NP", *determiner, *([leaf("JJ", adjective)] if adjective else []), leaf(tag, noun)
    )


def thing_np(it: Thing, *, definite: bool = False) -> Phrase:
    """Return the noun phrase of a participant without a name."""
    if it.sort in MASS or it.sort == "topic":
        return phrase(
            "NP",
            *words(
                *([f"{it.adjective}/JJ"] if it.adjective else []), it.noun + "/NN" + "S" * it.plural
            ),
        )
    return described(
        it.noun,
        it.adjective,
        definite=definite or it.sort == "weather",
        tag="NNS" if it.plural else "NN",
    )


def main_frame(clause: Phrase) -> int:
    """Return the number of the main predicate of a clause."""
    return next(child.frame for child in clause.children[-1].children if child.frame is not None)


def willing(what: Event) -> bool:
    """Whether the subject acts on purpose, so that adjuncts of manner and purpose make sense."""
    subject = what.subject
    acts = (
        subject.type in (PER, ORG)
        if isinstance(subject, Entity)
        else getattr(subject, "sort", "people") == "people"
    )
    return acts and what.frame.subject_role == "ARG0"


@dataclass(frozen=True, slots=True)
class Fact:
    """An event, with the sentence and the predicate that tell it."""

    event: Event
    sentence: int
    frame: int


@dataclass(frozen=True, slots=True)
class Story:
    """Sentences about one cast, and the events that they tell."""

    cast: Cast
    sentences: tuple[Sentence, ...]
    facts: tuple[Fact, ...]


@no_type_check  # not checked at run time, like `Phrase`
class Narrator:
    """Generates sentences about the events of a cast, and keeps track of mentions."""

    def __init__(self, rng: Random, cast: Cast) -> None:
        self.rng = rng
        self.cast = cast
        self.known: set[int] = set()
        self.recent: list[Entity] = []
        self.here: list[Entity] = []
        self.speaker: Entity | None = None
        self.addressee: Entity | None = None
        self.told: list[tuple[Event, int]] = []
        self._frames = count()

    # --- mentions ---

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, *options: str) -> str:
        return self.rng.choice(options)

    def _pronoun(self, entity: Entity) -> str:
        return (
            "I" if entity is self.speaker else "you" if entity is self.addressee else entity.pronoun
        )

    def _clear(self, entity: Entity, *, clued: bool) -> bool:
        """Whether a pronoun is unambiguous: it has no rival, or the verb rules out its rivals."""
        rivals = [
            each
            for each in (*self.recent, *self.here)
            if each.pronoun == entity.pronoun and each != entity
        ]
        return not rivals or (clued and all(each.type != entity.type for each in rivals))

    def pronoun(self, entity: Entity, case: int) -> Phrase:
        """Return a pronoun that refers to an entity."""
        text = _CASES[self._pronoun(entity)][case]
        self.here.append(entity)
        token = leaf("PRP$" if case == _POSSESSIVE else "PRP", text)
        return replace(phrase("NP", token), referent=entity.number)

    def name(self, entity: Entity) -> Phrase:
        """Return a name: the full name at first, a person's surname afterwards."""
        short = (
            entity.number in self.known
            and len(entity.name) > 1
            and self.chance(0.7 if entity.type == PER else 0.2)
        )
        used = (
            entity.name[-1:]
            if entity.type == PER and short
            else entity.name[:1]
            if short
            else entity.name
        )
        return replace(
            phrase("NP", *(leaf("NNP", token) for token in used)),
            entity=entity.type,
            referent=entity.number,
        )

    def definite(self, entity: Entity) -> Phrase:
        """`the sculptor`, `the artist`, `her brother`."""
        general = KINDS[entity.type][entity.kind]
        if (
            entity.number == 1
            and self.cast.kin
            and self.cast.entities[0] in self.recent
            and self.chance(0.6)
        ):
            possessor = self.pronoun(self.cast.entities[0], _POSSESSIVE)
            np = phrase("NP", possessor, leaf("NN", self.cast.kin))
        else:
            np = described(entity.kind if self.chance(0.5) else general, "", definite=True)
        return replace(np, referent=entity.number)

    def mention(self, entity: Entity, case: int = _OBJECT, *, clued: bool = True) -> Phrase:
        """Refer to an entity as the discourse allows.

        If the verb gives no clue to the entity's type, a name may come with a clue of its own.
        """
        if entity in (self.speaker, self.addressee):
            return self.pronoun(entity, case)
        just_mentioned = entity in self.recent or entity in self.here
        if (
            just_mentioned
            and self._clear(entity, clued=clued)
            and self.chance(0.6 if case == _SUBJECT else 0.4)
        ):
            return self.pronoun(entity, case)
        known = entity.number in self.known
        if known and self.chance(0.22):
            np = self.definite(entity)
        else:
            np = self._clue(
                entity, self.name(entity), wanted=1.0 if not clued else 0.12 if known else 0.4
            )
        self.here.append(entity)
        self.known.add(entity.number)
        return np

    def _clue(self, entity: Entity, name: Phrase, *, wanted: float) -> Phrase:
        """With probability `wanted`, add a clue to a name: before or after it, or as a clause."""
        if not self.chance(wanted):
            return name
        self.known.add(entity.number)
        choice = self.rng.random()
        if choice < 0.3:
            kind = self._kind(entity)
            return replace(
                phrase(
                    "NP",
                    leaf("DT", "the"),
                    leaf("NN", kind),
                    replace(name, label="NX", referent=None),
                ),
                referent=entity.number,
            )
        if choice < 0.45 and wanted < 1:
            return self._related(entity, name)
        return phrase("NP", name, COMMA, self._apposition(entity), COMMA)

    def _kind(self, entity: Entity) -> str:
        return KINDS[entity.type][entity.kind] if self.chance(0.2) else entity.kind

    def _apposition(self, entity: Entity) -> Phrase:
        """`a profitable brewery near Valt`."""
        adjective = zipf(self.rng, ADJECTIVES[entity.type]) if self.chance(0.45) else ""
        np = described(self._kind(entity), adjective, definite=False)
        if self.chance(0.65):
            return np
        if self.chance(0.5):
            return phrase("NP", np, pp(zipf(self.rng, PLACE_PREPS), self.place_np()))
        prep, sort = {PER: self.rng.choice((("from", LOC), ("at", ORG))), MISC: ("by", PER)}.get(
            entity.type, ("in", LOC)
        )
        others = [
            each
            for each in self.cast.of(sort)
            if each not in (entity, self.speaker, self.addressee)
        ]
        if not others:
            return np
        other = self.rng.choice(others)
        self.here.append(other)
        return phrase("NP", np, pp(prep, self.name(other)))

    def _related(self, entity: Entity, name: Phrase) -> Phrase:
        """`X , which borders Y ,`: a relative clause that implies the type of X."""
        what = event(self.rng, self.cast, about=entity)
        if what.frame.subject == "ANY" or owner(what.object) in self.here:
            return name
        self.here.append(entity)
        frame, vp = self.vp(
            what,
            tense=self.one("past", "past", "present"),
            agreement="he",
            adjuncts=self.chance(0.3),
        )
        pronoun = phrase(
            "WHNP",
            leaf("WP" if entity.type == PER else "WDT", "who" if entity.type == PER else "which"),
        )
        role = what.frame.subject_role
        relative = phrase("SBAR", pronoun.playing((frame, "R-" + role)), phrase("S", vp))
        return phrase("NP", name.playing((frame, role)), COMMA, relative, COMMA)

    def place_np(self) -> Phrase:
        return simple_np(f"the/DT {zipf(self.rng, PLACES)}/NN")

    def filler(self, it: Filler, case: int = _OBJECT, *, clued: bool = True) -> Phrase:
        """Return the noun phrase of a participant."""
        if isinstance(it, Thing):
            return thing_np(it, definite=self.chance(0.3))
        if isinstance(it, Entity):
            return self.mention(it, case, clued=clued)
        if it.person or self.chance(0.2):
            head = phrase("NP", leaf("DT", "the"), leaf("NNS" if it.plural else "NN", it.noun))
            return phrase("NP", head, pp("of", self._plain(it.owner)))
        just_mentioned = it.owner in self.recent and self._clear(it.owner, clued=True)
        if it.owner in (self.speaker, self.addressee) or (just_mentioned and self.chance(0.5)):
            possessor = self.pronoun(it.owner, _POSSESSIVE)
        else:
            possessor = phrase("NP", self._plain(it.owner), leaf("POS", "'s"))
        return phrase("NP", possessor, leaf("NNS" if it.plural else "NN", it.noun))

    def _plain(self, entity: Entity) -> Phrase:
        if entity in (self.speaker, self.addressee):
            return self.pronoun(entity, _OBJECT)
        np = (
            self.definite(entity)
            if entity.number in self.known and self.chance(0.15)
            else self.name(entity)
        )
        self.here.append(entity)
        self.known.add(entity.number)
        return np

    def agreement(self, it: Filler) -> str:
        if isinstance(it, Entity):
            return self._pronoun(it)
        return "they" if it.plural else "he"

    # --- verbs ---

    def verbs(
        self, it: Verb, tense: str, agreement: str, *, negated: bool = False
    ) -> tuple[int, list[Phrase]]:
        """Return number and verb group of a predicate: `did n't buy`, `was buying`, `to buy`."""
        frame = next(self._frames)

        head = partial(Phrase, frame=frame, lemma=it.lemma)
        no = [leaf("RB", self.one("n't", "not")).playing((frame, "ARGM-NEG"))] if negated else []
        never = [leaf("RB", "never").playing((frame, "ARGM-NEG"))] if negated else []
        single = agreement in ("he", "she", "it")
        present = head("VBZ", word=it.third) if single else head("VBP", word=it.lemma)
        was = leaf("VBD", "were" if agreement in ("they", "you") else "was")
        match tense:
            case "infinitive":
                return frame, [*no, leaf("TO", "to"), head("VB", word=it.lemma)]
            case "modal":
                modal = leaf("MD", self.one("could", "might", "would", "should", "must")).playing(
                    (frame, "ARGM-MOD")
                )
                return frame, [modal, *no, head("VB", word=it.lemma)]
            case "future":
                return frame, [
                    leaf("MD", "will").playing((frame, "ARGM-MOD")),
                    *(no and never),
                    head("VB", word=it.lemma),
                ]
            case "perfect":
                return frame, [leaf("VBD", "had"), *no, head("VBN", word=it.participle)]
            case "progressive":
                return frame, [was, *no, head("VBG", word=it.gerund)]
            case "passive":
                return frame, [was, *no, head("VBN", word=it.participle)]
            case "present":
                if negated and self.chance(0.5):
                    return frame, [
                        leaf("VBZ", "does") if single else leaf("VBP", "do"),
                        *no,
                        head("VB", word=it.lemma),
                    ]
                return frame, [*never, present]
            case _:
                if negated and self.chance(0.5):
                    return frame, [leaf("VBD", "did"), *no, head("VB", word=it.lemma)]
                return frame, [*never, head("VBD", word=it.past)]

    def tense(self) -> str:
        return self.rng.choices(
            ("past", "present", "modal", "future", "perfect", "progressive"),
            weights=(60, 14, 8, 5, 8, 5),
        )[0]

    def vp(
        self,
        what: Event,
        *,
        tense: str,
        agreement: str,
        adjuncts: bool | int = 0,
        negated: bool | None = None,
    ) -> tuple[int, Phrase]:
        """Return the predicate's number and the verb phrase; the caller sets the subject's role."""
        said_no = self.chance(0.1) if negated is None else negated
        frame, children = self.verbs(what.verb, tense, agreement, negated=said_no)
        self.told.append(
            (what, -1 - frame if said_no or tense in ("modal", "infinitive") else frame)
        )
        if self.chance(0.1):
            manner = willing(what) and self.chance(0.5)
            adverb = phrase("ADVP", leaf("RB", zipf(self.rng, MANNER if manner else STANCE)))
            role = "ARGM-MNR" if manner else "ARGM-ADV"
            at = len(children) - (2 if tense == "infinitive" else 1)
            children.insert(at, adverb.playing((frame, role)))
        if what.object is not None:
            np = self.filler(what.object, clued=what.clued)
            complement = pp(what.frame.prep, np) if what.frame.prep else np
            children.append(complement.playing((frame, what.frame.object_role)))
        children += self.adjuncts(what, frame, int(adjuncts))
        return frame, phrase("VP", *children)

    def clause(
        self, what: Event, *, adjuncts: int | None = None, passive: bool = False, tense: str = ""
    ) -> Phrase:
        """Return a clause of subject and verb phrase for an event, active or passive."""
        number = self.rng.choice((0, 0, 1, 1, 1, 2)) if adjuncts is None else adjuncts
        if passive and what.object is not None:
            subject = self.filler(what.object, _SUBJECT, clued=what.clued)
            frame, children = self.verbs(
                what.verb, "passive", self.agreement(what.object), negated=self.chance(0.08)
            )
            self.told.append((what, frame if len(children) == 2 else -1 - frame))
            agent = pp("by", self.filler(what.subject, clued=what.clued)).playing(
                (frame, what.frame.subject_role)
            )
            children += [agent, *self.adjuncts(what, frame, min(number, 1))]
            return phrase(
                "S", subject.playing((frame, what.frame.object_role)), phrase("VP", *children)
            )
        subject = self.filler(what.subject, _SUBJECT, clued=what.frame.subject != "ANY")
        chosen = tense or self.tense()
        frame, vp = self.vp(
            what, tense=chosen, agreement=self.agreement(what.subject), adjuncts=number
        )
        return phrase("S", subject.playing((frame, what.frame.subject_role)), vp)

    # --- adjuncts ---

    def adjuncts(self, what: Event, frame: int, number: int) -> list[Phrase]:
        """Return up to `number` adjuncts of the predicate with this frame, each of another role."""
        chosen = {role: adjunct for adjunct, role in (self.adjunct(what) for _ in range(number))}
        return [adjunct.playing((frame, role)) for role, adjunct in chosen.items()]

    def adjunct(self, what: Event | None = None) -> tuple[Phrase, str]:
        """Return an adjunct of time, place, manner or cause, and its role."""
        options = (
            [self.time] * 4
            + [self.where] * 3
            + ([self.manner] * 3 + [self.cause]) * (what is None or willing(what))
        )
        return self.rng.choice(options)()

    def time(self) -> tuple[Phrase, str]:
        rng = self.rng
        choice = rng.randrange(8)
        if choice == 0:
            return phrase("ADVP", leaf("RB", zipf(rng, TIME_ADVERBS))), "ARGM-TMP"
        if choice == 1:
            return pp(
                self.one("at", "before", "after", "around"), simple_np(zipf(rng, TIMES) + "/NN")
            ), "ARGM-TMP"
        if choice == 2:
            return pp("on", simple_np(rng.choice(DAYS) + "/NNP")), "ARGM-TMP"
        if choice == 3:
            return pp("in", simple_np(rng.choice((f"{rng.choice(MONTHS)}/NNP", f"{rng.choice(SEASONS)}/NN",
                                                  f"{rng.randrange(1850, 2010)}/CD")))), "ARGM-TMP"  # fmt: skip
        if choice == 4:
            unit = self.one("week", "month", "year", "night", "summer", "winter", *DAYS[:1])
            tag = "NNP" if unit in DAYS else "NN"
            return phrase(
                "NP", *words(self.one("last/JJ", "that/DT", "one/CD"), f"{unit}/{tag}")
            ), "ARGM-TMP"
        if choice == 5:
            prep = self.one("for", "within", "for")
            return pp(
                prep, simple_np(f"{rng.choice(NUMBERS)}/CD {rng.choice(UNITS)}/NNS")
            ), "ARGM-TMP"
        prep = self.one("during", "after", "before", "until", "at")
        return pp(prep, simple_np(f"the/DT {zipf(rng, EVENTS)}/NN")), "ARGM-TMP"

    def manner(self) -> tuple[Phrase, str]:
        rng = self.rng
        choice = rng.random()
        if choice < 0.55:
            return phrase("ADVP", leaf("RB", zipf(rng, MANNER))), "ARGM-MNR"
        if choice < 0.85:
            degree = self.one("", "great/JJ ", "some/DT ", "little/JJ ")
            return pp("with", simple_np(f"{degree}{zipf(rng, MOODS)}/NN")), "ARGM-MNR"
        tools = tuple(THINGS["tool"])
        return pp(
            "with", simple_np(f"a/DT {self.one('new', 'heavy', 'small')}/JJ {zipf(rng, tools)}/NN")
        ), "ARGM-MNR"

    def where(self) -> tuple[Phrase, str]:
        other_locations = [each for each in self.cast.of(LOC) if each not in self.here]
        if other_locations and self.chance(0.3):
            near = self.chance(0.3)
            return pp(
                "near" if near else "in",
                self.mention(self.rng.choice(other_locations), clued=False),
            ), "ARGM-LOC"
        return pp(zipf(self.rng, PLACE_PREPS), self.place_np()), "ARGM-LOC"

    def cause(self) -> tuple[Phrase, str]:
        if self.chance(0.6):
            prep = phrase(
                "PP",
                leaf("IN", "because"),
                pp("of", simple_np(f"the/DT {zipf(self.rng, CAUSES)}/NN")),
            )
            return prep, "ARGM-CAU"
        base, _, noun = zipf(self.rng, AIMS).partition(":")
        return phrase(
            "S", phrase("VP", *words("to/TO", f"{base}/VB"), simple_np(f"{noun}/NN"))
        ), "ARGM-PRP"

    # --- sentences: each rule returns the sentence without its final stop ---

    def pick(self, about: Entity | None = None) -> Event:
        return event(self.rng, self.cast, about=about)

    def plain(self, what: Event) -> Phrase:
        """`The storm flooded X last week`."""
        return self.clause(what)

    def fronted(self, what: Event) -> Phrase:
        """`On Monday , X merged with Y`."""
        if self.chance(0.25):
            adjunct, role = phrase("ADVP", leaf("RB", zipf(self.rng, DISCOURSE))), "ARGM-DIS"
        else:
            adjunct, role = self.rng.choice((self.time, self.time, self.where, self.manner))()
        main = self.clause(what, adjuncts=self.rng.randrange(2))
        return phrase("S", adjunct.playing((main_frame(main), role)), COMMA, *main.children)

    def passive(self, what: Event) -> Phrase:
        """`X was sued by Y`. Draws other events if this one has no passive, and returns an active
        sentence if 20 have none.
        """
        for _ in range(20):
            if what.object is not None and not what.frame.prep and what.verb.lemma != "resemble":
                break
            what = self.pick()
        return self.clause(what, passive=what.frame.prep == "")

    def _same_subject(self, subject: Filler, clued: bool) -> Event | None:
        """Return another event with the same subject and the same sort of verb."""
        if isinstance(subject, Entity):
            return next(
                (e for e in (self.pick(subject) for _ in range(5)) if e.frame.subject != "ANY"),
                None,
            )
        if isinstance(subject, Owned) and subject.person:
            people = self.cast.of(PER)
            other = next(
                (e for e in (self.pick(people[0]) for _ in range(9)) if e.frame.subject == PER),
                None,
            )
            return other and (
                None if owner(other.object) is subject.owner else replace(other, subject=subject)
            )
        return None

    def coordinated(self, what: Event) -> Phrase:
        """`X yawned and left for Y`."""
        other = self._same_subject(what.subject, what.clued)
        if other is None or other.verb == what.verb:
            return self.clause(what)
        subject = self.filler(what.subject, _SUBJECT, clued=what.frame.subject != "ANY")
        agreement, tense = self.agreement(what.subject), self.one("past", "past", "present")
        one, first = self.vp(
            what, tense=tense, agreement=agreement, adjuncts=self.rng.randrange(2), negated=False
        )
        two, second = self.vp(
            other, tense=tense, agreement=agreement, adjuncts=self.rng.randrange(2), negated=False
        )
        subject = subject.playing((one, what.frame.subject_role), (two, other.frame.subject_role))
        conjunction = leaf("CC", self.one("and", "and", "but"))
        return phrase("S", subject, phrase("VP", first, conjunction, second))

    def compound(self, what: Event) -> Phrase:
        """`X prospered , but Y moved to Z`."""
        other = self.pick()
        return phrase("S", self.clause(what, adjuncts=self.rng.randrange(2)), COMMA,
                      leaf("CC", self.one("and", "but", "so")), self.clause(other, adjuncts=0))  # fmt: skip

    def subordinate(self, what: Event) -> Phrase:
        """`After X merged with Y , Z moved to W`."""
        word, role = self.rng.choice((("after", "TMP"), ("before", "TMP"), ("while", "TMP"), ("when", "TMP"),
                                      ("because", "CAU"), ("although", "ADV"), ("since", "CAU")))  # fmt: skip
        fronted = self.chance(0.5)
        other = self.pick()
        first = self.clause(other if fronted else what, adjuncts=0, tense="past")
        second = self.clause(what if fronted else other, adjuncts=0, tense="past")
        frame = main_frame(second if fronted else first)
        tag = "WRB" if word == "when" else "IN"
        sub = phrase("SBAR", leaf(tag, word), first if fronted else second)
        sub = sub.playing((frame, "ARGM-" + role))
        return (
            phrase("S", sub, COMMA, *second.children)
            if fronted
            else phrase("S", *first.children, sub)
        )

    def controlled(self, what: Event) -> Phrase:
        """`X refused to merge with Y`: the clue to X is the subordinate verb."""
        for _ in range(20):
            if (
                what.frame.subject in (PER, ORG)
                and willing(what)
                and isinstance(what.subject, Entity)
            ):
                break
            what = self.pick()
        else:
            return self.clause(what)
        subject = self.filler(what.subject, _SUBJECT)
        matrix, children = self.verbs(zipf(self.rng, CONTROL), self.tense(), self.agreement(what.subject),
                                      negated=self.chance(0.1))  # fmt: skip
        inner, vp = self.vp(
            what, tense="infinitive", agreement="he", adjuncts=self.rng.randrange(2), negated=False
        )
        complement = phrase("S", vp).playing((matrix, "ARG1"))
        return phrase(
            "S",
            subject.playing((matrix, "ARG0"), (inner, "ARG0")),
            phrase("VP", *children, complement),
        )

    def copular(self, what: Event) -> Phrase:
        """`X is a brewery near the canal`, `X was insolvent`."""
        entity = owner(what.subject) or self.rng.choice(self.cast.entities)
        subject = self.mention(entity, _SUBJECT)
        tense = self.one("past", "present")
        frame, children = self.verbs(verb("be"), tense, self._pronoun(entity))
        be = {"past": ("VBD", "were" if self._pronoun(entity) == "you" else "was"),
              "present": ("VBP", "am") if self._pronoun(entity) == "I" else
              ("VBP", "are") if self._pronoun(entity) == "you" else ("VBZ", "is")}[tense]  # fmt: skip
        children[-1] = replace(children[-1], label=be[0], word=be[1])
        if self.chance(0.15):
            children.append(
                leaf("RB", self.one("not", "n't") if be[1] != "am" else "not").playing(
                    (frame, "ARGM-NEG")
                )
            )
        if self.chance(0.5):
            predicate = self._apposition(entity)
        else:
            predicate = phrase("ADJP", leaf("JJ", zipf(self.rng, ADJECTIVES[entity.type])))
            if self.chance(0.3):
                second = zipf(self.rng, ADJECTIVES[entity.type])
                predicate = phrase(
                    "ADJP", *predicate.children, leaf("CC", "and"), leaf("JJ", second)
                )
        children.append(predicate.playing((frame, "ARG2")))
        return phrase("S", subject.playing((frame, "ARG1")), phrase("VP", *children))

    def joint(self, what: Event) -> Phrase:
        """`X and Y , two rival breweries , prospered`."""
        others = [each for each in self.cast.entities if each not in (self.speaker, self.addressee)]
        pairs = [(a, b) for a, b in combinations(others, 2) if a.type == b.type]
        if not pairs:
            return self.clause(what)
        one, two = self.rng.choice(pairs)
        subject = phrase("NP", self.name(one), leaf("CC", "and"), self.name(two))
        if self.chance(0.5):
            nouns = plural(zipf(self.rng, tuple(KINDS[one.type])))
            adjective = self.one(
                zipf(self.rng, ADJECTIVES[one.type]), "rival", "neighbouring", "famous"
            )
            subject = phrase(
                "NP", subject, COMMA, simple_np(f"two/CD {adjective}/JJ {nouns}/NNS"), COMMA
            )
            frames = tuple(frame for frame in FRAMES if frame.subject in (one.type, "ANY"))
        else:
            frames = tuple(frame for frame in FRAMES if frame.subject == one.type)
        self.here += [one, two]
        self.known |= {one.number, two.number}
        what = event(self.rng, self.cast, about=one, frames=frames)
        if owner(what.object) in (one, two):
            return self.clause(what)
        frame, vp = self.vp(
            what,
            tense=self.one("past", "past", "present"),
            agreement="they",
            adjuncts=self.rng.randrange(2),
        )
        self.told.pop()
        return phrase("S", subject.playing((frame, what.frame.subject_role)), vp)

    def quoted(self, what: Event) -> Phrase:
        """`" I admire Y , " said X , " and Z merged . "`; the second part is optional."""
        people = [each for each in self.cast.of(PER) if each not in (self.speaker, self.addressee)]
        if self.speaker or not people:
            return self.clause(what)
        sayer = self.rng.choice(people)
        self.speaker = sayer
        heard, self.here = self.here, []
        first = self.clause(what, adjuncts=self.rng.randrange(2))
        second = self.clause(self.pick(), adjuncts=0) if self.chance(0.3) else None
        self.speaker = None
        self.here = heard
        subject = self.filler(sayer, _SUBJECT)
        frame, said = self.verbs(zipf(self.rng, SAYING), "past", "he")
        opening, closing = leaf("``", '"'), leaf("''", '"')
        start = [opening, finish(first).playing((frame, "ARG1")), COMMA, closing]
        pronominal = bool(subject.children) and subject.children[0].label == "PRP"
        speech = [subject.playing((frame, "ARG0")), phrase("VP", *said)]
        if second is None:
            return phrase(
                "S", *start, *(speech if pronominal or self.chance(0.5) else speech[::-1])
            )
        rest = phrase("S", leaf("CC", self.one("and", "but")), second).playing((frame, "C-ARG1"))
        return phrase("S", *start, *speech, COMMA, opening, rest, STOP, closing)

    # --- stories ---

    def about(self) -> Event:
        """Draw the next event, mostly about an entity of the last sentence."""
        focus = [each for each in self.recent[:1] if each.type == PER or self.chance(0.5)]
        if focus and self.chance(0.4):
            return self.pick(focus[0])
        return self.pick()

    def sentence(self, speaker: str = "-") -> Sentence:
        """Generate the next sentence."""
        self.here = []
        rule: Callable[[Narrator, Event], Phrase] = self.rng.choices(_RULES, cum_weights=_WEIGHTS)[
            0
        ]
        tree = rule(self, self.about())
        closed = tree.children[-1].label == "''"
        finished = annotate(finish(tree if closed else phrase("S", *tree.children, STOP)), speaker)
        self.recent = list(
            dict.fromkeys(each for each in self.here if each not in (self.speaker, self.addressee))
        )
        return finished


_RULE_WEIGHTS: tuple[tuple[Callable[[Narrator, Event], Phrase], float], ...] = (
    (Narrator.plain, 30), (Narrator.fronted, 11), (Narrator.passive, 10), (Narrator.coordinated, 9),
    (Narrator.compound, 6), (Narrator.subordinate, 6), (Narrator.controlled, 7), (Narrator.copular, 9),
    (Narrator.joint, 6), (Narrator.quoted, 6),
)  # fmt: skip
_RULES = [rule for rule, _ in _RULE_WEIGHTS]
_WEIGHTS = list(accumulate(weight for _, weight in _RULE_WEIGHTS))


def _facts(narrator: Narrator, sentence: int, told: list[tuple[Event, int]]) -> list[Fact]:
    return [Fact(what, sentence, frame) for what, frame in told if frame >= 0]


def narrate(rng: Random, cast: Cast) -> Story:
    """Return a story of five to nine sentences about one cast."""
    narrator = Narrator(rng, cast)
    sentences: list[Sentence] = []
    facts: list[Fact] = []
    for index in range(rng.randrange(5, 10)):
        narrator.told = []
        sentences.append(narrator.sentence())
        facts += _facts(narrator, index, narrator.told)
    return Story(cast, tuple(sentences), tuple(facts))


def converse(rng: Random, cast: Cast) -> Story:
    """Return a conversation of the first two people: I and you refer to its speakers."""
    narrator = Narrator(rng, cast)
    one, two = cast.of(PER)[:2]
    sentences = [narrator.sentence()]
    for turn in range(rng.randrange(4, 9)):
        narrator.speaker, narrator.addressee = (one, two) if turn % 2 == 0 else (two, one)
        sentences.append(narrator.sentence(speaker="_".join(narrator.speaker.name)))
    return Story(cast, tuple(sentences), ())
