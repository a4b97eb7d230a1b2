"""A small site to test: made-up submissions, one of them hostile, and the pages as a test reads
them.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.made_submissions import synthesise
from tests.pages import Page
from tests.submissions import changed, forge, forge_rows, write_review

TRACKS = ("task1", "task2", "task3_d100", "task3_d300", "task4_ability1", "task4_ability5")
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> & \u202egnp.exe\u0000'
SYSTEMS = 5


def make_submissions(folder: Path) -> None:
    """Write the submissions: five that are well-behaved, one hostile, a floor, and one on data that
    are not here.
    """
    synthesise(folder, SYSTEMS, tracks=TRACKS)
    hostile = _one_more(folder, "hostile", 7, ["task1", "task4_ability1"])
    words = {"name": '=HYPERLINK("javascript") & «co»', "org": "@SUM(A1)", "notes": "- a\n- b"}
    forge(hostile, lambda card: card.update(words, url="https://example.org/?a=1&b=2"))
    answered = changed("prediction.answer", HOSTILE)
    forge_rows(hostile, "task4_ability1/predictions", lambda rows: [answered(row) for row in rows])
    _make_no_sense(hostile)
    floor = _one_more(folder, "a-floor", 8, ["task1"])
    forge(floor, changed("name", "floor/of-mine"))
    forge(floor, changed("system.kind", "floor"))
    hidden = _one_more(folder, "hidden-test", 9, ["task1"])
    forge(hidden, changed("tracks.task1.data_sha256", "f" * 64))
    data = {"name": "hub", "split": "test", "public": False}
    forge(hidden, changed("runs.0.data", lambda known: known | data))
    score = {"value": 0.25, "low": 0.125, "high": 0.5, "n": 26}
    again = {"judge_fingerprint": "0a1b2c3d4e5f", "tracks": {"task1": {"scores": {"f1": score}}}}
    write_review(folder / "system-003", **again, note="Judged again.")


def _one_more(folder: Path, slug: str, seed: int, tracks: Sequence[str]) -> Path:
    """Write one more submission, by another slug; return its folder."""
    synthesise(folder / "more", 1, seed=seed, tracks=tracks)
    (folder / "more" / "system-000").rename(folder / slug)
    (folder / "more").rmdir()
    forge(folder / slug, changed("slug", slug))
    return folder / slug


def _make_no_sense(folder: Path) -> None:
    """Write rows and figures that fit the form, as far as it is held, and mean nothing."""
    items = [1, {"value": {"a": "<b>"}, "action": 5}]
    pairs = [{"gold": 1}, 7, {"gold": "g1", "predicted": "p2", "relation": "<i>"}]
    odd: dict[str, list[dict[str, Any]]] = {
        "predictions": [{"prediction": {"memory_items": items}}, {"prediction": 3}],
        "verdicts": [{"pairs": pairs}, {"pairs": 3}],
        "scores": [{"scores": {"f1": "x", "precision": True}}, {"scores": [1], "repeat": "x"}],
    }
    for stage, fields in odd.items():

        def spoil(rows: list[dict[str, Any]], fields: list[dict[str, Any]] = fields) -> None:
            for row, more in zip(rows, fields, strict=False):
                row.update(more)

        forge_rows(folder, f"task1/{stage}", spoil)
    figures = {"value": -3.5, "low": -1e300, "high": 1e300}
    forge(folder, changed("tracks.task1.scores.f1", lambda score: score | figures))
    counts = {"cell_add_add": 5, "cell_add_none": 0}
    forge(folder, changed("tracks.task1.counts", lambda known: known | counts))


class Tree(Page):
    """The numbers of a page, and what text stands where no number should, too."""

    VOID = frozenset({"meta", "link", "br", "input", "img", "hr"})
    FREE = frozenset(
        {"data", "code", "time", "bdi", "title", "svg", "script", "style", "blockquote"}
    )

    def __init__(self, text: str) -> None:
        self.numbers: list[tuple[dict[str, str], str]] = []
        self.bare = ""
        self._open: list[tuple[str, dict[str, str]]] = []
        super().__init__(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        super().handle_starttag(tag, [*held.items()])
        if tag not in self.VOID:
            self._open.append((tag, held))
        if tag == "data":
            self.numbers.append((held, ""))

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
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


def pages_of(site: Path) -> Iterator[tuple[Path, Tree]]:
    """Yield the pages of a site, each read once."""
    for path in sorted(site.rglob("*.html")):
        yield path, tree_of(path)


@cache
def tree_of(path: Path) -> Tree:
    """A page, read once."""
    return Tree(path.read_text("utf-8"))
