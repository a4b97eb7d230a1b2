"""A small site to test: made-up submissions, one of them hostile, and the pages as a test reads
them.
"""

import json
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.made_submissions import synthesise

ROOT = Path(__file__).resolve().parent.parent
TRACKS = ("task1", "task2", "task3_d100", "task3_d300", "task4_ability1", "task4_ability5")
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> & \u202egnp.exe\u0000'
SYSTEMS = 5


def make_submissions(folder: Path) -> None:
    """Write the submissions: five that are well-behaved, one hostile, a floor, and one on data that
    are not here.
    """
    synthesise(folder, SYSTEMS, tracks=TRACKS)
    synthesise(folder / "x", 1, seed=7, tracks=["task1", "task4_ability1"])
    synthesise(folder / "y", 1, seed=8, tracks=["task1"])
    synthesise(folder / "z", 1, seed=9, tracks=["task1"])
    hostile = adopt(folder / "x/system-000", folder / "hostile")
    rewrite(
        hostile,
        name='=HYPERLINK("javascript") & «co»',
        org="@SUM(A1)",
        notes="- a\n- b",
        url="https://example.org/?a=1&b=2",
    )
    answers = hostile / "task4_ability1" / "predictions.jsonl"
    rows = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
    for row in rows:
        row["prediction"]["answer"] = HOSTILE
    answers.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    make_no_sense(hostile)
    floor = adopt(folder / "y/system-000", folder / "a-floor")
    rewrite(floor, name="floor/of-mine")
    card = json.loads((floor / "submission.json").read_text("utf-8"))
    card["system"]["kind"] = "floor"
    (floor / "submission.json").write_text(json.dumps(card), "utf-8")
    hidden = adopt(folder / "z/system-000", folder / "hidden-test")
    card = json.loads((hidden / "submission.json").read_text("utf-8"))
    card["tracks"]["task1"]["data_sha256"] = "f" * 64
    card["runs"][0]["data"] |= {"name": "hub", "split": "test", "public": False}
    (hidden / "submission.json").write_text(json.dumps(card), "utf-8")
    review = {
        "status": "re-scored",
        "judge_fingerprint": "0a1b2c3d4e5f",
        "date": "2026-11-02",
        "tracks": {
            "task1": {"scores": {"f1": {"value": 0.25, "low": 0.125, "high": 0.5, "n": 26}}}
        },
        "note": "Judged again.",
    }
    (folder / "system-003" / "review.json").write_text(json.dumps(review), "utf-8")


def make_no_sense(folder: Path) -> None:
    """Write rows and figures that fit the form, as far as it is held, and mean nothing."""
    odd: dict[str, list[Any]] = {
        "predictions": [
            {"prediction": {"memory_items": [1, {"value": {"a": "<b>"}, "action": 5}]}},
            {"prediction": 3},
        ],
        "verdicts": [
            {"pairs": [{"gold": 1}, 7, {"gold": "g1", "predicted": "p2", "relation": "<i>"}]},
            {"pairs": 3},
        ],
        "scores": [{"scores": {"f1": "x", "precision": True}}, {"scores": [1], "repeat": "x"}],
    }
    for stage, fields in odd.items():
        path = folder / "task1" / f"{stage}.jsonl"
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        rows = [row | (fields[n] if n < len(fields) else {}) for n, row in enumerate(rows)]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    card = json.loads((folder / "submission.json").read_text("utf-8"))
    card["tracks"]["task1"]["scores"]["f1"] |= {"value": -3.5, "low": -1e300, "high": 1e300}
    card["tracks"]["task1"]["counts"] |= {"cell_add_add": 5, "cell_add_none": 0}
    (folder / "submission.json").write_text(json.dumps(card), "utf-8")


def adopt(source: Path, target: Path) -> Path:
    """Move a submission to another slug."""
    source.rename(target)
    source.parent.rmdir()
    rewrite(target, slug=target.name)
    return target


def rewrite(folder: Path, **fields: Any) -> None:
    """Change fields of a card."""
    path = folder / "submission.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")


class Tree(HTMLParser):
    """The numbers of a page, its links and ids, and what text stands where no number should."""

    VOID = frozenset({"meta", "link", "br", "input", "img", "hr"})
    FREE = frozenset(
        {"data", "code", "time", "bdi", "title", "svg", "script", "style", "blockquote"}
    )

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.numbers: list[tuple[dict[str, str], str]] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.bare = ""
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        self.elements.append((tag, held))
        if tag not in self.VOID:
            self._open.append((tag, held))
        if tag == "data":
            self.numbers.append((held, ""))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] == "data":
            held, said = self.numbers[-1]
            self.numbers[-1] = held, said + data
        if not any(tag in self.FREE or self.is_label(held) for tag, held in self._open):
            self.bare += data

    @staticmethod
    def is_label(held: dict[str, str]) -> bool:
        """Whether an element holds somebody's words, a whole text with its origin, or a mark of a
        figure's legend.
        """
        return "dir" in held or "data-from" in held or held.get("class", "").startswith("key")

    def all(self, tag: str) -> list[dict[str, str]]:
        return [held for name, held in self.elements if name == tag]


def pages_of(site: Path) -> Iterator[tuple[Path, Tree]]:
    """Yield the pages of a site, each read once."""
    for path in sorted(site.rglob("*.html")):
        yield path, tree_of(path)


@cache
def tree_of(path: Path) -> Tree:
    """A page, read once."""
    return Tree(path.read_text("utf-8"))
