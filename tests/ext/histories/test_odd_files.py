"""Odd files of sets: each is read right, or refused in one line that says where and what."""

import gzip
import json
import shutil

import pytest

from alps.errors import DataError
from tests.ext.histories.sets import book
from tests.ext.histories.test_readers import SAMPLES

FILES = {
    "locomo": "locomo10.json",
    "longmemeval": "longmemeval_oracle.json",
    "halumem": "HaluMem-Medium.jsonl",
    "beam": "100K/1/chat.json",
    "histories": "histories.jsonl",
    "personamem_v3": "benchmark/7/queries.csv",
}
CHANGED = {
    "empty": (lambda raw: b"", "the file is empty"),
    "blank": (lambda raw: b" \r\n\n", "the file is empty"),
    "packed": (gzip.compress, "compressed with gzip; unpack it first"),
    "elsewhere": (lambda raw: b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    "a page": (lambda raw: b"<!DOCTYPE html>", "a web page, not data"),
    "UTF-16": (lambda raw: raw.decode().encode("utf-16"), "is UTF-16: save it as UTF-8"),
    "torn": (lambda raw: raw[: len(raw) // 2], ""),
    "no UTF-8": (lambda raw: raw.replace(b"a", b"\xe9", 1), ""),
    "with more behind it": (lambda raw: raw + b"\n[7]\n", ""),
    "twice in one file": (lambda raw: raw + b"\n" + raw, ""),
}


def copied(tmp_path, name, change):
    shutil.copytree(SAMPLES / name, tmp_path / "set")
    path = tmp_path / "set" / FILES[name]
    path.write_bytes(change(path.read_bytes()))
    return path


def cases():
    for name in FILES:
        for case, (change, why) in CHANGED.items():
            # The sessions of a history may lie apart, and twice.
            if (name, case) != ("histories", "twice in one file"):
                yield pytest.param(name, change, why, id=f"{name} {case}")


@pytest.mark.parametrize(("name", "change", "why"), list(cases()))
def test_a_file_that_is_no_such_file_is_refused_in_a_line(tmp_path, name, change, why):
    path = copied(tmp_path, name, change)
    with pytest.raises(DataError) as raised:
        book(name, path.parents[FILES[name].count("/")])
    told = str(raised.value)
    assert "\n" not in told
    assert path.name in told
    assert why in told
    assert "codec" not in told or "not JSON" in told or "not a CSV table" in told


@pytest.mark.parametrize("name", FILES)
def test_a_mark_and_the_line_ends_of_windows_change_nothing(tmp_path, name):
    def change(raw):
        return b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n")

    path = copied(tmp_path, name, change)
    found = book(name, path.parents[FILES[name].count("/")])
    assert [one.question for one in found.entries] == [one.question for one in book(name).entries]


FIRST = (0, "conversation", "session_1")
WRONG = {
    "a null session": ("locomo", FIRST, None, "session_1: expected a"),
    "a session that is a text": ("locomo", FIRST, "x", "expected a list"),
    "a message that is a number": ("locomo", (*FIRST, 0), 7, "an object"),
    "a null text": ("locomo", (*FIRST, 0, "text"), None, "text: expected"),
    "an id that is an object": ("locomo", (*FIRST, 0, "dia_id"), {}, "dia_id"),
    "a question that is an object": ("locomo", (0, "qa", 0, "question"), {}, "question: expected"),
    "a null gold": ("locomo", (0, "qa", 0, "answer"), None, "answer: expected a string, got null"),
    "no name": ("locomo", (0, "sample_id"), None, "sample_id: expected a string"),
    "no sessions": ("locomo", (0, "conversation"), {}, "conv-1 has questions but no sessions"),
    "a null message": ("longmemeval", (0, "haystack_sessions", 0, 0, "content"), None, "content: "),
    "an unknown role": ("longmemeval", (0, "haystack_sessions", 0, 0, "role"), "bot", "role: "),
    "a null gold of a number": ("longmemeval", (0, "answer"), None, "answer: expected a string"),
    "dates that are fewer": ("longmemeval", (0, "haystack_dates"), [], "zip()"),
    "a null point": ("halumem", (0, "sessions", 0, "memory_points", 0), None, "memory_content"),
    "a null session of a user": ("halumem", (0, "sessions", 0), None, "line 1"),
    "turns that are an object": ("beam", (0, "turns"), {}, "turns: expected a list, got {}"),
    "a null content": ("beam", (0, "turns", 0, 0, "content"), None, "content: expected a string"),
}


@pytest.mark.parametrize(("name", "place", "value", "why"), WRONG.values(), ids=WRONG)
def test_a_field_of_another_type_is_named(tmp_path, name, place, value, why):
    lines = FILES[name].endswith("l")

    def change(raw):
        rows = [json.loads(line) for line in raw.splitlines()] if lines else json.loads(raw)
        node = rows
        for step in place[:-1]:
            node = node[step]
        node[place[-1]] = value
        return (
            "".join(json.dumps(row) + "\n" for row in rows) if lines else json.dumps(rows)
        ).encode()

    path = copied(tmp_path, name, change)
    with pytest.raises(DataError) as raised:
        book(name, path.parents[FILES[name].count("/")])
    assert why in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
