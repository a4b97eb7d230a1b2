"""Small data sets of retrieval and utilization, and the command run in the test's process."""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.cli import cli, guarded
from alps.data.release import write_track
from tests.endtoend import rows, summary
from tests.loopback import Answer

MODEL, JUDGE = "openai/scripted", "openai/scripted-judge"
NEVER_SHOWN = (
    *("Grows saffron on the balcony", "Saffron/Balcony", "stratum-17"),
    *("canonical-17", "Allergic to walnuts"),
)
"""What rows of utilization hold and a system must not see: target, label, stratum, original id,
another memory.
"""
TALK = (
    {"role": "user", "text": "My balcony faces south and I bought crocus bulbs for the spice."},
    {"role": "assistant", "text": "Plant them in late summer, ten centimetres deep."},
    {"role": "user", "text": "Fine. No nuts in recipes for me by the way."},
)


@dataclass(frozen=True)
class Ran:
    """What came of a command: its exit code and its words."""

    code: int
    out: str
    err: str

    @property
    def one_line(self) -> str:
        """The error of a command that a user can mend: exit 2, one line, nothing else."""
        assert (self.code, self.out) == (2, ""), self
        assert len(self.err.splitlines()) == 1, self.err
        return self.err


def alps_here(*words: object) -> Ran:
    """Run the command in this process, as `main` does."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            given = [str(word) for word in words]
            code = guarded(lambda: cli.main(given, prog_name="alps", standalone_mode=False))
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def alps_done(*words: object) -> Ran:
    """Give a command that has to succeed, and return what it printed."""
    ran = alps_here(*words)
    assert ran.code == 0, ran.err
    return ran


def track_of(folder: Path, track: str) -> dict[str, Any]:
    """Read the part of a run's summary that is about `track`."""
    return summary(folder)["tracks"][track]


def scores_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the rows of a run's scores by their ids."""
    return {row["benchmark_id"]: row for row in rows(folder / "scores.jsonl")}


def payload_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object that the question to a judge ends with, up to its very end."""
    text = body["messages"][1]["content"]
    found, end = json.JSONDecoder().raw_decode(text, text.index("{"))
    assert text[end:] == ""
    return found


def is_rating(body: dict[str, Any]) -> bool:
    """Tell whether a request asks for a rating."""
    return '"kind": "rubric"' in body["messages"][1]["content"]


def met(verdict: str = "met", **fields: Any) -> Answer:
    """Return the reply of a judge to a binary rubric."""
    return Answer(json.dumps({"reason": "so it reads", "verdict": verdict}), **fields)


def felt(resonation: int, expression: int, reception: int) -> Answer:
    """Return the reply of a judge to the rubric of emotional intelligence."""
    marks = {"resonation": resonation, "expression": expression, "reception": reception}
    return Answer(json.dumps({"reason": "so it reads", **marks}))


def between(
    system: Callable[[dict[str, Any]], Answer], judge: Callable[[dict[str, Any]], Answer]
) -> Callable[[dict[str, Any]], Answer]:
    """Return a script that answers for a model and for its judge."""
    return lambda body: judge(body) if is_rating(body) else system(body)


def pool_row(
    name: str,
    values: Sequence[str],
    gold: int | None,
    *,
    query: str = "What shall I plant?",
    ids: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the rows of one pool with original ids, as the release gives it; `gold` is a place in
    `values`.
    """
    names = ids or [f"m{n % 7 + 1}" for n in range(len(values))]
    about = f"session of {name}"
    pool = []
    for i, value in zip(names, values, strict=True):
        pool.append({"memory_id": i, "value": value, "label": "Possessions/Pet"})
    row = {"benchmark_id": name, "task": "task3", "session_id": about, "stratum": "Possessions/Pet"}
    shown = {**row, "input": {"query": query, "candidate_memories": pool}}
    if gold is None:
        return shown, None
    chosen = {"selected_memory_id": names[gold], "selected_memory": dict(pool[gold])}
    return shown, {**row, "gold": chosen}


def target_row(
    name: str,
    *,
    value: str = NEVER_SHOWN[0],
    label: str = NEVER_SHOWN[1],
    known: Sequence[str] = (NEVER_SHOWN[4],),
    queries: Sequence[str] = ("What should I cook tonight?",),
    dialogue: Sequence[dict[str, str]] = TALK,
    **fields: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of one sample of utilization, with everything in them that gives the gold
    away.
    """
    ids = {"benchmark_id": name, "task": "task4", "session_id": f"session of {name}"}
    ids |= {"canonical_id": NEVER_SHOWN[3], "stratum": NEVER_SHOWN[2], **fields}
    memory = {"memory_id": "m1", "value": value, "label": label}
    others = []
    for n, text in enumerate(known, start=2):
        others.append({"memory_id": f"m{n}", "value": text, "label": ""})
    asked = [{"query_id": f"{name}:{n}", "query": query} for n, query in enumerate(queries)]
    shown = {
        "query": queries[0],
        "queries": asked,
        "model_input": {"query": queries[0], "selected_memory": memory},
        "audit_context": {"conversation": list(dialogue)},
    }
    gold = {"memory_key": "m1", "selected_memory": memory, "extracted_memory": [memory, *others]}
    return {**ids, "input": shown}, {**ids, "gold": {**gold, "conversation": list(dialogue)}}


def write_ability(
    folder: Path, number: int, *pairs: tuple[dict[str, Any], dict[str, Any] | None]
) -> Path:
    """Write one ability of a data set; return the data set's folder."""
    write_track(folder / "dev" / f"task4_ability{number}", pairs)
    return folder


def llm(url: str) -> tuple[str, ...]:
    """Return the words that make both model and judge a server at `url`; baselines are not judged
    there.
    """
    judge = (f"judge={JUDGE}", f"judge_api_base={url}", "baseline_records=0")
    return f"model={MODEL}", f"api_base={url}", *judge
