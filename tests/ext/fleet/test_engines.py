"""Engines that divide a run among processes: merged, it is the run of one process."""

import signal
from collections import Counter

import pytest

from alps.errors import AlpsError, UsageError
from alps.ext.fleet.worker import _open_known
from alps.settings import RunSettings, parse_words
from tests.cluster import cluster, is_running, state_of, worker_ids
from tests.endtoend import extraction, finish, one_line, run, start, summary, wait_until
from tests.ext.fleet.test_shards import MEMORY, OFF, VERDICT, asking, is_the_same
from tests.loopback import Answer, serve
from tests.submissions import make_run
from tests.visitors import good, visitor, write_visitors

pytestmark = pytest.mark.release

WORDS = ("task=extraction,update", "model=rules", "limit=9")
POOLS = ("task=retrieval", "model=bm25", "distractors=300", "limit=6")
TWO = ("engine=processes", "workers=2")


@pytest.mark.parametrize("words", [WORDS, POOLS], ids=["lists", "pools"])
def test_a_run_in_processes_is_that_of_one(tmp_path, words):
    whole = make_run(tmp_path / "whole", *words)
    for _ in range(2):
        is_the_same(make_run(tmp_path / "divided", *words, *TWO), whole)
        assert not (tmp_path / "divided.shards").exists()


SYSTEMS = """
import os, time

class Slow:
    settings = {"of": "the tests"}
    asked = 0
    def predict(self, sample):
        with open("asked", "a") as file:
            file.write(sample.benchmark_id + os.linesep)
        self.asked += 1
        while self.asked > 2 and not os.path.exists("go"):
            time.sleep(0.01)
        return []

class Ends:
    settings = {}
    def predict(self, sample):
        os._exit(1)

"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "mine.py").write_text(SYSTEMS)
    return tmp_path


def of(name, *words):
    return ("run", "task=extraction", f"model=python:mine:{name}", "limit=20", *words)


def stopped(place, stop):
    """Begin a run in two processes, and stop it when each has answered two; return its end."""
    process = start(place, *of("Slow", "out=divided", *TWO))
    asked = place / "asked"
    wait_until(lambda: asked.exists() and asked.read_bytes().count(b"\n") == 2 * 3)
    workers = worker_ids(process.pid)
    stop(process)
    done = finish(process)
    wait_until(lambda: not any(map(is_running, workers)))
    assert len(workers) == 2
    assert not (place / "divided").exists()
    (place / "go").touch()
    return done


def test_what_a_killed_parent_leaves_goes_on_with_the_same_command(place):
    stopped(place, lambda process: process.kill())
    done = run(place, *of("Slow", "out=divided", *TWO), ALPS_PROGRESS="3600")
    # Those of the first session are counted, in the lines of the shards and of their merging.
    assert (done.returncode, done.stderr.count("20/20  100 %")) == (0, 2), done.stderr
    asked = (place / "asked").read_text().split()
    # What was under way at the kill is asked again: a record a worker, as they run one at a time.
    assert len(set(asked)) == 20
    assert len(asked) == 20 + 2
    assert run(place, *of("Slow", "out=whole")).returncode == 0
    is_the_same(place / "divided", place / "whole")


def test_progress_takes_no_failed_request_for_one_without_a_price(tmp_path):
    write_visitors(tmp_path / "data", 6)
    (tmp_path / "prices.toml").write_text('["openai/scripted"]\ninput = 10\noutput = 10\n')
    asked = Counter()

    def busy_at_first(body):
        asked[visitor(body)] += 1
        return good(body) if asked[visitor(body)] > 1 else Answer(status=500)

    with serve(busy_at_first) as server:
        words = (word for word in extraction(server.url, *TWO, "out=out") if "judge" not in word)
        own = {"ALPS_PRICES": "prices.toml", "OPENAI_API_KEY": "none", "ALPS_PROGRESS": "3600"}
        done = run(tmp_path, *words, **own)
    cost = summary(tmp_path / "out")["calls"]["cost"]
    assert done.stderr.count(f"6/6  100 %  0 failed  0 unscored  ${cost:.4f}  ") == 2, done.stderr


def test_ctrl_c_ends_the_workers(place):
    done = stopped(place, lambda process: process.send_signal(signal.SIGINT))
    kept = "alps: interrupted; alps keeps finished records; to resume, repeat the same command"
    assert (done.returncode, done.stderr.split("\n")) == (130, ["", kept, ""])


def test_a_system_that_ends_its_process_ends_the_run_in_a_line(place):
    said = one_line(run(place, *of("Ends", *TWO, "out=divided")))
    assert "its process ended 3 times without a new answer" in said


def test_an_error_of_a_worker_is_that_of_the_run(place):
    words = of("Slow", *TWO, "out=divided")
    (place / "divided.shards" / "1-of-2").mkdir(parents=True)
    (place / "divided.shards" / "1-of-2" / "scores.jsonl").write_text("{}")
    assert "not a run folder" in one_line(run(place, *words))


CANARY = "canary-of-the-workers-4711"


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "mine.py").write_text(SYSTEMS)
    with cluster(folder, workers=2, OPENAI_API_KEY=CANARY, ALPS_CACHE="off") as made:
        yield made, folder


def test_a_shard_of_a_lost_worker_goes_on_where_it_was(dask):
    made, folder = dask
    words = of("Slow", "out=divided", "engine=dask", f"scheduler={made.address}")
    process = start(folder, *words)
    asked = folder / "asked"
    wait_until(lambda: asked.exists() and asked.read_bytes().count(b"\n") == 2 * 3)
    assert "python:mine:Slow" in state_of(made.address)
    carrying_out = worker_ids(made.workers[0].pid)
    made.workers[0].kill()
    made.start_worker()
    wait_until(lambda: not any(map(is_running, carrying_out)))
    (folder / "go").touch()
    assert finish(process).returncode == 0
    lines = asked.read_text().split()
    # The worker was killed within its third record.
    assert (len(set(lines)), len(lines)) == (20, 21)
    assert run(folder, *of("Slow", "out=whole")).returncode == 0
    is_the_same(folder / "divided", folder / "whole")


def test_a_scheduler_that_restarts_without_workers_is_awaited_for_the_patience(tmp_path):
    """Its workers end with their connection, and nobody need start others."""
    (tmp_path / "mine.py").write_text(SYSTEMS)
    with cluster(tmp_path, workers=1, ALPS_CACHE="off") as made:
        at = ("engine=dask", f"scheduler={made.address}", "patience=3")
        process = start(tmp_path, *of("Slow", "out=divided", *at))
        wait_until((tmp_path / "asked").exists)
        made.scheduler.kill()
        made.scheduler.wait()
        made.start_scheduler()
        done = finish(process)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()[-1:]
    assert line.startswith(f"alps: scheduler={made.address}: connection lost (")


def test_workers_keep_to_one_limit_and_their_keys_stay_with_them(dask):
    made, folder = dask
    held, asked = [], []

    def answer(request):
        if not held:
            held.append("")
            held.append(state_of(made.address))
        asked.append(request)
        # The first ones wait for the other worker, which a busy machine may start much later.
        delay = 1.0 if len(asked) <= 5 else 0.02
        return Answer(VERDICT if request["model"] == "judge" else MEMORY, delay=delay)

    with serve(answer) as server:
        at = ("engine=dask", f"scheduler={made.address}", "out=keys")
        done = run(folder, *asking(server, *at), **OFF)
        assert done.returncode == 0, done.stderr
        assert all(f"Bearer {CANARY}" in sent.values() for sent in server.headers)
        assert server.most_under_way == 2
    files = [path.read_text() for path in (folder / "keys").rglob("*") if path.is_file()]
    assert server.url in held[1]
    assert CANARY not in "".join((*held, *files, made.log, done.stdout, done.stderr))


def test_a_spent_budget_ends_a_run_on_a_cluster(dask):
    made, folder = dask
    write_visitors(folder / "data", 6)
    with serve(good) as server:
        words = (word for word in extraction(server.url, "out=spent") if "judge" not in word)
        at = ("engine=dask", f"scheduler={made.address}", "max_total_tokens=1")
        done = run(folder, *words, *at, OPENAI_API_KEY="none")
        assert server.requests == []
    assert (done.returncode, done.stderr.count("the budget is spent")) == (3, 1), done.stderr


def test_a_secret_in_the_settings_does_not_go_through_the_scheduler(dask):
    made, folder = dask
    words = of("Slow", "engine=dask", f"scheduler={made.address}", "out=a-secret-of-mine")
    said = one_line(run(folder, *words, MINE_TOKEN="a-secret-of-mine"))
    assert "the value is a secret and would pass through the scheduler" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("workers=2",), "workers=2 would change nothing: engine=asyncio runs in this process"),
        (("scheduler=tcp://here:1",), "scheduler=tcp://here:1 would change nothing"),
        (("engine=dask",), "engine=dask needs an address"),
        ((*TWO, "scheduler=tcp://here:1"), "engine=processes uses no scheduler"),
        ((*TWO, "shard=1/2"), "engine=processes makes the shards itself; leave out shard="),
        ((*TWO, "audit_judge=openai/x", "audit=10%"), "engine=processes cannot audit"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path, words, said):
    with pytest.raises(UsageError, match=said):
        make_run(tmp_path / "out", *WORDS, *words)


def test_a_folder_that_one_process_began_is_not_divided(tmp_path):
    whole = make_run(tmp_path / "whole", *WORDS)
    (whole / "summary.json").unlink()
    with pytest.raises(AlpsError, match="this run used one process"):
        make_run(whole, *WORDS, *TWO)


def test_a_shard_takes_the_records_for_what_its_parent_has_read():
    settings = parse_words(["task=extraction", "model=rules", "data=samples"], RunSettings)
    known = {"n": 7, "sha256": "0"}
    data = _open_known(settings, {"split": "dev", "tracks": {"task1": known}})
    assert (data.n, data.tracks[0].description) == (7, known)
