"""Folders and rows by somebody who means harm: each is refused or harmless, says why, and nothing
of them is run.
"""

import json
import os
import pickle
import socket
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.leaderboard.commands import verify_command
from alps.leaderboard.submission import CARD
from tests.submissions import SLUG, Shelf, forge, forge_bytes, forge_rows, refused, said, sign

SCRIPT = "<script>alert(1)</script>"
Folder = Callable[[Path], object]
Rows = Callable[[list[dict[str, Any]]], object]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def folder(shelf: Shelf, tmp_path: Path) -> Path:
    return shelf.copy(tmp_path)


class Bomb:
    """What does harm as soon as it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


def _evil_code(folder: Path) -> None:
    (folder / "conftest.py").write_text("import os\nos.mkdir('exploded')\n")


def _evil_pickle(folder: Path) -> None:
    (folder / "model.pkl").write_bytes(pickle.dumps(Bomb()))


def _evil_repository(folder: Path) -> None:
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n\tfsmonitor = mkdir exploded\n")
    (hooks / "post-checkout").write_text("#!/bin/sh\nmkdir exploded\n")


def _sparse(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _listen(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def _twins(folder: Path) -> None:
    for form in ("NFC", "NFD"):
        (folder / "task1" / f"{unicodedata.normalize(form, 'é')}.jsonl").write_text("")


def _bury(folder: Path) -> None:
    for number in range(120):
        (folder / f"file-{number}.jsonl").write_text("")


FOLDERS: dict[str, tuple[Folder, str, str]] = {
    "a link for a file": (
        lambda f: _replace(
            f / "task1" / "predictions.jsonl", lambda path: path.symlink_to("/etc/passwd")
        ),
        "kind",
        "task1/predictions.jsonl: a symbolic link, not a plain file",
    ),
    "a link for the card": (
        lambda f: _replace(f / CARD, lambda path: path.symlink_to("/etc/passwd")),
        "kind",
        f"{CARD}: a symbolic link",
    ),
    "a link for a track": (
        lambda f: (
            (f / "task1").rename(f.parent / "away") and (f / "task1").symlink_to(f.parent / "away")
        ),
        "kind",
        "task1: a symbolic link where a folder should be",
    ),
    "a hard link": (
        lambda f: os.link(f / "task1" / "scores.jsonl", f.parent / "other"),
        "kind",
        "task1/scores.jsonl: a hard link",
    ),
    "a pipe": (
        lambda f: _replace(f / "task1" / "scores.jsonl", os.mkfifo),
        "kind",
        "task1/scores.jsonl: a pipe",
    ),
    "a socket": (lambda f: _replace(f / CARD, _listen), "kind", f"{CARD}: a socket"),
    "a folder for a file": (
        lambda f: _replace(f / "task1" / "scores.jsonl", Path.mkdir),
        "kind",
        "task1/scores.jsonl: a folder, not a plain file",
    ),
    "a file for a track": (
        lambda f: (f / "task2").write_text("{}"),
        "kind",
        "task2: a file where a folder should be",
    ),
    "code": (_evil_code, "stray", "conftest.py: does not belong"),
    "a pickle": (_evil_pickle, "stray", "model.pkl: does not belong"),
    "a repository": (_evil_repository, "name", ".git: a name outside"),
    "an archive inside": (
        lambda f: (f / "task1" / "more.zip").write_bytes(b"PK"),
        "stray",
        "task1/more.zip",
    ),
    "a name that climbs": (
        lambda f: (f / "..%2f..%2fetc").write_text(""),
        "name",
        "a name outside",
    ),
    "a name with a line feed": (lambda f: (f / "a\nb").write_text(""), "name", "a\\u000ab"),
    "a name that steers": (
        lambda f: (f / "task1" / "\u202egpj.lmth").write_text(""),
        "name",
        "\\u202egpj",
    ),
    "a name not in Unicode": (
        lambda f: Path(os.fsdecode(bytes(f) + b"/\xff")).write_text(""),
        "name",
        "\\udcff",
    ),
    "a name that only looks right": (
        lambda f: (f / "task1" / "ѕcores.jsonl").write_text(""),
        "name",
        "\\u0455cores",
    ),
    "a name in capitals": (
        lambda f: (f / "Submission.json").write_text("{}"),
        "stray",
        "Submission.json",
    ),
    "twins in two forms": (_twins, "name", "a name outside"),
    "too many files": (_bury, "stray", "does not belong"),
    "another track": (
        lambda f: (f / "task2").mkdir() or (f / "task2" / "scores.jsonl").write_text(""),
        "stray",
        "task2: the card has no such track",
    ),
    "a file that no card names": (
        lambda f: (f / "task1" / "calls.jsonl").write_text("{}\n"),
        "stray",
        "task1/calls.jsonl: the card does not name it",
    ),
    "a missing file": (
        lambda f: (f / "task1" / "verdicts.jsonl").unlink(),
        "missing_file",
        "task1/verdicts.jsonl",
    ),
    "no card": (lambda f: (f / CARD).unlink(), "card", "No such file"),
    "two gigabytes of answers": (
        lambda f: _sparse(f / "task1" / "predictions.jsonl", 2 << 30),
        "size",
        "2,147,483,648 bytes; at most 209,715,200",
    ),
    "two gigabytes of card": (
        lambda f: _sparse(f / CARD, 2 << 30),
        "size",
        f"{CARD}: 2,147,483,648 bytes",
    ),
    "a forged review": (
        lambda f: (f / "review.json").write_text('{"status": "reproduced"}'),
        "review",
        "review.json: date: field required",
    ),
    "a review that is a link": (
        lambda f: (f / "review.json").symlink_to("/nowhere"),
        "kind",
        "review.json: a symbolic link",
    ),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_that_holds_something_else_is_refused(
    shelf: Shelf, folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, code, words = FOLDERS[case]
    monkeypatch.chdir(folder.parent)
    spoil(folder)
    before = sorted(os.listdir(folder))
    refused(shelf.verify(folder), code, words)
    assert sorted(os.listdir(folder)) == before
    assert not list(folder.parent.rglob("exploded"))


def test_an_archive_is_no_submission(shelf: Shelf, folder: Path) -> None:
    for name, pack in (("all.zip", zipfile.ZipFile), ("all.tar", tarfile.open)):
        with pack(folder.parent / name, "w") as archive:
            add = archive.write if isinstance(archive, zipfile.ZipFile) else archive.add
            add(folder / CARD, "../../escaped.json")
        refused(shelf.verify(folder.parent / name), "folder", "a file, not a folder")
    assert not list(folder.parent.parent.rglob("escaped.json"))


def test_a_link_to_a_submission_is_none(shelf: Shelf, folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    refused(shelf.verify(folder.parent / "link"), "folder", "a symbolic link, not a folder")
    refused(shelf.verify(folder.parent / "nowhere"), "folder", "No such file")


def _first(stage: str, **fields: Any) -> tuple[str, Rows]:
    return stage, lambda found: found[0].update(fields)


PAIR = {"gold": "g1", "predicted": "p1", "relation": "same", "reason": "", "strength": 1.0}
ROWS: dict[str, tuple[tuple[str, Rows], str, str]] = {
    "rows of another track": (
        _first("task1/predictions", track="task2"),
        "row",
        "a row of the track task2",
    ),
    "a path for an id": (
        _first("task1/predictions", benchmark_id="../../etc/passwd"),
        "extra_ids",
        "../../etc/passwd",
    ),
    "an id that steers": (
        _first("task1/predictions", benchmark_id="\x1b[2J\u202e"),
        "extra_ids",
        "\\u001b[2J\\u202e",
    ),
    "an unknown field": (
        _first("task1/predictions", exec="rm -rf /"),
        "row",
        "exec: no such field",
    ),
    "a repeat that was not asked": (
        _first("task1/predictions", repeat=1),
        "extra_ids",
        "visitor_00#2",
    ),
    "a repeat in quotes": (_first("task1/predictions", repeat="9" * 400), "row", "repeat: "),
    "a negative repeat": (_first("task1/predictions", repeat=-1), "row", "repeat: "),
    "an answer of another task": (
        _first("task1/predictions", prediction={"answer": "x"}),
        "row",
        "memory_items",
    ),
    "no answer that counts": (
        _first("task1/predictions", prediction=None),
        "row",
        "outcome ok, and no prediction",
    ),
    "a failure with an answer": (
        _first("task1/predictions", outcome="refused"),
        "row",
        "outcome refused, but prediction",
    ),
    "a choice outside the pool": (
        _first(
            "task3_d100/predictions",
            prediction={"selected_memory_id": "gold", "answer": "", "reason": "", "ranking": []},
        ),
        "answer",
        "'gold' is not among the ids",
    ),
    "a choice without a ranking": (
        _first(
            "task3_d100/predictions",
            prediction={"selected_memory_id": "c001", "answer": "", "reason": ""},
        ),
        "row",
        "ranking: field required",
    ),
    "an endless answer": (
        _first("task4_ability1/predictions", prediction={"answer": "a" * 300_000}),
        "row",
        "at most 200,000",
    ),
    "a pair out of range": (
        _first("task1/verdicts", pairs=[{**PAIR, "gold": "g99"}]),
        "verdict",
        "a pair of g99 and p1",
    ),
    "a pair below zero": (
        _first("task1/verdicts", pairs=[{**PAIR, "gold": "g0"}]),
        "row",
        "pairs.0.gold",
    ),
    "an unknown relation": (
        _first("task1/verdicts", pairs=[{**PAIR, "relation": "best"}]),
        "row",
        "pairs.0.relation",
    ),
    "no pairs": (
        ("task1/verdicts", lambda found: found[0].pop("pairs")),
        "verdict",
        "no pairs in it",
    ),
    "marks off the scale": (
        _first("task4_ability1/verdicts", marks={"met": 5}, reason=""),
        "verdict",
        "marks.met is 5",
    ),
    "marks of two rubrics": (
        _first("task4_ability1/verdicts", marks={"met": 1, "resonation": 5}, reason=""),
        "verdict",
        "belong to no rubric",
    ),
    "another judge's verdict": (
        _first("task1/verdicts", judge="0" * 12),
        "judge",
        "of another judge than the card's",
    ),
    "forged scores of single answers": (
        ("task1/scores", lambda found: found[2]["scores"].update(f1=1.0)),
        "row_score",
        "visitor_02: scores.f1 printed 1, recomputed 0",
    ),
    "a score beyond all numbers": (
        ("task1/scores", lambda found: found[0]["scores"].update(f1=1e300)),
        "row",
        "scores.f1",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_forged_rows_are_refused_though_their_hashes_fit(
    shelf: Shelf, folder: Path, case: str
) -> None:
    (name, change), code, words = ROWS[case]
    forge_rows(folder, name, change)
    refused(shelf.verify(folder), code, words)


def _raw(old: str, new: str) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old.encode(), new.encode(), 1)


LINES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "NaN": (_raw('"confidence": 0.9', '"confidence": NaN'), "NaN is no number"),
    "1e999": (_raw('"repeat":0', '"repeat":1e999'), "beyond the range"),
    "a key twice": (_raw('"repeat":0', '"repeat":0,"repeat":0'), "'repeat' stands twice"),
    "bottomless": (lambda data: data + b"[" * 50_000 + b"\n", "line 13: lists and objects"),
    "too long": (
        lambda data: data + b'{"a":"' + b"x" * (1 << 20) + b'"}\n',
        "line 13: longer than 1,048,576 bytes",
    ),
    "torn": (lambda data: data + b'{"benchmark_id": "visi', "line 13: torn"),
    "a list": (lambda data: data + b"[1]\n", "line 13: expected an object, got list"),
    "an empty line": (lambda data: data + b"\n", "line 13: not JSON"),
    "not UTF-8": (lambda data: data + b"\xff\n", "line 13: not UTF-8"),
    "null bytes": (lambda data: data + b"\0" * 1_000 + b"\n", "line 13: not JSON"),
}


@pytest.mark.parametrize("case", LINES)
def test_lines_that_readers_would_not_agree_about_are_refused(
    shelf: Shelf, folder: Path, case: str
) -> None:
    change, words = LINES[case]
    name = "task1/predictions"
    if case == "NaN":
        change = _raw('"repeat":0', '"repeat":NaN')
    forge_bytes(folder, name, change)
    refused(shelf.verify(folder), "row", words)


def test_only_the_first_of_very_many_alike_are_listed(shelf: Shelf, folder: Path) -> None:
    forge_bytes(folder, "task1/predictions", lambda data: data + b"[1]\n" * 5_000)
    found = shelf.verify(folder)
    assert len(found.findings) < 40
    assert any(finding.what == "and 4,975 more of this kind" for finding in found.findings)


def test_markup_in_an_answer_is_told_and_does_no_harm(shelf: Shelf, folder: Path) -> None:
    forge_rows(
        folder,
        "task4_ability1/predictions",
        lambda found: found[0]["prediction"].update(answer=f"Hi {SCRIPT}\u200b"),
    )
    found = shelf.verify(folder)
    assert (said(found, "markup").severity, said(found, "hidden").severity) == ("note", "warning")
    assert not found.serious


def test_what_strangers_write_does_not_steer_the_terminal(
    shelf: Shelf, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "\x1b[2J[bold red]x").write_text("")
    forge(folder, lambda card: card.update(name="\x1b]0;owned\x07[link=https://evil.example]x"))
    (folder / "\x1b[2J[bold red]x").unlink()
    assert verify_command([str(folder), f"data={shelf.data}"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_submission_can_not_choose_the_data_it_is_held_against(
    shelf: Shelf, folder: Path
) -> None:
    forge(
        folder,
        lambda card: card["runs"][0]["settings"].update(data=str(shelf.data), task="python:evil"),
    )
    (folder.parent / "evil.py").write_text("import os\nos.mkdir('exploded')\n")
    found = shelf.verify(folder)
    assert not list(folder.parent.rglob("exploded"))
    assert said(found, "leak").where == "runs.0.settings.data"
    sign(folder)
    assert json.loads((folder / CARD).read_bytes())["slug"] == SLUG
