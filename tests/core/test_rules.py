"""What the embedded extractor reads in invented dialogues, and how it does on real ones."""

import re
import subprocess
import sys

import pytest

from alps.systems.rules import find_statements
from tests.conftest import ROOT


def statements(*turns):
    return find_statements([("user", turn) for turn in turns])


def values(*turns):
    return [statement.value for statement in statements(*turns)]


PLACE, NAME = "Personal_Background/Location", "Personal_Background/Identity"
BODY, JOB = "States_Experiences/Physical_State", "Personal_Background/Occupation"
SAID = {
    "en, a place": ("I live in Porto with my brother.", "Lives in Porto", PLACE),
    "en, allergy": ("I'm allergic to walnuts", "llergic to walnuts", BODY),
    "en, a job": ("Thanks! I work as a nurse.", "Works as a nurse", JOB),
    "en, a name": ("my name is Ines", "Name is Ines", NAME),
    "en, a dislike": ("I can't stand cilantro.", "Dislikes cilantro", "Preferences/"),
    "zh, a place": ("我住在苏州。", "住在苏州", PLACE),
    "zh, an allergy": ("我对核桃过敏。", "对核桃过敏", BODY),
    "zh, a like": ("我喜欢爬山", "喜欢爬山", "Preferences/"),
    "es, a place": ("Vivo en Rosario.", "Vivo en Rosario", PLACE),
    "es, a name": ("Me llamo Inés", "Me llamo Inés", NAME),
    "es, an allergy": ("Soy alérgico a las nueces.", "alérgico a las nueces", "States_Experiences"),
}


@pytest.mark.parametrize(("text", "value", "label"), SAID.values(), ids=SAID)
def test_what_a_user_plainly_says_is_found_with_its_label(text, value, label):
    found = statements(text)
    assert any(value in one.value and one.label.startswith(label) for one in found), found


BEES = "Keeps bees behind the church"
STATEMENTS = {
    "a habit": ("I repair old radios in my garage", "Repairs old radios in their garage"),
    "a row of its own": ("I teach pottery to children", "Teach pottery to children"),
    "y": ("I carry an umbrella every day", "Carries an umbrella every day"),
    "an adverb, a past form": ("I recently finished a marathon", "Finished a marathon"),
    "an irregular past form": ("I bought two canaries in May", "Bought two canaries in May"),
    "we": ("We are restoring a narrowboat", "Restoring a narrowboat"),
    "passive": ("I was raised by two aunts", "Raised by two aunts"),
    "what is mine": ("My main worry is the roof", "Main worry is the roof"),
    "a wish": ("I would love to sail to Iceland", "Wants to sail to Iceland"),
    "inside a request": ("Note down that I keep bees behind the church", BEES),
}


@pytest.mark.parametrize(("text", "value"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_in_the_first_person_is_put_into_the_third(text, value):
    assert value in values(text)


def test_two_statements_of_one_subject_are_two_memories():
    found = values("I have a degree in botany and spent three years in Norway.")
    assert found == ["Has a degree in botany", "Spent three years in Norway"]


OWNED = {
    "en, several": ("What can I cook for my husband and two sons?", "Has a husband and two sons"),
    "en, a pet": ("How do I train my dog?", "Has a dog"),
    "a thing with a name": ("How do I reset my Moto G7?", "Has a Moto G7"),
    "es": ("¿Qué le regalo a mi hermana?", "Has a sister"),
    "de": ("Meine Frau kocht heute", "Has a wife"),
    "zh": ("我姐姐明天来", "Has a sister"),
    "ru": ("Моя бабушка печёт хлеб", "Has a grandmother"),
    "fr": ("Mon chien dort", "Has a dog"),
    "a language to answer in": ("Please answer me in Spanish.", "Prefers answers in Spanish"),
}


@pytest.mark.parametrize(("text", "value"), OWNED.values(), ids=OWNED)
def test_relatives_pets_and_things_have_one_english_value_in_every_language(text, value):
    assert value in values(text)


NO_MEMORIES = {
    "talk about the talk": "I think you are wrong",
    "a reference": "I mean the second one",
    "an order": "I need you to rewrite the text",
    "my question": "My question is about the second chapter",
    "asking": "I am asking about the boiling point",
    "another's family": "Her husband and his dog are in the garden",
    "another's family, de": "Ihr Mann und sein Hund sind im Garten",
    "another's mother, zh": "他妈妈在家",
    "third person": "Marie Curie was born in Warsaw. She worked in Paris and won two prizes.",
    "third person, zh": "鲁迅住在上海。他喜欢木刻。",
    "third person, es": "Cervantes nació en Alcalá. Vivió en Argel cinco años.",
    "a question": "The train to Porto leaves at nine. What does a ticket cost?",
    "a task": "Convert 345 F to C",
    "fiction": "Write a story that begins: I live in a lighthouse and I love storms.",
    "a quotation": 'Translate: "I live in Porto and I am allergic to walnuts, dear sir."',
    "code": "```\n# I live in Porto\nI am allergic to walnuts\n```",
    "a role": "Let's roleplay. I am a pirate and I live on a ship.",
    "nothing": "",
}


@pytest.mark.parametrize("text", NO_MEMORIES.values(), ids=NO_MEMORIES)
def test_what_steers_the_conversation_or_is_somebody_elses_is_no_memory(text):
    assert values(text) == []


BAKING = (
    "How long do sourdough starters need in a cold kitchen?",
    "What are the capitals of three small island nations?",
    "Can you explain which flour suits sourdough starters in winter?",
)
LAW = [f"What did Byzantine law say about {topic}?" for topic in ("marriage", "taxes", "slavery")]


@pytest.mark.parametrize(
    ("turns", "subject"), [(BAKING, "sourdough starters"), (LAW, "Byzantine law")]
)
def test_of_several_requests_the_one_that_shares_most_is_a_curiosity(turns, subject):
    found = [one for one in statements(*turns) if one.type == "indirect"]
    assert [one.label for one in found] == ["Thoughts/Curiosity"]
    assert subject in found[0].value
    assert found[0].quote in turns[found[0].turn]


def test_the_same_thing_is_said_once_however_long_the_dialogue():
    turns = ("I live in Porto.", "As I said, I live in Porto.", "I live in Porto!")
    assert values(*turns) == ["Lives in Porto"]
    long = ("I live in Porto. " + "x y, " * 55_000, "a" * 50_000, "I am allergic to walnuts")
    assert "Lives in Porto" in values(*long)


def test_the_assistant_is_not_listened_to():
    assert find_statements([("assistant", "My wife and I restore boats. I keep bees.")]) == []


@pytest.mark.real
@pytest.mark.release
def test_unseen_real_sessions_judge_the_patterns(sample):
    full = sample.parent / "alpsbench_full"
    if not full.is_dir():
        pytest.skip(f"{full.name} is not beside the sample")
    words = [sys.executable, str(ROOT / "bench" / "rules.py"), str(sample), str(full)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    blocks = re.split(r"^(?=sample|unseen)", printed, flags=re.MULTILINE)[1:]
    assert [block.splitlines()[0] for block in blocks] == [
        "sample (looked at): 84 records",
        "unseen: 614 records",
    ]
    f1 = [float(re.search(r"rules +f1 (\S+)", block)[1]) for block in blocks]
    assert f1[0] >= 0.09
    assert f1[1] >= 0.035
    trivial = re.findall(r"floor/\S+ +f1 (\S+)", blocks[1])
    assert len(trivial) == 3
    assert max(map(float, trivial)) < 0.03
