"""Break files as careless hands, other programs and strangers do.

By value where they are JSON, else by byte.
"""

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from alps.data.pools import PoolSource
from alps.data.release import GOLD, INPUT, Split, open_split, read_track
from alps.jsonl import dump
from alps.tasks import Task, load_tracks

Files = dict[str, bytes]

ROWS = 2
"""Rows of a real file that are mutated: the smallest ones, so that many inputs fit into a minute.
"""
PLAIN = r"""
null true false 0 -1 1 2 0.5 1e400 -1e400 NaN Infinity -0.0 1e-400 "" "0" "ok" "a\nb" "\u0000"
"\ud83d" "a\udc00b" "\u202e" "\u001b[2J" [] {} [null] [[]] [{}] [""] [1,2] {"value":null}
{"a":1,"a":2} {"id":[]} "../../x" "[bold_red]x" "é_🌶_成都"
"""
RAW = (
    *PLAIN.split(),
    *("1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 5_000, '" "', '"\ufeffx"'),
    *("[" * deep + "]" * deep for deep in (40, 400, 900, 3_000)),
    *('{"a":' * 30 + "1" + "}" * 30, '"' + "x" * 20_000 + '"'),
)
"""JSON, some of it only as Python reads it, that stands where something else should."""
BYTES = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\n\n", b"\xed\xa0\x80", b"\xc3"),
    *(bytes([each]) for each in b'{}[]"\\,=#'),
    *(b"\\u", b"1e999", b"9" * 400, b"null", b"- ", b"\x1b[2J", b"[" * 2_000),
)
MARK = "\ue000fuzz{}\ue001"


def mutated(draw: random.Random, files: Files) -> Files:
    """Return files of which one or two were changed: by value where they are JSON, else by byte."""
    changed = dict(files)
    for _ in range(draw.choice((1, 1, 1, 2))):
        name = draw.choice(list(changed))
        by_value = name.endswith((".json", ".jsonl")) and draw.random() < 0.7
        try:
            changed[name] = (_by_value if by_value else _by_byte)(draw, changed[name])
        except RecursionError:  # the first change has made it too deep to be copied
            changed[name] = _by_byte(draw, changed[name])
    if draw.random() < 0.01 and len(changed) > 1:
        del changed[draw.choice(list(changed))]
    return changed


def _by_value(draw: random.Random, data: bytes) -> bytes:
    """Change one to three values of one line; what is no JSON any more is changed by byte."""
    lines = data.splitlines(keepends=True) if b"\n{" in data else [data]
    place = draw.randrange(len(lines)) if lines else 0
    try:
        node = json.loads(lines[place])
    except (ValueError, IndexError, RecursionError):
        return _by_byte(draw, data)
    raws: list[str] = []
    root = {"": node}
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        _change(draw, root, raws)
    text = json.dumps(root.get(""), ensure_ascii=draw.random() < 0.5)
    for number, raw in enumerate(raws):
        mark = MARK.format(number)
        text = text.replace(f'"{mark}"', raw).replace(json.dumps(mark), raw)
    lines[place] = text.encode("utf-8", "surrogatepass") + (
        b"\n" if lines[place].endswith(b"\n") else b""
    )
    return b"".join(lines)


def _change(draw: random.Random, root: dict[str, Any], raws: list[str]) -> None:
    """Replace, remove, rename or repeat something in plain JSON."""
    places = list(_places(root))
    holder, key = draw.choice(places)
    how = draw.random()
    if how < 0.7:
        raws.append(draw.choice(RAW))
        holder[key] = MARK.format(len(raws) - 1)
    elif how < 0.8 and key != "":
        del holder[key]
    elif how < 0.9:
        other, name = draw.choice(places)
        holder[key] = copy.deepcopy(other[name])
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif key != "":
        holder[draw.choice(("", "id", "value", "\ud800", f"{key}s", "x" * 300))] = holder.pop(key)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in plain JSON, as what holds it and its key there."""
    waiting = [node]
    while waiting:
        holder = waiting.pop()
        for key, child in holder.items() if isinstance(holder, dict) else enumerate(holder):
            yield holder, key
            if isinstance(child, dict | list):
                waiting.append(child)


def _by_byte(draw: random.Random, data: bytes) -> bytes:
    """Flip, cut, insert, repeat or drop bytes, change line ends, or make up something else."""
    at, short = draw.randint(0, len(data)), draw.randint(1, 60)
    ways = (
        lambda: data[:at],
        lambda: data[:at] + draw.choice(BYTES) + data[at + draw.randint(0, 4) :],
        lambda: data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :],
        lambda: data[:at] + data[at + short :],
        lambda: data[:at] + data[max(0, at - 7 * short) :],
        lambda: draw.choice((b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"))),
        lambda: draw.choice(RAW).encode("utf-8", "surrogatepass") + b"\n",
        lambda: draw.choice((draw.randbytes(short), data + draw.choice(BYTES))),
    )
    return draw.choice(ways)()


ODD = "= == a=b=c ١٢ 1e400 -1 nan inf 5% % ~x"
WORDS = ("", " ", "\ud800", "\x00", "x" * 5_000, *ODD.split(" "))


@cache
def tracks() -> dict[str, Task]:
    """Return the tasks by their tracks."""
    return {task.track: task for task in load_tracks("all")}


def real_track(name: str) -> Files:
    """Return the smallest rows of a track of the samples, in the release layout."""
    split = open_split("samples", None)
    task = tracks()[name]
    if task.data.pool_size is not None:
        assert isinstance(split, Split)
        made = islice(PoolSource(split, seed=0).rows(task.data.pool_size), 1)
        pairs = [(row, gold or {}) for row, gold in made]
    else:
        pairs = [(pair.input, pair.gold or {}) for pair in read_track(split.track(task.place))]
        pairs = sorted(pairs, key=lambda pair: len(str(pair)))[:ROWS]
    inputs, golds = zip(*pairs, strict=True)
    return {INPUT: b"".join(map(dump, inputs)), GOLD: b"".join(map(dump, golds))}


PRICES = {
    "prices.toml": b'["openai/my-model"]\ninput = 0.40\noutput = 1.60\nmax_output_tokens = 8192\n'
}


def label_folders() -> tuple[Files, ...]:
    """Give folders on a scale of two values and on one of five, with all that may lie there."""
    scales = {"pa": (_TWO, (0, 1, 1)), "tone": (_FIVE, (1, 3, 5))}
    return tuple(_labelled(rubric, *of) for rubric, of in scales.items())


def _labelled(rubric: str, scale: Mapping[str, Any], marks: Sequence[int]) -> Files:
    about = {"rubric": rubric, "system": "a", "cluster": None, "language": "en"}
    tables: dict[str, list[dict[str, Any]]] = {"items": [], "labels": [], "verdicts": []}
    for number, mark in enumerate(marks):
        name = f"i{number}"
        tables["items"].append({"item_id": name, **about, "payload": {"q": name}})
        for who in "ab":
            tables["labels"].append({"item_id": name, "annotator": who, "label": mark})
        verdict = {"item_id": name, "judge": "j", "verdict": mark, "draws": [mark]}
        tables["verdicts"].append(verdict)
    tables["crowd"] = [{"item_id": "i0", "annotator": "crowd", "mean": 1.0}]
    drawn = {"drawn": 3, "random": True, "track": "task1", "population": 9, "predictions": "0" * 64}
    person = {"kind": "person", "blind": True, "how": None}
    objects: dict[str, Any] = {
        "scale": {rubric: scale},
        "people": {"guidelines": "Be kind.", "annotators": {"a": person}},
        "sample": {"rubrics": {rubric: drawn}},
    }
    files = {f"{name}.jsonl": b"".join(map(dump, rows)) for name, rows in tables.items()}
    return files | {f"{name}.json": json.dumps(node).encode() for name, node in objects.items()}


_TWO = {"kind": "nominal", "values": [0, 1]}
_FIVE = {"kind": "ordinal", "values": [1, 2, 3, 4, 5], "positive": [4, 5]}


def public_sets() -> tuple[Files, ...]:
    """Give a few rows in the form of each public set that can be imported."""
    human = {"annotator1": 1, "annotator2": 0, "annotator3": None, "adjudicated": 1}
    openqa = {"row": 1, "question_id": "q1", "question": "Who?", "gold_answers": ["She"]}
    openqa |= {"candidate": "Her", "human": human, "judges": {"gpt": 1}}
    openqa |= {"judge_raw": {"gpt": "yes", "gpt_p_equiv_max": 0.9}}
    bar = {"subset": "Natural", "i": 3, "input": "Say hi", "output_1": "hi", "output_2": "no"}
    bar |= {"label": 1, "verdicts": {"gpt/plain": [1, 2]}}
    columns = "dataset,dimension,conversation_id,rater,rater_kind,scale_min,scale_max,rating"
    rates = ("expert1,human_expert,1,5,4", "crowd,human_crowd_mean,1,5,3.5", "llm,llm,1,5,2")
    table = "\n".join((columns, *(f"Lend an Ear,warmth,c1,{rate}" for rate in rates)))
    return (
        {"openqa_eval.jsonl": dump(openqa)},
        {"llmbar.jsonl": dump(bar)},
        {"empathy.csv": f"{table}\n".encode()},
    )


def record(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the authors' judge would leave of an answer.

    Reviews of memories, or the mark of a text.
    """
    if "answer" in answer:
        text = answer["answer"]
        output: dict[str, Any] = {"responses": [{"query_id": "q", "response": text}]}
        marked = [{"score": 1, "reason": "r", "response": text}]
        return {"model_output": output, "judge_output": marked}
    items = answer.get("memory_items") or []
    memory_id = items[0]["memory_id"] if items else "m1"
    review = {"gold_id": "m1", "pred_id": memory_id, "error_type": "VALUE_DRIFT"}
    reviews = {
        "pair_reviews": [{**review, "severity": 0.5, "rationale": "r"}],
        "missing_reviews": [{"should_have_extracted": True, "severity": 1}],
        "extra_reviews": [{"hallucinated": True, "severity": 0.2}],
    }
    return {"model_output": {"memory_items": items}, "judge_output": reviews}


def predictions(name: str, answer: dict[str, Any], ids: list[str]) -> tuple[Files, ...]:
    """Give rows of a run, rows of the release's tools, and records as the authors keep them."""
    heard = {"track": name, "outcome": "ok", "prediction": answer, "raw": None}
    own = [{"benchmark_id": about, **heard} for about in ids]
    exchanged = [{"benchmark_id": about, **answer} for about in ids]
    said: Mapping[str, Any] = {"parsed_response": answer} if "answer" in answer else answer
    if name.startswith("task4"):
        said = {"responses": [{"query_id": "q", "response": "Certainly."}]}
    theirs = [{"benchmark_id": about, "model_output": said} for about in ids[:1]]
    sets = (own, exchanged, theirs)
    return tuple({"predictions.jsonl": b"".join(map(dump, rows))} for rows in sets)


def replies() -> tuple[Files, ...]:
    """Give replies to every task and to the judges' questions, bare, in fences and amid prose."""
    memory = {"value": "Keeps bees", "type": "direct", "label": "Possessions/Pet"}
    memory |= {"evidence": {"text": "my bees"}}
    update = {**memory, "action": "modify", "replaces": "m1", "confidence": 0.9}
    pair = {"reason": "the same", "gold": "g1", "predicted": "p1", "relation": "same"}
    bodies: tuple[dict[str, Any], ...] = (
        {"memory_items": [memory, update]},
        {"pairs": [pair, {**pair, "gold": "g2"}]},
        {"reason": "r", "verdict": "met"},
        {"reason": "r", "resonation": 3, "expression": 1, "reception": 5},
        {"selected_memory_id": "c001", "answer": "Yes.", "reason": "Because."},
    )
    shapes = ("{}", "```json\n{}\n```", "Here it is: {} Enjoy!", '"{}"')
    made = (shape.replace("{}", json.dumps(body)) for body in bodies for shape in shapes)
    return tuple({"reply.json": text.encode()} for text in made)


def word_files() -> tuple[Files, ...]:
    """Give words of several commands, one a line, and some that nobody means."""
    given = (
        "task=extraction\nmodel=rules\ndata=samples\nlimit=3\nseed=1\nmax_failures=5%\ntemperature=0.5",
        "judge=lexical\njudge_api_base=http://localhost:8000/v1\nconcurrency=4\nmax_cost=1.5\ntimeout=9",
        "labels=stress\njudge=lexical\nvalid_days=9\ngate_rate=80%\nout=x",
        "data=samples\nsplit=dev\nformat=json",
        "out=x\ndistractors=300\nseed=3",
        "config=alps.toml\ntask=all\nmodel=program:cmd --key=value",
    )
    broken = tuple(f"task={word}\nmodel=rules\nseed={word}\n{word}=1" for word in WORDS)
    return tuple({"words": text.encode("utf-8", "surrogatepass")} for text in (*given, *broken))


def configs() -> tuple[Files, ...]:
    """Give config files."""
    given = b"""task = "extraction"
model = "rules"
limit = 3
max_failures = 0.05
extras = "none"
dry_run = false
"""
    other = b'task = "all"\nmodel = """a\nb"""\nseed = 0x10\ntimeout = 1e2\n'
    return {"alps.toml": given}, {"alps.toml": other}
