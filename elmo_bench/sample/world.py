"""The small world of the generated corpus: names, entities, casts of stories, events."""

from dataclasses import dataclass
from itertools import accumulate
from random import Random
from zlib import crc32

from .lexicon import (
    ADJECTIVES,
    ANTONYMS,
    FEMALE,
    FRAMES,
    GENERALISES,
    HEADS,
    HYPERNYM,
    KIN,
    KINDS,
    LOC,
    MALE,
    MISC,
    ORG,
    PARTS,
    PEOPLE,
    PER,
    THINGS,
    TOPICS,
    TYPES,
    WEATHER,
    Frame,
    Verb,
    listed,
    zipf,
)  # fmt: skip

_ONSETS = listed("b br d dr f fl g gr h j k kr l m n p pl r s sk st t tr v w z")
_NUCLEI = listed("a e i o u ai ea ou")
_CODAS = ["", "", "", *listed("l n r s m t nd rt sk ll nn th rn x lt v")]
_ENGLISH = {
    *HYPERNYM, *HYPERNYM.values(), *ANTONYMS, *GENERALISES, *PEOPLE, *WEATHER, *TOPICS,
    *(verb.lemma for frame in FRAMES for verb in frame.verbs),
    *(verb.past for frame in FRAMES for verb in frame.verbs),
    *(word for table in (PARTS, HEADS, ADJECTIVES) for words in table.values() for word in words),
    *listed("in on at by to of no so we it he she the a an me do did was man men port new mr all "
            "but and for not"),
}  # fmt: skip
_BUCKETS = {"train": range(0, 3), "dev": range(3, 5), "test": range(5, 7)}
_LM_BUCKETS = {"train": range(7, 13), "dev": range(13, 14), "test": range(14, 16)}


def _syllables(rng: Random) -> str:
    return "".join(
        rng.choice(_ONSETS) + rng.choice(_NUCLEI) for _ in range(rng.choice((1, 1, 1, 2)))
    ) + (
        rng.choice(_ONSETS) + rng.choice("aeiou") + rng.choice(_CODAS)
        if rng.random() < 0.8
        else rng.choice(_CODAS)
    )


def names(*, count: int, rng: Random, split: str, raw: bool = False) -> tuple[str, ...]:
    """Draw distinct invented names of one split, which is determined by a checksum of the name.

    They act as an open vocabulary: names of `dev`, `test` and raw text never occur in `train`.
    """
    buckets = (_LM_BUCKETS if raw else _BUCKETS)[split]
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        name = _syllables(rng)
        if 3 <= len(name) <= 9 and name not in _ENGLISH and crc32(name.encode()) % 16 in buckets:
            drawn[name.capitalize()] = None
    return tuple(drawn)


@dataclass(frozen=True, slots=True)
class Entity:
    """A named entity; `kind` is the noun that describes it, `pronoun` one of he, she, it."""

    number: int
    type: str
    kind: str
    name: tuple[str, ...]
    pronoun: str


@dataclass(frozen=True, slots=True)
class Thing:
    """A participant without a name: 'a rusty lamp', 'angry tourists'."""

    noun: str
    sort: str
    adjective: str = ""

    @property
    def plural(self) -> bool:
        return self.sort == "people" or (
            self.sort == "goods" and self.noun.endswith("s") and self.noun != "glass"
        )


@dataclass(frozen=True, slots=True)
class Owned:
    """A part of an entity ('X 's plot'), or a `person` known by it ('the treasurer of X')."""

    owner: Entity
    noun: str
    person: bool = False

    @property
    def plural(self) -> bool:
        return self.noun.endswith("s") and self.noun not in {"headquarters", "chorus"}


Filler = Entity | Thing | Owned


@dataclass(frozen=True, slots=True)
class Cast:
    """The entities of a story; `kin` is what the second person is to the first, such as sister."""

    entities: tuple[Entity, ...]
    kin: str = ""

    def of(self, sort: str) -> tuple[Entity, ...]:
        """Return the entities of a type; all of them for `ANY`."""
        return (
            self.entities
            if sort == "ANY"
            else tuple(each for each in self.entities if each.type == sort)
        )


@dataclass(frozen=True, slots=True)
class Event:
    """A verb and its participants: the content of stories, sentence pairs and questions."""

    frame: Frame
    verb: Verb
    subject: Filler
    object: Filler | None = None

    @property
    def clued(self) -> bool:
        """Whether the verb determines the types of its participants."""
        return "ANY" not in (self.frame.subject, self.frame.object)


_COUNTS = {PER: (2, 2, 3), ORG: (1, 2), LOC: (1, 2), MISC: (1, 2)}
_NAME_LENGTHS = {PER: (2, 2, 2, 1), ORG: (1, 1, 2), LOC: (1, 1, 1, 2), MISC: (1, 2, 2, 3)}


def _gender(rng: Random, kind: str) -> str:
    return "she" if kind in FEMALE else "he" if kind in MALE else rng.choice(("he", "she"))


def cast(rng: Random, pool: tuple[str, ...]) -> Cast:
    """Draw the entities of a story.

    A name may belong to an entity of any type, and sometimes two entities of a story share it.
    """
    entities: list[Entity] = []
    for sort in TYPES:
        fields: set[str] = set()
        for _ in range(rng.choice(_COUNTS[sort])):
            kind = zipf(rng, tuple(KINDS[sort]))
            while KINDS[sort][kind] in fields:
                kind = rng.choice(tuple(KINDS[sort]))
            fields.add(KINDS[sort][kind])
            name = tuple(rng.choice(pool) for _ in range(rng.choice(_NAME_LENGTHS[sort])))
            if sort != PER and rng.random() < 0.12:
                name = (entities[0].name[-1], *name[1:])
            if sort == LOC and rng.random() < 0.04:
                name = (rng.choice(("Port", "New", "Mount")), name[-1])
            pronoun = _gender(rng, kind) if sort == PER else "it"
            entities.append(Entity(len(entities), sort, kind, name, pronoun))
    kin = rng.choice(KIN[entities[1].pronoun]) if rng.random() < 0.3 else ""
    return Cast(tuple(entities), kin)


def _by_subject() -> dict[str, tuple[tuple[Frame, ...], tuple[float, ...]]]:
    table = {}
    for sort in (*TYPES, "people", "weather"):
        frames = tuple(
            frame for frame in FRAMES if frame.subject in (sort, "ANY" if sort in TYPES else sort)
        )
        table[sort] = frames, tuple(accumulate(frame.weight for frame in frames))
    return table


_FRAMES = _by_subject()
_SUBJECTS = ((PER, "people", "weather", ORG, LOC, MISC), (40, 9, 3, 24, 17, 17))


def thing(rng: Random, sort: str) -> Thing:
    """Draw a common noun of a sort, sometimes with a suitable adjective."""
    nouns = {"people": PEOPLE, "weather": WEATHER, "topic": TOPICS}.get(sort) or tuple(THINGS[sort])
    described = sort in ADJECTIVES and rng.random() < 0.35
    return Thing(zipf(rng, nouns), sort, zipf(rng, ADJECTIVES[sort]) if described else "")


def owned(rng: Random, owner: Entity, *, person: bool = False) -> Owned:
    """Draw a part of an entity, or a `person` known by it."""
    return Owned(owner, zipf(rng, (HEADS if person else PARTS)[owner.type]), person)


def owner(filler: Filler | None) -> Entity | None:
    """Return the entity that a participant is or belongs to; None for a thing."""
    return (
        filler
        if isinstance(filler, Entity)
        else filler.owner
        if isinstance(filler, Owned)
        else None
    )


def _object(rng: Random, cast: Cast, sort: str, subject: Filler) -> Filler | None:
    if sort not in (*TYPES, "ANY"):
        return thing(rng, sort)
    others = [each for each in cast.of(sort) if each is not owner(subject)]
    if not others:
        return None
    chosen = rng.choice(others)
    return owned(rng, chosen) if sort == "ANY" and rng.random() < 0.4 else chosen


def event(
    rng: Random, cast: Cast, *, about: Entity | None = None, frames: tuple[Frame, ...] = ()
) -> Event:
    """Draw an event among a cast, with a verb that selects its participants.

    `about` fixes the subject, `frames` restricts the verbs.
    """
    while True:
        sort = about.type if about else rng.choices(_SUBJECTS[0], weights=_SUBJECTS[1])[0]
        options, weights = _FRAMES[sort]
        frame = rng.choices(options, cum_weights=weights)[0]
        if frames and (frame := rng.choice(frames)).subject not in (sort, "ANY"):
            continue
        subject: Filler = (
            (about or rng.choice(cast.of(sort))) if sort in TYPES else thing(rng, sort)
        )
        if isinstance(subject, Entity) and about is None:
            if frame.subject == "ANY" and rng.random() < 0.5:
                subject = owned(rng, subject)
            elif frame.subject == PER and rng.random() < 0.3:
                subject = owned(rng, rng.choice(cast.entities), person=True)
        filler = _object(rng, cast, frame.object, subject) if frame.object else None
        if filler is not None or not frame.object:
            return Event(frame, zipf(rng, frame.verbs), subject, filler)
