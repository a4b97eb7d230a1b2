import time

import pytest

from alps.text import is_rejected, shown_value

REJECTED = [
    pytest.param("Owns a cat [ERROR: not said by the user]", id="one mark"),
    pytest.param("Owns a cat\n[ERROR: not said\nby the user]  ", id="over two lines"),
    pytest.param("Owns a cat [ERROR: cut off", id="a mark that is cut off"),
    pytest.param(
        "Owns a cat [ERROR: label [Possessions/Car] is wrong]", id="brackets inside the mark"
    ),
    pytest.param("Owns a cat [ERROR: not said] [ERROR: not about the user]", id="two marks"),
    pytest.param("Owns a cat [ERROR: see [ERROR: not said]]", id="a mark inside the mark"),
    pytest.param(
        "Owns a cat [ERROR: label [Possessions/Car] is", id="a mark with brackets that is cut off"
    ),
]


@pytest.mark.parametrize("value", REJECTED)
def test_the_mark_of_rejected_gold_is_counted_and_never_shown(value):
    assert is_rejected(value)
    assert shown_value(value) == "Owns a cat"


@pytest.mark.parametrize(
    "value",
    [
        "Owns a cat",
        "Sees [ERROR: 404] in the log every day",
        "Sees [ERROR: 404] on [site]",
        "Fixes an ERROR",
    ],
)
def test_a_value_that_only_speaks_of_errors_is_not_rejected(value):
    assert not is_rejected(value)
    assert shown_value(value) == value


def test_of_a_value_that_speaks_of_errors_only_the_mark_at_its_end_is_not_shown():
    value = "Sees [ERROR: 404] daily [ERROR: not said]"
    assert is_rejected(value)
    assert shown_value(value) == "Sees [ERROR: 404] daily"


def test_a_value_that_is_nothing_but_the_mark_is_still_shown():
    assert shown_value("[ERROR: no value]") == "[ERROR: no value]"


def test_a_run_of_white_space_in_a_value_does_not_hang():
    began = time.process_time()
    shown_value("a" + " " * 30_000 + "b")
    assert time.process_time() - began < 0.3
