import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.jsonl import Appender, dump, scan

REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)
ROWS: list[dict[str, Any]] = [
    {"id": "b1", "text": "Spielt Schach ♟"},
    {"id": "b2", "text": "住在成都 🌶", "numbers": [1, 0.5, None, True]},
    {"id": "b3", "text": '\u2028 \x85 \r two lines\nand a \\ and a "'},
]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    file = Appender(path)
    for row in rows:
        file.append(row)
    file.close()


def rows_of(path: Path) -> list[dict[str, Any] | None]:
    return [row for _, _, row in scan(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_rows_are_read_between_appends_where_a_system_can_not_read_at_a_place(
    path: Path, monkeypatch
):
    monkeypatch.delattr(os, "pread")
    write(path, ROWS)
    places = [(offset, length) for offset, length, _ in scan(path)]
    path.write_bytes(path.read_bytes() + b'{"id": "to')
    file = Appender(path)
    assert file.size == sum(places[-1])
    for place, row in zip(places, ROWS, strict=True):
        assert file.read(*place) == row
        file.append(row)
    file.close()
    assert rows_of(path) == ROWS + ROWS


def test_each_row_is_one_line_with_its_keys_in_order(path: Path):
    write(path, [{"z": 1, "a": "two\nlines"}])
    assert path.read_bytes() == b'{"z":1,"a":"two\\nlines"}\n'


def test_each_row_is_in_the_file_as_soon_as_it_was_appended_and_the_size_is_the_files(path: Path):
    assert rows_of(path) == []
    assert not path.exists()
    file = Appender(path)
    assert file.size == 0
    for number, row in enumerate(ROWS, start=1):
        file.append(row)
        assert rows_of(path) == ROWS[:number]
        assert file.size == path.stat().st_size
    file.close()
    again = Appender(path)
    assert again.size == path.stat().st_size
    again.close()


TEXT = st.text(st.characters(codec=None))
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@REPRODUCIBLY
@given(st.dictionaries(TEXT, st.none() | st.booleans() | NUMBER | TEXT))
def test_any_row_is_one_line_and_comes_back(row: dict[str, Any]):
    line = dump(row)
    assert line.count(b"\n") == 1
    assert json.loads(line) == row


@pytest.mark.parametrize("text", ["\ud83d", "both \ud83d and ♟"])
def test_half_an_emoji_survives(path: Path, text: str):
    write(path, [{"text": text, text: 1}, {"text": "after"}])
    assert rows_of(path) == [{"text": text, text: 1}, {"text": "after"}]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_and_leaves_no_trace(path: Path, number: float):
    write(path, ROWS[:1])
    file = Appender(path)
    for row in ({"score": number}, {"score": number, "text": "\ud83d"}):
        with pytest.raises(ValueError, match="JSON compliant"):
            file.append(row)
    file.append(ROWS[1])
    file.close()
    assert rows_of(path) == ROWS[:2]


def test_a_last_line_torn_at_any_byte_is_cut_off(path: Path):
    whole = b"".join(dump(row) for row in ROWS[:2])
    last = dump(ROWS[2])
    for length in range(len(last)):
        path.write_bytes(whole + last[:length])
        file = Appender(path)
        assert file.size == len(whole)
        file.append(ROWS[0])
        file.close()
        assert rows_of(path) == [*ROWS[:2], ROWS[0]]


@pytest.mark.parametrize(
    ("length", "before"),
    [(1, []), (65_535, ROWS[:1]), (65_536, []), (65_537, ROWS[:1]), (200_000, [])],
)
def test_a_long_torn_line_is_cut_off(path: Path, length: int, before: list[dict[str, Any]]):
    whole = b"".join(dump(row) for row in before)
    path.write_bytes(whole + b'{"text":"'[:length] + b"x" * (length - 9))
    Appender(path).close()
    assert path.read_bytes() == whole


def test_a_complete_file_is_not_touched_on_opening(path: Path):
    data = b'{"id": "spaced"}\n\nnot JSON\n["a list"]\n{"id":"b2"}\n'
    path.write_bytes(data)
    Appender(path).close()
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"\n", id="an empty line"),
        pytest.param(b"not JSON\n", id="text"),
        pytest.param(b'{"id":"b1","te\n', id="half a row"),
        pytest.param(b'["a list"]\n', id="a list"),
        pytest.param(b'{"id":"\xff"}\n', id="bytes that are no text"),
        pytest.param(b"\x00\x00\x00\n", id="zeros"),
        pytest.param(b"[" * 100_000 + b"\n", id="brackets without end"),
    ],
)
def test_a_line_that_can_not_be_read_does_not_hide_the_next(path: Path, line: bytes):
    before = dump(ROWS[0])
    path.write_bytes(before + line + dump(ROWS[1]))
    assert rows_of(path) == [ROWS[0], None, ROWS[1]]
    offsets = [offset for offset, _, _ in scan(path)]
    assert offsets == [0, len(before), len(before) + len(line)]


FULL_DISK = """
import resource, sys
from pathlib import Path
from alps.jsonl import Appender
path, limit = Path(sys.argv[1]), int(sys.argv[2])
file = Appender(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
for length in (10, 100, 3):
    try:
        file.append({"text": "x" * length})
        print("written")
    except OSError as error:
        print("failed", file.size == path.stat().st_size)
"""


@pytest.mark.release
@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files to set")
@pytest.mark.parametrize("limit", [60, 130])
def test_a_write_that_fails_half_way_leaves_no_torn_line(path: Path, limit: int):
    write(path, [{"text": "before"}])
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == ["written", "failed True", "written"]
    assert rows_of(path) == [{"text": "before"}, {"text": "x" * 10}, {"text": "xxx"}]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_and_not_a_silence(tmp_path: Path):
    path = tmp_path / "link"
    path.symlink_to("/dev/full")
    file = Appender(path)
    with pytest.raises(OSError, match=r"No space left|Invalid argument"):
        file.append(ROWS[0])
    assert file.size == 0
    file.close()


def test_two_appenders_do_not_overwrite_each_other(path: Path):
    one, other = Appender(path), Appender(path)
    one.append(ROWS[0])
    other.append(ROWS[1])
    one.append(ROWS[2])
    one.close()
    other.close()
    assert rows_of(path) == ROWS
