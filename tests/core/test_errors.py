from pathlib import Path

import pytest

from alps.errors import (
    AlpsError,
    BudgetError,
    CredentialError,
    DataError,
    RunFolderError,
    UsageError,
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
