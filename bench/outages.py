"""Measure what a run loses to rate limits and outages, beside Inspect AI on the same servers.

    python bench/outages.py inspect=PYTHON [rows=bucket,503] [calls=100] [at_once=2] [write=yes]
    python bench/outages.py proxy=LITELLM [rows=proxy] [write=yes]

`rows` names some of `ROWS` and `proxy`; each is a server of its own on loopback. `calls` takes
fewer of them, `at_once` is how many rows run side by side: they mostly wait. Both harnesses ask
with their defaults, Inspect AI (MIT, not a
dependency: `pip install inspect-ai==0.3.285 openai` into an environment of its own) by its adaptive
    connections.
`proxy=` names the command of LiteLLM's proxy (MIT but for its folder `enterprise`; `pip install
'litellm[proxy]==1.105.3'` into one, too), which lets 60 requests a minute through: 170 records of
the AlpsBench sample are asked and judged by it. Prints a row for each, and exits 1 where a bound is
missed. `write=yes` puts the figures into docs/benchmarks.md.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from document import Bound, Section, at_most, finish
from processes import environment, taken
from sample import sample_folder
from server import running
from short_samples import TURNS
from words import program, read_words, some_of, whole

LATENCY = "0.4-1.8"
OF_REJECTED, OF_WALL, AN_ANSWER = 0.5, 1.15, 1.3
PROXY, PROXY_RECORDS, PROXY_RPM = "proxy", 170, 60
DEFAULTS = {"rows": "", "calls": "0", "at_once": "2", "inspect": "", "proxy": "", "write": ""}
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """A server, and how many questions it is asked."""

    title: str
    calls: int
    server: Mapping[str, object]


ROWS = {
    "503": Row("503 for 300 s", 600, {"outage": 503, "outage_after": 2, "outage_for": 300}),
    "529": Row(
        "bucket, and 529 for 90 s",
        1_000,
        {"rate": 10, "retry_after": -1, "outage": 529, "outage_after": 10, "outage_for": 90},
    ),
    "window_60": Row("60 per 60 s", 300, {"per_window": 60, "retry_after": -1}),
    "window_600": Row("600 per 60 s", 2_000, {"per_window": 600, "retry_after": -1}),
    "bucket_told": Row("bucket 600 rpm, Retry-After", 1_000, {"rate": 10, "retry_after": 1}),
    "bucket": Row("bucket 600 rpm", 1_000, {"rate": 10, "retry_after": -1}),
}

INSPECT_SCRIPT = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import json_dataset
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

task = Task(dataset=json_dataset(sys.argv[1]), solver=generate(), scorer=includes())
model = get_model("openai-api/loopback/scripted", base_url=sys.argv[2], api_key="not-needed")
(log,) = eval(task, model=model, log_dir="inspect-log", display="none")
"""


@dataclass(frozen=True)
class Asked:
    """How a harness fared: seconds of its process, lost questions, and rejected requests."""

    wall: float
    lost: int
    rejected: int


def questions(count: int) -> Iterator[dict[str, str]]:
    """Yield plain questions of about the size of the dialogues that alps is given."""
    for number in range(count):
        yield {
            "input": f"Question {number}: where do I live? "
            + "There is a park along the river. " * 20,
            "target": "a",
        }


def asked(name: str, who: str, home: Path, *, calls: int, python: str) -> Asked:
    """Let `who` ask the server of a row so many questions.

    Raises:
        SystemExit: If it failed in another way than by losing records.
    """
    row = ROWS[name]
    with running(latency=LATENCY, log=home / "log", **row.server) as server:
        if who == "alps":
            script = str(HERE / "short_samples.py")
            taken([script, str(home / "data"), str(calls), str(TURNS)], home)
            model = ["model=openai/scripted", f"api_base={server.url}", "judge=lexical"]
            run = ["-m", "alps", "run", "task=extraction"]
            words = [*run, *model, f"data={home}/data", f"out={home}/out"]
        else:
            (home / "asks.py").write_text(INSPECT_SCRIPT)
            rows = (json.dumps(one) + "\n" for one in questions(calls))
            (home / "asked.jsonl").write_text("".join(rows))
            words = ["asks.py", str(home / "asked.jsonl"), server.url]
        took = taken(words, home, program=python, codes=(0, 1), OPENAI_API_KEY="none")
        counts = server.counts()
    rejected = counts.get("full", 0) + counts.get("down", 0)
    return Asked(took.seconds, calls - counts["answered"], rejected)


def measured(name: str, words: Mapping[str, str]) -> tuple[list[str], list[Bound]]:
    """Ask a row's servers, one harness after the other.

    Return the line of the table and what is promised.
    """
    calls = whole(words, "calls", least=0) or ROWS[name].calls
    inspect = program(words, "inspect")
    with tempfile.TemporaryDirectory() as mine, tempfile.TemporaryDirectory() as theirs:
        ours = asked(name, "alps", Path(mine), calls=calls, python=sys.executable)
        other = None
        if inspect:
            other = asked(name, "inspect", Path(theirs), calls=calls, python=inspect)
    title = ROWS[name].title
    promised = [at_most(f"{title}: records lost", 0, ours.lost)]
    if other is not None:
        beside = {
            "rejected requests": (OF_REJECTED, ours.rejected, other.rejected),
            "seconds of the process": (OF_WALL, ours.wall, other.wall),
        }
        for what, (share, our, their) in beside.items():
            limit, measured = f"≤ {share} × Inspect AI", f"{our:,.0f} to {their:,.0f}"
            promised.append(Bound(f"{title}: {what}", limit, measured, our <= share * their))
    figures = ["–", "–"]
    for at, one in enumerate(found for found in (ours, other) if found):
        figures[at] = f"{one.wall:.0f}, {one.lost}, {one.rejected:,}"
    return [title, f"{calls:,}", *figures], promised


CONFIG = """
model_list:
  - model_name: scripted
    litellm_params: {model: openai/scripted, api_base: "URL", api_key: not-needed, rpm: RPM}
router_settings:
  optional_pre_call_checks: [enforce_model_rate_limits]
  num_retries: 0
"""


@contextmanager
def proxied(command: str, url: str, home: Path) -> Iterator[str]:
    """Run LiteLLM's proxy before the server at `url`, with `PROXY_RPM` requests a minute.

    Yield its address.
    """
    config, port = home / "config.yaml", _free_port()
    config.write_text(CONFIG.replace("URL", url).replace("RPM", str(PROXY_RPM)))
    keyless = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}  # it is on loopback
    given = environment(home, LITELLM_TELEMETRY="False", **keyless)
    words = [command, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with (home / "proxy.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=given, cwd=home)
        try:
            _wait_for(f"http://127.0.0.1:{port}/health/liveliness")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


def _free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(url: str) -> None:
    for _ in range(120):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(1)
    sys.exit(f"{url}: the proxy did not start.")


def through_proxy(words: Mapping[str, str]) -> tuple[list[str], list[Bound]]:
    """Ask the records of the sample by LiteLLM's proxy.

    Attempts and answers are those of the run's ledger.
    """
    folder, command = sample_folder(), program(words, "proxy")
    if folder is None:
        sys.exit("rows=proxy: ALPS_SAMPLE names no folder with the AlpsBench sample.")
    limit = whole(words, "calls", least=0)
    with tempfile.TemporaryDirectory() as made, running(latency=LATENCY) as server:
        home = Path(made)
        with proxied(command, server.url, home) as url:
            asked = ["model=openai/scripted", f"api_base={url}", "judge=openai/scripted"]
            asked += [f"judge_api_base={url}", "judge_check=no", "baseline_records=0"]
            data = [f"data={folder}/benchmark_data", "split=dev", "task=extraction,update"]
            few = [f"limit={limit}"] if limit else []
            run = ["-m", "alps", "run", *data, *asked, *few, f"out={home}/out"]
            took = taken(run, home, codes=(0, 1), OPENAI_API_KEY="none")
        calls = (home / "out" / "calls.jsonl").read_bytes().splitlines()
        rows = [json.loads(line) for line in calls]
        summary = json.loads((home / "out" / "summary.json").read_bytes())
    answers = sum(row["status"] == 200 for row in rows)
    tracks = summary["tracks"].values()
    lost, records = sum(track["unscored"] for track in tracks), sum(track["n"] for track in tracks)
    each = len(rows) / answers
    title = f"LiteLLM proxy, {PROXY_RPM} rpm, {records} records"
    promised = [
        at_most(f"{title}: records lost", 0, lost),
        at_most(f"{title}: attempts an answer", AN_ANSWER, each, "{:.2f}"),
    ]
    ours = f"{took.seconds:.0f}, {lost}, {len(rows) - answers:,}"
    return [title, f"{answers:,}", ours, "–"], promised


HEAD = ["server", "answers", "alps: seconds, lost, rejected", "Inspect AI"]


TEXT = f"""
Servers on loopback that answer after {LATENCY.replace("-", " to ")} seconds, but turn requests
away: a bucket that fills up by ten a second, windows that begin with the first request, and
outages. Where Retry-After is not named, a 429 says nothing. alps extracts with its defaults and
the lexical judge, one call a record; Inspect AI asks as many plain questions with its own
defaults. Seconds are those of the whole process; a request is rejected by 429, 503 or 529.
LiteLLM's proxy is asked by model and judge alike, and counted by the ledger.
"""


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], DEFAULTS)
    known = (PROXY, *ROWS)
    given = words["rows"] or ",".join(name for name in known if name != PROXY or words["proxy"])
    names = some_of({"rows": given}, "rows", known)

    def row(name: str) -> tuple[list[str], list[Bound]]:
        return through_proxy(words) if name == PROXY else measured(name, words)

    with ThreadPoolExecutor(whole(words, "at_once")) as pool:
        done = list(pool.map(row, names))
    table, promised = [HEAD, *(cells for cells, _ in done)], [b for _, each in done for b in each]
    command = "python bench/outages.py inspect=PYTHON proxy=LITELLM write=yes"
    about = ("outages", "Rate limits and outages", TEXT, promised, command, table)
    finish(Section(*about, ["Inspect AI 0.3.285, LiteLLM proxy 1.105.3"]), write=words["write"])


if __name__ == "__main__":
    main()
