"""A copy of the dialogue, or nothing said, is found however it is dressed; own words are left
alone.
"""

import re

import pytest

from alps.judges.copying import COPIED, copied_share, own_text
from alps.judges.rubric import BINARY, RubricQuestion, broken_rule, rubric
from alps.schema import Turn
from alps.tasks.base import TaskOptions
from alps.tasks.utilization import tracks
from alps.text import fold, letters
from tests.core.test_exploits import load
from tests.endtoend import rows

COPY, EMPTY = "the response is copied from the dialogue", "the response says nothing"
REPEATED = "the answer only repeats the query"
SENTENCES = (
    "My brother Ansel keeps the lighthouse shop in Varde",
    "I get seasick on anything smaller than a ferry",
    "We never eat shellfish at home",
    "Last autumn I broke my left wrist while pruning the quince",
    "Rain depresses me",
)
QUERY = "What shall I do on Sunday?"
TURNS = tuple(Turn(role="user", text=f"{sentence}.") for sentence in SENTENCES)
LOOK_ALIKE = str.maketrans("aceopxyis", "асеорхуіѕ")
PREFIXES = ("You said: ", "Earlier you told me that ", "Also, ", "Then you wrote: ")
PREFIXES += ("And I remember: ",)
JOINED = ". ".join(SENTENCES)


DRESSED = {
    "as it was": JOINED,
    "commas for full stops": ", ".join(SENTENCES),
    "a comma after every word": JOINED.replace(" ", ", "),
    "dashes and brackets": " – ".join(f"({sentence})" for sentence in SENTENCES),
    "in capitals": JOINED.upper(),
    "spaced out": " ".join(JOINED.replace(" ", "")),
    "in another order": ". ".join(reversed(SENTENCES)),
    "one prefix": ". ".join(f"You said: {sentence}" for sentence in SENTENCES),
    "many prefixes": ". ".join(
        prefix + sentence for prefix, sentence in zip(PREFIXES, SENTENCES, strict=True)
    ),
    "Cyrillic look-alikes": JOINED.translate(LOOK_ALIKE),
    "fullwidth": "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in JOINED),
    "mathematical bold": "".join(
        chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c for c in JOINED
    ),
    "accents": "".join(f"{c}\u0301" if c in "aeiou" else c for c in JOINED),
    **{
        f"U+{ord(mark):04X} between": mark.join(JOINED)
        for mark in "\u200b\u200d\u2060\ufeff\u00ad\u034f\u3164\u115f\uffa0\u2800"
    },
    "tags between": "\U000e0041".join(JOINED),
}


def broken(name: str, response: str, dialogue: tuple[Turn, ...] = TURNS):
    """Return the hard rule that a response to a rubric breaks."""
    return broken_rule(RubricQuestion(rubric(name), QUERY, response, "Gets seasick", dialogue))


@pytest.mark.parametrize("dressed", DRESSED.values(), ids=DRESSED)
@pytest.mark.parametrize("name", ["vra", "ei"])
def test_a_copy_is_one_however_it_is_dressed(name, dressed):
    assert broken(name, dressed) == COPY


def test_words_of_the_dialogue_in_another_order_are_a_copy():
    backwards = " ".join(" ".join(SENTENCES).split()[::-1])
    assert broken("vra", backwards) == COPY
    assert broken("vra", " ".join(backwards.split()[:29])) is None
    assert broken("vra", f"{backwards} and perhaps three calmer indoor afternoons") is None


CHINESE = "我下个月要搬到成都去住，因为我妻子在那边的医院找到了新的工作，所以我们打算先租房。"
RUSSIAN = "Весной мы с женой переехали в Казань. Она работает в роддоме, а я пока ищу место."


CUT = "您说：我下个月要搬到成都去住！因为——我妻子在那边的医院找到了新的工作；所以我们打算先租房"
IN_SCRIPTS = [
    (CHINESE, f"您说：{CHINESE.translate(str.maketrans('，。', '！；'))}"),
    (CHINESE, CUT),
    (CHINESE, "\u3164".join(CHINESE)),
    (RUSSIAN, RUSSIAN.upper()),
    (RUSSIAN, RUSSIAN.translate(str.maketrans("асеорху", "aceopxy"))),
]


@pytest.mark.parametrize(("dialogue", "response"), IN_SCRIPTS)
def test_so_it_is_in_other_scripts(dialogue, response):
    assert copied_share(response, (Turn(role="user", text=dialogue),)) >= COPIED


@pytest.mark.parametrize(
    "response",
    [
        "You broke your left wrist last autumn, so leave the rope to Ansel and take the ferry, "
        "not the small boat.",
        f"You said: {SENTENCES[1]}. So take the bus to Varde, buy the bread there, and walk the "
        "dunes until noon.",
        "Take the ferry.",
        "No shellfish: the quince tart, and Ansel's smoked plaice if he has any left in the shop.",
        "Как насчёт парома? На маленькой лодке вас укачает.",
        "坐渡轮去吧，小船会晕。",
    ],
)
def test_an_answer_that_uses_what_was_said_is_no_copy(response):
    assert broken("pa", response) is None


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "response",
    [
        *("\u3164", "\u3164 \uffa0\u115f\u1160", "\u2800" * 40, "\u200b\u2060"),
        *("\U000e0041\U000e0042", "\u00ad.\u034f", "🫥"),
    ],
    ids=ascii,
)
def test_what_nobody_sees_says_nothing(name, response):
    assert broken(name, response, dialogue=()) == EMPTY


def test_the_query_in_look_alikes_is_the_query():
    again = QUERY.translate(LOOK_ALIKE), "\u200b".join(QUERY), "WHAT, shall I do – on Sunday"
    for response in again:
        assert broken("memory_used", response, dialogue=()) == REPEATED
    assert broken("memory_used", f"{QUERY} Sail.", dialogue=()) is None


def test_letters_are_what_is_seen_of_a_text():
    assert letters("Wоrld, é １!") == ("worldel", "worldel")
    assert letters("Ν ν")[0] == "vv"
    assert letters("Ν ν")[1] == "nv"
    assert letters("加班") == ("加加班班",) * 2
    assert letters("\u3164\u2800 …") == ("", "")


def test_folding_drops_what_nobody_sees():
    assert fold("Pa\u200bris\u3164") == fold("paris") == "paris"
    assert fold("naïve\u00ad") == "naïve"


def test_own_text_leaves_out_the_copied_sentences():
    copied, dressed = SENTENCES[0].upper(), SENTENCES[3].translate(LOOK_ALIKE)
    assert own_text(f"{copied}. Take the bus. {dressed}", TURNS) == "Take the bus"


@pytest.mark.real
def test_no_recorded_answer_of_a_real_model_is_taken_for_a_copy(sample):
    shares = []
    for task in tracks(TaskOptions()):
        samples = {each.benchmark_id: each for each in load(sample, task)}
        path = sample / "recorded" / task.track / "records.jsonl"
        for row in rows(path):
            for given in row["model_output"]["responses"]:
                of_query = samples.get(given.get("query_id")) or samples.get(row["benchmark_id"])
                shares.append(copied_share(given["response"] or "", of_query.gold.dialogue))
    assert len(shares) == 133
    assert max(shares) < COPIED
    assert sorted(shares)[-2] < 0.5


@pytest.mark.release
@pytest.mark.real
def test_parrots_of_the_real_dialogues_are_copies_with_commas_prefixes_and_look_alikes(sample):
    said = {
        tuple(turn.text for turn in each.dialogue if turn.role == "user"): each
        for task in tracks(TaskOptions())
        for each in load(sample, task)
    }
    long = [(texts, each) for texts, each in said.items() if sum(map(len, texts)) > 120]
    assert len(long) > 70
    for texts, each in long:
        parts = [part.strip() for text in texts for part in re.split(r"[.!?。！？\n]+", text)]
        parts = list(filter(None, parts))
        for dressed in (
            ", ".join(parts),
            "\n".join(f"You said: {part}" for part in parts),
            "\n".join(texts).translate(LOOK_ALIKE),
        ):
            assert copied_share(dressed, each.dialogue) >= COPIED
