"""Several runs in one process: what they share, what one loses, and how a sweep is planned."""

import asyncio
import html
import io
import json
import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from alps.ext.sweeps import models_of
from alps.ext.sweeps.plan import PlanError, SweepCell, read_plan
from alps.ext.sweeps.progress import SweepProgress, SweepRow, table_of
from alps.ext.sweeps.sweep import Swept, _resolved, sweep
from alps.ext.sweeps.table import report_sweep, write_sweep_page
from alps.llm.client import Client, Endpoint
from alps.llm.ledger import Ledger, counted_in
from alps.llm.types import Reply, Request
from alps.run.source import open_data
from alps.run.start import run
from alps.settings import RunSettings, parse_words
from tests.endtoend import JOURNALS, contents
from tests.loopback import Answer, serve
from tests.tracks import alps_done, alps_here
from tests.virtual_time import NoLedger, Windows, in_virtual_time

HELLO = ({"role": "user", "content": "hello"},)
QUESTION = Request[None]("openai/x", HELLO, None, purpose="generate", about="a")


class Provider:
    """Answers when it is let, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked, self.may_answer = 0, asyncio.Event()

    async def __call__(self, request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        self.asked += 1
        await self.may_answer.wait()
        return Reply("hi")


@pytest.fixture
def ledgers(tmp_path):
    opened = [Ledger(tmp_path / f"{name}.jsonl") for name in ("first", "second")]
    yield opened
    for ledger in opened:
        ledger.close()


@pytest.mark.parametrize("ends_early", [False, True])
def test_two_runs_ask_the_same_question_once_and_one_that_ends_loses_none(ledgers, ends_early):
    async def ask():
        provider, asked = Provider(), []
        shared = {"endpoint": Endpoint.of(concurrency=4, patience=1.0), "send": provider}
        clients = [Client(concurrency=4, ledger=one, cache=None, **shared) for one in ledgers]
        for client in clients:
            asked.append(asyncio.ensure_future(client.complete(QUESTION)))
            if ends_early:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        if ends_early:
            await clients[0].aclose()
        provider.may_answer.set()
        assert (await asked[1]).value == "hi"
        if ends_early:
            with pytest.raises(asyncio.CancelledError):
                await asked[0]
        else:
            assert (await asked[0]).value == "hi"
            assert provider.asked == 1

    asyncio.run(ask())
    if ends_early:
        assert ledgers[1].totals.calls == 1
    else:
        assert [ledger.totals.calls for ledger in ledgers] == [1, 0]
        assert [ledger.totals.cached for ledger in ledgers] == [0, 1]


@pytest.mark.release
def test_thirty_runs_use_one_limit_a_minute_together_and_hardly_pass_it():
    server, latency = Windows(most=600, seconds=60.0), random.Random(0)
    sent: list[tuple[float, bool]] = []

    async def ask():
        endpoint, loop = Endpoint.of(concurrency=None, patience=1800.0), asyncio.get_running_loop()

        async def send(request, messages):
            verdict = server(loop.time())
            sent.append((loop.time(), verdict is None))
            if verdict is not None:
                await asyncio.sleep(0.02)
                raise verdict
            await asyncio.sleep(latency.uniform(0.4, 1.8))
            # As most providers tell with each answer.
            endpoint.limiter.told(server.most - server.taken, 60.0 - loop.time() % 60.0)
            return Reply("Yes.")

        async def judge(client, number):
            question = {"role": "user", "content": str(number)}
            asked = Request[None]("openai/judge", (question,), None)
            assert (await client.complete(asked)).outcome == "ok"

        ledger: Any = NoLedger()
        shared: dict[str, Any] = {"concurrency": None, "ledger": ledger, "cache": None}
        clients = [Client(**shared, send=send, endpoint=endpoint) for _ in range(30)]
        await asyncio.gather(*(judge(clients[n % 30], n) for n in range(1_900)))

    random.seed(0)
    in_virtual_time(ask())
    taken = Counter(int(when // 60) for when, accepted in sent if accepted)
    assert taken == {0: 600, 1: 600, 2: 600, 3: 100}
    assert len(sent) <= 1.02 * 1_900


def written(folder: Path, text: str, name: str = "plan.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def faults_of(path: Path) -> tuple[str, ...]:
    with pytest.raises(PlanError) as told:
        swept(path)
    return told.value.faults


def swept(path: Path, **words: Any) -> Swept:
    return sweep(read_plan(path), board=SweepProgress(), **words)


def test_every_fault_of_a_plan_is_a_line_with_its_file_and_key(tmp_path):
    written(tmp_path, "sed = 1\n", "base.toml")
    plan = """
        extends = "base.toml"
        limit = 1
        [matrix]
        modle = ["rules"]
        max_cost = [1]
        [[model]]
        temprature = 0
        [[model]]
        name = "rules"
        temprature = 0
    """
    faults = faults_of(written(tmp_path, plan))
    assert len(faults) == 5
    assert faults[0] == f"{tmp_path}/base.toml, sed: unknown key — did you mean 'seed'?"
    for key in ("model[1].name", 'model "rules".temprature', "matrix.modle", "matrix.max_cost"):
        assert any(f"plan.toml, {key}: " in fault for fault in faults), key


def test_a_fault_of_many_runs_is_told_once_and_before_any_of_them_runs(tmp_path):
    plan = """
        [matrix]
        model = ["rules", "bm25"]
        task = ["extraction", "update", "forgetting"]
        limit = [1, 0]
    """
    first = faults_of(written(tmp_path, plan))
    assert first == (
        f"{tmp_path}/plan.toml, extraction rules limit=0 and 5 more: limit=0: must be 1 or more",
    )
    faults = faults_of(written(tmp_path, plan.replace("[1, 0]", "1")))
    named = [fault.partition(": ")[0].rpartition(", ")[2] for fault in faults]
    assert named == ["forgetting rules and 1 more", "extraction bm25", "update bm25"]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ('[[exclude]]\nmodel = "bm25"', "exclude[1]: no run of the matrix matches it"),
        ('[[exclude]]\nmodel = "rules"', "no run is left"),
        ('[[task]]\nname = "retrieval"', 'task "retrieval": no run of the matrix has this task'),
        ('[[model]]\nname = "memory:full"', "are the same run"),
        ('[[exclude]]\ntask = "x', "not TOML"),
        ('[[model]]\nname = "oracle"\n' * 2, 'model[2].name: "oracle" appears twice'),
        ('[model]\nname = "rules"', "model: must be tables, [[model]]"),
        ("repeats = [2, 2]", "matrix.repeats: 2 appears twice"),
        ("epochs = 2", "matrix.epochs: unknown key; write repeats="),
        ("[matrx]", "matrx: unknown key — did you mean 'matrix'?"),
    ],
)
def test_a_plan_that_says_nothing_or_something_twice_is_refused(more, fault, tmp_path):
    plan = '[matrix]\nmodel = ["rules"]\ntask = ["extraction"]\n'
    (told,) = faults_of(written(tmp_path, plan + more))
    assert fault in told


def test_runs_on_the_same_data_read_them_once(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        "alps.ext.sweeps.sweep.open_data", lambda found: opened.append(found) or open_data(found)
    )
    plan = '[matrix]\nmodel = ["rules", "oracle"]\ntask = ["extraction", "update"]\nlimit = [2]\n'
    _resolved(read_plan(written(tmp_path, plan)))
    assert sorted(found.task for found in opened) == ["extraction", "update"]


def test_what_is_said_of_all_runs_holds_where_it_changes_something(tmp_path):
    plan = """
        temperature = 0.5
        judge_api_base = "http://127.0.0.1:9/v1"
        judge_check = false
        [matrix]
        model = ["rules", "openai/x"]
        task = ["extraction"]
        judge = ["lexical", "openai/judge"]
    """
    for cell in read_plan(written(tmp_path, plan)).cells:
        by_model, by_judge = cell.settings.model != "rules", cell.settings.judge != "lexical"
        assert cell.settings.temperature == (0.5 if by_model else None)
        assert (cell.settings.judge_api_base is not None) is by_judge
        assert cell.settings.judge_check is not by_judge


@pytest.mark.parametrize(
    ("common", "models", "own"),
    [
        pytest.param("temperature = 0.5", ["rules", "oracle"], "", id="in no run"),
        pytest.param("", ["oracle"], '[[model]]\nname = "rules"\ntemperature = 0.5', id="own"),
    ],
)
def test_what_changes_nothing_anywhere_or_where_it_is_said_is_refused(
    tmp_path, common, models, own
):
    matrix = f'[matrix]\ntask = ["extraction"]\nmodel = {models}'
    faults = faults_of(written(tmp_path, f"{common}\n{matrix}\n{own}\n"))
    assert "temperature=0.5 would change nothing: model=rules" in faults[0]


def test_a_plan_extends_neither_itself_nor_one_that_is_not_there(tmp_path):
    for name, fault in (
        ("plan", "a plan can't extend itself"),
        ("nope", f"{tmp_path}/nope.toml: No such file or directory"),
    ):
        (told,) = faults_of(written(tmp_path, f'extends = "{name}.toml"\n'))
        assert told == f"{tmp_path}/plan.toml, extends: {fault}"


def test_a_plan_has_the_runs_of_its_matrix_less_the_excluded_ones(tmp_path):
    written(tmp_path, 'limit = 2\n[matrix]\nmodel = ["rules"]\ntask = ["update"]', "base.toml")
    plan = """
        extends = "base.toml"
        limit = 3
        max_cost = 2
        [matrix]
        model = ["rules", "oracle"]
        task = ["extraction", "update"]
        repeats = [1, 2]
        [[model]]
        name = "bm25"
        task = "retrieval"
        seed = 5
        [[task]]
        name = "retrieval"
        distractors = 300
        [[exclude]]
        model = "oracle"
        repeats = 2
    """
    read = read_plan(written(tmp_path, plan))
    assert [str(cell) for cell in read.cells] == [
        *("extraction rules repeats=1", "extraction rules repeats=2"),
        *("update rules repeats=1", "update rules repeats=2"),
        *("extraction oracle repeats=1", "update oracle repeats=1"),
        *("retrieval bm25 repeats=1", "retrieval bm25 repeats=2"),
    ]
    assert [cell.settings.seed for cell in read.cells[-3:]] == [0, 5, 5]
    assert [cell.settings.distractors for cell in read.cells[-3:]] == ["100", "300", "300"]
    assert {cell.settings.limit for cell in read.cells} == {3}
    assert {cell.settings.max_cost for cell in read.cells} == {None}
    assert read.max_cost == 2


WHOLE = (*JOURNALS, "summary.json", "manifest.json")


def test_each_run_of_a_sweep_is_what_it_is_alone_and_is_not_run_twice(tmp_path, capsys):
    plan = f"""
        out = "{tmp_path}/all"
        limit = 4
        [matrix]
        model = ["rules", "oracle"]
        task = ["extraction", "update"]
    """
    path = written(tmp_path, plan)
    first = swept(path)
    assert not first.failed
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in told] == ["1/4", "2/4", "3/4", "4/4"]
    assert max(map(len, told)) <= 80
    for one in first.ended:
        words = [f"task={one.cell.task}", f"model={one.cell.system}", "limit=4"]
        alone = run(parse_words([*words, f"out={tmp_path}/alone/{one.folder.name}"], RunSettings))
        assert contents(one.folder, WHOLE) == contents(alone.folder, WHOLE)
    written_before = {one.folder: (one.folder / "summary.json").stat() for one in first.ended}
    again = swept(path)
    for one in again.ended:
        assert (one.folder / "summary.json").stat() == written_before[one.folder]
    assert swept(path, only="failed").ended == again.ended
    report = report_sweep(again)
    assert [track.track for track in report.tracks] == ["task1", "task2"]
    for track in report.tracks:
        assert [one.system for one in track.standings] == ["oracle", "rules"]
        assert [one.front for one in track.standings] == [True, False]  # both are free
    letters = [[one.letters for one in track.standings] for track in report.tracks]
    assert letters == [["a", "b"], ["a", "a"]]  # of 4 records the second can't tell
    page = write_sweep_page(report, tmp_path / "plan.html").read_text(encoding="utf-8")
    assert page.count("<h2>extraction") == page.count("<h2>update") == 1
    # The matrix comes first, with a row for each system and a labelled cell for each task.
    matrix = page[page.index("<table") : page.index("<h2>extraction")]
    assert [matrix.count(f'<th scope="row">{name}') for name in ("oracle", "rules")] == [1, 1]
    assert matrix.count('data-label="extraction, F1"') == 3  # two systems and the best baseline
    assert all(one.folder.name in page for one in again.ended)


def test_a_task_without_a_score_is_counted_and_told_in_the_table_and_on_the_page(tmp_path):
    plan = f"""
        out = "{tmp_path}/all"
        limit = 4
        baseline_records = 0
        [matrix]
        model = ["rules", "floor/parrot"]
        task = ["extraction", "utilization"]
        [[exclude]]
        model = "floor/parrot"
        task = "extraction"
    """
    done = alps_done("sweep", written(tmp_path, plan))
    assert "3 runs: 3 complete, 2 without a score\n" in done.out
    page = (tmp_path / "all/plan.html").read_text(encoding="utf-8")
    for said in (done.out, html.unescape(page)):
        flat = " ".join(said.split())
        assert "No score: utilization of rules, floor/parrot (needs an LLM judge" in flat
    assert "extraction of" not in done.out  # it is scored
    assert max(map(len, done.err.splitlines())) <= 80


def test_models_with_commas_are_runs_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = alps_here("run", "task=extraction", "model=rules,oracle", "limit=3")
    assert (done.code, "wrote runs/sweep.html" in done.out) == (0, True), done.err
    assert len(list((tmp_path / "runs").glob("extraction-*/summary.json"))) == 2
    assert models_of("program:answer --sizes 1,2") == ("program:answer --sizes 1,2",)


MEMORY = json.dumps({"memories": [{"label": "UNMAPPED", "value": "Lives in a house"}]})


def plan_of_servers(folder: Path, url: str, models: str, more: str = "") -> Path:
    plan = f"""
        out = "{folder}/all"
        limit = 6
        api_base = "{url}"
        patience = 1
        {more}
        [matrix]
        model = [{models}]
        task = ["extraction"]
    """
    return written(folder, plan)


@pytest.fixture
def keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ALPS_CACHE", "off")


@pytest.mark.release
@pytest.mark.usefixtures("keys")
def test_a_model_that_fails_stops_no_other_and_is_run_again_alone(tmp_path):
    refused = {"bad"}

    def answer(body):
        return Answer(status=401) if body["model"] in refused else Answer(MEMORY)

    with serve(answer) as server:
        path = plan_of_servers(tmp_path, server.url, '"openai/good", "openai/bad", "openai/other"')
        first = swept(path)
        assert [one.cell.system for one in first.failed] == ["openai/bad"]
        assert "key" in first.failed[0].failure
        assert "openai/bad" in " ".join(report_sweep(first).notes)
        refused.clear()
        server.requests.clear()
        again = swept(path, only="failed")
        assert {body["model"] for body in server.requests} == {"bad"}
        assert len(server.requests) == 6
    assert not again.failed
    assert len(again.ended) == 3


@pytest.mark.usefixtures("keys")
def test_a_model_without_a_price_is_neither_free_nor_on_the_front(tmp_path):
    with serve(lambda body: Answer(MEMORY)) as server:
        ended = swept(plan_of_servers(tmp_path, server.url, '"openai/nobodys", "rules"'))
    report = report_sweep(ended)
    (track,) = report.tracks
    costs = {one.system: (one.cost, one.front) for one in track.standings}
    assert costs == {"openai/nobodys": (None, False), "rules": (0.0, True)}
    page = write_sweep_page(report, tmp_path / "plan.html").read_text(encoding="utf-8")
    assert 'data-label="cost">–</td>' in page


@pytest.mark.release
@pytest.mark.usefixtures("keys")
def test_all_runs_keep_one_limit_of_their_endpoint_and_one_budget(tmp_path):
    with serve(lambda body: Answer(MEMORY, delay=0.02)) as server:
        models = '"openai/a", "openai/b", "openai/c"'
        swept(plan_of_servers(tmp_path, server.url, models, "concurrency = 3"))
        assert server.most_under_way == 3
        assert len(server.requests) == 18
    cap = 20_000
    with serve(lambda body: Answer(MEMORY)) as server:
        (tmp_path / "capped").mkdir()
        more = f"max_total_tokens = {cap}\nconcurrency = 3"
        path = plan_of_servers(tmp_path / "capped", server.url, models, more)
        stopped = swept(path)
        assert stopped.budget_spent
        assert 0 < len(server.requests) < 18
        tokens, _ = counted_in(one.folder for one in stopped.ended)
        assert cap / 2 < tokens <= cap
        # What is spent stays spent: the same sweep again asks nothing more.
        asked = len(server.requests)
        assert swept(path).budget_spent
        assert len(server.requests) <= asked + 1


def rows_of(systems: int, tasks: int) -> list[SweepRow]:
    rows = []
    for system, task in product(range(systems), range(tasks)):
        cell = SweepCell(f"openai/model-with-a-long-name-{system}", f"task{task}", SOME_RUN)
        row = SweepRow(cell, 10, done=10 * (system < 5), began=0.0 if system < 9 else None)
        if system < 5:
            row.ended, row.fault = 3.0, "no key" if system == 4 else ""
        rows.append(row)
    return rows


SOME_RUN = parse_words(["task=extraction", "model=rules"], RunSettings)


@pytest.mark.parametrize(("systems", "tasks"), [(3, 2), (30, 13), (60, 13)])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_the_table_fits_the_screen_and_counts_what_finds_no_line(systems, tasks, width, height):
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(table_of(rows_of(systems, tasks), width, height, now=4.0))
    lines = console.export_text().splitlines()
    assert "fail" in lines[0]
    assert "…" not in "".join(line[40:] for line in lines)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    shown = [line for line in lines if line.startswith("open")]
    hidden = [line for line in lines if line.startswith("and ")]
    counted = int(hidden[0].split()[1]) if hidden else 0
    assert len(shown) + counted == systems
    if systems == 30:
        # What runs or failed is seen; what waits or is done may be counted alone.
        signs = [line.split()[1] for line in shown[:5]]
        assert signs == ["0" * 13] * 4 + ["x" * 13]
    (sums,) = [line.split() for line in lines if line.startswith("all ")]
    ended = min(5, systems) * tasks
    assert sums[1:4] == [f"{ended}/{systems * tasks}", f"{10 * ended}/{10 * systems * tasks}", "0"]


@pytest.mark.parametrize(("done", "sign"), [(0, "0"), (4, "4"), (10, "9")])
def test_a_run_that_goes_on_has_its_tenths_as_a_sign(done, sign):
    cell = SweepCell("openai/x", "extraction", SOME_RUN)
    assert SweepRow(cell, 10, done=done, began=0.0).sign == sign
