"""Folders to annotate: a run with a judge that rates, one that relates, and pages that are open."""

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from alps.ext.people.annotate.making import begin
from alps.ext.people.annotate.page import application
from alps.ext.people.annotate.seat import Seat, Step
from alps.ext.people.settings import AnnotateSettings
from alps.ext.view.loopback import HOST, listen, server_of
from alps.settings import parse_settings
from tests.endtoend import Process, start, write_rows
from tests.loopback import Answer, serve
from tests.tracks import alps_here, between, felt, met, payload_of

NEEDED = "starlette and uvicorn are not installed: pip install 'alps-eval[annotate]'"
TOKEN = "a-token-of-the-tests"


def rated_run(folder: Path, *, limit: int = 4) -> Path:
    """Carry out a run of utilization whose judge says yes and no in turns."""
    verdicts = iter(range(10_000))

    def judge(body: dict) -> Answer:
        turn = next(verdicts)
        if payload_of(body)["rubric"] == "ei":
            return felt(*(1 + (turn + n) % 5 for n in range(3)))
        return met("met" if turn % 2 else "not_met")

    with pytest.MonkeyPatch.context() as patch, serve(between(lambda _: Answer("x"), judge)) as llm:
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setenv("ALPS_CACHE", "off")
        words = ("task=utilization", "model=rules", "data=samples", f"limit={limit}")
        judged = ("judge=openai/scripted-judge", f"judge_api_base={llm.url}", "baseline_records=0")
        done = alps_here("run", *words, *judged, f"out={folder}", "concurrency=1")
    assert done.code == 0, done.err
    return folder


def related_run(folder: Path, *, limit: int = 6) -> Path:
    """Carry out a run of extraction, related by the embedded judge."""
    words = ("task=extraction", "model=rules", "data=samples", f"limit={limit}")
    done = alps_here("run", *words, f"out={folder}")
    assert done.code == 0, done.err
    return folder


@contextmanager
def opened(folder: Path, person: str = "anna", **settings: bool) -> Iterator[str]:
    """Serve the page of a person in this process, and give its address."""
    bound = listen(0)
    seat = Seat(folder, person, **settings)
    server = server_of(application(seat, TOKEN))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://{HOST}:{bound.getsockname()[1]}/{TOKEN}/"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
        seat.close()


def made(folder: Path, job: str, source: str, **settings: object) -> Path:
    """Make a folder to annotate."""
    given = {"job": job, "from": source, **settings}
    begin(folder, parse_settings(given, AnnotateSettings))
    return folder


class Served(NamedTuple):
    """A page served by a process of its own."""

    process: Process
    address: str

    @property
    def port(self) -> int:
        return int(re.findall(r":(\d+)/", self.address)[0])

    def end(self, number: int = signal.SIGINT) -> None:
        """End the process by a signal, and close its pipes."""
        self.process.send_signal(number)
        self.process.communicate()


def served(folder: Path, person: str = "anna", *, port: int = 0) -> Served:
    """Serve the page of a person by the command, and wait until it answers."""
    process = start(folder.parent, "annotate", str(folder), f"as={person}", f"port={port}")
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"http://\S+", line):
            break
    else:
        raise AssertionError(process.communicate()[1])
    return Served(process, found[0])


def plain_work(folder: Path, count: int, *, values: Sequence[int | str] = (0, 1), **plan) -> Path:
    """Write a folder of answers to rate, ten a session; the judge gives the values in turns."""
    folder.mkdir(parents=True)
    kind = "nominal" if len(values) == 2 else "ordinal"
    items, shown = [], []
    for number in range(count):
        name = f"task4_ability1/answer-{number:04}"
        about = {"system": "x", "cluster": f"session-{number // 10}", "language": None}
        payload = {"query": "Where to?", "response": f"Answer {number}", "memory": "Is shy"}
        items.append({"item_id": name, "rubric": "pa", **about, "payload": payload})
        answer = {"label": values[number % len(values)]}
        shown.append({"item_id": name, "by": "openai/judge", "answer": answer})
    write_rows(folder / "items.jsonl", items)
    write_rows(folder / "shown.jsonl", shown)
    scale = {"kind": kind, "values": list(values), "positive": [values[-1]]}
    entry = {"track": "task4_ability1", "population": count, "drawn": count, "random": True}
    sample = {"run": "x", "seed": 0, "rubrics": {"pa": {**entry, "predictions": "f" * 64}}}
    (folder / "scale.json").write_text(json.dumps({"pa": scale}))
    (folder / "sample.json").write_text(json.dumps(sample))
    given = {"job": "rate", "source": "x", "seed": 0, "annotators": 2, **plan}
    (folder / "annotate.json").write_text(json.dumps(given))
    return folder


def label_all(
    folder: Path,
    person: str,
    answer: Callable[[Step], Mapping[str, str]],
    *,
    most: int = 1_000_000,
    **settings: bool,
) -> int:
    """Have a person answer every item, `most` labels at most; return how many labels that were."""
    seat, count = Seat(folder, person, **settings), 0
    try:
        step = seat.next()
        while step is not None and count < most:
            step = seat.say(step.item.item_id, step.rows, answer(step))
            count += 1
    finally:
        seat.close()
    return count
