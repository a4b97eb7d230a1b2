"""Sets in tests: their samples, the command on them, and a scripted reader and judge.

The reader repeats the gold, the judge compares words.
"""

import json
import shutil

from alps.ext.histories.book import open_book
from alps.ext.histories.files import SetChoice
from alps.extension import load
from tests.conftest import ROOT
from tests.loopback import Answer
from tests.tracks import alps_here, is_rating, payload_of

SETS = ("beam", "halumem", "histories", "locomo", "longmemeval", "personamem_v3")
SAMPLES = ROOT / "alps" / "ext" / "histories" / "samples"


def cited(name):
    """Return a set by the name of its task."""
    return load(f"alps.ext.histories.data.{name}:SET")


def book(name, data="samples", **choice):
    """Open a set."""
    return open_book(cited(name), str(data), SetChoice(**choice))


def run(folder, name, *words):
    """Run a set of the samples offline behind BM25, where `words` don't say otherwise."""
    given = (f"task={name}", "data=samples", "memory=bm25", "model=rules", f"out={folder}")
    kept = {word.partition("=")[0]: word for word in (*given, *words)}
    return alps_here("run", *kept.values())


def judged_by(server):
    """Return the words that have a server judge."""
    return "judge=openai/judge", f"judge_api_base={server.url}"


def read_by(server):
    """Return the words that have a server answer."""
    return "model=openai/reader", f"api_base={server.url}"


def audited(name, folder):
    """Return what the audit finds in a folder; it knows the form of ones own without the task."""
    task = () if name == "histories" else (f"task={name}",)
    done = alps_here("data", "audit", *task, f"data={folder}", "format=json")
    found = json.loads(done.out)
    assert done.code == int(found["serious"]), done.err
    return found


def changed_sample(tmp_path, name, files, change):
    """Return a copy of a sample; `change` is given a list of the rows of each of its `files`."""
    folder = tmp_path / "set"
    shutil.copytree(SAMPLES / name, folder)
    paths = [folder / file for file in files]
    rows = [_rows_in(path) for path in paths]
    change(rows)
    for path, changed in zip(paths, rows, strict=True):
        path.write_text(_text_of(path.suffix, changed), encoding="utf-8")
    return folder


def _rows_in(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return text.splitlines()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def _text_of(suffix, rows):
    if suffix == ".json":
        return json.dumps(rows)
    lines = rows if suffix == ".csv" else map(json.dumps, rows)
    return "".join(f"{line}\n" for line in lines)


class Script:
    """Answers every question with its gold, and judges by whether the gold is in the response."""

    def __init__(self, name):
        self.golds = {}
        for entry in book(name).entries:
            question = entry.question
            self.golds[question.text] = "; ".join((question.answer, *question.points))
        self.judged, self.asked = [], []

    def __call__(self, body):
        payload = payload_of(body)
        if not is_rating(body):
            self.asked.append(payload)
            return Answer(self.golds[payload["question"]])
        self.judged.append(payload)
        gold = payload["memory"].partition("\n")[0]
        right = gold in payload["response"]
        said = {
            "point": {"mark": 2 * right},
            "outcome": {"outcome": "correct" if right else "omission"},
        }.get(payload["rubric"], {"verdict": "met" if right else "not_met"})
        return Answer(json.dumps({"reason": "scripted", **said}))
