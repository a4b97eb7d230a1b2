"""Batches over loopback, in the wire formats of OpenAI and of Anthropic: what a run in batches ends
with, what it pays for, and what becomes of it when it is killed between any two steps, or when the
interface names, lists or loses its batches oddly: none is sent twice.
"""

import asyncio
import copy
import itertools
import json
import math
import re
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import get_args

import pytest

from alps.errors import CredentialError, UsageError
from alps.ext.batches import gather, providers
from alps.ext.batches.gather import Batches
from alps.ext.batches.interface import Page, State, is_name
from alps.ext.batches.journal import FILE, BatchJournal
from alps.ext.batches.part import Room
from alps.ext.fleet.merge import merge
from alps.ext.sweeps.plan import read_plan
from alps.ext.sweeps.progress import SweepProgress
from alps.ext.sweeps.sweep import sweep
from alps.llm.budget import Budget
from alps.llm.ledger import Totals
from alps.llm.prices import price_of
from alps.llm.types import Request, TransportError
from alps.run.start import run
from alps.schema import Outcome
from alps.settings import RunSettings
from tests.desk import Desk
from tests.endtoend import JOURNALS, rows, write_rows
from tests.ext.batches import batch_server
from tests.few import few
from tests.loopback import asked_over_http, running
from tests.odd_bodies import paths, replaced, without

KINDS = {"openai": gather.FileBatches, "anthropic": gather.MessageBatches}
SHAPES = {"openai": "openai/gpt-4.1-mini", "anthropic": "anthropic/claude-sonnet-4-5"}


@pytest.fixture(scope="module")
def served():
    with running(batch_server.Batched()) as server:
        yield server


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "a-key-of-the-tests")
    monkeypatch.setenv("ALPS_CACHE", "off")
    monkeypatch.setattr(gather, "_QUIET", 0.3)
    monkeypatch.setattr(gather, "_SOONEST", 0.01)
    monkeypatch.setattr("alps.llm.retries._backoff", lambda _: 0.01)


@pytest.fixture
def server(served):
    """The server without troubles, and with an empty bill."""
    served.troubles = batch_server.Troubles()
    for kept in (served.bill, served.asked, served.seen, served.headers):
        kept.clear()
    served.files.clear()
    served.batches.clear()
    return served


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


def address(server, shape):
    return server.url if shape == "openai" else server.host


def questions(server, shape, n=6, **more):
    more |= {"api_base": address(server, shape)}
    asked = []
    for number in range(n):
        text = f"This is the question number_{number:04}"
        messages = ({"role": "user", "content": text},)
        asked.append(Request(SHAPES[shape], messages, None, about=text, **more))
    return asked


def ask(desk, requests, *, told=None, deadline=gather.DAY, gathering=True, patience=0.2, **options):
    """Ask as a client with batches does, and end as a run does."""
    batches = Batches(
        BatchJournal(desk.calls.parent),
        gather=gathering,
        deadline=deadline,
        patience=patience,
        notice=None if told is None else told.append,
    )

    async def together(client):
        try:
            return await asyncio.gather(*(client.complete(request) for request in requests))
        finally:
            await client.aclose()
            await batches.aclose()

    return desk.run(together, batches=batches, **options)


def bill(server, shape):
    price = price_of(SHAPES[shape])
    return pytest.approx(server.cost(price.input, price.output))


def ask_all(server, shape, desk, n=6, **options):
    """Ask, and get an answer to every question, at the price that the ledger says."""
    answers = ask(desk, questions(server, shape, n), **options)
    assert [answer.outcome for answer in answers] == ["ok"] * n
    assert desk.totals.cost == bill(server, shape)
    return answers


def ways_of(server):
    """Tell of each request that was answered whether a batch brought it."""
    return [batched for *_, batched in server.bill]


def run_on(server, shape, out, **more):
    model, base = SHAPES[shape], address(server, shape)
    settings = {"task": "extraction", "model": model, "judge": model, "limit": 2, **more}
    settings |= {"api_base": base, "judge_api_base": base, "baseline_records": 1, "out": str(out)}
    # Known items wait for no batch: `tests/core/test_judge_check.py` has them.
    settings |= {"judge_check": False}
    return run(RunSettings(**settings))


def journals(folder):
    return [(folder / name).read_bytes() for name in (*JOURNALS, "baselines.jsonl")]


def steps(folder):
    return [row["step"] for row in rows(folder / FILE)]


@pytest.mark.few(1)
def test_a_run_in_batches_ends_with_the_same_bytes_at_half_the_price(server, shape, tmp_path):
    whole = run_on(server, shape, tmp_path / "one by one")
    full, asked = server.cost(1, 1), dict(server.asked)
    server.bill.clear()
    server.asked.clear()
    batched = run_on(server, shape, tmp_path / "batches", batch=True)
    assert journals(tmp_path / "batches") == journals(tmp_path / "one by one")
    assert batched.summary.tracks == whole.summary.tracks
    assert server.asked == asked
    assert server.cost(1, 1) == full / 2
    assert all(ways_of(server))
    assert batched.summary.calls.cost == bill(server, shape)
    # answers, judgements, and then those of the baselines
    assert steps(tmp_path / "batches").count("ordered") == 3
    manifests = [tmp_path / name / "manifest.json" for name in ("batches", "one by one")]
    assert manifests[0].read_bytes() == manifests[1].read_bytes()


@pytest.mark.few(2)
@pytest.mark.parametrize("limit", [{"most": 4}, {"largest": 1_000}])
def test_what_one_batch_cannot_take_is_several(server, shape, desk, monkeypatch, limit):
    monkeypatch.setattr(KINDS[shape], "form", replace(KINDS[shape].form, **limit))
    ask_all(server, shape, desk)
    sizes = [len(batch.requests) for batch in server.batches.values()]
    assert 1 < len(sizes) < 6  # each as full as it may be
    assert sum(sizes) == 6
    assert max(sizes) <= limit.get("most", 5)


@pytest.mark.release
def test_records_that_wait_in_batches_take_no_more_memory_than_there_is_room(server, desk):
    asked = questions(server, "openai", 20)
    room, inside, most = Room(4 * 25_000), 0, 0

    async def together(client):
        async def record(request):
            nonlocal inside, most
            async with batches.room:
                inside += 1
                most = max(most, inside)
                answer = await client.complete(request)
                inside -= 1
                return answer

        # the first says how large records are: until then some begin
        answers = [await record(asked[0])]
        answers += await asyncio.gather(*map(record, asked[1:]))
        await client.aclose()
        await batches.aclose()
        return answers

    batches = Batches(BatchJournal(desk.calls.parent), room=room)
    answers = desk.run(together, batches=batches)
    assert [answer.outcome for answer in answers] == ["ok"] * 20
    assert most <= 6
    assert len(server.batches) >= 4
    assert max(server.asked.values()) == 1


@pytest.mark.release
def test_merged_shards_have_the_orders_and_the_bill_of_all_of_them(server, tmp_path):
    shards = [tmp_path / f"shard {number}" for number in (1, 2)]
    for number, shard in enumerate(shards, start=1):
        run_on(server, "openai", shard, batch=True, shard=f"{number}/2")
    merged = merge(tmp_path / "merged", shards)
    assert merged.summary.calls.cost == bill(server, "openai")
    assert steps(merged.folder) == [step for shard in shards for step in steps(shard)]
    assert steps(merged.folder).count("ordered") == len(server.batches)
    asked = len(server.bill)
    run_on(server, "openai", merged.folder, batch=True)
    assert len(server.bill) == asked


@pytest.mark.release
def test_a_sweep_in_batches_pays_what_its_ledgers_say(server, tmp_path):
    plan = {"limit": 2, "baseline_records": 0, "batch": True, "judge": SHAPES["openai"]}
    plan |= {"judge_check": False}
    plan |= {"model": SHAPES["openai"], "api_base": server.url, "judge_api_base": server.url}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plan.items()]
    matrix = ["[matrix]", 'task = ["extraction", "update"]']
    lines = [f"out = {json.dumps(str(tmp_path / 'swept'))}", *lines, *matrix]
    (tmp_path / "plan.toml").write_text("\n".join(lines), encoding="utf-8")
    swept = sweep(read_plan(tmp_path / "plan.toml"), board=SweepProgress())
    assert not swept.failed
    costs = [one.finished.summary.calls.cost for one in swept.ended]
    assert math.fsum(costs) == bill(server, "openai")
    assert all(ways_of(server))


@pytest.mark.few(1)
def test_results_in_any_order_there_twice_or_unknown_are_told_apart(server, shape, desk):
    server.troubles.shuffled, server.troubles.twice, server.troubles.unknown = True, 2, 1
    told = []
    texts = [answer.value for answer in ask_all(server, shape, desk, told=told)]
    assert [f"{number:04}" in text for number, text in enumerate(texts)] == [True] * 6
    assert len(server.bill) == len(desk.rows) == 6
    assert told[-1].endswith("6 results, 1 with an unknown id, 2 duplicated")


@pytest.mark.few(1)
def test_what_failed_or_expired_is_asked_for_in_the_ordinary_way(server, shape, desk):
    server.troubles.failed, server.troubles.expired = 1, 2
    ask_all(server, shape, desk)
    assert ways_of(server) == [True] * 3 + [False] * 3
    lost = [row for row in desk.rows if row["outcome"] == "transport"]
    assert len(lost) == 3
    assert {row["service"] for row in lost} == {"batch"}


def test_an_answer_whose_line_cannot_be_read_counts_against_the_budget(server, desk):
    server.troubles.garbage = 1
    budget = Budget(max_cost=1.0, max_total_tokens=None, spent=Totals(), price=price_of)
    answers = ask(desk, questions(server, "openai", 3), budget=budget)
    assert [answer.outcome for answer in answers] == ["ok"] * 3
    (lost,) = (row for row in desk.rows if row["outcome"] == "transport")
    assert lost["assumed_cost"] > 0
    price = price_of("openai/gpt-4.1-mini")
    assert desk.totals.cost + lost["assumed_cost"] > server.cost(price.input, price.output)


@pytest.mark.few(1)
def test_a_batch_past_its_deadline_is_cancelled_and_the_rest_asked_one_by_one(server, shape, desk):
    server.troubles.polls = -1
    ask_all(server, shape, desk, deadline=0.0)
    assert ways_of(server) == [True] * 3 + [False] * 3
    assert max(server.asked.values()) == 1


def test_a_batch_is_refused_in_one_line_and_nothing_is_paid(server, desk):
    server.troubles.refused = "Enqueued token limit reached"
    with pytest.raises(UsageError, match="refused batch batch_0"):
        ask(desk, questions(server, "openai"))
    assert server.bill == []
    assert steps(desk.calls.parent) == ["intended", "placed", "ordered", "dropped"]


@pytest.mark.parametrize(
    ("trouble", "kind", "told"),
    [
        ({"missing": True}, UsageError, "the endpoint does not accept batches"),
        ({"status": 401}, CredentialError, "alps could not list the batches"),
    ],
    ids=["no batches", "a refused key"],
)
def test_an_endpoint_that_lists_no_batches_is_refused_before_anything_is_paid_for(
    server, shape, tmp_path, trouble, kind, told
):
    server.troubles = batch_server.Troubles(**trouble)
    with pytest.raises(kind, match=told):
        run_on(server, shape, tmp_path / "out", batch=True)
    assert server.bill == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"model": "rules"}, "batch=yes would change nothing"),
        ({"model": "gemini/gemini-2.5-flash"}, "alps sends no batches to gemini"),
        ({"model": "rules", "judge": "mistral/mistral-small-latest"}, "judge=mistral"),
    ],
)
def test_who_takes_no_batches_is_refused_by_name(settings, why, monkeypatch, tmp_path):
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setenv("MISTRAL_API_KEY", "k")
    words = {"task": "extraction", "batch": True, "out": str(tmp_path / "out"), **settings}
    with pytest.raises(UsageError, match=why):
        run(RunSettings(**words))
    assert not (tmp_path / "out").exists()


def test_a_budget_holds_for_a_batch_before_it_is_sent(server, desk):
    budget = Budget(max_cost=0.001, max_total_tokens=None, spent=Totals(), price=price_of)
    asked = questions(server, "openai", 40, sampling={"max_tokens": 1_000})
    answers = ask(desk, asked, budget=budget)
    outcomes = {answer.outcome for answer in answers}
    price = price_of("openai/gpt-4.1-mini")
    assert server.cost(price.input, price.output) <= 0.001
    assert outcomes == {"ok"} or outcomes == {"ok", "budget"}
    first = next(iter(server.batches.values()))
    assert len(first.requests) < 40  # the others wait until these have turned out cheaper


@pytest.mark.few(1)
def test_the_key_goes_nowhere_but_to_the_endpoint_and_into_no_file(server, shape, desk):
    ask(desk, questions(server, shape))
    keys = {headers.get("x-api-key") or headers.get("authorization") for headers in server.headers}
    assert keys == {"a-key-of-the-tests"} or keys == {"Bearer a-key-of-the-tests"}
    for path in desk.calls.parent.iterdir():
        assert b"a-key-of-the-tests" not in path.read_bytes()


class Snapshots:
    """The disk and the server at a step: what a process that is killed there leaves behind."""

    def __init__(self, server, folder, at):
        self.server, self.folder, self.at = server, folder, at
        self.copy = folder.with_name(f"{folder.name} at {at}")
        self.state = {}

    def __call__(self, step):
        if step != self.at or self.copy.exists():
            return
        shutil.copytree(self.folder, self.copy)
        kept = ("bill", "asked", "files", "batches")
        self.state = {name: copy.deepcopy(getattr(self.server, name)) for name in kept}

    def restore(self):
        for name, value in self.state.items():
            setattr(self.server, name, value)
        self.server.troubles.on = lambda step: None
        (self.copy / ".lock").unlink(missing_ok=True)
        return self.copy


@pytest.mark.release
@pytest.mark.parametrize(
    ("shape", "step"),
    [
        *(("openai", step) for step in ("created", "create", "results")),
        ("anthropic", "created"),
    ],
)
def test_a_run_killed_between_two_steps_goes_on_and_pays_nothing_twice(
    server, shape, step, tmp_path
):
    snapshots = server.troubles.on = Snapshots(server, tmp_path / "out", step)
    run_on(server, shape, tmp_path / "out", batch=True)
    undisturbed, asked = journals(tmp_path / "out"), server.asked
    folder = snapshots.restore()
    resumed = run_on(server, shape, folder, batch=True)
    assert journals(folder) == undisturbed
    assert server.asked == asked
    assert resumed.summary.calls.cost == bill(server, shape)


def test_what_a_killed_session_ordered_is_taken_up_without_batch_too(server, desk, tmp_path):
    server.troubles.on = snapshots = Snapshots(server, tmp_path / "there", "created")
    (tmp_path / "there").mkdir()
    ask(Desk(tmp_path / "there"), questions(server, "openai"))
    told = []
    ask_all(server, "openai", Desk(snapshots.restore()), 8, gathering=False, told=told)
    assert ways_of(server).count(False) == 2
    assert max(server.asked.values()) == 1
    assert "resumed batch" in told[0]


def test_an_answer_that_was_in_the_ledger_when_the_run_was_killed_is_not_counted_twice(
    server, desk
):
    for _ in range(2):  # nothing but the ledger and the order are there of the first
        ask_all(server, "openai", desk, 3)
    assert len(desk.rows) == len(server.bill) == 3


def lose_an_order(monkeypatch, kind, meanwhile=lambda: None):
    """Let the answer to the first order be lost, whatever else is ordered meanwhile."""
    real, lost = kind.create, []

    async def create(self, *arguments, **more):
        name = await real(self, *arguments, **more)
        if not lost:
            lost.append(name)
            meanwhile()
            raise TransportError("the line broke", transient=True)
        return name

    monkeypatch.setattr(kind, "create", create)
    return lost


def others_in(server, count):
    """Let an account have ordered other batches."""
    for number in range(count):
        other = f"other_{number}"
        server.batches[other] = batch_server.Batch(other, {"x": {}}, time.time())


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


def test_answers_of_a_batch_are_kept_for_other_runs(server, desk, cache):
    asked = questions(server, "openai", 2)
    ask(desk, asked, cache=cache)
    again = ask(desk, asked, cache=cache)
    assert [answer.cached for answer in again] == [True, True]
    assert len(server.bill) == 2


def test_ids_are_cache_keys_and_fit_every_provider(server, desk):
    ask(desk, questions(server, "anthropic", 2))
    (batch,) = server.batches.values()
    assert sorted(map(len, batch.requests)) == [64, 64]
    assert set(rows(desk.calls.parent / FILE)[0]["keys"]) == set(batch.requests)


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
