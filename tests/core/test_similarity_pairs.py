import hashlib
import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alps.judges.embedded import LexicalJudge
from alps.similarity import (
    THRESHOLD,
    VERSION,
    features,
    features_of_any_script,
    similar_pairs,
    similarity,
    similarity_matrix,
)
from alps.text import fold, fold_loosely

REPRODUCIBLY = settings(max_examples=80, deadline=None, derandomize=True, database=None)
WORDS = (
    "runs running every sunday allergic walnuts no not non non-technical never non-smoker 10 7 "
    "1,000 1000 2.5 no1 no_x "
    "US us IT it LA didn't user's l'eau cello cellist porto Portuguese the user prefers likes a "
    "ab abc abcdef "
    "喜欢 喜欢川菜 不 不吃香菜 يعمل في عمان גר בחיפה не живёт café CAFÉ naïve "
    "straße x , - _ … “tea” don’t "
    "कॉफ़ी ½"
)
VOCABULARY = WORDS.split()
VALUE = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join) | st.text(max_size=20)
GOLDEN = (1, "765a90592ad4fc9d")
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
@example(["pays 1,000 euros"], ["pays 1000 euros"], THRESHOLD)
@example(["not a non-smoker"], ["non-smoker"], 0.3)
@example(["", "the user", "..."], ["", "the user", "…"], 1.0)
@example(["喜欢川菜"], ["用户喜欢川菜 10,5"], 0.3)
def test_the_pairs_found_are_those_that_comparing_every_pair_finds_to_the_last_digit(
    golds, predictions, threshold
):
    assert similar_pairs(golds, predictions, threshold) == every_pair(golds, predictions, threshold)


def test_values_that_share_most_of_their_words_are_found_among_hundreds():
    words = random.Random(5)
    golds = [" ".join(words.choices(VOCABULARY, k=7)) for _ in range(60)]
    predictions = [" ".join([*gold.split()[:5], *words.choices(VOCABULARY, k=2)]) for gold in golds]
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
    values = [" ".join(draw.choices(VOCABULARY, k=draw.randint(1, 9))) for _ in range(200)]
    figures = json.dumps(
        [[round(figure, 12) for figure in row] for row in similarity_matrix(values, values)]
    )
    assert (VERSION, hashlib.sha256(figures.encode()).hexdigest()[:16]) == GOLDEN
    assert LexicalJudge().fingerprint == {
        "judge": "lexical",
        "threshold": THRESHOLD,
        "version": VERSION,
    }


@pytest.mark.parametrize(("golds", "predictions"), [([], ["x"]), (["x"], []), ([], [])])
def test_nothing_is_found_where_there_is_nothing(golds, predictions):
    assert similar_pairs(golds, predictions, THRESHOLD) == []


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
AS_BEFORE = """
What the lexical judge says has changed, and its fingerprint is of the bytes of \
alps/similarity.py alone: scores under
one fingerprint would no longer be of one judge. Undo the change in alps/text.py, \
alps/similarity.py or the version of
Python's Unicode tables; or, where it is meant, change alps/similarity.py with it \
(a line of its docstring will do),
so that the fingerprint changes, too, and then these figures.
"""


@pytest.mark.parametrize(("first", "second", "score"), SCORES)
def test_what_the_judge_finds_is_what_its_fingerprint_stands_for(first, second, score):
    assert round(similarity(first, second), 12) == score, AS_BEFORE
    assert [round(found, 12) for _, _, found in similar_pairs([first], [second], 1e-9)] == (
        [score] if score else []
    ), AS_BEFORE


def test_texts_are_folded_as_its_fingerprint_stands_for():
    found = tuple((one, fold(f"a{one}b"), fold_loosely(f"a{one}b")) for one, _, _ in FOLDED)
    assert found == FOLDED, AS_BEFORE
