"""Runs to look at: the embedded extractor on the samples, one in which everything went wrong, and
one of every task; and what is shown of them.
"""

import io
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from alps.data.release import write_track
from alps.ext.looking.record import Highlights
from alps.ext.looking.record_text import show_record
from alps.run.opened import AnswerKey, state_of
from alps.tasks.record_parts import Highlight, Row, ScoredAnswer
from tests.endtoend import run, write_rows
from tests.loopback import Answer, serve
from tests.pages import Page
from tests.tracks import felt, llm, met, payload_of, pool_row, target_row
from tests.visitors import memory_items

SCRIPT = "<script>document.title = 'owned'</script>"
IMAGE = '"><img src=x onerror="document.title=1">'
STEERING = "\x1b[2J\x1b[31mred\x07 \u202egnol\u202c"
ARABIC = "أعيش في بيروت مع قطتي"
LONG = "word " * 400


def _record(said: str, *gold: str, **more: Any) -> dict[str, Any]:
    """Return a record in which the user says one thing; its answer is the gold unless told."""
    return {"said": [said], "gold": list(gold), "predicted": list(gold), **more}


def _failed(said: str, gold: str, outcome: str, **more: Any) -> dict[str, Any]:
    return _record(said, gold, predicted=(), outcome=outcome, **more)


PORTO = "I run 10 km every Sunday. I move to Porto in May."
RECORDS: dict[str, dict[str, Any]] = {
    "perfect": _record("I live in Graz. I keep bees.", "Lives in Graz", "Keeps bees"),
    "script": {
        "said": [SCRIPT, f"I like {SCRIPT} a lot"],
        "gold": [f"Likes {SCRIPT}"],
        "predicted": [IMAGE],
    },
    "steering": _record(f"My name is {STEERING}", f"Is called {STEERING}", predicted=[STEERING]),
    "arabic": _record(ARABIC, "يعيش في بيروت"),
    "relations": {
        "said": [PORTO, "I play the cello"],
        "gold": ["Runs 10 km every Sunday", "Moves to Porto in May", "Plays the cello"],
        "predicted": ["Likes sport", "Moves to Porto in March", "Plays the cello in a quartet"],
        "reviews": [(1, 1, "OVERGENERAL"), (2, 2, "VALUE_DRIFT"), (3, 3, "UNDERGENERAL")],
    },
    "long": _record(
        f"{LONG}I am allergic to cashews. {LONG}", "Is allergic to cashews", predicted=[]
    ),
    "extras": _record("Hello", "Says hello", predicted=[f"Invention {n}" for n in range(50)]),
    "nothing-to-find": _record("What is 2 + 2?", predicted=["Is bad at sums"]),
    "mended": _record("I am a nurse", "Is a nurse", repaired=True),
    "unjudged": _record("I am a baker", "Is a baker", predicted=["Bakes bread"], reviews=None),
    "withheld": _record("I am a judge", gold=None, predicted=["Is a judge"]),
    "refused": _failed("I am a spy", "Is a spy", "refused", raw="I can't help with that."),
    "truncated": _failed("I am tall", "Is tall", "truncated", raw='{"memory_items": [{"va'),
    "unparsable": _failed("I am shy", "Is shy", "unparsable", raw=f"Sure! {IMAGE} {SCRIPT}"),
    "invalid": _failed("I am old", "Is old", "invalid", raw='{"mood": "fine"}'),
    "empty": _failed("I am young", "Is young", "empty", raw=""),
    "unheard": _failed("I am a diver", "Is a diver", "transport"),
}
"""By id: what the user said, what the annotators wrote (None: withheld), and what system and judge
made of it.
"""


def make_samples_run(folder: Path) -> Path:
    """Run the embedded extractor on the samples."""
    words = ("task=extraction", "model=rules", "data=samples", "out=samples-run")
    finished = run(folder, "run", *words)
    assert finished.returncode == 0, finished.stderr
    return folder / "samples-run"


def make_hard_run(folder: Path) -> Path:
    """Run recorded predictions and verdicts over `RECORDS`."""
    records = [_rows(name, record) for name, record in RECORDS.items()]
    write_track(folder / "data" / "dev" / "task1", records)
    for name, row in (("predictions", _prediction), ("verdicts", _verdict)):
        write_rows(folder / f"{name}.jsonl", [row(*record) for record in RECORDS.items()])
    by = ("model=predictions:predictions.jsonl", "judge=recorded:verdicts.jsonl")
    words = ("task=extraction", *by, "data=data", "out=hard-run", "max_failures=1")
    finished = run(folder, "run", *words)
    assert finished.returncode == 0, finished.stderr
    return folder / "hard-run"


def make_tracks_run(folder: Path) -> Path:
    """Run a scripted model and judge over all four tasks; `anna` is on several tracks."""
    write_tracks(folder / "all-tasks")
    words = ("task=update,retrieval,utilization", "distractors=all", "data=all-tasks")
    words += ("out=tracks-run", "max_failures=1")
    with serve(_everything) as server:
        finished = run(folder, "run", *words, *llm(server.url), OPENAI_API_KEY="none")
    assert finished.returncode == 0, finished.stderr
    return folder / "tracks-run"


def write_tracks(folder: Path) -> None:
    """Write a data set of update, retrieval and utilization whose texts try to be markup."""
    split = folder / "dev"
    write_track(split / "task2", [_update_rows("anna"), _update_rows("bert")])
    values = [f"Collects {SCRIPT}", "Plants crocuses", "Rides a tram"]
    values += [f"Owns {n} kites" for n in range(9)]
    anna = pool_row("anna", values, 1, query=f"What shall I plant? {IMAGE}")
    pools = [anna, pool_row("cleo", values, 2)]
    for size in (100, 300, 500, 700, 1000):
        write_track(split / "task3" / f"d{size}", pools)
    asked = (f"What shall I cook? {SCRIPT}", "And how do I stay calm?")
    for ability in range(1, 6):
        queries = asked if ability == 5 else asked[:1]
        rows = target_row(f"ability{ability}", value=f"Grows saffron {IMAGE}", queries=queries)
        write_track(split / f"task4_ability{ability}", [rows])


def _update_rows(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    ids = {"benchmark_id": name, "session_id": f"session-{name}", "task": "task2"}
    home, bees = memory_items("Lives in Graz", f"Keeps bees {SCRIPT}")
    home["evidence"] = {"session_id": None, "utterance_index": 0, "text": "I live in Graz"}
    old = _turns("I live in Graz. I keep bees.", "How nice.", "Bye.")
    new = _turns(f"I moved to Porto {STEERING} and bought a tram pass", "Enjoy!")
    (moved,) = memory_items("Lives in Porto")
    (added,) = memory_items("Has a tram pass")
    added["evidence"] = {"session_id": None, "utterance_index": 7, "text": "bought a tram pass"}
    answer = [bees, {**moved, "memory_id": "m1_updated"}, {**added, "memory_id": "m_new_1"}]
    given = {"old_dialogue": old, "new_dialogue": new, "memory": [home, bees]}
    return {**ids, "input": given}, {**ids, "gold": {"answer": answer}}


def _everything(body: dict[str, Any]) -> Answer:
    """Answer as a model that keeps what is no longer true, chooses the first, and says what the
    memory says.
    """
    text = body["messages"][1]["content"]
    if '"kind": "match"' in text:
        return Answer(json.dumps({"pairs": _relations(payload_of(body))}))
    if '"kind": "support"' in text:
        items = payload_of(body)["items"]
        said = [{"reason": "as told", "id": item["id"], "support": "supported"} for item in items]
        return Answer(json.dumps({"items": said}))
    if '"kind": "rubric"' in text:
        return _rating(payload_of(body))
    asked = json.loads(text)
    if "candidates" in asked:
        chosen = {"selected_memory_id": "c002", "reason": "it fits"}
        return Answer(json.dumps({**chosen, "answer": f"Crocuses, of course {IMAGE}"}))
    if "message" in asked:
        return Answer(f"Try something with the saffron that you grow. {SCRIPT}")
    kept = memory_items("Lives in Graz", f"Keeps bees {SCRIPT}")
    for item in kept:
        item["action"] = "retain"
    pass_ = {**memory_items(f"Owns a tram pass {IMAGE}")[0], "memory_id": "n1", "action": "add"}
    return Answer(json.dumps({"memory_items": [*kept, pass_]}))


def _relations(payload: dict[str, Any]) -> list[dict[str, str]]:
    """Find the tram pass again in other words."""

    def ids(name: str) -> Sequence[str]:
        return [item["id"] for item in payload[name] if "tram pass" in item["value"]]

    same = {"reason": f"one pass {SCRIPT}", "relation": "same"}
    pairs = zip(ids("gold"), ids("predicted"), strict=True)
    return [{**same, "gold": g, "predicted": p} for g, p in pairs]


def _rating(payload: dict[str, Any]) -> Answer:
    if payload["rubric"] == "ei":
        return felt(2, 3, 5)
    return met("not_met" if payload["rubric"] == "cf" else "met")


def _rows(name: str, record: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    ids = {"benchmark_id": name, "session_id": f"session-{name}", "task": "task1"}
    texts: list[str] = []
    for said in record["said"]:
        texts += [said, "Tell me more."]
    gold = None
    if record["gold"] is not None:
        items = memory_items(*record["gold"])
        for item in items:
            item["evidence"] = _evidence(item, record["said"])
        gold = {**ids, "gold": {"memory_items": items}}
    return {**ids, "input": {"dialogue": _turns(*texts)}}, gold


def _turns(*texts: str) -> list[dict[str, str]]:
    """Return the turns of a dialogue, the user's first."""
    roles = itertools.cycle(("user", "assistant"))
    return [{"role": role, "text": text} for role, text in zip(roles, texts, strict=False)]


def _evidence(item: dict[str, Any], said: list[str]) -> dict[str, Any]:
    """Quote the sentence of the user that shares the last word of the memory."""
    last = item["value"].split()[-1]
    place = next((n for n, text in enumerate(said) if last in text), len(said) - 1)
    quote = next((part for part in said[place].split(". ") if last in part), said[place])
    return {"session_id": None, "utterance_index": 2 * place, "text": quote[-60:].strip()}


def _prediction(name: str, record: dict[str, Any]) -> dict[str, Any]:
    outcome = record.get("outcome", "ok")
    row = {"benchmark_id": name, "track": "task1", "outcome": outcome, "raw": record.get("raw")}
    if record.get("repaired"):
        row |= {"repaired": True, "notes": ["a code fence"]}
    if outcome != "ok":
        return {**row, "error": f"it was {outcome}"}
    items = [item | MISSING for item in memory_items(*record["predicted"])]
    return {**row, "prediction": {"memory_items": items}}


MISSING = dict.fromkeys(
    (
        *("label_suggestion", "reasoning", "evidence", "time_scope"),
        *("emotion", "preference_attitude", "updated_at"),
    )
)


def _verdict(name: str, record: dict[str, Any]) -> dict[str, Any]:
    pairs: list[dict[str, Any]] | None = None
    if (reviews := record.get("reviews", ())) is not None:
        pairs = []
        for g, p, kind in reviews:
            said = {"error_type": kind, "rationale": f"because of {kind}"}
            pairs.append({"gold_id": f"m{g}", "pred_id": f"m{p}", **said})
    output = {"memory_items": memory_items(*record["predicted"])}
    return {"benchmark_id": name, "model_output": output, "judge_output": {"pair_reviews": pairs}}


def assert_is_no_markup(page: Page, script: str) -> None:
    """Hold a page to its own script, whatever texts of runs are on it."""
    assert page.scripts == script
    assert page.all("img") == []
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert "\x1b" not in page.text


def folded(text: str) -> str:
    """Return the words of a text, wherever its lines end."""
    return " ".join(text.split())


def shown(
    run: Path, record: str, *, full: bool = False, width: int = 80, colour: bool = False
) -> str:
    """Return what `alps show` prints of a record."""
    out = io.StringIO()
    system = "truecolor" if colour else None
    screen = Console(file=out, width=width, force_terminal=colour, color_system=system)
    show_record(run, record, screen, full=full)
    return out.getvalue()


def choose(
    groups: Sequence[Highlight],
    scores: Mapping[AnswerKey, Row],
    predictions: Mapping[AnswerKey, Row],
) -> list[tuple[Highlight, list[AnswerKey]]]:
    """Return the instructive records among rows, as a report does."""
    passing = Highlights(groups)
    for key, row in scores.items():
        passing.add(key, ScoredAnswer(state_of(row, predictions.get(key)), row))
    return passing.chosen()
