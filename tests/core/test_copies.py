"""A copy of the dialogue, or nothing said, is found however it is dressed; own words are left
alone.
"""

import re
from dataclasses import replace

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
PREFIXES = (
    "You said: ",
    "Earlier you told me that ",
    "Also, ",
    "Then you wrote: ",
    "And I remember this: ",
)
JOINED = ". ".join(SENTENCES)


def between(mark: str) -> str:
    return mark.join(JOINED)


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
        f"{prefix}{sentence}" for prefix, sentence in zip(PREFIXES, SENTENCES, strict=True)
    ),
    "Cyrillic look-alikes": JOINED.translate(LOOK_ALIKE),
    "fullwidth": "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in JOINED),
    "mathematical bold": "".join(
        chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c for c in JOINED
    ),
    "accents": "".join(f"{c}\u0301" if c in "aeiou" else c for c in JOINED),
    **{
        f"U+{ord(mark):04X} between": between(mark)
        for mark in "\u200b\u200d\u2060\ufeff\u00ad\u034f\u3164\u115f\uffa0\u2800"
    },
    "tags between": between("\U000e0041"),
}


@pytest.mark.parametrize("dressed", DRESSED.values(), ids=DRESSED)
@pytest.mark.parametrize("name", ["vra", "ei"])
def test_a_copy_is_one_however_it_is_dressed(name, dressed):
    question = RubricQuestion(rubric(name), QUERY, dressed, "Gets seasick", TURNS)
    assert broken_rule(question) == COPY


def test_words_of_the_dialogue_in_another_order_are_a_copy():
    backwards = " ".join(" ".join(SENTENCES).split()[::-1])
    question = RubricQuestion(rubric("vra"), QUERY, backwards, "Gets seasick", TURNS)
    assert broken_rule(question) == COPY
    short = " ".join(backwards.split()[:29])
    assert broken_rule(replace(question, response=short)) is None
    own = f"{backwards} and perhaps three calmer indoor afternoons"
    assert broken_rule(replace(question, response=own)) is None


CHINESE = (
    Turn(
        role="user",
        text="我下个月要搬到成都去住，因为我妻子在那边的医院找到了新的工作，所以我们打算先租房。",
    ),
)
RUSSIAN = (
    Turn(
        role="user",
        text="Весной мы с женой переехали в Казань. Она работает в роддоме, а я пока ищу место.",
    ),
)


@pytest.mark.parametrize(
    ("dialogue", "response"),
    [
        (
            CHINESE,
            "您说：我下个月要搬到成都去住！因为——我妻子在那边的医院找到了新的工作；所以我们打算先租房",
        ),
        (CHINESE, "\u3164".join(CHINESE[0].text)),
        (RUSSIAN, RUSSIAN[0].text.upper()),
        (RUSSIAN, RUSSIAN[0].text.translate(str.maketrans("асеорху", "aceopxy"))),
    ],
)
def test_so_it_is_in_other_scripts(dialogue, response):
    assert copied_share(response, dialogue) >= COPIED


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
    question = RubricQuestion(rubric("pa"), QUERY, response, "Gets seasick", TURNS)
    assert broken_rule(question) is None


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "response",
    [
        "\u3164",
        "\u3164 \uffa0\u115f\u1160",
        "\u2800" * 40,
        "\u200b\u2060",
        "\U000e0041\U000e0042",
        "\u00ad.\u034f",
        "🫥",
    ],
    ids=ascii,
)
def test_what_nobody_sees_says_nothing(name, response):
    assert broken_rule(RubricQuestion(rubric(name), "Why?", response, "", ())) == EMPTY


def test_the_query_in_look_alikes_is_the_query():
    query = QUERY
    for response in (
        query.translate(LOOK_ALIKE),
        "\u200b".join(query),
        "WHAT, shall I do – on Sunday",
    ):
        assert (
            broken_rule(RubricQuestion(rubric("memory_used"), query, response, "", ()))
            == "the answer only repeats the query"
        )
    assert (
        broken_rule(RubricQuestion(rubric("memory_used"), query, f"{query} Sail.", "", ())) is None
    )


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
    assert (
        own_text(
            f"{SENTENCES[0].upper()}. Take the bus. {SENTENCES[3].translate(LOOK_ALIKE)}", TURNS
        )
        == "Take the bus"
    )


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
        parts = [
            part.strip()
            for text in texts
            for part in re.split(r"[.!?。！？\n]+", text)
            if part.strip()
        ]
        for dressed in (
            ", ".join(parts),
            "\n".join(f"You said: {part}" for part in parts),
            "\n".join(texts).translate(LOOK_ALIKE),
        ):
            assert copied_share(dressed, each.dialogue) >= COPIED
