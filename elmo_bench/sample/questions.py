"""Questions about the events of a story, and the spans of their answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import no_type_check

from .grammar import Fact, Story
from .lexicon import KINDS, LOC, ORG, PER
from .tree import Sentence
from .world import Entity, Filler, Owned, Thing

Span = tuple[int, int, int]
"""Sentence, first word, last word (exclusive)."""

_CLOSING = frozenset({",", ".", ";", "?", ":", "'s", "n't"})


def spell(words: list[str]) -> tuple[str, list[int]]:
    """Detokenise words; returns the text and the offset at which each word starts.

    >>> spell(["It", "did", "n't", "merge", "."])
    ("It didn't merge.", [0, 3, 6, 10, 15])
    """
    text = ""
    starts: list[int] = []
    quoting = glued = False
    for word in words:
        closes = word == '"' and quoting
        if text and not glued and not closes and word not in _CLOSING:
            text += " "
        starts.append(len(text))
        text += word
        glued = word == '"' and not quoting
        quoting ^= word == '"'
    return text, starts


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answers, the best one first."""

    words: tuple[str, ...]
    answers: tuple[Span, ...]


@no_type_check  # not checked at run time, like `Phrase`
class Examiner:
    """Asks questions about a story that have a unique answer in it."""

    def __init__(self, rng: Random, story: Story) -> None:
        self.rng = rng
        self.story = story

    def _name(self, entity: Entity, near: int) -> Span | None:
        """Return the latest mention of an entity by name in sentence `near` or before it."""
        for index in range(near, -1, -1):
            sentence = self.story.sentences[index]
            names = {(start, end) for start, end, _ in sentence.entities}
            for start, end, number in sentence.mentions:
                inside = [span for span in names if start <= span[0] and span[1] <= end]
                if number == entity.number and inside:
                    return index, *max(inside)
        return None

    def _within(self, fact: Fact, role: str) -> tuple[int, int] | None:
        sentence = self.story.sentences[fact.sentence]
        spans = [
            (start, end)
            for predicate in sentence.predicates
            if predicate.frame == fact.frame
            for start, end, label in predicate.arguments
            if label == role
        ]
        return spans[0] if len(spans) == 1 else None

    def _answers(self, fact: Fact, filler: Filler, role: str) -> tuple[Span, ...]:
        """Return the spans that name a participant: the best first, then longer and shorter ones."""
        if isinstance(filler, Entity):
            name = self._name(filler, fact.sentence)
            if name is None:
                return ()
            index, start, end = name
            sentence = self.story.sentences[index]
            wider = [(index, a, b) for a, b, number in sentence.mentions
                     if number == filler.number and a <= start and end <= b and (a, b) != (start, end)]  # fmt: skip
            shorter = [(index, end - 1, end)] if filler.type == PER and end - start > 1 else []
            return name, *wider, *shorter
        span = self._within(fact, role)
        if span is None:
            return ()
        start, end = span
        if role == fact.event.frame.object_role and fact.event.frame.prep:
            start += 1
        sentence = self.story.sentences[fact.sentence]
        if sentence.tags[start] == "IN":  # the agent of a passive
            start += 1
        bare = [(fact.sentence, start + 1, end)] if sentence.tags[start] == "DT" else []
        return (fact.sentence, start, end), *bare

    def _given(self, filler: Filler, fact: Fact) -> list[str] | None:
        """Return a participant's words in a question; None if it has no name so far."""
        if isinstance(filler, Thing):
            article = [] if filler.plural or filler.sort in ("goods", "topic") else ["the"]
            return [*article, *([filler.adjective] if filler.adjective else []), filler.noun]
        known = filler.owner if isinstance(filler, Owned) else filler
        if self._name(known, fact.sentence) is None:
            return None
        return [*(("the", filler.noun, "of") if isinstance(filler, Owned) else ()), *known.name]

    def _wh(self, filler: Filler) -> list[str] | None:
        """Return the question words that ask for a participant; None if it cannot be asked for."""
        if isinstance(filler, Owned):
            return ["who"] if filler.person else None
        if isinstance(filler, Thing):
            return ["who" if filler.sort == "people" else "what"]
        if filler.type == PER:
            return ["who"]
        general = {ORG: ("organisation", "firm"), LOC: ("place",)}.get(filler.type, ("work",))
        kind = KINDS[filler.type][filler.kind]
        return self.rng.choice((["what"], ["which", self.rng.choice(general)], ["which", kind]))

    def _only(self, fact: Fact, given: Filler | None, asked: str) -> bool:
        """Whether the answer is unique.

        It is not if another event has the same verb and given participant, but another answer.
        """
        for other in self.story.facts:
            same_given = given is None or given in (other.event.subject, other.event.object)
            rival = other is not fact and other.event.verb == fact.event.verb and same_given
            if rival and (
                asked == "when" or getattr(other.event, asked) != getattr(fact.event, asked)
            ):
                return False
        return True

    def _about_subject(self, fact: Fact) -> Question | None:
        what = fact.event
        wh, given = self._wh(what.subject), self._given(what.object, fact) if what.object else []
        answers = self._answers(fact, what.subject, what.frame.subject_role)
        if (
            wh is None
            or given is None
            or not answers
            or not self._only(fact, what.object, "subject")
        ):
            return None
        prep = [what.frame.prep] if what.frame.prep else []
        if what.object is not None and not prep and wh[0] == "what" and self.rng.random() < 0.3:
            return Question(("what", "was", *given, what.verb.participle, "by", "?"), answers)
        return Question((*wh, what.verb.past, *prep, *given, "?"), answers)

    def _about_object(self, fact: Fact) -> Question | None:
        what = fact.event
        if what.object is None:
            return None
        wh, given = self._wh(what.object), self._given(what.subject, fact)
        answers = self._answers(fact, what.object, what.frame.object_role)
        if (
            wh is None
            or given is None
            or not answers
            or not self._only(fact, what.subject, "object")
        ):
            return None
        prep = [what.frame.prep] if what.frame.prep else []
        if (
            isinstance(what.object, Entity)
            and what.object.type == LOC
            and prep in (["in"], ["at"], ["to"])
        ):
            wh, prep = ["where"], []
        return Question((*wh, "did", *given, what.verb.lemma, *prep, "?"), answers)

    def _about_time(self, fact: Fact) -> Question | None:
        what, span = fact.event, self._within(fact, "ARGM-TMP")
        given = self._given(what.subject, fact)
        if (
            span is None
            or given is None
            or span[1] - span[0] > 5
            or not self._only(fact, what.subject, "when")
        ):
            return None
        start, end = span
        tags = self.story.sentences[fact.sentence].tags
        wh = (
            "how long"
            if self.story.sentences[fact.sentence].words[start].lower() == "for"
            else "when"
        )
        inner = start + 1 if tags[start] == "IN" else start
        other = [] if what.object is None else self._given(what.object, fact) or []
        if what.object is not None and not other:
            return None
        prep = [what.frame.prep] if what.frame.prep and other else []
        wider = [(fact.sentence, start, end)] if inner != start else []
        return Question(
            (*wh.split(), "did", *given, what.verb.lemma, *prep, *other, "?"),
            ((fact.sentence, inner, end), *wider),
        )

    def questions(self, count: int) -> Iterator[Question]:
        """Yield at most `count` questions, about different facts first."""
        makers = (
            self._about_subject,
            self._about_object,
            self._about_object,
            self._about_time,
            self._about_time,
        )
        seen: set[tuple[str, ...]] = set()
        facts = [fact for fact in self.story.facts if self._spoken(fact)]
        self.rng.shuffle(facts)
        for fact in facts * 2:
            question = self.rng.choice(makers)(fact)
            if question is not None and question.words not in seen:
                seen.add(question.words)
                yield Question(
                    (question.words[0].capitalize(), *question.words[1:]), question.answers
                )
            if len(seen) == count:
                return

    def _spoken(self, fact: Fact) -> bool:
        """Whether the sentence contains the predicate of the fact; rules may drop a clause."""
        sentence: Sentence = self.story.sentences[fact.sentence]
        return any(predicate.frame == fact.frame for predicate in sentence.predicates)
