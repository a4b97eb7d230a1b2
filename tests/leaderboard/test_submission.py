"""Packing runs: what is published, what is left at home, and what is refused before anything is
written.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alps.errors import DataError, RunFolderError, UsageError
from alps.extension import Extension
from alps.leaderboard import cards, packing, parts
from alps.leaderboard.commands import submit_command
from alps.leaderboard.packing import pack, slug_of
from alps.leaderboard.submission import CARD, kinds_of, public_name, read_entry
from tests.endtoend import edit_json, files_of, rows, summary, write_rows
from tests.endtoend import run as run_here
from tests.submissions import DAY, DROPPED, HOME, SLUG, TRACKS, WHO, card_of, changed, make_run
from tests.tracks import Ran, alps_here


@pytest.fixture
def run(shelf, tmp_path):
    """A copy of the run that may be spoiled."""
    return Path(shutil.copytree(shelf.run, tmp_path / "run"))


def change_rows(run: Path, stage: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    found = rows(run / f"{stage}.jsonl")
    change(found)
    write_rows(run / f"{stage}.jsonl", found)


def test_the_card_holds_what_the_run_found(shelf):
    card, found = read_entry(shelf.folder).card, summary(shelf.run)
    assert (card.slug, card.name, card.org, card.submitted) == (SLUG, WHO.name, WHO.org, DAY)
    assert tuple(card.tracks) == TRACKS
    for name, track in card.tracks.items():
        there = found["tracks"][name]
        same = ("n", "scored", "judge_fingerprint", "scores")
        printed = track.model_dump(exclude_unset=True, include={*same, "floors"})
        leads = {floor: there["floors"][floor]["lead"] for floor in there["floors"]}
        assert {floor: row["lead"] for floor, row in printed.pop("floors").items()} == leads
        assert printed == {field: there[field] for field in same}
    assert (card.system.kind, card.system.model) == ("rules", "rules")
    own = card.runs[0]
    data = {"name": "data", "split": "dev", "commit": None, "public": False}
    assert own.data.model_dump() == data
    assert (own.calls.http, own.calls.cost, own.seconds) == (0, 0.0, None)
    assert card.tracks["task3_d100"].seconds_per_query is not None


def test_each_track_has_its_own_rows_in_the_order_of_the_data(shelf):
    entry, predictions = read_entry(shelf.folder), rows(shelf.run / "predictions.jsonl")
    for name in TRACKS:
        there = [row["benchmark_id"] for row in predictions if row["track"] == name]
        for stage in ("predictions", "verdicts", "scores"):
            assert [row["benchmark_id"] for row in entry.rows(name, stage)] == there
    fields = {"benchmark_id", "track", "outcome", "stage", "scores", "counts"}
    assert {key for row in entry.rows("task1", "scores") for key in row} == fields


def test_the_same_input_and_date_give_the_same_bytes(shelf, tmp_path):
    for _ in range(2):
        again = pack([shelf.run], WHO, out=tmp_path / SLUG)
        assert files_of(again.folder) == files_of(shelf.folder)
    assert [path.name for path in tmp_path.iterdir()] == [SLUG]


def test_no_path_of_this_machine_and_no_raw_text_is_published(shelf, run, tmp_path):
    talk = {"raw": "what the model said", "error": f"at {HOME}/run"}
    change_rows(run, "predictions", lambda found: found[0].update(talk))
    packed = pack([run], WHO, out=tmp_path / SLUG)
    everything = b"".join(files_of(packed.folder).values())
    assert str(shelf.data).encode() not in everything
    assert b"what the model said" not in everything
    assert b"anna" not in everything


def test_raw_texts_and_calls_go_along_when_asked_for(run, tmp_path):
    call = {"key": "k", "purpose": "answer", "about": "visitor_00", "model": "m", "ask": 0}
    call |= {"attempt": 0, "outcome": "ok", "status": 200, "error": None, "cost": None}
    call |= {"prompt_tokens": 5, "completion_tokens": 2, "seconds": 1.5}
    write_rows(run / "calls.jsonl", [{**call, "assumed_tokens": 0, "assumed_cost": 0.0}])
    change_rows(run, "predictions", changed("0.raw", "what the model said"))
    packed = pack([run], WHO, out=tmp_path / SLUG, calls=True)
    entry = read_entry(packed.folder)
    assert next(entry.rows("task1", "predictions"))["raw"] == "what the model said"
    (published,) = entry.rows("task1", "calls")
    assert published["about"] == "visitor_00"
    assert published["seconds"] == 1.5
    assert "key" not in published
    assert entry.card.runs[0].seconds == 1.5
    assert not packed.verification.serious


def test_runs_of_one_system_make_one_submission(shelf, tmp_path):
    runs = []
    for name, *more in (("extraction",), ("retrieval",), ("utilization", "ability=pa")):
        words = (f"task={name}", "model=rules", f"data={shelf.data}", *more)
        runs.append(make_run(tmp_path / name, *words))
    packed = pack(runs, WHO, out=tmp_path / SLUG)
    found = [(name, track.run) for name, track in packed.card.tracks.items()]
    assert found == [*zip(TRACKS, range(3), strict=True)]
    assert packed.verification.consistent
    with pytest.raises(UsageError, match="both have task1"):
        pack([runs[0], shelf.run], WHO, out=tmp_path / "other" / SLUG)
    words = ("task=extraction", "model=floor/empty", f"data={shelf.data}")
    other = make_run(tmp_path / "floor", *words)
    with pytest.raises(UsageError, match="different systems"):
        pack([runs[1], other], WHO, out=tmp_path / "other" / SLUG)


@pytest.mark.parametrize("columns", ["80", "60", "40"])
def test_no_score_that_will_be_published_is_cut(shelf, columns, tmp_path):
    done = run_here(
        tmp_path, "leaderboard", "submit", str(shelf.run), "dry_run=yes", COLUMNS=columns
    )
    table = done.stdout.partition(" task ")[2].partition("warning:")[0]
    assert "…" not in table
    for track in summary(shelf.run)["tracks"].values():
        scored = [score for score in track["scores"].values() if score["value"] is not None]
        for score in scored[:1]:
            assert re.search(rf" {score['value']:.4f} .* {score['n']}$", table, re.MULTILINE)


@pytest.mark.parametrize("part", ["limit=3", "shard=1/2"])
def test_a_part_of_a_split_is_refused(part, shelf, tmp_path):
    run = make_run(tmp_path / "run", "task=extraction", "model=rules", f"data={shelf.data}", part)
    with pytest.raises(UsageError, match="only a part of the split"):
        pack([run], WHO, out=tmp_path / SLUG)


UNASKABLE = {
    False: "scores under this judge are not comparable, so they are on no board; judge the ",
    True: "boards cannot recompute scores under the judge of an extension; judge the run ",
}


@pytest.mark.parametrize("comparable", UNASKABLE)
def test_a_judge_that_nobody_can_ask_again_is_refused(shelf, tmp_path, monkeypatch, comparable):
    why = UNASKABLE[comparable]
    monkeypatch.setattr(packing, "brought", lambda kind: {"always-": ""})
    words = ("task=extraction", "model=rules", f"data={shelf.data}", "judge=always-yes")
    run = make_run(tmp_path / "run", *words)
    edit_json(run / "summary.json", changed("comparable", comparable))
    with pytest.raises(UsageError, match=f"run: judge=always-yes: {why}") as refused:
        pack([run], WHO, out=tmp_path / SLUG)
    assert str(refused.value).endswith("alps score RUN judge=PROVIDER/MODEL")


FIELDS = {
    "track_rows": ({"hums": [{"benchmark_id": "a", "hum": 1}]}, "hums"),
    "track_card": ({"hums": 7}, "hums"),
    "run_card": ({"hums": 7}, "hum"),
}


@pytest.mark.parametrize("method", FIELDS)
def test_a_field_that_no_submission_has_names_the_extension(shelf, tmp_path, monkeypatch, method):
    given, field = FIELDS[method]
    part = type("Part", (parts.BoardPart,), {method: lambda *about, **more: given})()
    monkeypatch.setattr(parts, "extensions", lambda: [Extension("brd", board="b:B", on_card="hum")])
    for module in (cards, packing):
        monkeypatch.setattr(module, "parts_of_run", lambda run: {"hum": part})
    why = f"extension brd: {method} of its board part returns {field}, which no submission can have"
    with pytest.raises(UsageError, match=why):
        pack([shelf.run], WHO, out=tmp_path / SLUG)


CHANGED = "changed since the run's summary; repeat the same alps run"
LOST = r"predictions\.jsonl: 1 of 36 rows are lost; to write them again, repeat the same alps run"
ITEMS, SCORE = "0.prediction.memory_items", "0.scores.f1"
JOURNALS = [
    ("predictions", changed(ITEMS, []), CHANGED),
    ("predictions", lambda found: found.pop(), LOST),
    ("verdicts", changed("0.outcome", "invalid"), CHANGED),
    ("scores", changed(SCORE, 0.123), CHANGED),
    ("scores", changed(SCORE, float("nan")), r"task1/scores\.jsonl: .*cannot publish this file"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("stage", "change", "why"), JOURNALS)
def test_a_journal_that_changed_since_the_summary_is_refused(run, tmp_path, stage, change, why):
    change_rows(run, stage, change)
    with pytest.raises(RunFolderError, match=why):
        pack([run], WHO, out=tmp_path / SLUG)
    assert not (tmp_path / SLUG).exists()


WEIGHTS = r"system\.settings\.weights: contains .* must not be published"
PLACES = (
    *("/srv/models/mine", f"{HOME}/model", "C:\\Users\\anna", "http://10.0.0.7:8000/v1"),
    "gpu7.cluster.internal",
)
FILES = [
    *(("manifest", "system.weights", place, WEIGHTS) for place in PLACES),
    ("summary", "tracks.task1.scores.f1.high", float("inf"), r"scores\.f1\.high: .*finite"),
    ("summary", "tracks.task1.floors", DROPPED, "lacks 'floors'; to write it, repeat the same"),
]


@pytest.mark.parametrize(("file", "path", "value", "why"), FILES)
def test_what_can_not_be_published_is_refused(run, tmp_path, file, path, value, why):
    edit_json(run / f"{file}.json", changed(path, value))
    with pytest.raises((UsageError, RunFolderError), match=why):
        pack([run], WHO, out=tmp_path / SLUG)


def test_an_unfinished_run_is_refused(run, tmp_path):
    (run / "summary.json").unlink()
    with pytest.raises(UsageError, match="not finished; to finish the run, repeat the same alps"):
        pack([run], WHO, out=tmp_path / SLUG)


SECRET = "zebra-crossing-17-stripes-long"


@pytest.mark.parametrize("secret", ["sk-proj-4711aBcDeFgHiJkLmNoP", SECRET])
def test_a_key_in_an_answer_is_refused(run, tmp_path, monkeypatch, secret):
    monkeypatch.setenv("MY_SERVICE_TOKEN", SECRET)
    change_rows(run, "predictions", changed("-1.prediction.answer", f"My key is {secret}."))
    with pytest.raises(UsageError, match="looks like a key") as raised:
        pack([run], WHO, out=tmp_path / SLUG)
    assert secret not in str(raised.value)
    assert "asked_11" in str(raised.value)


HUBS = [
    ("hub@main", "a" * 40, {"name": "hub", "public": True}),
    (f"hub:mine/own@{'b' * 40}", "b" * 40, {"name": "hub:mine/own", "public": False}),
]


@pytest.mark.parametrize("hub", HUBS, ids=["of all", "of one's own"])
def test_a_run_on_the_hub_is_packed_by_its_name_without_a_network(run, shelf, tmp_path, hub):
    data, commit, said = hub
    edit_json(run / "manifest.json", changed("settings.data", data))
    edit_json(run / "manifest.json", changed("data.commit", commit))
    packed = pack([run], WHO, out=tmp_path / SLUG)
    own = packed.card.runs[0]
    assert own.data.model_dump() == {**said, "split": "dev", "commit": commit}
    assert own.settings["data"] == said["name"]
    assert (packed.verification.serious, packed.verification.consistent) == (False, False)
    assert pack([run], WHO, out=tmp_path / SLUG, data=str(shelf.data)).verification.consistent


def test_a_changed_journal_is_refused_even_where_the_data_are_gone(run, tmp_path):
    edit_json(run / "manifest.json", changed("settings.data", str(tmp_path / "gone")))
    assert pack([run], WHO, out=tmp_path / SLUG, write=False).verification.consistent is False
    change_rows(run, "scores", changed(SCORE, 0.123))
    with pytest.raises(RunFolderError, match="changed since the run's summary"):
        pack([run], WHO, out=tmp_path / SLUG)


def test_a_folder_named_as_the_hub_begins_is_known_by_its_last_part(shelf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(shelf.data, "hub_private/secret")
    run = make_run(tmp_path / "run", "task=extraction", "model=rules", "data=hub_private/secret")
    card = pack([run], WHO, out=tmp_path / SLUG).card
    assert (card.runs[0].data.name, card.runs[0].settings["data"]) == ("secret", "secret")
    assert "hub_private" not in (tmp_path / SLUG / CARD).read_text("utf-8")


OFFICIAL = r"^name: Thumb \(official\) contains “official”, which is reserved for boards; "
OFFICIAL += "choose another name$"


def test_markup_in_what_the_submitter_says_is_refused(shelf, tmp_path):
    for who, told in (
        ({"org": "<script>alert(1)</script>"}, "org: contains markup or script"),
        ({"name": "Thumb (official)"}, OFFICIAL),
        ({"url": "http://example.org"}, "url: must begin with https://"),
        ({"kind": "llm"}, "can only be submitted with kind=rules"),
    ):
        with pytest.raises(UsageError, match=told):
            pack([shelf.run], replace(WHO, **who), out=tmp_path / SLUG)


def test_only_a_submission_of_the_same_name_is_replaced(shelf, tmp_path):
    (tmp_path / SLUG).mkdir()
    (tmp_path / SLUG / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="already exists; choose another out="):
        pack([shelf.run], WHO, out=tmp_path / SLUG)
    assert (tmp_path / SLUG / "thesis.txt").exists()
    (tmp_path / "reviewed").mkdir()
    reviewed = shelf.copy(tmp_path / "reviewed")
    (reviewed / "review.json").write_text("{}")
    with pytest.raises(UsageError, match="a reviewed one; choose another out="):
        pack([shelf.run], WHO, out=reviewed)
    with pytest.raises(UsageError, match="becomes the slug"):
        pack([shelf.run], WHO, out=tmp_path / "My Submission")


def test_the_command_shows_what_is_published_and_writes_it(shelf, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [str(shelf.run), "name=Rules of thumb", "org=Graz", f"date={DAY}"]
    assert submit_command([*words, "dry_run=yes"]) == 0
    first = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert submit_command(words) == 0
    second = capsys.readouterr().out
    assert (tmp_path / f"rules-of-thumb-{DAY}" / CARD).is_file()
    shown = ("task1/predictions.jsonl", "Rules of thumb", "Graz", "system        rules")
    shown += ("calls         none", "recall@1", "not public")
    assert [words for words in shown if words not in first] == []
    assert "nothing written" in first
    assert first.splitlines()[:-1] == second.splitlines()[: len(first.splitlines()) - 1]
    assert max(map(len, (first + second).splitlines())) <= 80


def test_in_a_checkout_it_goes_among_the_submissions(shelf, tmp_path, monkeypatch, capsys):
    home = tmp_path / "leaderboard" / "submissions"
    home.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert submit_command([str(shelf.run), "name=Rules", f"date={DAY}"]) == 0
    assert card_of(home / f"rules-{DAY}")["name"] == "Rules"


def test_a_wrong_setting_names_the_closest(shelf):
    with pytest.raises(UsageError, match="did you mean 'org'"):
        submit_command([str(shelf.run), "name=x", "orgg=y"])
    with pytest.raises(UsageError, match="name at least one finished run"):
        submit_command(["name=x"])


def test_without_a_name_a_system_goes_by_its_model(shelf, tmp_path):
    assert submit_command([str(shelf.run), f"out={tmp_path / 'rules'}"]) == 0
    assert read_entry(tmp_path / "rules").card.name == "rules"


SLUGS = {"GPT-5.2 (high)": "gpt-5-2-high", "Çelik/Bär": "celik-bar", "../../etc": "etc"}
SLUGS["a" * 99] = "a" * 60


@pytest.mark.parametrize(("name", "slug"), SLUGS.items())
def test_slugs_are_safe(name, slug):
    assert slug_of(name, DAY) == f"{slug}-{DAY}"
    with pytest.raises(UsageError, match="give out=FOLDER"):
        slug_of("记忆", DAY)


def test_kinds_and_names_of_systems():
    assert kinds_of("floor/empty") == kinds_of("oracle") == ("floor",)
    assert kinds_of("bm25") == ("retriever",)
    assert kinds_of("openai/gpt-4.1") == ("llm", "memory")
    assert kinds_of("program:./mem0.sh")[:2] == ("program", "memory")
    assert public_name(f"predictions:{HOME}/x.jsonl") == "predictions:x.jsonl"
    program = f"program:/usr/bin/python3 {HOME}/run.py --k 3"
    assert public_name(program) == "program:python3 run.py --k 3"
    assert public_name("openai/gpt-4.1") == "openai/gpt-4.1"


def test_reading_names_the_field_that_does_not_fit(shelf, folder):
    edit_json(folder / CARD, changed("submitted", "2026-02-30"))
    with pytest.raises(DataError, match=r"submission\.json, submitted: day is out of range"):
        read_entry(folder)


@pytest.mark.release
def test_nothing_heavy_is_imported(shelf):
    code = (
        "import sys\nfrom alps.leaderboard.commands import verify_command\n"
        f"code = verify_command([{str(shelf.folder)!r}, 'data={shelf.data}'])\n"
        "heavy = [name for name in ('litellm', 'sklearn', 'datasets', 'instructor') if name in "
        "sys.modules]\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def submitted(packed: Path, out: Path, *words: str) -> Ran:
    """Submit the run that a submission on the samples was packed from."""
    words = ("name=Thumb", f"date={DAY}", f"out={out}", *words)
    return alps_here("leaderboard", "submit", str(packed.with_name("run")), *words)


def test_what_is_missing_is_listed_until_it_is_given(honest, tmp_path):
    bare = submitted(honest, tmp_path / "thumb", "dry_run=yes").out
    places = [bare.index(line) for line in ("1. notes=", "2. org=", "3. url=")]
    assert places == sorted(places)
    whole = ("notes=By rules.", "org=A lab", "url=https://example.org/rules", "dry_run=yes")
    assert "Before you submit" not in submitted(honest, tmp_path / "thumb", *whole).out


def test_the_text_of_the_pull_request_ticks_what_was_checked(honest, tmp_path):
    request = tmp_path / "request.md"
    done = submitted(honest, tmp_path / "thumb", "notes=By rules.", f"request={request}")
    assert done.code == 0, done.err
    text = request.read_text(encoding="utf-8")
    verified = "- [x] `alps leaderboard verify leaderboard/submissions/thumb` does not refuse"
    assert f"{verified} the submission." in text
    assert "- [ ] I have read what will be published" in text
    assert "| extraction | F1 | .069 | [.015, .201] | 26 |" in text
    assert "By rules." in text


def test_the_text_is_no_part_of_the_submission(honest, tmp_path):
    inside = tmp_path / "thumb" / "request.md"
    refused = submitted(honest, tmp_path / "thumb", f"request={inside}")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "must be outside the submission" in refused.err
    assert not inside.exists()
