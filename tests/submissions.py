"""Small submissions to verify and to spoil: one run of embedded systems over three tracks, packed
once and copied.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from alps.data.release import write_track
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.checks import Finding, Verification
from alps.leaderboard.checks.files import file_card
from alps.leaderboard.packing import pack
from alps.leaderboard.ranking import Board, build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.submission import CARD, REVIEW, STAGES, checksum_of
from alps.leaderboard.verify import Options, verify
from alps.run.start import run
from alps.settings import RunSettings, parse_words
from tests.endtoend import rows
from tests.tracks import pool_row, target_row
from tests.visitors import write_visitors

SLUG = "thumb-rules"
DAY = "2026-01-31"
ABOUT = {"org": "Graz", "url": "https://example.org/rules", "notes": "One line.\nTwo."}
WHO = SubmitterDetails(name="Rules of thumb", submitted=DAY, **ABOUT)
TRACKS = ("task1", "task3_d100", "task4_ability1")
VISITORS = 12
HOME = "/".join(("", "home", "anna"))
"""Somebody's folder; written so that no file here seems to hold one."""


def write_data(folder: Path) -> Path:
    """Write a data set of three small tracks."""
    write_visitors(folder, VISITORS)
    values = [f"Owns {n} kites of colour {n}" for n in range(12)]
    pools, asked = [], []
    for n in range(12):
        pools.append(pool_row(f"pool_{n}", values, n, query=f"Which kites, {n} of colour {n}?"))
        asked.append(target_row(f"asked_{n}", value=f"Grows {n} herbs"))
    write_track(folder / "dev" / "task3" / "d100", pools)
    write_track(folder / "dev" / "task4_ability1", asked)
    return folder


def make_run(folder: Path, *words: str) -> Path:
    """Carry out a run in this process; return its folder."""
    return run(parse_words([*words, f"out={folder}"], RunSettings)).folder


def pack_rules(folder: Path, slug: str = SLUG) -> Path:
    """Pack a run of the rules over the samples, judged by the embedded judge."""
    made = make_run(folder / "run", "task=extraction", "model=rules")
    return pack([made], WHO, out=folder / slug).folder


def make_rules_run(folder: Path, data: Path) -> Path:
    """Run the rules over all tracks of the small data set."""
    words = ("task=extraction,retrieval,utilization", "ability=pa", "model=rules")
    return make_run(folder, *words, f"data={data}")


class Shelf:
    """A packed submission in a folder of its own, the data it is about, and copies of it."""

    def __init__(self, folder: Path) -> None:
        self.data = write_data(folder / "data")
        self.run = make_rules_run(folder / "run", self.data)
        self.folder = folder / "packed" / SLUG
        pack([self.run], WHO, out=self.folder)

    def copy(self, folder: Path) -> Path:
        """Return a copy that may be spoiled."""
        return Path(shutil.copytree(self.folder, folder / SLUG))

    def verify(self, folder: Path, **options: Any) -> Verification:
        """Verify a copy on the data."""
        return verify(folder, Options(**{"data": str(self.data), **options}))


def card_of(folder: Path) -> dict[str, Any]:
    """Read a card as plain JSON."""
    card: dict[str, Any] = json.loads((folder / CARD).read_bytes())
    return card


def write_card_of(folder: Path, card: dict[str, Any]) -> None:
    """Write a card, whatever is in it."""
    (folder / CARD).write_text(json.dumps(card, ensure_ascii=True), encoding="utf-8")


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a card and make its checksum fit, as somebody who means it does."""
    card = card_of(folder)
    change(card)
    card["checksum"] = checksum_of(card)
    write_card_of(folder, card)


def copied(
    source: Path, target: Path, change: Callable[[dict[str, Any]], object] = lambda card: None
) -> Path:
    """Copy a submission under another name, and change its card."""
    shutil.copytree(source, target)
    forge(target, lambda card: (card.update(slug=target.name, name=target.name), change(card)))
    return target


def write_review(folder: Path, **fields: Any) -> None:
    """Write a maintainer's review: of a second judgement, unless the fields say otherwise."""
    row = {"status": "re-scored", "date": "2026-11-02", "tracks": {}, "note": None, **fields}
    (folder / REVIEW).write_text(json.dumps(row))


def boards_in(submissions: Path, track: str = "task1", metric: str = "f1") -> list[Board]:
    """Return the boards of a metric of a track, the leading one first."""
    boards = build_boards(load(submissions), read_references())
    return [board for board in boards if (board.key.track, board.metric.name) == (track, metric)]


def page_in(submissions: Path, site: Path, name: str = "extraction") -> str:
    """Build the site; return one of its pages."""
    return (build(submissions, site).out / f"{name}.html").read_text("utf-8")


def forge_rows(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the rows of TRACK/STAGE, and make hashes and checksum fit."""
    path = folder / f"{name}.jsonl"
    found = rows(path)
    change(found)
    path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    sign(folder)


def forge_bytes(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of TRACK/STAGE, and make hashes and checksum fit."""
    path = folder / f"{name}.jsonl"
    path.write_bytes(change(path.read_bytes()))
    sign(folder)


def sign(folder: Path) -> None:
    """Make the hashes of all files, and the checksum, fit what lies there."""

    def hashes(card: dict[str, Any]) -> None:
        sign_tracks(folder, card["tracks"])
        for memory in card.get("memory", ()):
            inside = folder / f"memory-{memory['run']}"
            memory["diary"] = file_card(inside / "memory.jsonl").model_dump()
            if "calls" in memory:
                memory["calls"] = file_card(inside / "memory_calls.jsonl").model_dump()
            for row, other in memory.get("beside", {}).items():
                sign_tracks(inside / "beside" / row, other["tracks"])

    forge(folder, hashes)


def sign_tracks(folder: Path, tracks: dict[str, Any]) -> None:
    """Make the hashes of the files of tracks fit what lies there."""
    for name, track in tracks.items():
        there = {stage: folder / name / f"{stage}.jsonl" for stage in STAGES}
        track["files"] = {
            stage: file_card(path).model_dump() for stage, path in there.items() if path.exists()
        }


def said(found: Verification, code: str) -> Finding:
    """Return the first finding of a kind; there must be one."""
    return next(finding for finding in found.findings if finding.code == code)


def numbers(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every number in plain JSON."""
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from numbers(child, (*path, key))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path


DROPPED = object()
"""For `changed`: what stands there is taken out."""


def changed(path: str, value: Any) -> Callable[[Any], None]:
    """Return a change of plain JSON: what stands at `a.b.0` is set, dropped, or made of the old.

    Args:
        path: Keys and numbers with dots between them.
        value: What is put there, `DROPPED`, or a function of what was there.
    """

    def change(node: Any) -> None:
        *steps, last = path.split(".")
        for step in steps:
            node = node[int(step) if isinstance(node, list) else step]
        key = int(last) if isinstance(node, list) else last
        if value is DROPPED:
            del node[key]
        else:
            node[key] = value(node[key]) if callable(value) else value

    return change


def at(node: Any, path: tuple[str | int, ...]) -> Any:
    """Return what stands at a path."""
    for key in path:
        node = node[key]
    return node


def refused(found: Verification, code: str, words: str) -> None:
    """Check that it is refused for this reason, in words that can stand in a terminal."""
    assert found.serious
    assert found.status == "self-reported"
    assert not found.consistent
    named = [f"{one.where}: {one.what}" for one in found.findings if one.code == code]
    assert any(words in text for text in named), found.findings
    for every in found.findings:
        text = f"{every.where}{every.what}{every.mend}"
        assert text.isprintable(), text
        assert len(text) < 600
