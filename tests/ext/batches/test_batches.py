"""Batches over loopback, in the wire formats of OpenAI and of Anthropic: what a run in batches ends
with, what it pays for, and what becomes of it when it is killed between any two steps.
"""

import asyncio
import copy
import json
import math
import shutil
from dataclasses import replace

import pytest

from alps.errors import CredentialError, UsageError
from alps.ext.batches import FILE
from alps.ext.batches.gather import Batches
from alps.ext.batches.part import BatchJournal, Room
from alps.ext.fleet.merge import merge
from alps.ext.sweeps.plan import read_plan
from alps.ext.sweeps.progress import SweepProgress
from alps.ext.sweeps.sweep import sweep
from alps.llm.budget import Budget
from alps.llm.ledger import Totals
from alps.llm.prices import price_of
from alps.run.start import run
from alps.settings import RunSettings
from tests.desk import Desk
from tests.endtoend import rows
from tests.ext.batches import batch_server
from tests.ext.batches.conftest import (
    KINDS,
    SHAPES,
    ask,
    ask_all,
    bill,
    journals,
    questions,
    run_on,
    steps,
    ways_of,
)


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
    rates = price_of("openai/gpt-4.1-mini").rates
    assert desk.totals.cost + lost["assumed_cost"] > server.cost(rates.input, rates.output)


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
        (
            {"status": 401},
            CredentialError,
            "could not list the batches: the provider refused the key",
        ),
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
    rates = price_of("openai/gpt-4.1-mini").rates
    assert server.cost(rates.input, rates.output) <= 0.001
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
