import json
import resource

import pytest

from alps.jsonl import Appender, dump, scan
from alps.run.journal import Journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def written(path, *names, value=1):
    journal = Journal(path)
    for name in names:
        journal.append({"benchmark_id": name, "value": value})
    return journal


def names_in(path):
    return [json.loads(line)["benchmark_id"] for line in path.read_bytes().splitlines()]


def test_a_row_is_in_the_file_when_append_returns(path):
    written(path, "a")
    assert path.read_bytes() == b'{"benchmark_id":"a","value":1}\n'


def test_rows_are_found_again_after_reopening(path):
    written(path, "a", "b").close()
    journal = Journal(path)
    assert len(journal) == 2
    assert journal.get("b") == {"benchmark_id": "b", "value": 1}
    assert journal.get("c") is None


def test_the_last_row_of_a_record_counts(path):
    journal = written(path, "a", "b")
    journal.append({"benchmark_id": "a", "value": 2})
    assert journal.get("a")["value"] == 2
    journal.close()
    assert Journal(path).get("a")["value"] == 2
    assert len(Journal(path)) == 2


@pytest.mark.parametrize("kept", range(1, 30))
def test_a_last_line_torn_at_any_byte_is_cut_off(path, kept):
    written(path, "a", "b").close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:kept])
    journal = Journal(path)
    assert path.read_bytes() == lines[0]
    assert (journal.get("b"), journal.unreadable) == (None, 0)
    journal.append({"benchmark_id": "b", "value": 1})
    assert path.read_bytes() == b"".join(lines)


def test_a_torn_line_longer_than_a_block_is_cut_off(path):
    written(path, "a").close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"benchmark_id": "' + b"x" * 200_000)
    assert len(Journal(path)) == 1
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "garbage",
    [b"\n", b"not JSON\n", b"\x00\xff\xfe\n", b"[1, 2]\n", b"null\n", b'{"other": 1}\n', b'{"benchmark_id": \n'],
    ids=repr,
)
def test_a_line_that_cannot_be_read_is_left_out_and_counted(path, garbage):
    written(path, "a", "b").close()
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + garbage + second)
    journal = Journal(path)
    assert (len(journal), journal.unreadable) == (2, 1)
    assert journal.get("b") == {"benchmark_id": "b", "value": 1}


@pytest.mark.parametrize("name", [7, None, ["a"], {"a": 1}], ids=repr)
def test_a_row_whose_id_is_no_text_is_left_out_and_counted(path, name):
    path.write_bytes(dump({"benchmark_id": name}) + dump({"benchmark_id": "a"}))
    journal = Journal(path)
    assert (len(journal), journal.unreadable) == (1, 1)


def test_settling_leaves_one_row_a_record_in_the_order_of_the_data(path):
    journal = written(path, "c", "a", "b", "a")
    journal.settle(["a", "b", "c"])
    assert names_in(path) == ["a", "b", "c"]
    assert journal.get("c")["benchmark_id"] == "c"


def test_settling_drops_garbage_and_what_the_data_does_not_have(path):
    written(path, "b", "old", "a").close()
    path.write_bytes(b"garbage\n" + path.read_bytes())
    journal = Journal(path)
    journal.settle(["a", "missing", "b"])
    assert names_in(path) == ["a", "b"]
    assert list(path.parent.iterdir()) == [path]


def test_a_settled_journal_is_not_written_again(path):
    journal = written(path, "a", "b")
    journal.settle(["a", "b"])
    place = path.stat().st_ino
    journal.settle(["a", "b"])
    assert path.stat().st_ino == place


def test_a_settled_journal_goes_on_taking_rows(path):
    journal = written(path, "b", "a")
    journal.settle(["a", "b"])
    journal.append({"benchmark_id": "c", "value": 3})
    assert journal.get("c")["value"] == 3
    assert journal.get("a")["value"] == 1
    assert names_in(path) == ["a", "b", "c"]


def test_the_order_of_finishing_does_not_show_in_a_settled_file(tmp_path):
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    written(one, "a", "b", "c").settle("abc")
    written(other, "c", "b", "a", "b").settle("abc")
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    "text",
    ["对核桃过敏", "a\nb\r\u2028\u2029\x00", "\ud800 alone", '"quoted" \\', "🏳️‍🌈", "x" * 100_000],
    ids=["Chinese", "line ends", "lone surrogate", "quotes", "emoji", "long"],
)
def test_any_text_is_one_line_and_comes_back_as_it_was(path, text):
    journal = Journal(path)
    journal.append({"benchmark_id": "a", "text": text})
    journal.append({"benchmark_id": "b"})
    assert journal.get("a")["text"] == text
    assert path.read_bytes().count(b"\n") == 2
    assert [row["benchmark_id"] for _, _, row in scan(path)] == ["a", "b"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused_and_leaves_no_trace(path, number):
    journal = written(path, "a")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"benchmark_id": "b", "value": number})
    assert path.read_bytes() == before
    journal.append({"benchmark_id": "c", "value": 1})
    assert names_in(path) == ["a", "c"]


def test_a_write_that_finds_no_room_is_undone(path):
    appender = Appender(path)
    appender.append({"benchmark_id": "a"})
    before = path.read_bytes()
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, allowed[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            appender.append({"benchmark_id": "b" * 100})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert path.read_bytes() == before
    appender.append({"benchmark_id": "c"})
    assert names_in(path) == ["a", "c"]


def test_a_missing_file_has_no_rows(tmp_path):
    assert list(scan(tmp_path / "nothing.jsonl")) == []
