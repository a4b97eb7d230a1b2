"""Small data sets with one flaw each, for the tests of the audit."""

import random

from alps.data.release import write_track
from alps.ext.datasets.audit import audit
from tests.builders import memory

WORDS = (
    "amber brook cedar delta ember fjord grove heron islet jolly koala lemon maple north olive "
    "pearl quilt river"
)
POOLS, SIZE = 40, 12


def turns(*texts):
    return [{"role": ("user", "assistant")[n % 2], "text": text} for n, text in enumerate(texts)]


def ids_of(name):
    return {"benchmark_id": name, "session_id": f"s-{name}"}


def extraction(name, *values, said=("I keep bees on the roof", "Lovely"), quote=None, row=None):
    evidence = None
    if said:
        evidence = {"session_id": f"s-{name}", "utterance_index": 0, "text": quote or said[0]}
    items = []
    for n, value in enumerate(values, start=1):
        items.append(memory(value, memory_id=f"m{n}", evidence=evidence).model_dump())
    shown = {**ids_of(name), "input": {"dialogue": turns(*said)}, **(row or {})}
    return shown, {**ids_of(name), "gold": {"memory_items": items}}


def update(name, **fields):
    old = [
        memory("Keeps bees", memory_id="m1").model_dump(),
        memory("Has a red bike", memory_id="m2").model_dump(),
    ]
    new = [old[0], memory("Sold the red bike", memory_id="m2_updated").model_dump()]
    talk = {
        "old_dialogue": turns("I keep bees and ride a red bike"),
        "new_dialogue": turns("I sold that bike"),
    }
    shown = {**ids_of(name), "input": {**talk, "memory": old, **fields}}
    return shown, {**ids_of(name), "gold": {"answer": new}}


def utilization(name, value="Keeps bees on the roof", shown=(), **fields):
    talk, query = turns("I keep bees up there", "Lovely"), f"What should {name} plant this spring?"
    model_input = {"query": query, "dialogue_history": talk} | dict(shown)
    asked = {"query": query, "queries": [{"query": query}], "model_input": model_input, **fields}
    chosen = {"memory_id": "m1", "value": value}
    kept = {
        "memory_key": "m1",
        "selected_memory": chosen,
        "extracted_memory": [chosen],
        "conversation": talk,
    }
    return {**ids_of(name), "input": asked}, {**ids_of(name), "gold": kept}


def values_of(count, source):
    """Return values of much the same length that share no word."""
    words = WORDS.split()
    return [f"{source.choice(words)}{n:03d}q {source.choice(words)}{n:03d}z" for n in range(count)]


def pool(number, source, *, place=None, ids=None, change=None, session=None):
    name = f"r{number}"
    values = values_of(SIZE, source)
    names = ids(source) if ids else [f"c{n:03d}" for n in range(1, SIZE + 1)]
    at = source.randrange(SIZE) if place is None else place
    candidates = [{"memory_id": i, "value": v} for i, v in zip(names, values, strict=True)]
    if change:
        change(candidates, at)
    gold = {
        "selected_memory_id": candidates[at]["memory_id"],
        "selected_memory": dict(candidates[at]),
    }
    row = {"benchmark_id": name, "session_id": session or f"s-{name}"}
    asked = {"query": f"What about {name} and the garden?", "candidate_memories": candidates}
    return {**row, "input": asked}, {**row, "gold": gold}


def audited(folder, tracks):
    """Write records by `SPLIT/TRACK`; return the audit of the split dev."""
    for place, records in tracks.items():
        write_track(folder / place, records)
    return audit(str(folder), "dev")


def pools(folder, **options):
    source = random.Random(7)
    return audited(folder, {"dev/task3/d11": [pool(n, source, **options) for n in range(POOLS)]})


def found(report, code, severity=None):
    return [f for f in report.findings if f.code == code and severity in (None, f.severity)]


def only(report, code, severity=None):
    (finding,) = found(report, code, severity)
    return finding


def clean(folder):
    source = random.Random(3)
    other = extraction("b", "Owns a boat", said=("My boat leaks", "Oh"))
    away = extraction("z", "Plays the tuba", said=("I play the tuba in a band", "Nice"))
    tracks = {
        "dev/task1": [extraction("a", "Keeps bees"), other],
        "dev/task2": [update("u1"), update("u2")],
        "dev/task3/d11": [pool(n, source) for n in range(POOLS)],
        "dev/task4_ability1": [utilization("p1"), utilization("p2")],
        "test/task1": [(away[0], None)],
    }
    return audited(folder, tracks)
