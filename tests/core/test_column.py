import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.run.scores import RecordColumn

REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)
GAPS = st.integers(min_value=0, max_value=3)
SMALL = st.integers(min_value=0, max_value=254).map(float)
ANY = st.one_of(
    SMALL, st.sampled_from([255.0, 256.0, -1.0, 0.5, math.nan, math.inf]), st.floats(width=64)
)


@REPRODUCIBLY
@given(st.lists(st.tuples(GAPS, SMALL)), st.lists(st.tuples(GAPS, ANY)))
def test_a_column_gives_back_what_was_put_into_it_and_nothing_between(small, others):
    column, expected = RecordColumn(), []
    for gap, number in [*small, *others]:
        expected += [math.nan] * gap
        column.put(len(expected), number)
        expected.append(number)
    assert len(column) == len(expected)
    assert np.array_equal(column.numbers(), np.array(expected, dtype=np.float64), equal_nan=True)


@pytest.mark.parametrize(("number", "most"), [(254.0, 1.3), (0.5, 9.3)])
def test_whole_numbers_take_a_byte_each_and_others_eight(number, most):
    count = 50_000
    tracemalloc.start()
    try:
        column = RecordColumn()
        for place in range(count):
            column.put(place, number)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most / 2 < taken / count < most
