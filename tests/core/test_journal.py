import asyncio
import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from alps.jsonl import Journal, journal_key


def key(name):
    return journal_key("", name, 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def written(path, *names):
    journal = Journal(path)
    for name in names:
        journal.write({"benchmark_id": name, "value": 1})
    return journal


def names_in(path):
    return [json.loads(line)["benchmark_id"] for line in path.read_bytes().splitlines()]


def test_rows_are_found_again_after_reopening(path):
    written(path, "a", "b").close()
    journal = Journal(path)
    assert len(journal.keys()) == 2
    assert journal.get(key("b")) == {"benchmark_id": "b", "value": 1}
    assert journal.get(key("c")) is None


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_was_written_without_waiting_is_on_disk_once_the_journal_is_settled(
    path, monkeypatch, order
):
    sizes = []
    sync = os.fsync
    monkeypatch.setattr("os.fsync", lambda file: (sync(file), sizes.append(os.fstat(file).st_size)))
    journal = Journal(path)
    for name in order:
        journal.write({"benchmark_id": name})
    assert sizes == []
    journal.settle([key("a"), key("b")])
    assert sizes[-1] == path.stat().st_size
    assert names_in(path) == ["a", "b"]


def test_the_last_row_of_a_record_counts(path):
    journal = written(path, "a", "b")
    journal.write({"benchmark_id": "a", "value": 2})
    assert journal.get(key("a"))["value"] == 2
    journal.close()
    assert Journal(path).get(key("a"))["value"] == 2
    assert len(Journal(path).keys()) == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"not JSON\n",
        b"[1, 2]\n",
        b'{"other": 1}\n',
        b'{"benchmark_id": ["a"]}\n',
        b'{"benchmark_id": {"a": 1}}\n',
    ],
    ids=repr,
)
def test_a_line_that_cannot_be_read_or_has_no_id_is_left_out(path, garbage):
    written(path, "a", "b").close()
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + garbage + second)
    journal = Journal(path)
    assert len(journal.keys()) == 2
    assert journal.get(key("b")) == {"benchmark_id": "b", "value": 1}


def test_settling_leaves_one_row_a_record_in_the_order_of_the_data_and_nothing_else(path):
    written(path, "c", "old", "a", "b", "a").close()
    path.write_bytes(b"garbage\n" + path.read_bytes())
    journal = Journal(path)
    journal.settle([key("a"), key("missing"), key("b"), key("c")])
    assert names_in(path) == ["a", "b", "c"]
    assert list(path.parent.iterdir()) == [path]
    assert journal.get(key("c"))["benchmark_id"] == "c"


def test_a_settled_journal_is_not_written_again_and_goes_on_taking_rows(path):
    journal = written(path, "b", "a")
    journal.settle([key("a"), key("b")])
    place = path.stat().st_ino
    journal.settle([key("a"), key("b")])
    assert path.stat().st_ino == place
    journal.write({"benchmark_id": "c", "value": 3})
    assert [journal.get(key(name))["value"] for name in "ac"] == [1, 3]
    assert names_in(path) == ["a", "b", "c"]


def test_journals_that_share_numbers_keep_their_rows_apart(tmp_path):
    numbers = {}
    one, other = (Journal(tmp_path / name, numbers=numbers) for name in ("one", "other"))
    one.write({"benchmark_id": "a", "value": 1})
    other.write({"benchmark_id": "b", "value": 2})
    one.write({"benchmark_id": "c", "value": 3})
    assert [one.get(key(name)) is not None for name in "abc"] == [True, False, True]
    assert [other.get(key(name)) is not None for name in "abc"] == [False, True, False]
    assert (len(one.keys()), len(other.keys())) == (2, 1)
    for journal in (one, other):
        journal.settle(map(key, "cba"))
    assert names_in(one.path) == ["c", "a"]
    assert names_in(other.path) == ["b"]
    assert one.get(key("a")) == {"benchmark_id": "a", "value": 1}


def withdraw(journal, name):
    asyncio.run(journal.withdraw({"benchmark_id": name}))


def test_a_row_that_was_withdrawn_is_not_found_again(path):
    journal = written(path, "a", "b", "c")
    withdraw(journal, "b")
    assert journal.get(key("b")) is None
    journal.close()
    again = Journal(path)
    assert again.get(key("b")) is None
    assert len(again.keys()) == 2
    again.write({"benchmark_id": "b", "value": 2})
    assert again.get(key("b"))["value"] == 2


def test_settling_leaves_no_trace_of_what_was_withdrawn(path):
    journal = written(path, "a", "b", "c")
    withdraw(journal, "b")
    there = path.read_bytes()
    withdraw(journal, "nobody")
    assert path.read_bytes() == there
    journal.settle(map(key, "abc"))
    assert names_in(path) == ["a", "c"]


@pytest.fixture
def open_files_stay(monkeypatch):
    """Refuse to replace a file that this process has open, as Windows does."""
    descriptors, replace = Path("/proc/self/fd"), Path.replace
    if not descriptors.is_dir():
        pytest.skip("nothing says here which files are open")

    def refusing(self, target):
        for descriptor in descriptors.iterdir():
            with suppress(FileNotFoundError):
                if descriptor.samefile(target):
                    raise PermissionError(errno.EACCES, "in use", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refusing)


@pytest.mark.parametrize("names", ["bca", "abbc"])
def test_a_journal_can_be_settled_where_an_open_file_can_not_be_replaced(
    path, names, open_files_stay
):
    journal = written(path, *names)
    journal.settle(map(key, "abc"))
    journal.write({"benchmark_id": "d", "value": 4})
    assert names_in(path) == ["a", "b", "c", "d"]


def test_a_journal_that_another_program_keeps_from_being_settled_goes_on(path, open_files_stay):
    path.write_bytes(b'{"benchmark_id": "b", "value": 1}\n')  # spaces that settling would leave out
    journal = written(path, "a")
    with path.open("rb"), pytest.raises(PermissionError):
        journal.settle(map(key, "ab"))
    assert journal.get(key("b")) == {"benchmark_id": "b", "value": 1}
    journal.write({"benchmark_id": "c", "value": 3})
    assert journal.get(key("a"))["benchmark_id"] == "a"
    assert names_in(path) == ["b", "a", "c"]
