import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alps.judges import similarity as definition
from alps.judges.alike import alike
from alps.judges.lexical import LexicalJudge
from alps.judges.similarity import THRESHOLD, similarity_matrix

REPRODUCIBLY = settings(max_examples=150, deadline=None, derandomize=True, database=None)
WORDS = (
    "runs running every sunday allergic walnuts no not non non-technical never non-smoker 10 7 1,000 1000 2.5 no1 no_x "
    "US us IT it LA didn't user's l'eau cello cellist porto Portuguese the user prefers likes a ab abc abcdef "
    "喜欢 喜欢川菜 不 不吃香菜 يعمل في عمان גר בחיפה не живёт café CAFÉ naïve straße x , - _ … “tea” don’t कॉफ़ी ½"
)
VOCABULARY = WORDS.split()
VALUE = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join) | st.text(max_size=20)
LIST = st.lists(VALUE, max_size=5)


def every_pair(golds: list[str], predictions: list[str], threshold: float) -> list[tuple[int, int, float]]:
    matrix = similarity_matrix(golds, predictions)
    pairs = [(row, column, strength) for row, line in enumerate(matrix) for column, strength in enumerate(line)]
    return [pair for pair in pairs if pair[2] >= threshold]


@REPRODUCIBLY
@given(LIST, LIST, st.sampled_from([0.01, 0.3, 0.5, THRESHOLD, 0.9, 1.0]))
@example(["pays 1,000 euros"], ["pays 1000 euros"], THRESHOLD)
@example(["not a non-smoker"], ["non-smoker"], 0.3)
@example(["", "the user", "..."], ["", "the user", "…"], 1.0)
@example(["喜欢川菜"], ["用户喜欢川菜 10,5"], 0.3)
def test_the_pairs_found_are_those_that_comparing_every_pair_finds_to_the_last_digit(golds, predictions, threshold):
    assert alike(golds, predictions, threshold) == every_pair(golds, predictions, threshold)


def test_values_that_share_most_of_their_words_are_found_among_hundreds():
    words = random.Random(5)
    golds = [" ".join(words.choices(VOCABULARY, k=7)) for _ in range(60)]
    predictions = [" ".join([*gold.split()[:5], *words.choices(VOCABULARY, k=2)]) for gold in golds]
    found = alike(golds, predictions, THRESHOLD)
    assert len(found) > 30
    assert found == every_pair(golds, predictions, THRESHOLD)


def test_the_fingerprint_of_the_judge_is_of_the_definition():
    source = Path(definition.__file__).read_bytes()
    assert LexicalJudge().fingerprint["code"] == hashlib.sha256(source).hexdigest()


@pytest.mark.parametrize(("golds", "predictions"), [([], ["x"]), (["x"], []), ([], [])])
def test_nothing_is_found_where_there_is_nothing(golds, predictions):
    assert alike(golds, predictions, THRESHOLD) == []
