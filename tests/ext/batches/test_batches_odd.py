"""Batches over loopback whose interface names, lists or loses them oddly: none is sent twice."""

import itertools
import json
import re
import time
from contextlib import suppress
from dataclasses import asdict
from typing import get_args

import pytest

from alps.errors import UsageError
from alps.ext.batches import FILE, gather, providers
from alps.ext.batches.interface import Page, State, is_name
from alps.ext.batches.part import BatchJournal
from alps.llm.types import TransportError
from alps.schema import Outcome
from tests.endtoend import rows, write_rows
from tests.ext.batches import batch_server
from tests.ext.batches.conftest import (
    KINDS,
    ask,
    ask_all,
    lose_an_order,
    others_in,
    questions,
    run_on,
    ways_of,
)
from tests.few import few
from tests.loopback import asked_over_http
from tests.odd_bodies import paths, replaced, without


@pytest.mark.few(2)
@pytest.mark.parametrize(("newer", "a_page"), few([(0, 100), (250, 100), (250, 1)], 2))
def test_an_order_whose_answer_is_lost_is_found_however_many_newer_batches_the_account_has(
    server, shape, desk, monkeypatch, newer, a_page
):
    monkeypatch.setattr(providers, "_LISTED", a_page)
    lose_an_order(monkeypatch, KINDS[shape], lambda: others_in(server, newer))
    ask_all(server, shape, desk)
    assert len(server.batches) == 1 + newer


FEW = ("null", "1e999", "[null]", "{}", "1" * 4_299, "9" * 4_400, "[" * 20_000 + "]" * 20_000)


def mutations(row, step=1):
    """Yield the JSON of a row with each of its fields odd, or not there, one at a time; of the odd
    values every field has one in `step`, the next field those after them.
    """
    yield from FEW
    for number, path in enumerate(paths(row)):
        if path and path[:3] != ("response", "body", "choices"):
            for value in FEW[number % step :: step]:
                yield replaced(path, value, row)
            yield without(path, row)


@pytest.mark.few(1)
def test_odd_lines_of_results_are_asked_again_one_by_one(server, shape, desk):
    bodies, asked = [], []

    def edited(kind, body):
        if kind != "results":
            return body
        whole = [json.loads(line) for line in body.splitlines()]
        numbered = itertools.cycle(whole)
        for body in mutations({**whole[0], "error": {"message": "no", "code": "x"}}):
            name = next(numbered)["custom_id"]
            bodies.append(body.replace(whole[0]["custom_id"], name))
        return "\n".join(bodies).encode()

    server.troubles.edited = edited
    asked = questions(server, shape, 60)
    answers = ask(desk, asked)
    assert len(bodies) > 60
    assert {answer.outcome for answer in answers} <= set(get_args(Outcome))
    assert sum(answer.outcome == "ok" for answer in answers) > 50


@pytest.mark.few(1)
@pytest.mark.parametrize("step", few([2, 1]))
@pytest.mark.parametrize("kind", ["list", "state"])
def test_an_odd_answer_of_the_interface_is_read_or_asked_again(server, shape, kind, step):
    bodies = []

    def edited(asked, body):
        if not bodies:
            bodies.extend(mutations(json.loads(body), step))
        return bodies[number].encode()

    async def look(interface):
        given = await (interface.listed() if kind == "list" else interface.state("batch_0"))
        assert isinstance(given, Page if kind == "list" else State)
        json.dumps(asdict(given), allow_nan=False)

    async def each():
        nonlocal number
        interface = await gather._open(questions(server, shape, 1)[0])
        try:
            while number == 0 or number < len(bodies):
                with suppress(TransportError):
                    await look(interface)
                number += 1
        finally:
            await interface.aclose()

    number = 0
    server.troubles.edited, server.troubles.polls = edited, -1
    server.batches["batch_0"] = batch_server.Batch("batch_0", {"x": {}}, time.time())
    asked_over_http(each())
    assert number == len(bodies) > 40


@pytest.mark.release
def test_a_status_that_is_no_number_ends_no_run_however_often_it_is_begun(server, tmp_path):
    def edited(kind, body):
        return body.replace(b'"status_code": 200', b'"status_code": 1e999')

    server.troubles.edited = edited
    for _ in range(2):
        done = run_on(server, "openai", tmp_path / "out", batch=True)
    assert done.complaint is None or "unscored" not in done.complaint
    assert len(rows(tmp_path / "out" / "predictions.jsonl")) == 2


def test_a_name_that_can_stand_in_no_address_is_none():
    for name in ("", "\ud83d", "a\nb", "é", "..", "x" * 5_000, 7, None, ["a"]):
        assert not is_name(name)
    assert is_name("batch_68-a.B=")


def with_id(body, name):
    return re.sub(rb'"id": "[^"]*"', lambda _: b'"id": ' + name, body)


ODD_IDS = [b'"\\ud83d"', b'"a\\r\\nb: c"', b'".."', b'"' + b"x" * 100_000 + b'"', b"7", b"1e999"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", few({str(place): name for place, name in enumerate(ODD_IDS)}, 2))
def test_an_order_of_an_odd_name_is_found_by_its_list_and_never_ordered_twice(
    server, shape, desk, name
):
    server.troubles.edited = lambda kind, body: with_id(body, name) if kind == "order" else body
    ask_all(server, shape, desk)
    assert len(server.batches) == 1


LISTS = [
    lambda body: with_id(body, b'"\\ud83d"'),
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
    kind = KINDS[shape]
    real, began = kind.state, time.monotonic()

    async def state(self, batch):
        if appears and time.monotonic() > began + 0.5:
            return await real(self, batch)
        raise TransportError("not found", transient=False, status=404)

    monkeypatch.setattr(kind, "state", state)
    told = []
    monkeypatch.setattr(gather, "_APPEARING", 60.0 if appears else 0.2)
    ask_all(server, shape, desk, told=told, patience=10)
    assert len(server.batches) == 1
    assert ways_of(server) == [appears] * 6
    if not appears:
        gone = "no longer exists; alps sends its requests one by one"
        assert any(line.endswith(gone) for line in told)
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
    intended = {"batch": "t", "step": "intended", "model": "m", "keys": ["k"], "at": 1}
    write_rows(tmp_path / FILE, [intended, {"batch": "t", **row}])
    assert BatchJournal(tmp_path).known() == set()


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
    ask_all(server, "anthropic", desk, deadline=1.0)
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

    monkeypatch.setattr(providers, "_LISTED", 1)
    lost = lose_an_order(monkeypatch, KINDS[shape], lambda: others_in(server, 3))
    server.troubles.edited = edited
    ask_all(server, shape, desk)
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
