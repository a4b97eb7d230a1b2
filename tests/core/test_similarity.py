"""Similarity: what matches, in which scripts, and that its figures are those of its version."""

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alps.judges.embedded import LexicalJudge
from alps.judges.matching import match_memories
from alps.similarity import (
    THRESHOLD,
    VERSION,
    features,
    features_of_any_script,
    numbers_of,
    similar_pairs,
    similarity,
    similarity_matrix,
)
from alps.text import fold, fold_loosely
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
def test_similarity_is_symmetric_and_lies_between_zero_and_one(one, other):
    assert 0.0 <= similarity(one, other) == similarity(other, one) <= 1.0


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


DIFFERENT = {
    "negated by not": ("Eats meat", "Does not eat meat"),
    "negated by no": ("Has a dog at home", "Has no dog at home"),
    "negated with a typographic apostrophe": ("Is vegan", "Isn’t vegan"),
    "negated by never": ("Drinks alcohol", "Never drinks alcohol"),
    "negated by without": ("Cooks with garlic", "Cooks without garlic"),
    "an opposite attitude": ("Likes cilantro in salads", "Dislikes cilantro in salads"),
    "negated in Chinese": ("喜欢喝咖啡", "不喜欢喝咖啡"),
    "negated in Spanish": ("Le gusta el café solo", "No le gusta el café solo"),
    "negated in Arabic": ("يأكل اللحم", "لا يأكل اللحم"),
    "negated in Hebrew": ("אוכל בשר", "לא אוכל בשר"),
    "negated in Russian": ("Ест мясо", "Не ест мясо"),
    "negated in Japanese": ("肉を食べる", "肉を食べない"),
    "other dates": ("Moves to Porto on May 3", "Moves to Porto on May 14"),
    "other distances": ("Runs 10 km every Sunday", "Runs 5 km every Sunday"),
    "other sums": ("Has a budget of 1,700 dinars", "Has a budget of 1,900 dinars"),
    "another number in Chinese": ("每天跑10公里", "每天跑5公里"),
    "other Arabic digits": ("ميزانيته ٧٠٠ دينار", "ميزانيته ٩٠٠ دينار"),
    "another fact in English": ("Lives in Porto", "Works in Lisbon"),
    "phrasing alone is shared": ("The user likes chess", "The user likes sailing"),
    "another fact in Chinese": ("养了一只猫", "在银行做数据分析师"),
    "another fact in Spanish": ("Vive en Rosario", "Trabaja de enfermera"),
    "another fact in Arabic": ("يعمل مهندسا في عمان", "لديه قطة في البيت"),
    "another fact in Hebrew": ("גר בחיפה", "אלרגי לאגוזים"),
    "another fact in Russian": ("Живёт в Казани", "Учится играть на виолончели"),
    "a name in capitals is no function word": ("Lives in the US", "Lives in the UK"),
}
ALIKE = {
    "negated twice in English": ("Does not eat meat", "The user doesn't eat meat"),
    "negated twice in Chinese": ("不喜欢喝咖啡", "用户不喜欢喝咖啡"),
    "negated twice in Spanish": ("No le gusta el café solo", "Al usuario no le gusta el café solo"),
    "negated twice in Russian": ("Не ест мясо", "Пользователь не ест мясо"),
    "thousands": ("Owns 1,000 books", "Owns 1000 books"),
    "Arabic digits": ("ميزانيته ٧٠٠ دينار", "ميزانيته 700 دينار"),
    "full width digits": ("Runs １０ km", "Runs 10 km"),
    "English": ("Allergic to walnuts", "The user has an allergy to walnuts"),
    "Chinese": ("养了一只名叫团子的猫", "用户养了一只叫团子的猫"),
    "Chinese, a job": ("在上海一家银行做数据分析师", "用户在上海的一家银行担任数据分析师"),
    "Spanish": ("Vive en Rosario con su hija", "El usuario vive en Rosario con su hija Lucía"),
    "Spanish without accents": ("Es alérgico a las nueces", "El usuario es alergico a las nueces"),
    "Arabic with vowel signs": ("يعمل مهندسا في عمان", "المستخدم يعمل مهندساً في عمّان"),
    "Arabic": ("يدرس الهندسة المدنية في جامعة اليرموك", "طالب يدرس الهندسة المدنية بجامعة اليرموك"),
    "Hebrew": ("גר בחיפה עם אשתו ושני ילדים", "המשתמש גר בחיפה עם אשתו ושני ילדיו"),
    "Hebrew, a job": ("עובד כמורה למתמטיקה בתיכון", "המשתמש עובד כמורה למתמטיקה בבית ספר תיכון"),
    "Russian": (
        "Живёт в Казани и работает медсестрой",
        "Пользователь живет в Казани, работает медсестрой",
    ),
    "Russian, inflected": ("Учится играть на виолончели", "Пользователь учится игре на виолончели"),
    "a name in capitals": ("Moved to LA last year", "The user moved to LA last year"),
    "what negates nothing": ("Prefers non-technical books", "The user prefers non-technical books"),
    "what negates nothing in Chinese": ("英语不错，会弹吉他", "用户英语很好，会弹吉他"),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_negates_contradicts_or_has_another_subject_does_not_match(one, other):
    assert similarity(one, other) < THRESHOLD


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_the_same_slightly_reworded_matches(one, other):
    assert similarity(one, other) >= THRESHOLD


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


@REPRODUCIBLY
@given(TEXT | st.text("0123 45.,不没5٣۴५৫ ne-pas' no,l'1Ⅷ½x無ないkg٫は的用户", max_size=14))
def test_the_numbers_of_a_text_are_those_of_its_features(text):
    assert numbers_of(text) == features(text).numbers


WORDS = (
    "runs running every sunday allergic walnuts no not non non-technical never non-smoker 10 7 "
    "1,000 1000 2.5 no1 no_x "
    "US us IT it LA didn't user's l'eau cello cellist porto Portuguese the user prefers likes a "
    "ab abc abcdef "
    "喜欢 喜欢川菜 不 不吃香菜 يعمل في عمان גר בחיפה не живёт café CAFÉ naïve "
    "straße x , - _ … “tea” don’t "
    "कॉफ़ी ½"
)
PIECES = WORDS.split()
VALUE = st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join) | st.text(max_size=20)
LIST = st.lists(VALUE, max_size=5)


def every_pair(
    golds: list[str], predictions: list[str], threshold: float
) -> list[tuple[int, int, float]]:
    matrix = similarity_matrix(golds, predictions)
    pairs = [
        (row, column, strength)
        for row, line in enumerate(matrix)
        for column, strength in enumerate(line)
    ]
    return [pair for pair in pairs if pair[2] >= threshold]


@REPRODUCIBLY
@given(LIST, LIST, st.sampled_from([0.01, 0.3, 0.5, THRESHOLD, 0.9, 1.0]))
@example([], ["x"], THRESHOLD)
@example(["x"], [], THRESHOLD)
@example(["pays 1,000 euros"], ["pays 1000 euros"], THRESHOLD)
@example(["not a non-smoker"], ["non-smoker"], 0.3)
@example(["", "the user", "..."], ["", "the user", "…"], 1.0)
@example(["喜欢川菜"], ["用户喜欢川菜 10,5"], 0.3)
def test_the_pairs_found_are_those_that_comparing_every_pair_finds_to_the_last_digit(
    golds, predictions, threshold
):
    assert similar_pairs(golds, predictions, threshold) == every_pair(golds, predictions, threshold)
    within = similar_pairs(golds, golds, threshold, later=True)
    assert within == [pair for pair in every_pair(golds, golds, threshold) if pair[0] < pair[1]]


def test_values_that_share_most_of_their_words_are_found_among_hundreds():
    words = random.Random(5)
    golds = [" ".join(words.choices(PIECES, k=7)) for _ in range(60)]
    predictions = [" ".join([*gold.split()[:5], *words.choices(PIECES, k=2)]) for gold in golds]
    found = similar_pairs(golds, predictions, THRESHOLD)
    assert len(found) > 30
    assert found == every_pair(golds, predictions, THRESHOLD)


@REPRODUCIBLY
@given(VALUE)
@example("not a non-smoker")
@example("pays 1,000 euros, it is the US")
def test_plain_words_are_read_by_a_shorter_way_to_the_same_figures(value):
    assert features(value) == features_of_any_script(value)


def test_the_figures_are_those_of_the_version_in_the_fingerprint_of_the_judge():
    """Whoever changes a figure raises `VERSION`, writes the hash of the new ones here, and packs
    submissions again.
    """
    draw = random.Random(1)
    values = [" ".join(draw.choices(PIECES, k=draw.randint(1, 9))) for _ in range(200)]
    figures = json.dumps(
        [[round(figure, 12) for figure in row] for row in similarity_matrix(values, values)]
    )
    assert (VERSION, hashlib.sha256(figures.encode()).hexdigest()[:16]) == (1, "765a90592ad4fc9d")
    judge = LexicalJudge()
    assert judge.fingerprint == {"judge": "lexical", "threshold": THRESHOLD, "version": VERSION}
    assert (judge.relations, judge.comparable) == ({"same"}, False)


SCORES = (
    ("Plays the cello in an amateur quartet", "The user plays cello in a quartet", 0.831168831169),
    ("Allergic to walnuts", "Is not allergic to walnuts", 0.488372093023),
    ("Runs 10 km every Sunday", "Runs 5 km every Sunday", 0.400000000000),
    ("Runs 10 km every Sunday", "Running every sunday, 10 km", 0.850000000000),
    ("Interested in Portuguese cooking", "User likes cooking Portuguese food", 0.740740740741),
    ("Non-smoker", "Never smokes", 0.250000000000),
    ("Moved to the US in 2019", "Told us of moving in 2019", 0.409090909091),
    ("Pays 1,000 euros of rent", "Pays 1000 euros of rent", 1.000000000000),
    ("l'eau de la source", "Boit de l’eau de source", 0.792452830189),
    ("Naïve café owner", "naive CAFE owners", 0.916666666667),
    ("喜欢吃川菜", "用户喜欢川菜", 0.600000000000),
    ("不喜欢香菜", "喜欢香菜", 0.500000000000),
    ("يعمل مهندسًا في عمان", "مهندس في عمّان", 0.711538461538),
    ("גר בחיפה עם שתי בנות", "גרה בחיפה", 0.327868852459),
    ("Не ест мясо", "Ест мясо", 0.500000000000),
    ("कॉफ़ी पसंद है", "कॉफी पीता है", 0.262626262626),
    ("서울에서 일한다", "서울에 산다", 0.500000000000),
    ("Die Straße ist laut", "die strasse ist sehr laut", 0.814814814815),
    ("The user", "User", 0.000000000000),
    ("Keeps bees", "Owns a tram ticket", 0.000000000000),
)
FOLDED = (
    ("\u00c9", "a\u00e9b", "aeb"),
    ("\u00df", "assb", "assb"),
    ("\ufb01", "afib", "afib"),
    ("\u2167", "aviiib", "aviiib"),
    ("\u00bd", "a1\u20442b", "a1\u20442b"),
    ("\u00b2", "a2b", "a2b"),
    ("\uff21", "aab", "aab"),
    ("\u3000", "a b", "a b"),
    ("\u00a0", "a b", "a b"),
    ("\u200b", "ab", "ab"),
    ("\u0130", "ai\u0307b", "aib"),
    ("\u03c2", "a\u03c3b", "a\u03c3b"),
    ("\u0451", "a\u0451b", "a\u0435b"),
    ("\u00f1", "a\u00f1b", "anb"),
    ("\u0627\u064b", "a\u0627\u064bb", "a\u0627b"),
    ("\u05e9\u05b8\u05c1", "a\u05e9\u05b8\u05c1b", "a\u05e9b"),
    ("\u0663", "a\u0663b", "a3b"),
    ("\u096a", "a\u096ab", "a4b"),
    ("\u304c", "a\u304cb", "a\u304cb"),
    ("\u0915\u093c", "a\u0915\u093cb", "a\u0915\u093cb"),
    ("\u0e44\u0e49", "a\u0e44\u0e49b", "a\u0e44\u0e49b"),
    ("\u2019", "a\u2019b", "a'b"),
    ("\u0153", "a\u0153b", "a\u0153b"),
    ("\u0131", "a\u0131b", "a\u0131b"),
)
"""Characters between two letters, folded, and folded loosely."""


@pytest.mark.parametrize(("first", "second", "score"), SCORES)
def test_what_the_judge_finds_is_what_its_fingerprint_stands_for(first, second, score):
    """Where this fails, do as the test of the version says."""
    assert round(similarity(first, second), 12) == score
    found = [round(strength, 12) for _, _, strength in similar_pairs([first], [second], 1e-9)]
    assert found == ([score] if score else [])


def test_texts_are_folded_as_its_fingerprint_stands_for():
    found = tuple((one, fold(f"a{one}b"), fold_loosely(f"a{one}b")) for one, _, _ in FOLDED)
    assert found == FOLDED
