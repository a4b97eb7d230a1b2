"""Texts of strangers that a pattern could take minutes over, and what is read out of ordinary ones
all the same.
"""

import re
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.ext.datasets.audit_pools import natural
from alps.ext.datasets.audit_records import _OMISSION, _is_said
from alps.ext.looking.dialogue import _ELLIPSIS, locate
from alps.ext.looking.record_text import _tidy
from alps.llm.replies import _unfenced, readings
from alps.schema import Evidence, Turn
from alps.text import fold_loosely
from tests.builders import memory

MANY = 100_000
SECONDS = 3
"""Generous: patterns that went back over white space took a minute and more."""

REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)
MARKED = st.lists(
    st.sampled_from([*' \t\n\r\u3000`ab.…[](){}"', "```", "...", "\n\n", "[…]"]), max_size=24
).map("".join)


def quotes(text):
    evidence = Evidence(session_id=None, text=text, utterance_index=0)
    return locate({"g1": memory("x", evidence=evidence)}, [Turn(role="user", text="Hm.")])


@pytest.mark.parametrize(
    "read",
    [
        lambda: list(readings('{"memory_items": [{"value": "x"' + "\n" * MANY + "x")),
        lambda: _is_said("Hm" + " " * MANY + "x", "hm"),
        lambda: quotes("Hm" + " " * MANY + "x"),
        lambda: _tidy("Hm" + " " * MANY + "x"),
    ],
    ids=["answer", "quote in the audit", "quote in the report", "turn on the terminal"],
)
def test_a_long_run_of_white_space_is_read_at_once(read):
    started = process_time()
    read()
    assert process_time() - started < SECONDS


@REPRODUCIBLY
@given(MARKED)
def test_a_closing_fence_is_what_a_pattern_would_find(text):
    assert _unfenced(text) == re.sub(r"\s*```[^\n]*\s*\Z", "", text)


@REPRODUCIBLY
@given(MARKED)
def test_blank_lines_are_what_a_pattern_would_find(text):
    assert _tidy(text) == re.sub(r"[ \t]*\n\s*", "\n", text).replace("\t", " ")


@REPRODUCIBLY
@given(MARKED)
def test_quotes_are_parted_as_by_patterns_with_the_white_space_around(text):
    def folded(parts):
        return [said for part in parts if (said := fold_loosely(part).strip())]

    assert folded(_OMISSION.split(text)) == folded(re.split(r"\s*(?:\.{3,}|…|\[…\]|\n)\s*", text))
    around = re.split(r"\s*[\[(]?(?:\.{3,}|…)[\])]?\s*", text.strip())
    assert [part.strip() for part in _ELLIPSIS.split(text)] == around


@REPRODUCIBLY
@given(
    st.lists(
        st.tuples(st.sampled_from("mk"), st.integers(0, 2000), st.integers(0, 3)),
        min_size=2,
        max_size=2,
    )
)
def test_ids_are_sorted_as_people_count(ids):
    (one, first, zeros), (other, second, more) = ids
    keys = natural(f"{one}{'0' * zeros}{first}"), natural(f"{other}{'0' * more}{second}")
    assert (keys[0] < keys[1], keys[0] == keys[1]) == (
        (one, first) < (other, second),
        (one, first) == (other, second),
    )


def test_ids_of_more_digits_than_a_number_may_have_are_sorted_too():
    assert natural("m10") < natural("m" + "9" * 5000) < natural("m1" + "0" * 5000)
    assert natural("m٣") == natural("m3")
