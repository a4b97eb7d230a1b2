"""Submissions by somebody who means harm: each is refused or harmless, says why, and nothing of it
is run.

The tables hold what is changed, the code of the finding, and words of it. All hashes and checksums
fit what was changed, as those of somebody who means it do.
"""

import json
import os
import pickle
import socket
import tarfile
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import pytest

from alps.leaderboard.commands import verify_command
from alps.leaderboard.submission import CARD
from tests.endtoend import edit_json
from tests.submissions import (
    DROPPED,
    HOME,
    SLUG,
    changed,
    forge,
    forge_bytes,
    forge_rows,
    refused,
    said,
)

SCRIPT = "<script>alert(1)</script>"
ONE, F1, CHOSEN = "tracks.task1", "tracks.task1.scores.f1", "task3_d100/predictions"
PREDICTIONS, SCORES = "task1/predictions.jsonl", "task1/scores.jsonl"
FILES, SETTINGS, ZEROS = f"{ONE}.files", "system.settings", "0" * 64
# Where a card has texts, and where the finding of one that holds script begins.
TEXTS = {
    **dict.fromkeys(("name", "org", "notes", "submitted", "alps", "slug"), ""),
    **dict.fromkeys(("system.kind", "system.model", "system.snapshot"), ""),
    **dict.fromkeys(("runs.0.settings.model", "runs.0.prompts.extraction/2"), "runs.0."),
    **dict.fromkeys(("runs.0.data.name", "runs.0.data.split", "runs.0.data.commit"), ""),
    **dict.fromkeys(("runs.0.judge.judge", f"{ONE}.task", f"{ONE}.judge"), ""),
    **dict.fromkeys((f"{ONE}.judge_fingerprint", f"{F1}.unscored"), ""),
    f"{ONE}.floors.floor/empty.judge": "",
    f"{ONE}.files.scores.sha256": "",
}
KEYS = {
    **{key: {} for key in ("system.settings", "tracks", f"{ONE}.scores", f"{ONE}.floors")},
    **dict.fromkeys((f"{ONE}.counts", f"{ONE}.failed_predictions"), 1),
}
VALUES = {"url": f"https://example.org/{SCRIPT}", SETTINGS: {"a": [{"b": SCRIPT}]}}


@pytest.mark.few(4)
@pytest.mark.parametrize("path", [*TEXTS, *(f"{path}.{SCRIPT}" for path in KEYS), *VALUES])
def test_script_in_a_text_of_a_card_is_refused(shelf, folder, path):
    field = path.removesuffix(f".{SCRIPT}")
    value = VALUES.get(path, KEYS[field] if path.endswith(SCRIPT) else SCRIPT)
    forge(folder, changed(path, value))
    found = shelf.verify(folder)
    assert found.serious
    begins = TEXTS.get(field) or field
    assert any(one.where.startswith(begins) for one in found.findings), found.findings


MARKUP = "markup or script"
NAMES = {
    'x" onmouseover=alert(1) y="': MARKUP,
    **dict.fromkeys(("javascript:alert(1)", "&#60;b&#62;", "{{ config }}", "<img src=x>"), MARKUP),
    "A\u202eB": "U+202E",
    "A\u200bB": "U+200B",
    "A\U000e0041B": "U+E0041",
    "A\x1b[31mB": "U+001B",
    "A\x00B": "U+0000",
    "A\nB": "U+000A",
    "A\ud800B": "unicode",
    "Ame\u0301lie": "composed form",
    "Z" + "\u0335\u0336\u0337\u0338" * 3: "combining marks",
    " A": "white space",
    "": "at least 1 character",
    "A" * 5_000: "at most 120 characters",
}
URLS = (
    *("http://example.org", "javascript:alert(1)", "data:text/html,x", "//example.org"),
    *("https://me:secret@example.org", "https://x", "https://10.0.0.1/x"),
    *("https://wiki.internal", "https://examplе.org", "https://example.org/'x"),
)
SLUGS = ("..", "../other", "thumb_rules", "Thumb-Rules", "thumb-rulеs", "a/b", "-x", "")
SCHEMA = [
    *(("name", name, words) for name, words in NAMES.items()),
    *(("url", url, "url: ") for url in URLS),
    *(("slug", slug, "slug: ") for slug in SLUGS),
    ("rank", 1, "rank: no such field"),
    ("tracks", [], "tracks: "),
    ("format", 2, "format: "),
    ("submitted", "2026-02-30", "submitted: "),
    (f"{ONE}.n", -12, "tracks.task1.n: "),
    (f"{F1}.value", "0.5", "tracks.task1.scores.f1.value"),
    (f"{F1}.n", True, "tracks.task1.scores.f1.n"),
    (f"{F1}.low", DROPPED, "scores.f1.low: "),
    ("runs.0.calls.cost", -1.0, "runs.0.calls.cost"),
    ("runs.0.settings.seed", "x", "seed must be"),
    ("runs.0.settings.repeats", 10**9, "repeats must be"),
]
CARDS = [
    *((path, value, "schema", words) for path, value, words in SCHEMA),
    (f"{F1}.n", 11, "score", "the card has 11, but alps recomputed 12"),
    (f"{F1}.value", 1.7, "score", "the card has 1.7, but alps recomputed 0."),
    (f"{F1}.value", 0.987, "score", "f1.value: the card has 0.987, but alps recomputed 0."),
    (f"{F1}.low", 0.99, "score", "scores.f1.low: the card has 0.99"),
    (f"{ONE}.scores", lambda old: {**old, "best": old["f1"]}, "score", "tracks.task1.scores.best"),
    (f"{ONE}.scores.recall", DROPPED, "score", "scores.recall"),
    (f"{ONE}.floors", {}, "score", "floors.floor/empty"),
    (f"{ONE}.floors.floor/content-free.scores.f1.value", -1.0, "score", "value: the card has -1"),
    (f"{ONE}.failed_predictions", {"x": 1}, "score", "failed"),
    (f"{FILES}.predictions.sha256", ZEROS, "hash", "predictions.jsonl: sha256: the card has 000"),
    (f"{FILES}.scores.rows", 99, "hash", f"{SCORES}: rows: the card has 99, but the file has 12"),
    (f"{ONE}.run", 7, "run", "7, but the last run on the card is runs.0"),
    ("runs", lambda old: [*old, old[0]], "run", "runs.1: no task belongs to this run"),
    ("runs.0.settings.limit", 3, "limit", "covers only a part"),
    ("runs.0.settings.task", "python:evil", "task", "no board, and alps does not import its code"),
    ("system.model", "floor/empty", "kind_of_system", "of kind floor"),
    ("system.kind", "llm", "kind_of_system", "system.kind: llm"),
    ("runs.0.judge.judge", "openai/gpt-9", "fingerprint", "judge.id"),
    ("runs.0.judge.rubrics", "x", "fingerprint", "rubrics"),
    ("runs.0.judge.threshold", 0.1, "fingerprint", "runs.0.judge.id"),
    (SETTINGS, {"header": "Bearer abcdefgh12345678"}, "leak", "settings.header: contains a"),
    ("slug", "other", "slug", f"other, but the folder is named {SLUG}"),
    ("tracks.task4_ability1.conditions", {"window": -1}, "identity", "conditions: "),
    (f"{ONE}.conditions", {"scoring": "authors-v1"}, "score", "tracks.task1.scores.authors_f1"),
    (f"{ONE}.comparable", True, "identity", "tracks.task1.comparable"),
    (f"{ONE}.judge_fingerprint", "0" * 12, "identity", "tracks.task1.judge_fingerprint"),
    (f"{ONE}.judge", "openai/gpt-4.1", "identity", "tracks.task1.judge"),
    (f"{ONE}.task", "update", "identity", "tracks.task1.task"),
    (f"{ONE}.data_sha256", ZEROS, "data", "tracks.task1.data_sha256: the card has 000000000000…"),
    *(
        ("name", name, "baseline", "calls itself a baseline")
        for name in ("Floor of mine", "floor/generic", "Baseline: BM25", "ORACLE")
    ),
    ("name", "✓ reproduced by the maintainers", "name", "contains the character U+2713"),
    ("name", "Thumb (verified)", "name", "contains “verified”, which is reserved for boards"),
    ("name", "–", "name", "has no letter and no digit"),
    ("org", "Official Lab", "name", "org: Official Lab contains “Official”"),
    *(("name", name, "name", "a reference row") for name in ("GРT-5.2", "Меm0")),
]


@pytest.mark.few(24)
@pytest.mark.parametrize(("path", "value", "code", "words"), CARDS)
def test_a_forged_card_is_refused(shelf, folder, path, value, code, words):
    forge(folder, changed(path, value))
    refused(shelf.verify(folder), code, words)


WARNED = [
    ("name", "ОpenAI GРТ", "look_alike", "name: ОpenAI mixes similar letters"),
    ("name", "Mem0", "name", "is the name of a reference row, but the model is rules"),
    (SETTINGS, {"weights": f"{HOME}/w"}, "leak", "system.settings.weights: contains an ab"),
    (SETTINGS, {"at": "gpu.local"}, "leak", "system.settings.at: contains the addres"),
    ("runs.0.prompts.extraction/2", ZEROS, "prompt", "extraction/2 differs from the bundled"),
]


@pytest.mark.parametrize(("path", "value", "code", "words"), WARNED)
def test_what_a_person_has_to_look_at_is_a_warning(shelf, folder, path, value, code, words):
    forge(folder, changed(path, value))
    found = shelf.verify(folder)
    finding = said(found, code)
    assert (finding.severity, found.serious) == ("warning", False)
    text = f"{finding.where}: {finding.what}"
    assert words in text.replace("\\u041e", "О"), text


def replaced(old: str, new: str):
    return lambda data: data.replace(old.encode(), new.encode(), 1)


BOTTOMLESS = "more than 20 deep"
CARD_BYTES = {
    "NaN": (replaced('"n": 12', '"n": NaN'), "NaN is not a number in JSON"),
    "Infinity": (replaced('"n": 12', '"n": -Infinity'), "-Infinity is not a number"),
    "1e999": (replaced('"n": 12', '"n": 1e999'), "1e999 is too large"),
    "endless": (replaced('"n": 12', f'"n": {"9" * 9_000}'), "more than 16 digits"),
    "twice": (replaced('"format": 1,', '"format": 1, "format": 1,'), "'format' is repeated"),
    "lists": (lambda data: b"[" * 100_000, BOTTOMLESS),
    "objects": (lambda data: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, BOTTOMLESS),
    "deep": (replaced('"notes":', f'"x": {"[" * 50}{"]" * 50}, "notes":'), "more than 20 deep"),
    "not UTF-8": (lambda data: b"\xff\xfe" + data, "not UTF-8"),
    "not JSON": (lambda data: b"import os", "not JSON"),
    "nothing": (lambda data: b"", "not JSON"),
}
LINES = {
    "NaN": (replaced('"repeat":0', '"repeat":NaN'), "NaN is not a number"),
    "1e999": (replaced('"repeat":0', '"repeat":1e999'), "is too large"),
    "twice": (replaced('"repeat":0', '"repeat":0,"repeat":0'), "'repeat' is repeated"),
    "bottomless": (lambda data: data + b"[" * 50_000 + b"\n", "line 13: lists and objects"),
    "long": (lambda data: data + b'{"a":"%s"}\n' % (b"x" * (1 << 20)), "line 13: longer than 1,0"),
    "torn": (lambda data: data + b'{"benchmark_id": "visi', "line 13: cut off"),
    "a list": (lambda data: data + b"[1]\n", "line 13: expected an object, got list"),
    "an empty line": (lambda data: data + b"\n", "line 13: not JSON"),
    "not UTF-8": (lambda data: data + b"\xff\n", "line 13: not UTF-8"),
    "null bytes": (lambda data: data + b"\0" * 1_000 + b"\n", "line 13: not JSON"),
}


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("change", "words", "code"),
    [
        *(pytest.param(*case, "card", id=f"card: {name}") for name, case in CARD_BYTES.items()),
        *(pytest.param(*case, "row", id=f"row: {name}") for name, case in LINES.items()),
    ],
)
def test_bytes_that_readers_would_not_agree_about_are_refused(shelf, folder, change, words, code):
    if code == "card":
        (folder / CARD).write_bytes(change((folder / CARD).read_bytes()))
    else:
        forge_bytes(folder, "task1/predictions", change)
    refused(shelf.verify(folder), code, words)


def test_a_number_that_nothing_recomputes_is_guarded_by_the_checksum(shelf, folder):
    edit_json(folder / CARD, changed("runs.0.calls.cost", 0.01))
    refused(shelf.verify(folder), "checksum", "changed after packing")


class Bomb:
    """What does harm as soon as it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


def written(name: str, data: str | bytes):
    def write(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    return write


def instead(name: str, make):
    def replace(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return replace


def sparse(name: str):
    def stretch(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(2 << 30)

    return stretch


def listen(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def move_away(folder: Path) -> None:
    (folder / "task1").rename(folder.parent / "away")
    (folder / "task1").symlink_to(folder.parent / "away")


def twins(folder: Path) -> None:
    for form in ("NFC", "NFD"):
        written(f"task1/{unicodedata.normalize(form, 'é')}.jsonl", "")(folder)


def bury(folder: Path) -> None:
    for number in range(120):
        written(f"file-{number}.jsonl", "")(folder)


def repository(folder: Path) -> None:
    written(".git/config", "[core]\n\tfsmonitor = mkdir exploded\n")(folder)
    written(".git/hooks/post-checkout", "#!/bin/sh\nmkdir exploded\n")(folder)


def passwd(path: Path) -> None:
    path.symlink_to("/etc/passwd")


NOT_OURS = "the name begins with a dot, or"
CODE = "import os\nos.mkdir('exploded')\n"
OF_ANOTHER = {"status": "re-scored", "date": "2026-01-31", "tracks": {}, "note": None}
OF_ANOTHER |= {"recomputed": ["task2"]}
FOLDERS = [
    (instead(PREDICTIONS, passwd), "kind", f"{PREDICTIONS}: a symbolic link, not a plain file"),
    (instead(CARD, passwd), "kind", f"{CARD}: a symbolic link"),
    (move_away, "kind", "task1: a symbolic link where a folder should be"),
    (lambda f: os.link(f / SCORES, f.parent / "other"), "kind", f"{SCORES}: a hard link"),
    (instead(SCORES, os.mkfifo), "kind", f"{SCORES}: a pipe"),
    (instead(CARD, listen), "kind", f"{CARD}: a socket"),
    (instead(SCORES, Path.mkdir), "kind", f"{SCORES}: a folder, not a plain file"),
    (written("task2", "{}"), "kind", "task2: a file where a folder should be"),
    (lambda f: (f / "review.json").symlink_to("/nowhere"), "kind", "review.json: a symbolic link"),
    (written("conftest.py", CODE), "stray", "conftest.py: does not belong"),
    (written("model.pkl", pickle.dumps(Bomb())), "stray", "model.pkl: does not belong"),
    (written("task1/more.zip", b"PK"), "stray", "task1/more.zip"),
    (written("Submission.json", "{}"), "stray", "Submission.json"),
    (bury, "stray", "does not belong"),
    (written("task2/scores.jsonl", ""), "stray", "task2: the card has no such task"),
    (written("task1/calls.jsonl", "{}\n"), "stray", "task1/calls.jsonl: it is not on the card"),
    (repository, "name", ".git: the name begins with a dot"),
    (written("..%2f..%2fetc", ""), "name", NOT_OURS),
    (written("a\nb", ""), "name", "a\\u000ab"),
    (written("task1/\u202egpj.lmth", ""), "name", "\\u202egpj"),
    (lambda f: Path(os.fsdecode(bytes(f) + b"/\xff")).write_text(""), "name", "\\udcff"),
    (written("task1/ѕcores.jsonl", ""), "name", "\\u0455cores"),
    (twins, "name", NOT_OURS),
    (lambda f: (f / "task1/verdicts.jsonl").unlink(), "missing_file", "task1/verdicts.jsonl"),
    (lambda f: (f / CARD).unlink(), "card", "No such file"),
    (sparse(PREDICTIONS), "size", "2,147,483,648 bytes; the limit is 209,715,200"),
    (sparse(CARD), "size", f"{CARD}: 2,147,483,648 bytes"),
    (written("review.json", '{"status": "reproduced"}'), "review", "review.json: date: field req"),
    (written("review.json", json.dumps(OF_ANOTHER)), "review", "missing from the card: task2"),
]


@pytest.mark.few(8)
@pytest.mark.parametrize(("spoil", "code", "words"), FOLDERS, ids=[one[2] for one in FOLDERS])
def test_a_folder_that_holds_something_else_is_refused(
    shelf, folder, spoil, code, words, monkeypatch
):
    monkeypatch.chdir(folder.parent)
    spoil(folder)
    before = sorted(os.listdir(folder))
    refused(shelf.verify(folder), code, words)
    assert sorted(os.listdir(folder)) == before
    assert not list(folder.parent.rglob("exploded"))


def test_an_archive_and_a_link_are_no_submission(shelf, folder):
    for name, pack in (("all.zip", zipfile.ZipFile), ("all.tar", tarfile.open)):
        with pack(folder.parent / name, "w") as archive:
            add = archive.write if isinstance(archive, zipfile.ZipFile) else archive.add
            add(folder / CARD, "../../escaped.json")
        refused(shelf.verify(folder.parent / name), "folder", "a file, not a folder")
    assert not list(folder.parent.parent.rglob("escaped.json"))
    (folder.parent / "link").symlink_to(folder)
    refused(shelf.verify(folder.parent / "link"), "folder", "a symbolic link, not a folder")
    refused(shelf.verify(folder.parent / "nowhere"), "folder", "No such file")


def choice(**fields: Any) -> dict[str, Any]:
    return {"selected_memory_id": "c001", "answer": "", "reason": "", **fields}


PAIR = {"gold": "g1", "predicted": "p1", "relation": "same", "reason": "", "strength": 1.0}
SUPPORT = {"id": "p1", "support": "supported", "reason": ""}
ENDLESS = {"outcome": "ok", "items": [SUPPORT] * 900, "error": None, "raw": None}
ANSWERS, VERDICTS, RATED = "task1/predictions", "task1/verdicts", "task4_ability1/verdicts"
TEXT, ROW = "task4_ability1/predictions", "task1/scores"
JUDGES_OWN = "from the built-in judge's"
ROWS = [
    (ANSWERS, "0.track", "task2", "row", "the row belongs to task2"),
    (ANSWERS, "0.benchmark_id", "../../etc/passwd", "extra_ids", "../../etc/passwd"),
    (ANSWERS, "0.benchmark_id", "\x1b[2J\u202e", "extra_ids", "\\u001b[2J\\u202e"),
    (ANSWERS, "0.exec", "rm -rf /", "row", "exec: no such field"),
    (ANSWERS, "0.repeat", 1, "extra_ids", "visitor_00#2"),
    (ANSWERS, "0.repeat", "9" * 400, "row", "repeat: "),
    (ANSWERS, "0.repeat", -1, "row", "repeat: "),
    (ANSWERS, "0.prediction", {"answer": "x"}, "row", "memory_items"),
    (ANSWERS, "0.prediction", None, "row", "outcome ok, but no prediction"),
    (ANSWERS, "0.outcome", "refused", "row", "outcome refused, but a prediction"),
    (CHOSEN, "0.prediction", choice(selected_memory_id="gold", ranking=[]), "answer", "'gold' is"),
    (CHOSEN, "0.prediction", choice(), "row", "ranking: field required"),
    (TEXT, "0.prediction", {"answer": "a" * 300_000}, "row", "at most 200,000"),
    (VERDICTS, "0.pairs", [{**PAIR, "gold": "g99"}], "verdict", "pairs g99 with p1"),
    (VERDICTS, "0.pairs", [{**PAIR, "gold": "g0"}], "row", "pairs.0.gold"),
    (VERDICTS, "0.pairs", [{**PAIR, "relation": "best"}], "row", "pairs.0.relation"),
    (VERDICTS, "0.pairs", [PAIR, PAIR], "verdict", "paired twice"),
    (VERDICTS, "0.support", ENDLESS, "verdict", "the support verdicts repeat a memory"),
    (VERDICTS, "0.pairs", DROPPED, "verdict", "the verdict has no pairs"),
    (VERDICTS, "0.judge", "0" * 12, "judge", "by a judge other than the one on the card"),
    (VERDICTS, "0.pairs", lambda old: [] if old else [PAIR], "verdict", JUDGES_OWN),
    (RATED, "0.marks", {"met": 5}, "verdict", "marks.met is 5"),
    (RATED, "0.marks", {"met": 1, "resonation": 5}, "verdict", "no rubric has exactly these marks"),
    (ROW, "2.scores.f1", 1.0, "row_score", "visitor_02: scores.f1: the file has 1, "),
    (ROW, "2.counts.matched", 17, "row_score", "counts.matched: the file has 17, but al"),
    (ROW, "0.scores.f1", 1e300, "row", "scores.f1"),
]


@pytest.mark.few(10)
@pytest.mark.parametrize(("name", "path", "value", "code", "words"), ROWS)
def test_forged_rows_are_refused(shelf, folder, name, path, value, code, words):
    forge_rows(folder, name, changed(path, value))
    refused(shelf.verify(folder), code, words)


def test_missing_extra_and_duplicate_ids_are_counted_and_a_few_are_named(shelf, folder):
    def shuffle(found):
        del found[:7]
        found.extend([found[0], {**found[1], "benchmark_id": "visitor_99"}])

    forge_rows(folder, ANSWERS, shuffle)
    found = shelf.verify(folder)
    missing = "lacks 7 of the 12 ids of the split: visitor_00, visitor_01"
    assert said(found, "missing_ids").what.startswith(missing)
    assert said(found, "missing_ids").what.endswith("and 2 more")
    refused(found, "extra_ids", "has 1 id outside the split: visitor_99")
    assert "visitor_07" in said(found, "duplicate_ids").what
    assert any(line.startswith("task1: the scores") for line in found.unchecked)


def test_only_the_first_of_very_many_alike_are_listed(shelf, folder):
    forge_bytes(folder, ANSWERS, lambda data: data + b"[1]\n" * 5_000)
    found = shelf.verify(folder)
    assert len(found.findings) < 40
    assert any(finding.what == "and 4,975 more of this kind" for finding in found.findings)


def test_what_strangers_write_does_not_steer_the_terminal(shelf, folder, capsys):
    written("\x1b[2J[bold red]x", "")(folder)
    forge(folder, changed("name", "\x1b]0;owned\x07[link=https://evil.example]x"))
    assert verify_command([str(folder), f"data={shelf.data}"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_submission_can_not_choose_the_data_it_is_held_against(shelf, folder):
    words = {"data": str(shelf.data), "task": "python:evil"}
    forge(folder, changed("runs.0.settings", lambda old: {**old, **words}))
    (folder.parent / "evil.py").write_text(CODE)
    found = shelf.verify(folder)
    assert not list(folder.parent.rglob("exploded"))
    assert said(found, "leak").where == "runs.0.settings.data"


@pytest.mark.parametrize("line", [b"{}\n", None], ids=["of nothing", "repeated"])
def test_a_file_of_more_wrong_rows_than_anybody_reads_is_read_no_further(shelf, folder, line):
    forge_bytes(folder, ANSWERS, lambda data: data + (line or data.splitlines(True)[0]) * 12_000)
    refused(shelf.verify(folder), "file", "more than 10,000 rows are wrong or repeated")
