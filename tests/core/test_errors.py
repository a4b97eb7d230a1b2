from pathlib import Path

import pytest

from alps.errors import (
    AlpsError,
    BudgetError,
    CredentialError,
    DataError,
    RunFolderError,
    UsageError,
    closest,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (AlpsError, 2),
        (UsageError, 2),
        (DataError, 2),
        (RunFolderError, 2),
        (CredentialError, 2),
        (BudgetError, 3),
    ],
)
def test_every_failure_has_its_exit_code(kind, code):
    assert kind("what, where, how to mend").exit_code == code


@pytest.mark.parametrize(
    "kind", [UsageError, DataError, RunFolderError, CredentialError, BudgetError]
)
def test_every_failure_is_one_of_ours_and_says_its_message_alone(kind):
    error = kind("set model= to something")
    assert isinstance(error, AlpsError)
    assert str(error) == "set model= to something"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        pytest.param({}, "must be a text", id="nowhere"),
        pytest.param({"path": "a.jsonl"}, "a.jsonl: must be a text", id="a file"),
        pytest.param(
            {"path": Path("d/a.jsonl"), "line": 3}, "d/a.jsonl, line 3: must be a text", id="a line"
        ),
        pytest.param(
            {"path": "a.jsonl", "line": 3, "field": "input.dialogue"},
            "a.jsonl, line 3, input.dialogue: must be a text",
            id="a field",
        ),
        pytest.param(
            {"path": "a.json", "field": "name"},
            "a.json, name: must be a text",
            id="a field without a line",
        ),
        pytest.param({"line": 3, "field": ""}, "line 3: must be a text", id="a line alone"),
    ],
)
def test_a_data_error_names_the_file_the_line_and_the_field(place, text):
    error = DataError("must be a text", **place)
    assert str(error) == text
    assert (error.path, error.line, error.field) == (
        place.get("path"),
        place.get("line"),
        place.get("field"),
    )


def test_the_closest_word_is_offered():
    assert closest("modle", ["model", "judge", "data"]) == " — did you mean 'model'?"


def test_of_several_close_words_the_closest_is_offered():
    assert "'judge_api_base'" in closest("judge_api_bas", ["api_base", "judge_api_base"])


@pytest.mark.parametrize("known", [[], ["model", "judge"]])
def test_where_no_word_is_close_none_is_offered(known):
    assert closest("xyzzy", known) == ""
