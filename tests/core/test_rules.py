"""What the embedded extractor reads in invented dialogues, and how it does on real ones."""

import re
import subprocess
import sys

import pytest

from alps.systems.rules import find_statements
from tests.conftest import ROOT


def values(*turns):
    return [statement.value for statement in find_statements([("user", turn) for turn in turns])]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            "I repair old radios in my garage", "Repairs old radios in their garage", id="a habit"
        ),
        pytest.param(
            "I teach pottery to children", "Teach pottery to children", id="a row of its own"
        ),
        pytest.param("I carry an umbrella every day", "Carries an umbrella every day", id="y"),
        pytest.param(
            "I recently finished a marathon", "Finished a marathon", id="an adverb, a past form"
        ),
        pytest.param(
            "I bought two canaries in May",
            "Bought two canaries in May",
            id="an irregular past form",
        ),
        pytest.param("We are restoring a narrowboat", "Restoring a narrowboat", id="we"),
        pytest.param("I was raised by two aunts", "Raised by two aunts", id="passive"),
        pytest.param("My main worry is the roof", "Main worry is the roof", id="what is mine"),
        pytest.param("I would love to sail to Iceland", "Wants to sail to Iceland", id="a wish"),
        pytest.param(
            "Note down that I keep bees behind the church",
            "Keeps bees behind the church",
            id="inside a request",
        ),
    ],
)
def test_a_statement_in_the_first_person_is_put_into_the_third(text, value):
    assert value in values(text)


def test_two_statements_of_one_subject_are_two_memories():
    found = values("I have a degree in botany and spent three years in Norway.")
    assert found == ["Has a degree in botany", "Spent three years in Norway"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            "What can I cook for my husband and two sons?",
            "Has a husband and two sons",
            id="en, several",
        ),
        pytest.param("How do I train my dog?", "Has a dog", id="en, a pet"),
        pytest.param("How do I reset my Moto G7?", "Has a Moto G7", id="a thing with a name"),
        pytest.param("¿Qué le regalo a mi hermana?", "Has a sister", id="es"),
        pytest.param("Meine Frau kocht heute", "Has a wife", id="de"),
        pytest.param("我姐姐明天来", "Has a sister", id="zh"),
        pytest.param("Моя бабушка печёт хлеб", "Has a grandmother", id="ru"),
        pytest.param("Mon chien dort", "Has a dog", id="fr"),
        pytest.param(
            "Please answer me in Spanish.",
            "Prefers answers in Spanish",
            id="a language to answer in",
        ),
    ],
)
def test_relatives_pets_and_things_have_one_english_value_in_every_language(text, value):
    assert value in values(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("I think you are wrong", id="talk about the talk"),
        pytest.param("I mean the second one", id="a reference"),
        pytest.param("I need you to rewrite the text", id="an order"),
        pytest.param("My question is about the second chapter", id="my question"),
        pytest.param("I am asking about the boiling point", id="asking"),
        pytest.param("Her husband and his dog are in the garden", id="another's family"),
        pytest.param("Ihr Mann und sein Hund sind im Garten", id="another's family, de"),
        pytest.param("他妈妈在家", id="another's mother, zh"),
    ],
)
def test_what_steers_the_conversation_or_is_somebody_elses_is_no_memory(text):
    assert values(text) == []


def test_of_several_requests_the_one_that_shares_most_is_a_curiosity():
    turns = (
        "How long do sourdough starters need in a cold kitchen?",
        "What are the capitals of three small island nations?",
        "Can you explain which flour suits sourdough starters in winter?",
    )
    found = [s for s in find_statements([("user", turn) for turn in turns]) if s.type == "indirect"]
    assert len(found) == 1
    assert "sourdough starters" in found[0].value
    assert found[0].quote in turns[found[0].turn]


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
