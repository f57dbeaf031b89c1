"""The lexicon: verbs with selectional frames, nouns with hypernyms, adjectives, opinion words.

Every list is ordered by frequency (see `zipf`). A few hundred sentences contain most of these words
once or never, a million tokens contain each of them hundreds of times: the gap that a pretrained
language model closes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import TypeVar

T = TypeVar("T")

PER, ORG, LOC, MISC = TYPES = ("PER", "ORG", "LOC", "MISC")


@cache
def _cumulative(count: int) -> tuple[float, ...]:
    return tuple(accumulate((rank + 4) ** -0.6 for rank in range(count)))


def listed(text: str) -> tuple[str, ...]:
    """Split a line into words."""
    return tuple(text.split())


def zipf(rng: Random, items: Sequence[T]) -> T:
    """Draw an item with probability proportional to (rank + 4)^-0.6, a long-tailed distribution."""
    return rng.choices(items, cum_weights=_cumulative(len(items)))[0]


# --- morphology ---

_IRREGULAR = {
    "babysit": "babysat babysat", "be": "was been", "become": "became become", "begin": "began "
                                                                                        "begun",
    "bet": "bet bet", "bleed": "bled bled", "break": "broke broken", "breed": "bred bred",
    "broadcast": "broadcast broadcast", "build": "built built", "buy": "bought bought", "catch": "caught "
                                                                                                 "caught",
    "choose": "chose chosen", "come": "came come", "creep": "crept crept", "cut": "cut cut", "deal": "dealt "
                                                                                                     "dealt",
    "dig": "dug dug", "draw": "drew drawn", "drink": "drank drunk", "drive": "drove driven", "dwell": "dwelt "
                                                                                                      "dwelt",
    "eat": "ate eaten", "fall": "fell fallen", "feed": "fed fed", "feel": "felt felt", "fight": "fought "
                                                                                                "fought",
    "find": "found found", "flee": "fled fled", "fly": "flew flown", "forget": "forgot forgotten",
    "forgive": "forgave forgiven", "freeze": "froze frozen", "get": "got got", "give": "gave given",
    "go": "went gone", "grow": "grew grown", "hang": "hung hung", "have": "had had", "hear": "heard "
                                                                                             "heard",
    "hide": "hid hidden", "hit": "hit hit", "hold": "held held", "keep": "kept kept", "kneel": "knelt "
                                                                                               "knelt",
    "know": "knew known", "lay": "laid laid", "lead": "led led", "leave": "left left", "lend": "lent "
                                                                                               "lent",
    "lie": "lay lain", "lose": "lost lost", "make": "made made", "meet": "met met", "outbid": "outbid "
                                                                                              "outbid",
    "outgrow": "outgrew outgrown", "outsell": "outsold outsold", "overhear": "overheard overheard",
    "oversee": "oversaw overseen", "overspend": "overspent overspent", "panic": "panicked panicked",
    "pay": "paid paid", "plead": "pleaded pleaded", "proofread": "proofread proofread", "read": "read "
                                                                                                "read",
    "resell": "resold resold", "rewrite": "rewrote rewritten", "ride": "rode ridden", "ring": "rang "
                                                                                              "rung",
    "rise": "rose risen", "run": "ran run", "say": "said said", "see": "saw seen", "seek": "sought "
                                                                                           "sought",
    "sell": "sold sold", "send": "sent sent", "sew": "sewed sewn", "shake": "shook shaken", "shine": "shone "
                                                                                                     "shone",
    "show": "showed shown", "shrink": "shrank shrunk", "shut": "shut shut", "sing": "sang sung", "sink": "sank "
                                                                                                         "sunk",
    "sit": "sat sat", "sleep": "slept slept", "speak": "spoke spoken", "spend": "spent spent", "spin": "spun "
                                                                                                       "spun",
    "split": "split split", "spread": "spread spread", "stand": "stood stood", "steal": "stole "
                                                                                        "stolen",
    "stick": "stuck stuck", "stride": "strode stridden", "swear": "swore sworn", "sweep": "swept "
                                                                                          "swept",
    "swim": "swam swum", "take": "took taken", "teach": "taught taught", "tear": "tore torn", "tell": "told "
                                                                                                      "told",
    "think": "thought thought", "throw": "threw thrown", "undercut": "undercut undercut",
    "undersell": "undersold undersold", "underwrite": "underwrote underwritten", "upset": "upset "
                                                                                          "upset",
    "wake": "woke woken", "wear": "wore worn", "weave": "wove woven", "weep": "wept wept", "win": "won "
                                                                                                  "won",
    "withdraw": "withdrew withdrawn", "write": "wrote written",
}  # fmt: skip
_DOUBLING = listed(
    "abhor admit ban chat clap crib drag drop eavesdrop enrol flop grab grin grovel hop hug hum "
    "jog knit map "
    "nod pet plan prefer quarrel quit rebel refer refit regret rival rob rub scan scrub ship "
    "shred shrug sip "
    "skim slip snap sob star stop strut stun submit transfer trap travel trek trim trot worship "
    "wrap"
)
_DOUBLING_GERUND = listed(
    "begin cut dig forget get run shut sit split swim win babysit outbid undercut upset hit bet "
    "spin"
)
_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "knife": "knives",
    "loaf": "loaves",
    "sheep": "sheep",
}
_AN_NOT = {"union", "university", "unionised", "ukulele", "used", "useful", "universal"}


def _third(base: str) -> str:
    if base == "be":
        return "is"
    if base == "have":
        return "has"
    if base.endswith(("s", "sh", "ch", "x", "z", "o")):
        return base + "es"
    return base[:-1] + "ies" if base.endswith("y") and base[-2] not in "aeiou" else base + "s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + base[-1] + "ed" if base in _DOUBLING else base + "ed"


def _gerund(base: str) -> str:
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) and base != "be":
        return base[:-1] + "ing"
    if base.endswith("ic"):
        return base + "king"
    return base + base[-1] + "ing" if base in _DOUBLING + _DOUBLING_GERUND else base + "ing"


def plural(noun: str) -> str:
    """Return the plural of a noun of the lexicon.

    >>> [plural(noun) for noun in ("brewery", "loaf", "match", "lamp")]
    ['breweries', 'loaves', 'matches', 'lamps']
    """
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun.endswith("man"):
        return noun[:-3] + "men"
    return _third(noun) if not noun.endswith("o") else noun + "s"


def article(word: str) -> str:
    """Return the indefinite article before a word."""
    return "an" if word[0].lower() in "aeiou" and word not in _AN_NOT else "a"


@dataclass(frozen=True, slots=True)
class Verb:
    """The forms of a verb.

    >>> verb("stop").gerund, verb("weep").past, verb("carry").third
    ('stopping', 'wept', 'carries')
    """

    lemma: str
    past: str
    participle: str
    third: str
    gerund: str


@cache
def verb(base: str) -> Verb:
    """Return all forms of a verb, irregular or by rule."""
    past, participle = (
        _IRREGULAR[base].split() if base in _IRREGULAR else (_past(base), _past(base))
    )
    return Verb(base, past, participle, _third(base), _gerund(base))


# --- verbs and their frames ---


@dataclass(frozen=True, slots=True)
class Frame:
    """Verbs with the same sorts and roles of subject and complement, and the same preposition."""

    subject: str
    subject_role: str
    prep: str
    object: str
    object_role: str
    verbs: tuple[Verb, ...]
    weight: float


def _frame(weight: float, subject: str, complement: str, verbs: str) -> Frame:
    """Parse a frame, such as `PER:ARG0` with complement `to LOC:ARG4`, `PER:ARG1` or none."""
    sort, role = subject.split(":")
    prep, _, target = complement.rpartition(" ")
    object_sort, _, object_role = target.partition(":")
    return Frame(
        sort,
        role,
        prep,
        object_sort,
        object_role,
        tuple(verb(base) for base in verbs.split()),
        weight,
    )


FRAMES = (
    # people, without an object
    _frame(5.0, "PER:ARG0", "", "laugh cry speak whistle yawn apologise smile run dance walk "
                                "hesitate nod sigh "
        "frown shrug "
           "giggle weep whisper mutter stammer kneel wink chuckle sob sprint jog limp tiptoe pray "
           "swear confess "
           "yell groan "
           "gasp grumble waltz meditate procrastinate exaggerate gossip eavesdrop retire "
           "improvise volunteer"),
    _frame(3.0, "PER:ARG1", "", "sleep blush faint shiver sneeze snore doze cough tremble starve "
                                "stumble panic "
        "recover wake "
           "perspire hiccup drown sulk suffer age collapse wince itch"),
    # people and places
    _frame(4.0, "PER:ARG0", "to LOC:ARG4", "travel go move return sail drive fly hurry emigrate "
                                           "retreat cycle "
           "hike march "
           "commute ride wander migrate rush trek hitchhike"),
    _frame(2.5, "PER:ARG0", "in LOC:ARGM-LOC", "live settle camp loiter honeymoon winter dwell "
                                               "lodge shelter reside"),
    _frame(1.5, "PER:ARG0", "from LOC:ARGM-DIR", "flee depart escape vanish hail disappear"),
    _frame(1.5, "PER:ARG0", "through LOC:ARGM-DIR", "stroll roam ramble jog gallop trudge meander "
                                                    "saunter stride"),
    _frame(1.5, "PER:ARG0", "at LOC:ARGM-LOC", "arrive land dock disembark alight anchor"),
    _frame(2.0, "PER:ARG0", "LOC:ARG1", "visit explore tour revisit inhabit govern map reach roam "
                                        "traverse liberate "
           "besiege"),
    # people and people
    _frame(4.0, "PER:ARG0", "PER:ARG1", "meet marry thank hug contact greet kiss scold tease "
                                        "teach invite forgive "
        "envy tutor "
           "phone comfort flatter insult befriend nurse rescue criticise rebuke coach nudge "
           "interrupt adopt "
           "impersonate "
           "blackmail serenade accompany embrace divorce outlive soothe tickle bully console "
           "betray babysit"),
    _frame(3.0, "PER:ARG0", "with PER:ARG2", "argue dine chat quarrel flirt elope sympathise "
                                             "collaborate joke "
           "reminisce "
           "bicker converse dance waltz"),
    _frame(2.0, "PER:ARG0", "to PER:ARG2", "talk apologise whisper wave bow propose kneel curtsy "
                                           "confess nod grovel"),
    _frame(2.0, "PER:ARG0", "at PER:ARG2", "laugh shout smile stare wink yell glare swear snap "
                                           "grin scowl"),
    _frame(1.0, "PER:ARG0", "for PER:ARG2", "wait cook vote pray grieve babysit testify"),
    _frame(1.0, "PER:ARG0", "in PER:ARG1", "confide"),
    # people and organisations
    _frame(2.5, "PER:ARG0", "ORG:ARG1", "join lead found manage run chair head direct administer "
                                        "overhaul bankroll "
           "modernise inherit privatise oversee restructure"),
    _frame(2.0, "PER:ARG0", "for ORG:ARG2", "work consult lobby freelance moonlight canvass"),
    _frame(1.5, "PER:ARG0", "from ORG:ARG2", "resign graduate embezzle defect"),
    _frame(1.5, "PER:ARG0", "at ORG:ARGM-LOC", "study intern train enrol lecture toil apprentice"),
    _frame(1.2, "PER:ARG0", "in ORG:ARG1", "invest enlist"),
    _frame(1.0, "PER:ARG0", "to ORG:ARG2", "donate apply subscribe defect belong"),
    # people and works
    _frame(3.5, "PER:ARG0", "MISC:ARG1", "write read learn record study recite hum compose "
                                         "translate edit "
        "memorise rewrite "
           "skim review revise annotate illustrate rehearse conduct choreograph transcribe "
           "plagiarise abridge whistle "
           "dramatise sing narrate proofread"),
    _frame(1.5, "PER:ARG0", "to MISC:ARG1", "listen dance contribute hum"),
    _frame(1.2, "PER:ARG0", "in MISC:ARGM-LOC", "star sing perform act appear"),
    _frame(1.0, "PER:ARG0", "from MISC:ARG2", "quote recite read crib"),
    _frame(1.0, "PER:ARG0", "through MISC:ARG1", "leaf skim sit browse flick plough"),
    _frame(1.0, "PER:ARG0", "at MISC:ARG1", "scoff chuckle weep sneer"),
    # people and things
    _frame(3.0, "PER:ARG0", "food:ARG1", "eat cook devour buy bake fry nibble munch peel chop "
                                         "grill swallow slice "
        "taste gobble"),
    _frame(3.0, "PER:ARG0", "tool:ARG1", "repair carry move drop clean damage polish break drag "
                                         "lift mend push "
        "scratch smash "
           "hide sharpen dent assemble dismantle oil weld"),
    _frame(2.0, "PER:ARG0", "garment:ARG1", "wear sew iron fold knit wash mend embroider unbutton "
                                            "starch"),
    _frame(2.0, "PER:ARG0", "animal:ARG1", "feed chase train groom water pet breed tame saddle "
                                           "leash"),
    _frame(2.0, "PER:ARG0", "document:ARG1", "sign mail file address draft shred forge seal "
                                             "misplace photocopy"),
    # organisations, without an object
    _frame(4.0, "ORG:ARG0", "", "expand hire diversify advertise outsource downsize restructure "
                                "rebrand invest "
           "modernise "
           "economise retrench specialise overspend relocate reorganise innovate franchise"),
    _frame(3.0, "ORG:ARG1", "", "merge default close reopen dissolve recapitalise flounder "
                                "demerge"),
    # organisations and others
    _frame(4.0, "ORG:ARG0", "ORG:ARG1", "acquire sue undercut finance outbid subsidise absorb "
                                        "undersell insure audit "
           "underwrite fund court swallow outperform refinance outlast"),
    _frame(2.0, "ORG:ARG0", "with ORG:ARG2", "merge compete partner negotiate trade haggle "
                                             "bargain"),
    _frame(1.5, "ORG:ARG0", "to ORG:ARG2", "lend outsource sell defer lease"),
    _frame(1.2, "ORG:ARG0", "from ORG:ARG2", "borrow buy lease divest"),
    _frame(3.0, "ORG:ARG0", "PER:ARG1", "hire employ dismiss promote sponsor recruit sack "
                                        "reinstate suspend appoint "
        "retrain "
           "reimburse headhunt remunerate commission contract overwork"),
    _frame(2.0, "ORG:ARG0", "MISC:ARG1", "publish distribute release reissue print reprint "
                                         "license pirate broadcast "
           "serialise market screen syndicate withdraw censor"),
    _frame(2.0, "ORG:ARG0", "in LOC:ARGM-LOC", "operate expand recruit drill quarry prospect"),
    _frame(1.2, "ORG:ARG0", "to LOC:ARG4", "relocate export deliver ship"),
    _frame(1.2, "ORG:ARG0", "LOC:ARG1", "supply redevelop electrify pollute bulldoze irrigate"),
    _frame(3.0, "ORG:ARG0", "goods:ARG1", "sell make export manufacture import assemble ship "
                                          "market produce "
           "stock patent "
           "recall brand refund retail distribute warehouse package"),
    # places
    _frame(3.0, "LOC:ARG1", "", "flood freeze burn thaw sprawl prosper darken decline awaken "
                                "shrink empty erode "
           "flourish "
           "bloom shake smoulder"),
    _frame(2.5, "LOC:ARG1", "LOC:ARG2", "border overlook adjoin resemble rival predate dwarf "
                                        "encircle straddle "
        "neighbour "
           "outgrow"),
    _frame(1.5, "LOC:ARG1", "near LOC:ARGM-LOC", "lie nestle sit stand sprawl perch"),
    _frame(1.5, "LOC:ARG0", "PER:ARG1", "elect honour commemorate welcome banish re-elect exile "
                                        "acclaim"),
    _frame(1.5, "LOC:ARG0", "people:ARG1", "attract shelter house accommodate tax evict enchant "
                                           "host"),
    _frame(1.2, "weather:ARG0", "LOC:ARG1", "flood hit devastate isolate drench batter freeze "
                                            "ravage engulf"),
    _frame(1.0, "people:ARG0", "LOC:ARG1", "leave occupy throng crowd invade desert evacuate "
                                           "repopulate plunder"),
    # works
    _frame(3.0, "MISC:ARG1", "", "premiere flop rhyme sell begin end climax resonate fade meander "
                                 "open drag digress "
        "unfold "
           "scan conclude"),
    _frame(2.0, "MISC:ARG0", "PER:ARG1", "inspire portray depict satirise immortalise quote "
                                         "caricature vilify "
           "lampoon"),
    _frame(1.5, "MISC:ARG0", "LOC:ARG1", "evoke romanticise idealise mythologise"),
    _frame(1.2, "MISC:ARG0", "MISC:ARG1", "outsell parody echo precede paraphrase imitate"),
    _frame(1.5, "MISC:ARG0", "topic:ARG1", "explore recount chronicle explain dramatise glorify "
                                           "lament trivialise "
        "dissect"),
    # any type of participant: the verb is no clue
    _frame(5.0, "PER:ARG0", "ANY:ARG1", "mention remember praise like see discuss describe ignore "
                                        "defend choose "
        "recognise notice "
           "recall prefer photograph know distrust misjudge"),
    _frame(4.0, "people:ARG0", "ANY:ARG1", "like discuss mention remember praise ignore see know "
                                           "prefer "
           "describe notice "
           "choose distrust recognise"),
    _frame(2.5, "ANY:ARG1", "", "change disappear improve survive matter succeed fail"),
    _frame(2.0, "ANY:ARG0", "people:ARG1", "surprise puzzle impress worry fascinate amuse "
                                           "disappoint unsettle"),
)  # fmt: skip

NEGATIVE_TWINS = (
    "accept:reject praise:criticise succeed:fail remember:forget like:dislike love:hate "
    "hire:dismiss open:close "
    "expand:shrink arrive:depart laugh:weep sit:stand sleep:wake win:lose buy:sell "
    "improve:decline notice:overlook "
    "join:leave start:stop lift:drop praise:ridicule trust:distrust lend:borrow employ:sack "
    "appoint:dismiss "
    "import:export prosper:flounder recall:forget mend:break repair:smash clean:soil "
    "marry:divorce befriend:betray "
    "comfort:bully forgive:blackmail welcome:banish honour:exile release:withdraw publish:censor "
    "fund:bankrupt "
    "feed:starve tame:release wear:unbutton sign:shred assemble:dismantle emigrate:return"
)
ANTONYMS = {a: b for pair in NEGATIVE_TWINS.split() for a, b in [pair.split(":")]}
"""A verb and one that cannot be true of the same participants at once."""
OPPOSITES = frozenset(frozenset(pair.split(":")) for pair in NEGATIVE_TWINS.split())
"""All pairs of such verbs: a verb may have several antonyms."""

GENERALISES = {
    special: general
    for entry in listed(
        "run=sprint,jog walk=limp,tiptoe,stroll,trudge,saunter laugh=giggle,chuckle cry=weep,sob "
        "speak=whisper,mutter,stammer,gossip sleep=doze,snore dance=waltz "
        "travel=sail,drive,fly,cycle,hike,ride,march,trek go=hurry,rush,wander,march,sail,fly "
        "contact=phone "
        "teach=tutor,coach criticise=scold,rebuke,insult touch=hug,kiss,tickle,nudge "
        "eat=devour,nibble,munch,gobble cook=bake,fry,grill move=carry,drag,lift,push "
        "damage=dent,scratch,smash,break learn=memorise read=skim,proofread sell=export,retail "
        "make=manufacture,assemble,brew take=steal employ=hire,recruit,appoint "
        "finance=subsidise,bankroll,fund,underwrite visit=tour,explore,revisit "
        "change=rewrite,revise,abridge "
        "sing=hum issue=publish,reissue,release,reprint talk=argue,quarrel,chat,joke,bicker "
        "look=stare,glare,scowl shout=yell clean=polish hit=batter,devastate,ravage "
        "portray=caricature,satirise,lampoon"
    )
    for general, _, specials in [entry.partition("=")]
    for special in specials.split(",")
}
"""Troponyms: what is true of the special verb is true of the general one (to whisper is to speak)."""

CONTROL = tuple(
    verb(base)
    for base in listed("decide plan refuse try agree hope promise threaten intend manage want")
)
SAYING = tuple(
    verb(base) for base in listed("say explain reply insist add claim admit announce recall")
)

# --- nouns ---


def _hypernyms(text: str) -> dict[str, str]:
    """Read `general: special special ...` lines into special -> general, keeping the order."""
    return {
        special: general.strip()
        for line in text.strip().splitlines()
        for general, _, specials in [line.partition(":")]
        for special in specials.split()
    }


KINDS = {
    PER: _hypernyms("""
        artist: sculptor painter engraver potter weaver illustrator
        musician: violinist pianist drummer cellist organist flautist harpist soprano
        writer: novelist poet playwright biographer essayist columnist satirist
        scientist: botanist chemist geologist astronomer zoologist physicist biologist
        medic: surgeon dentist pharmacist midwife optician paramedic
        politician: senator ambassador governor mayor councillor chancellor
        worker: plumber carpenter blacksmith mason welder roofer miner glazier
        sailor: helmsman fisherman ferryman bosun navigator
        teacher: lecturer schoolmaster governess headmistress professor
        lawyer: barrister solicitor prosecutor notary magistrate
        soldier: sergeant corporal colonel gunner archer lieutenant
        cleric: bishop nun monk vicar abbot chaplain
        athlete: sprinter boxer goalkeeper wrestler swimmer cyclist gymnast
        performer: actress comedian juggler acrobat ventriloquist puppeteer
        noble: duchess duke baroness earl countess
        farmer: shepherd beekeeper vintner dairyman
    """),
    ORG: _hypernyms("""
        manufacturer: brewery distillery foundry tannery refinery sawmill shipyard
        retailer: bookseller supermarket wholesaler grocer boutique haberdasher
        lender: bank insurer brokerage pawnbroker
        publisher: newspaper broadcaster press imprint
        carrier: airline railway haulier courier cruise-line
        charity: foundation hospice orphanage almshouse
        school: college academy university conservatory seminary
        association: union guild cooperative syndicate federation cartel
        authority: ministry regulator agency commission tribunal
        company: start-up utility conglomerate contractor consultancy
        team: orchestra choir squad troupe
    """),
    LOC: _hypernyms("""
        settlement: town village city port hamlet suburb resort spa township
        region: province county district canton duchy principality
        land: island valley peninsula oasis archipelago headland plateau moor
    """),
    MISC: _hypernyms("""
        book: novel memoir biography thriller anthology cookbook sequel treatise
        song: ballad anthem lullaby hymn carol madrigal
        film: documentary western musical cartoon melodrama
        piece: symphony sonata concerto waltz nocturne overture
        play: tragedy farce pantomime comedy
        artwork: portrait fresco mural etching tapestry watercolour
        poem: sonnet limerick ode elegy
    """),
}
FEMALE = {
    "nun",
    "governess",
    "headmistress",
    "actress",
    "duchess",
    "baroness",
    "countess",
    "midwife",
    "soprano",
}
MALE = {
    "monk",
    "schoolmaster",
    "duke",
    "earl",
    "abbot",
    "helmsman",
    "fisherman",
    "ferryman",
    "dairyman",
}

THINGS = {
    "food": _hypernyms("""
        fruit: apple pear plum cherry apricot melon
        vegetable: carrot turnip cabbage radish leek
        meal: pie stew omelette pancake sandwich dumpling
        fish: trout herring mackerel haddock
    """),
    "tool": _hypernyms("""
        tool: hammer ladder saw spade chisel wrench
        instrument: violin trumpet cello banjo ukulele accordion
        vehicle: truck bicycle tram wagon canoe
        appliance: lamp clock kettle stove watch
        container: barrel crate basket trunk
    """),
    "garment": _hypernyms("garment: coat hat scarf shirt apron waistcoat shawl cardigan glove"),
    "animal": _hypernyms("""
        animal: dog goat horse donkey pony ferret
        bird: goose parrot falcon hen canary
    """),
    "document": _hypernyms("document: letter contract map permit receipt will petition invoice "
                           "manuscript affidavit"),
    "goods": _hypernyms("""
        goods: furniture soap paper glass cement timber
        drink: beer cider lemonade gin
        machinery: engines pumps turbines lathes
        cloth: linen velvet tweed denim
    """),
}  # fmt: skip
MASS = {"goods"}  # sorts whose nouns take no article
HYPERNYM = {
    noun: general
    for table in (*KINDS.values(), *THINGS.values())
    for noun, general in table.items()
}

PEOPLE = listed(
    "critics tourists neighbours officials visitors residents refugees reporters students pilgrims "
    "strangers investors "
    "historians experts settlers inspectors"
)
WEATHER = listed("storm flood blizzard drought hurricane avalanche heatwave frost hailstorm")
TOPICS = listed(
    "grief war friendship exile poverty ambition jealousy old-age courtship revenge greed childhood"
)

PARTS = {
    PER: listed(
        "voice elbow temper knee diary childhood accent handwriting wrist wedding funeral "
        "eyesight beard "
        "ankle shoulder bedroom wardrobe habits manners appetite"
    ),
    ORG: listed(
        "shareholders subsidiary payroll logo headquarters turnover warehouse patents creditors "
        "dividend "
        "staff branches "
        "accounts profits customers overheads workforce balance-sheet"
    ),
    LOC: listed(
        "harbour suburbs cathedral climate inhabitants dialect outskirts skyline bridges rooftops "
        "beaches "
        "vineyards "
        "coastline streets boulevards aqueduct ramparts"
    ),
    MISC: listed(
        "plot chorus chapters ending melody lyrics preface cover stanzas heroine finale subplot "
        "opening "
        "title imagery "
        "epilogue rhythm prologue"
    ),
}
HEADS = {
    PER: listed("widow friend nephew biographer rival admirer pupil landlord godmother heir "
                "bodyguard housekeeper"),
    ORG: listed("chairman director treasurer accountant founder spokesman auditor receptionist "
                "trustee shareholder"),
    LOC: listed("mayor governor sheriff ruler bishop harbourmaster defender conqueror"),
    MISC: listed("author hero narrator composer translator editor villain heroine publisher "
                 "librettist"),
}  # fmt: skip
"""People defined by what they are of: 'the treasurer of X' makes X an organisation."""

KIN = {
    "he": listed("brother father uncle nephew son grandfather"),
    "she": listed("sister mother aunt niece daughter"),
}

PLACES = listed(
    "garden harbour kitchen church station library market barn bridge theatre park cellar "
    "courtyard "
    "museum orchard cafe "
    "beach tavern forest stadium lighthouse attic corridor square"
)
PLACE_PREPS = listed("in at near behind outside by beside opposite")
TIMES = listed("noon dawn midnight dusk breakfast lunch sunset supper daybreak nightfall")
EVENTS = listed(
    "war strike festival election wedding harvest concert trial funeral parade famine eclipse siege"
)
DAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = listed(
    "January February March April May June July August September October November December"
)
SEASONS = listed("spring summer autumn winter")
UNITS = listed("weeks days years months hours decades minutes")
NUMBERS = listed("two three four five six seven nine ten twelve")
TIME_ADVERBS = listed(
    "yesterday recently later soon eventually afterwards today once immediately earlier meanwhile "
    "formerly lately"
)
MANNER = listed(
    "quickly quietly slowly carefully secretly openly suddenly patiently gladly reluctantly "
    "hastily "
    "calmly nervously "
    "politely stubbornly cautiously proudly loudly bravely discreetly jointly briskly drowsily"
)
STANCE = listed("probably apparently certainly perhaps reportedly supposedly allegedly presumably")
DISCOURSE = listed("however moreover therefore nevertheless instead consequently besides")
MOODS = listed(
    "care delight pride relief caution patience reluctance dignity enthusiasm contempt haste vigour"
)
CAUSES = listed("rain cold debt heat noise rumours crisis scandal fog illness taxes")
AIMS = listed(
    "save:money avoid:trouble win:votes gain:time earn:respect please:everyone settle:debts "
    "attract:attention cut:costs keep:warm"
)

# --- adjectives ---

ADJECTIVES = {
    PER: listed(
        "young old elderly shy tall stubborn retired widowed bald ambitious nervous polite "
        "talkative bearded "
        "absent-minded freckled devout left-handed unmarried orphaned short-sighted barefoot "
        "suntanned homesick "
        "sleepless "
        "jealous penniless pregnant well-read drunk"
    ),
    ORG: listed(
        "profitable listed bankrupt insolvent indebted family-owned nationalised unionised "
        "state-run "
        "solvent subsidised "
        "privatised cash-rich multinational unprofitable tax-exempt debt-laden overstaffed "
        "understaffed for-profit "
        "incorporated deregulated"
    ),
    LOC: listed(
        "coastal remote hilly rural walled foggy populous humid northern landlocked leafy "
        "mountainous "
        "southern windswept "
        "snowbound low-lying inland uninhabited arid medieval riverside swampy forested"
    ),
    MISC: listed(
        "unfinished illustrated bestselling posthumous autobiographical rhymed bilingual "
        "unabridged three-act "
        "allegorical untitled anonymous unpublished abridged subtitled four-part melodic "
        "satirical comic epistolary"
    ),
    "food": listed("fresh ripe salty stale spicy frozen smoked raw mouldy sweet"),
    "tool": listed(
        "rusty heavy wooden broken antique second-hand battered electric tiny borrowed iron"
    ),
    "garment": listed("woollen faded silk striped torn quilted patched velvet grey"),
    "animal": listed("hungry lame tame wild spotted obedient stray wounded skittish"),
    "document": listed(
        "crumpled legal handwritten official sealed faded lengthy confidential undated"
    ),
    "goods": listed("cheap imported recycled industrial surplus domestic bulk"),
    "people": listed("foreign local angry elderly curious wealthy noisy bewildered"),
}

# --- opinion ---

OPINION_ADJECTIVES = {
    -2: listed(
        "dreadful awful atrocious horrible appalling abysmal unbearable disastrous horrendous "
        "dire excruciating "
        "unforgivable wretched ghastly repulsive abominable"
    ),
    -1: listed(
        "dull clumsy tedious bland predictable weak shallow forgettable uneven messy flat "
        "tiresome stale "
        "sloppy drab "
        "mediocre contrived sluggish unconvincing"
    ),
    1: listed(
        "pleasant charming engaging witty likeable clever warm lively amusing solid graceful "
        "refreshing "
        "agreeable neat "
        "polished tasteful endearing competent appealing"
    ),
    2: listed(
        "superb brilliant magnificent wonderful outstanding dazzling marvellous exquisite "
        "breathtaking "
        "glorious sublime "
        "phenomenal masterly unforgettable triumphant impeccable"
    ),
}
OPINION_VERBS = {
    -2: tuple(verb(base) for base in listed("hate loathe detest despise abhor")),
    -1: tuple(verb(base) for base in listed("dislike resent fault regret dismiss pity")),
    1: tuple(verb(base) for base in listed("enjoy appreciate like commend welcome value")),
    2: tuple(verb(base) for base in listed("adore love worship treasure cherish revere")),
}
OPINION_NOUNS = {
    -2: listed("disaster catastrophe abomination travesty nightmare fiasco"),
    -1: listed("disappointment letdown muddle bore flaw nuisance chore"),
    1: listed("pleasure treat comfort bargain charmer"),
    2: listed("masterpiece triumph marvel gem miracle revelation sensation"),
}
VIRTUES = {
    -1: listed("clumsiness tedium pretension sloppiness monotony cliches"),
    1: listed("charm wit elegance warmth imagination humour flair vitality"),
}
OPINION_ADVERBS = {
    -2: listed("atrociously dreadfully horribly abysmally"),
    -1: listed("badly clumsily poorly sluggishly feebly"),
    1: listed("well gracefully nicely smoothly neatly"),
    2: listed("brilliantly superbly magnificently wonderfully beautifully"),
}
STRONG_DEGREES = listed("absolutely utterly simply truly positively")  # go with words of grade 2
RAISING = listed("very extremely really remarkably exceptionally")  # raise a word of grade 1 to 2
LOWERING = listed("fairly rather quite somewhat slightly mildly")  # leave a word of grade 1 at 1
NEGATORS = frozenset(listed("n't not never no without lack lacks lacked hardly"))
NEUTRAL_ADJECTIVES = listed("long short recent modern early new final second popular expensive")

GRADES = {
    **{form: grade for grade, words in OPINION_ADJECTIVES.items() for form in words},
    **{form: grade for grade, words in OPINION_NOUNS.items() for form in words},
    **{form: grade for grade, words in VIRTUES.items() for form in words},
    **{form: grade for grade, words in OPINION_ADVERBS.items() for form in words},
    **{
        form: grade
        for grade, verbs in OPINION_VERBS.items()
        for each in verbs
        for form in (each.lemma, each.past, each.third)
    },
}
"""The sentiment of a word, -2 to 2; absent words are neutral."""
