"""Batches over loopback whose interface names, lists or loses them oddly: none is sent twice."""

import json
import re
import time

import pytest

from alps.errors import UsageError
from alps.ext.batches import gather
from alps.ext.batches.interface import is_name
from alps.ext.batches.journal import FILE, BatchJournal
from alps.llm.types import TransportError
from tests.endtoend import write_rows
from tests.ext.batches import batch_server
from tests.ext.batches.test_batches import (
    KINDS,
    _quick,
    ask,
    lose_an_order,
    others_in,
    questions,
    served,
    server,
    shape,
)
from tests.few import few

__all__ = ["_quick", "served", "server", "shape"]


def test_a_name_that_can_stand_in_no_address_is_none():
    for name in ("", "\ud83d", "a\nb", "é", "..", "x" * 5_000, 7, None, ["a"]):
        assert not is_name(name)
    assert is_name("batch_68-a.B=")


class Odd:
    """Answers of one kind that are other than they should be; batches are listed from then on."""

    def __init__(self, kind, change):
        self.kind, self.change = kind, change

    def __call__(self, kind, body):
        return self.change(body) if kind == self.kind else body


def with_id(name):
    return lambda body: re.sub(rb'"id": "[^"]*"', lambda _: b'"id": ' + name, body)


ODD_IDS = [b'"\\ud83d"', b'"a\\r\\nb: c"', b'".."', b'"' + b"x" * 100_000 + b'"', b"7", b"1e999"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", few({str(place): name for place, name in enumerate(ODD_IDS)}, 2))
def test_an_order_of_an_odd_name_is_found_by_its_list_and_never_ordered_twice(
    server, shape, desk, name
):
    server.troubles.edited = Odd("order", with_id(name))
    answers = ask(desk, questions(server, shape))
    assert [answer.outcome for answer in answers] == ["ok"] * 6
    assert len(server.batches) == 1


LISTS = [
    lambda body: re.sub(rb'"id": "[^"]*"', b'"id": "\\\\ud83d"', body),
    lambda body: b'{"data": {"a": 1}}',
    lambda body: b'{"data": null}',
    lambda body: b'{"data": [{"id": "\\ud83d"}, {"id": 7}, 7], "has_more": true}',
]


@pytest.mark.few(1)
@pytest.mark.parametrize("listed", LISTS, ids=range(len(LISTS)))
def test_an_order_that_was_taken_is_not_sent_again_where_its_name_can_not_be_found(
    server, shape, desk, listed
):
    def edited(kind, body):
        if kind == "order":
            return b"<html>"
        return listed(body) if kind == "list" else body

    server.troubles.edited = edited
    with pytest.raises(UsageError, match="could not be submitted"):
        ask(desk, questions(server, shape))
    assert len(server.batches) == 1
    assert server.bill == []


@pytest.mark.few(2)
@pytest.mark.parametrize("appears", [False, True])
def test_a_batch_that_is_gone_when_it_was_just_ordered_is_not_ordered_again_and_again(
    server, shape, desk, monkeypatch, appears
):
    monkeypatch.setattr(gather, "_APPEARING", 0.2)
    kind = KINDS[shape]
    real, began = kind.state, time.monotonic()

    async def state(self, batch):
        if appears and time.monotonic() > began + 0.5:
            return await real(self, batch)
        raise TransportError("not found", transient=False, status=404)

    monkeypatch.setattr(kind, "state", state)
    told = []
    monkeypatch.setattr(gather, "_APPEARING", 60.0 if appears else 0.2)
    answers = ask(desk, questions(server, shape), told=told, patience=10)
    assert [answer.outcome for answer in answers] == ["ok"] * 6
    assert len(server.batches) == 1
    assert [batched for *_, batched in server.bill] == [appears] * 6
    if not appears:
        assert any(
            line.endswith("no longer exists; alps sends its requests one by one") for line in told
        )
        lost = [row for row in desk.rows if row["outcome"] == "transport"]
        assert len(lost) == 6


@pytest.mark.few(1)
def test_a_batch_that_never_ends_though_it_was_cancelled_ends_the_wait(
    server, shape, desk, monkeypatch
):
    def edited(kind, body):
        if kind == "state":
            body = re.sub(rb'"(processing_)?status": "[a-z_]+"', rb'"\1status": "paused"', body)
        return body

    monkeypatch.setattr(gather, "_ENDING", 0.2)
    server.troubles.edited = edited
    with pytest.raises(UsageError, match="was cancelled but has not ended"):
        ask(desk, questions(server, shape), deadline=0.0)
    assert len(server.batches) == 1


@pytest.mark.parametrize(
    "row",
    [
        {"step": "intended", "keys": ["k"], "at": "yesterday"},
        {"step": "intended", "keys": ["k"], "at": [1]},
        {"step": "intended", "keys": {"a": 1}, "at": 1},
        {"step": "ordered", "id": {"a": 1}},
        {"step": ["x"], "id": "\ud83d/../x"},
        {"step": None},
    ],
)
def test_an_odd_row_of_the_journal_of_batches_ends_no_run(tmp_path, row):
    rows = [{"batch": "t", "step": "intended", "model": "m", "keys": ["k"], "at": 1}]
    write_rows(tmp_path / FILE, [*rows, {"batch": "t", **row}])
    journal = BatchJournal(tmp_path)
    assert journal.known() == set()


@pytest.mark.few(2)
@pytest.mark.parametrize("unended", [False, True])
def test_a_batch_of_somebody_else_that_looks_alike_is_neither_waited_for_nor_cancelled(
    server, desk, monkeypatch, unended
):
    """Hundreds of newer ones of the same size, one of which goes on for ever."""
    cancelled = []

    def order_others():
        for number in range(130):
            status = "in_progress" if unended and number == 7 else "ended"
            requests = {f"x{place}": {} for place in range(6)}
            name, at = f"other_{number}", time.time() + 1
            other = batch_server.Batch(name, requests, at, status=status)
            other.polls = -10_000 if status == "in_progress" else 0
            other.counts["succeeded"] = 6
            server.batches[other.id] = other

    async def cancel(self, batch):
        cancelled.append(batch)

    lost = lose_an_order(monkeypatch, gather.MessageBatches, order_others)
    monkeypatch.setattr(gather.MessageBatches, "cancel", cancel)
    answers = ask(desk, questions(server, "anthropic"), deadline=1.0)
    assert [answer.outcome for answer in answers] == ["ok"] * 6
    assert [one for one in server.batches if not one.startswith("other")] == lost
    assert set(cancelled) <= set(lost)


@pytest.mark.few(1)
@pytest.mark.parametrize("at", few(["1970-01-01T00:00:00Z", 0, -1e300]))
def test_one_odd_time_in_a_list_hides_no_batch_that_was_ordered(
    server, shape, desk, monkeypatch, at
):
    """Else it is taken for the end of the list, and the batch is submitted and paid for again."""

    def edited(kind, body):
        if kind != "list":
            return body
        page = json.loads(body)
        page["data"] = [{"id": "odd", "created_at": at}, *page["data"]]
        return json.dumps(page).encode()

    for name in ("files", "messages"):
        monkeypatch.setattr(f"alps.ext.batches.{name}._LISTED", 1)
    lost = lose_an_order(monkeypatch, KINDS[shape], lambda: others_in(server, 3))
    server.troubles.edited = edited
    answers = ask(desk, questions(server, shape))
    assert [answer.outcome for answer in answers] == ["ok"] * 6
    assert [name for name in server.batches if not name.startswith("other")] == lost


@pytest.mark.release
def test_a_small_batch_has_no_room_for_a_bomb(server, shape, desk):
    """A state, and results of six requests, that are 64 MB: nothing of the kind is read."""

    def edited(kind, body):
        return body + b" " * (64 << 20) if kind in server.bombs else body

    server.troubles.edited = edited
    for bombs in ({"results"}, {"state"}):
        server.bombs = bombs
        with pytest.raises(UsageError, match=r"it is larger than (22|16) MB"):
            ask(desk, questions(server, shape), patience=0.1)
