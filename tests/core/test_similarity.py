import asyncio
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.judges.embedded import LexicalJudge
from alps.judges.relate import match_memories
from alps.similarity import THRESHOLD, features, numbers_of, similarity, similarity_matrix
from tests.builders import memories

REPRODUCIBLY = settings(max_examples=80, deadline=None, derandomize=True, database=None)
VOCABULARY = (
    "runs every sunday along the canal allergic walnuts no not 10 7 cello porto Porto US us "
    "didn't beagle march "
    "knots river cabin baker nurse rents light water bread plays chess black trout fence tulip "
    "paper ocean maple "
    "喜欢 川菜 不 يعمل في عمان גר בחיפה не живёт алергия café x"
)
TEXT = st.text(max_size=30) | st.lists(st.sampled_from(VOCABULARY.split()), max_size=9).map(
    " ".join
)

GOLDS = [
    "Allergic to cashews; walnuts are fine to eat",
    "Works night shifts at a bakery, starting at 11 pm",
    "Prefers short answers without tables",
    "Curious about the history of Byzantine law",
    "Wants to improve English writing",
    "Has a strong interest in topics such as music and film",
    "Asked for help with a Python script",
    "Lives in Hereford, almost two hours from his mother's home",
    "喜欢川菜，不吃香菜",
    "Tiene una hija que cumple 7 años el 2 de mayo",
    "يعمل مهندسا في عمان",
]
CONTENT_FREE = [
    "x",
    "...",
    "The user",
    "The user has interests and preferences",
    "The user asked the assistant questions about a topic",
    "The user wants helpful and accurate answers",
    "The user likes things",
    "The user prefers useful information",
    "用户有兴趣和偏好",
    "El usuario tiene preferencias",
]


@REPRODUCIBLY
@given(TEXT, TEXT)
def test_similarity_is_symmetric(one, other):
    assert similarity(one, other) == similarity(other, one)


@REPRODUCIBLY
@given(TEXT, TEXT)
def test_similarity_lies_between_zero_and_one(one, other):
    assert 0.0 <= similarity(one, other) <= 1.0


def test_the_same_words_in_another_order_are_not_more_than_identical():
    one = "runs porto along garden cello beagle oat tomato"
    assert similarity(one, "along runs cello garden oat tomato porto beagle") <= 1.0


@REPRODUCIBLY
@given(TEXT)
def test_a_value_is_identical_to_itself(text):
    assert similarity(text, text) == 1.0
    assert similarity(text, text.upper() if text.isascii() else text) == 1.0


@pytest.mark.parametrize("floor", CONTENT_FREE)
def test_a_content_free_value_matches_no_real_memory(floor):
    strengths = similarity_matrix(GOLDS, [floor])
    assert max(strength for (strength,) in strengths) < THRESHOLD / 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Eats meat", "Does not eat meat", id="not"),
        pytest.param("Has a dog at home", "Has no dog at home", id="no"),
        pytest.param("Is vegan", "Isn’t vegan", id="a typographic apostrophe"),
        pytest.param("Drinks alcohol", "Never drinks alcohol", id="never"),
        pytest.param("Cooks with garlic", "Cooks without garlic", id="without"),
        pytest.param(
            "Likes cilantro in salads", "Dislikes cilantro in salads", id="an opposite attitude"
        ),
        pytest.param("喜欢喝咖啡", "不喜欢喝咖啡", id="Chinese"),
        pytest.param("Le gusta el café solo", "No le gusta el café solo", id="Spanish"),
        pytest.param("يأكل اللحم", "لا يأكل اللحم", id="Arabic"),
        pytest.param("אוכל בשר", "לא אוכל בשר", id="Hebrew"),
        pytest.param("Ест мясо", "Не ест мясо", id="Russian"),
        pytest.param("肉を食べる", "肉を食べない", id="Japanese"),
    ],
)
def test_a_value_and_its_negation_do_not_match(one, other):
    assert similarity(one, other) < THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Does not eat meat", "The user doesn't eat meat", id="English"),
        pytest.param("不喜欢喝咖啡", "用户不喜欢喝咖啡", id="Chinese"),
        pytest.param(
            "No le gusta el café solo", "Al usuario no le gusta el café solo", id="Spanish"
        ),
        pytest.param("Не ест мясо", "Пользователь не ест мясо", id="Russian"),
    ],
)
def test_two_negations_of_the_same_match(one, other):
    assert similarity(one, other) >= THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Moves to Porto on May 3", "Moves to Porto on May 14", id="dates"),
        pytest.param("Runs 10 km every Sunday", "Runs 5 km every Sunday", id="distances"),
        pytest.param("Has a budget of 1,700 dinars", "Has a budget of 1,900 dinars", id="sums"),
        pytest.param("每天跑10公里", "每天跑5公里", id="Chinese"),
        pytest.param("ميزانيته ٧٠٠ دينار", "ميزانيته ٩٠٠ دينار", id="Arabic digits"),
    ],
)
def test_conflicting_numbers_do_not_match(one, other):
    assert similarity(one, other) < THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Owns 1,000 books", "Owns 1000 books"),
        ("ميزانيته ٧٠٠ دينار", "ميزانيته 700 دينار"),
        ("Runs １０ km", "Runs 10 km"),
    ],
    ids=["thousands", "Arabic digits", "full width digits"],
)
def test_the_same_number_written_otherwise_matches(one, other):
    assert similarity(one, other) >= THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Allergic to walnuts", "The user has an allergy to walnuts", id="English"),
        pytest.param("养了一只名叫团子的猫", "用户养了一只叫团子的猫", id="Chinese"),
        pytest.param(
            "在上海一家银行做数据分析师", "用户在上海的一家银行担任数据分析师", id="Chinese, a job"
        ),
        pytest.param(
            "Vive en Rosario con su hija",
            "El usuario vive en Rosario con su hija Lucía",
            id="Spanish",
        ),
        pytest.param(
            "Es alérgico a las nueces",
            "El usuario es alergico a las nueces",
            id="Spanish without accents",
        ),
        pytest.param(
            "يعمل مهندسا في عمان", "المستخدم يعمل مهندساً في عمّان", id="Arabic with vowel signs"
        ),
        pytest.param(
            "يدرس الهندسة المدنية في جامعة اليرموك",
            "طالب يدرس الهندسة المدنية بجامعة اليرموك",
            id="Arabic",
        ),
        pytest.param(
            "גר בחיפה עם אשתו ושני ילדים", "המשתמש גר בחיפה עם אשתו ושני ילדיו", id="Hebrew"
        ),
        pytest.param(
            "עובד כמורה למתמטיקה בתיכון",
            "המשתמש עובד כמורה למתמטיקה בבית ספר תיכון",
            id="Hebrew, a job",
        ),
        pytest.param(
            "Живёт в Казани и работает медсестрой",
            "Пользователь живет в Казани, работает медсестрой",
            id="Russian",
        ),
        pytest.param(
            "Учится играть на виолончели",
            "Пользователь учится игре на виолончели",
            id="Russian, inflected",
        ),
    ],
)
def test_the_same_fact_slightly_reworded_matches(one, other):
    assert similarity(one, other) >= THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Lives in Porto", "Works in Lisbon", id="English"),
        pytest.param(
            "The user likes chess", "The user likes sailing", id="phrasing alone is shared"
        ),
        pytest.param("养了一只猫", "在银行做数据分析师", id="Chinese"),
        pytest.param("Vive en Rosario", "Trabaja de enfermera", id="Spanish"),
        pytest.param("يعمل مهندسا في عمان", "لديه قطة في البيت", id="Arabic"),
        pytest.param("גר בחיפה", "אלרגי לאגוזים", id="Hebrew"),
        pytest.param("Живёт в Казани", "Учится играть на виолончели", id="Russian"),
    ],
)
def test_different_facts_do_not_match(one, other):
    assert similarity(one, other) < THRESHOLD


def test_a_name_in_capitals_is_not_a_function_word():
    assert similarity("Lives in the US", "Lives in the UK") < THRESHOLD
    assert similarity("Moved to LA last year", "The user moved to LA last year") >= THRESHOLD


def test_what_negates_nothing_is_no_negation():
    assert (
        similarity("Prefers non-technical books", "The user prefers non-technical books")
        >= THRESHOLD
    )
    assert similarity("英语不错，会弹吉他", "用户英语很好，会弹吉他") >= THRESHOLD


def test_the_matrix_has_a_row_a_gold_value_and_a_column_a_prediction():
    matrix = similarity_matrix(["Owns a cat", "Owns a car"], ["Owns a car", "x", "Owns a cat"])
    assert matrix[0][2] == matrix[1][0] == 1.0
    assert [len(row) for row in matrix] == [3, 3]
    assert matrix[0][1] == matrix[1][1] == 0.0


PROGRAM = """
from alps.similarity import similarity_matrix
values = {values!r}
print(similarity_matrix(values, values))
"""


def test_similarity_does_not_depend_on_the_hash_seed():
    draw = random.Random(2)
    long = [
        " ".join(draw.sample(VOCABULARY.split(), 20)) + " 喜欢在苏州喝碧螺春" for _ in range(12)
    ]
    values = [*GOLDS, *CONTENT_FREE, *long]
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(values=values)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(printed) == 1


def test_the_lexical_judge_names_exactly_the_pairs_from_the_threshold_up():
    gold = memories("Allergic to walnuts", "Lives in Porto")
    predicted = memories("Has an allergy to walnuts", "Lives in Lisbon", "x")
    judged = asyncio.run(match_memories(gold, predicted, judge=LexicalJudge(), about="b1"))
    assert [(p.gold, p.predicted, p.relation) for p in judged.pairs] == [(0, 0, "same")]
    assert judged.pairs[0].strength >= THRESHOLD


def test_the_lexical_judge_is_not_comparable_and_tells_nothing_but_same():
    judge = LexicalJudge()
    assert judge.relations == {"same"}
    assert not judge.comparable
    assert judge.fingerprint["threshold"] == THRESHOLD


@REPRODUCIBLY
@given(TEXT | st.text("0123 45.,不没5٣۴५৫ ne-pas' no,l'1Ⅷ½x無ないkg٫は的用户", max_size=14))
def test_the_numbers_of_a_text_are_those_of_its_features(text):
    assert numbers_of(text) == features(text).numbers
