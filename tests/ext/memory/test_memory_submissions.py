"""Memory systems on the leaderboard: what is packed of them, and what tampering is noticed."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.ext.memory.board_setup import band_of
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.packing import pack
from alps.leaderboard.ranking import build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.submission import REVIEW
from alps.leaderboard.verify import Options, verify
from tests.endtoend import edit_json, rows
from tests.packed_memories import (
    DAY,
    RUNS,
    TRACK,
    pack_memory,
    run_memory,
    submit_memory,
    write_questions,
)
from tests.submissions import DROPPED, card_of, changed, forge, forge_rows, make_run, refused

DIARY, LEDGER = "memory-0/memory", "memory-0/memory_calls"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with questions and histories."""
    return write_questions(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """Return a folder of runs."""
    folder = tmp_path_factory.mktemp("made")
    for name in RUNS:
        run_memory(folder / name, data, name)
    return folder


@pytest.fixture(scope="module")
def packed(made, tmp_path_factory):
    """Return a folder of submissions."""
    folder = tmp_path_factory.mktemp("packed")
    for name in RUNS:
        submit_memory(made / name, folder, name)
    return folder


@pytest.fixture(scope="module")
def boards(packed):
    """Return the boards of the headline by the systems on each."""
    found = {}
    for board in build_boards(load(packed), read_references()):
        if board.metric.headline:
            found[" ".join(row.system.slug for row in board.standings)] = board
    return found


@pytest.fixture(scope="module")
def site(packed, tmp_path_factory):
    """Return a built site."""
    return build(packed, tmp_path_factory.mktemp("site") / "site").out


@pytest.fixture
def copy(packed, tmp_path):
    """Return a submission that may be spoiled."""
    copied = Path(shutil.copytree(packed / "embedding", tmp_path / "embedding"))
    (copied / REVIEW).unlink()
    return copied


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["embedding", "swallows"])
def test_what_is_packed_of_a_memory_system_is_recomputed(packed, data, name):
    found = verify(packed / name, Options(data=str(data)))
    assert not found.serious, found.findings
    assert found.consistent
    assert found.recomputed == (TRACK,)


def test_hits_ledger_admission_versions_and_rows_are_in_the_bundle_and_no_secret(packed, made):
    card = card_of(packed / "embedding")
    memory, summary = card["memory"][0], json.loads((made / "embedding/summary.json").read_text())
    assert card["system"]["kind"] == "memory"
    assert card["system"]["model"] == f"memory:{RUNS['embedding'][0][0].removeprefix('memory=')}"
    assert [*memory["admission"]["before"], *memory["admission"]["after"]] == [
        {"fault": "", **check} for check in summary["admission"]
    ]
    assert memory["phases"] == summary["phases"]
    assert memory["phases"]["ingest"]["used"]["requests"] > 0
    assert memory["versions"]["adapter"].startswith("sha256 ")
    assert set(memory["beside"]) == {"none", "placebo"}
    assert memory["ahead"][TRACK]["n"] == card["tracks"][TRACK]["n"]
    assert "ahead" not in memory["beside"]["none"]
    hits = [row for row in rows(packed / f"embedding/{DIARY}.jsonl") if row["phase"] == "search"]
    assert len(hits) == card["tracks"][TRACK]["n"]
    assert rows(packed / f"embedding/{LEDGER}.jsonl") == rows(made / "embedding/memory_calls.jsonl")
    # Users are called after it, so anybody could look for a known one.
    secret = rows(made / "embedding/memory.jsonl")[0]["secret"]
    files = [path.read_text() for path in (packed / "embedding").rglob("*.json*")]
    assert files
    assert not [text for text in files if secret in text]


def test_a_failed_check_of_admission_leaves_no_score_and_its_name(packed):
    card = card_of(packed / "swallows")
    assert card["memory"][0]["withheld"] == "k is kept (before the run)"
    scores = card["tracks"][TRACK]["scores"]
    assert {score["value"] for score in scores.values()} == {None}
    unscored = {score["unscored"] for score in scores.values()}
    assert unscored == {"not admitted: k is kept (before the run)"}
    notes = [finding.what for finding in verify(packed / "swallows", Options()).findings]
    assert "not admitted, so the system has no scores: k is kept (before the run)" in notes
    faults = [check["fault"] for check in card["memory"][0]["admission"]["before"]]
    assert any(faults)


def test_a_run_that_is_not_finished_for_another_reason_is_not_packed(made, tmp_path):
    half = Path(shutil.copytree(made / "embedding", tmp_path / "half"))
    (half / "summary.json").unlink()
    with pytest.raises(UsageError, match="not finished"):
        pack_memory(half, tmp_path / "x", "half")


def of_phase(found: list[dict[str, Any]], phase: str) -> dict[str, Any]:
    """Return the first row of a phase."""
    return next(row for row in found if row["phase"] == phase)


def first_hits(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the hits of the first search."""
    hits: list[dict[str, Any]] = of_phase(found, "search")["hits"]
    return hits


NONE_BESIDE = "memory-0/beside/none: personamem"
SCORES = "memory-0/beside/none/personamem/scores"
BEFORE = "memory.0.admission.before"
DISAGREES = "1 answer does not agree with the hits in the memory diary: "
COMPLETION = "memory.0.phases.ingest.used.completion_tokens: the card has"
REQUESTS = "memory.0.phases.admission.requests: the card has"


def halved(found: list[dict[str, Any]]) -> None:
    of_phase(found, "ingest")["seconds"] /= 2


def reworded(found: list[dict[str, Any]]) -> None:
    first_hits(found)[0]["text"] = "?"


def talkative(found: list[dict[str, Any]]) -> None:
    of_phase(found, "ingest")["completion_tokens"] = 500


def sampled(found: list[dict[str, Any]]) -> None:
    of_phase(found, "settle")["sample"] = of_phase(found, "search")["sample"]


def without(phase: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda found: found.remove(of_phase(found, phase))


ROWS = {
    "another text of a hit": (DIARY, reworded, "hits", DISAGREES),
    "a hit is gone": (DIARY, lambda found: first_hits(found).pop(), "hits", "shown something else"),
    "a search is gone": (DIARY, without("search"), "hits", "(no hits)"),
    "half the seconds": (DIARY, halved, "phases", "memory.0.phases.ingest"),
    "a sample in another phase": (DIARY, sampled, "duplicate_ids", "1 record with several rows"),
    "other tokens": (LEDGER, talkative, "phases", COMPLETION),
    "a request is gone": (LEDGER, without("admission"), "phases", REQUESTS),
    "a check is gone": (DIARY, lambda found: found[0]["checks"].pop(), "admission", BEFORE),
    "a score beside it": (SCORES, changed("0.scores.accuracy", 0.5), "row_score", NONE_BESIDE),
    "a phase that is none": (DIARY, changed("1.phase", "dream"), "row", "line 2: phase: "),
    "a field that is none": (DIARY, changed("1.extra", 1), "row", "line 2: extra: no such field"),
    "a long user": (DIARY, changed("1.user", "u" * 600), "row", "line 2: user: "),
    "no search": (DIARY, changed("1.phase", "search"), "row", "lacks sample and hits"),
    "a long line": (DIARY, changed("1.session", "x" * (1 << 20)), "row", "line 2: longer than"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "change", "code", "words"), ROWS.values(), ids=ROWS)
def test_a_changed_row_is_refused_though_all_hashes_fit(copy, data, name, change, code, words):
    forge_rows(copy, name, change)
    refused(verify(copy, Options(data=str(data))), code, words)


AHEAD, NONE = f"memory.0.ahead.{TRACK}", "memory.0.beside.none.run.settings"
ACCURACY = f"tracks.{TRACK}.scores.accuracy"
CARDS = [
    ("memory.0.phases.search.p95", 0.0, "phases", "memory.0.phases.search.p95: the card has"),
    (f"{ACCURACY}.value", 0.9, "score", "scores.accuracy.value: the card has 0.9"),
    (f"{AHEAD}.value", 0.9, "score", f"{AHEAD}.value: the card has 0.9"),
    ("memory.0.admission.after.2.name", "another check", "admission", "memory.0.admission.after"),
    ("memory", DROPPED, "memory", "is a memory system, but the submission lacks its hits"),
    (f"tracks.{TRACK}.conditions.k", 20, "memory", f"{TRACK}.conditions.k: the card has 20"),
    (f"{NONE}.model", "floor/random", "beside", "beside.none.personamem: settings.model"),
    ("memory.0.beside.placebo", DROPPED, "stray", "placebo"),
    ("memory.0.withheld", "k is kept (before the run)", "admission", "memory.0.withheld"),
    (f"tracks.{TRACK}.tokens_shown.median", 1, "score", "tokens_shown.median"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("path", "value", "code", "words"), CARDS, ids=[path for path, *_ in CARDS]
)
def test_a_changed_card_is_refused_though_its_checksum_fits(copy, data, path, value, code, words):
    forge(copy, changed(path, value))
    refused(verify(copy, Options(data=str(data))), code, words)


def test_a_hit_that_is_changed_after_packing_is_refused_by_its_hash(copy):
    path = copy / f"{DIARY}.jsonl"
    path.write_text(path.read_text().replace('"score":', '"score": ', 1))
    refused(verify(copy, Options()), "hash", "memory-0/memory.jsonl: bytes")


def test_a_failed_check_can_neither_be_taken_out_nor_be_scored(packed, data, tmp_path):
    folder = Path(shutil.copytree(packed / "swallows", tmp_path / "swallows"))

    def drop(checks):
        checks[:] = [check for check in checks if not check["fault"]]

    def admitted(card):
        drop(card["memory"][0]["admission"]["before"])
        del card["memory"][0]["withheld"]

    forge(folder, admitted)
    forge_rows(folder, DIARY, lambda found: drop(found[0]["checks"]))
    refused(verify(folder, Options(data=str(data))), "admission", "the check “k is kept” before")

    def scored(card):
        card["tracks"][TRACK]["scores"]["accuracy"].update(value=0.9, n=14)

    folder = Path(shutil.copytree(packed / "swallows", tmp_path / "again" / "swallows"))
    forge(folder, scored)
    refused(verify(folder, Options(data=str(data))), "admission", "has scores, but was not")


@pytest.mark.release
def test_answers_that_are_the_memory_itself_follow_from_the_hits_and_pages_show_those(tmp_path):
    run = make_run(tmp_path / "run", "task=extraction", "model=memory:rules")
    folder = pack_memory(run, tmp_path / "all", "direct")
    assert verify(folder).consistent
    made = build(tmp_path / "all", tmp_path / "site").out
    pages = [page.read_text() for page in (made / "records").rglob("*.html")]
    assert any("Found by its memory system" in page for page in pages)

    def other(found):
        row = next(row for row in found if row["phase"] == "memories" and row["hits"])
        row["hits"][0]["text"] = "Owns a lighthouse"

    forge_rows(folder, DIARY, other)
    refused(verify(folder), "hits", "(the reader gives another answer)")


def test_a_system_of_a_host_is_published_without_its_address(made, tmp_path):
    run = Path(shutil.copytree(made / "embedding", tmp_path / "run"))
    shutil.rmtree(run / "beside")

    def hosted(manifest):
        manifest["settings"]["memory"] = "http://memory.internal:8080/v1"
        manifest["system"]["memory"]["address"] = "memory.internal:8080"

    edit_json(run / "manifest.json", hosted)
    folder = pack_memory(run, tmp_path, "hosted")
    assert "memory.internal" not in (folder / "submission.json").read_text()
    assert card_of(folder)["system"]["model"] == "memory:http"


OTHERS = {
    "memory (bm25 and full)": {},
    "memory (bm25 and tfidf)": {"memory": "tfidf"},
    "k (5 and 2)": {"memory": "bm25", "k": 2},
    "memory_llm": {"memory": "bm25", "memory_llm": "openai/gpt-4o-mini"},
    "memory_options": {"memory": "bm25", "memory_options": {"size": "7"}},
    "model (rules and oracle)": {"memory": "bm25", "model": "oracle"},
}


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Return a run of another task, without a memory system."""
    return make_run(tmp_path_factory.mktemp("other") / "run", "task=extraction", "model=rules")


@pytest.mark.parametrize("differs", OTHERS)
def test_runs_of_different_systems_are_packed_in_no_order(differs, made, other, tmp_path):
    run = Path(shutil.copytree(other, tmp_path / "run"))
    edit_json(run / "manifest.json", lambda found: found["settings"].update(OTHERS[differs]))
    back = re.sub(r"(\w+) and (\w+)", r"\2 and \1", differs)
    for runs, named in (([made / "bm25", run], differs), ([run, made / "bm25"], back)):
        with pytest.raises(UsageError, match=f"the runs differ in {re.escape(named)}; submit"):
            pack(runs, SubmitterDetails(name="Mix", submitted=DAY), out=tmp_path / "mix")


def test_readers_that_declare_other_settings_are_of_different_systems(made, tmp_path):
    runs = [Path(shutil.copytree(made / "bm25", tmp_path / prompt)) for prompt in ("v1", "v2")]
    for run in runs:
        edit_json(run / "manifest.json", lambda found: found["settings"].update(model="python:m:S"))
        edit_json(
            run / "manifest.json", lambda found, own=run.name: found["system"].update(own=own)
        )
    with pytest.raises(UsageError, match="the runs differ in settings; submit"):
        pack(runs, SubmitterDetails(name="Mix", submitted=DAY), out=tmp_path / "mix")


@pytest.mark.parametrize(
    ("field", "value", "differs"),
    [
        ("runs.1.settings.memory", DROPPED, "memory (bm25 and full)"),
        ("runs.1.settings.k", 10, "k (5 and 10)"),
        ("runs.0.settings.memory_embedder", "hash", "memory_embedder"),
        ("runs.1.settings.model", "oracle", "model (rules and oracle)"),
        ("memory.1.settings.k1", 2.0, "settings of the memory"),
    ],
)
def test_a_card_of_runs_of_different_systems_is_refused(field, value, differs, mixed, tmp_path):
    folder = Path(shutil.copytree(mixed, tmp_path / mixed.name))
    assert "system" not in {finding.code for finding in verify(folder).findings}
    forge(folder, changed(field, value))
    refused(verify(folder), "system", differs)


@pytest.fixture(scope="module")
def mixed(made, tmp_path_factory):
    """Return one system in two tasks, packed."""
    folder = tmp_path_factory.mktemp("mixed")
    second = make_run(folder / "run", "task=extraction", "model=rules", "memory=bm25")
    runs = [made / "bm25", second]
    return pack(runs, SubmitterDetails(name="Mix", submitted=DAY), out=folder / "mix").folder


def test_systems_that_were_run_otherwise_are_never_ranked_together(boards):
    # What was not admitted has no scores, and nothing that was measured of what it showed.
    assert set(boards) == {"tfidf bm25", "alone", "swallows", "two", "embedding"}
    setups = {name: json.loads(board.key.setup) for name, board in boards.items()}
    assert setups["two"]["k"] == 2
    assert setups["embedding"]["memory_embedder"] == "hash"
    assert setups["tfidf bm25"] == {**setups["embedding"], "memory_embedder": None}
    shown = {name: setup.pop("tokens_shown", None) for name, setup in setups.items()}
    assert shown["tfidf bm25"] == shown["embedding"] != shown["alone"]
    assert shown["swallows"] is None
    assert setups["tfidf bm25"] == setups["alone"] == setups["swallows"]


@pytest.mark.parametrize(
    ("tokens", "band"),
    [(0, "0"), (1, "1"), (2, "2–2"), (128, "65–128"), (129, "129–256"), (30_895, "16385–32768")],
)
def test_systems_that_showed_as_much_are_those_between_the_same_powers_of_two(tokens, band):
    assert band_of(tokens) == band


def test_a_board_sorts_by_the_difference_from_no_memory_and_says_who_has_none(boards):
    board = boards["tfidf bm25"]
    first, second = board.standings
    (alone,), (swallows,) = boards["alone"].standings, boards["swallows"].standings
    assert board.by_difference
    assert first.ahead is not None
    assert second.ahead is not None
    assert first.ahead["value"].value >= second.ahead["value"].value
    assert first.rank is not None
    assert second.rank is not None
    assert (alone.rank, alone.ahead, alone.withheld) == (None, None, "")
    assert (swallows.rank, swallows.withheld) == (None, "k is kept (before the run)")
    assert {row.memory for row in board.beside} == {"none", "placebo"}


def test_pages_name_differences_baselines_and_failed_checks(site):
    board = (site / "personamem.html").read_text()
    for words in (
        "Δ from no memory",
        "not admitted: <bdi>k is kept (before the run)</bdi>",
        "not ranked: <bdi>no comparison run without memory</bdi>",
        "placebo: turns of another user, as many as a memory system would return",
        "reader rules, k 5, max_context_tokens none, median tokens shown ",
        "tokens shown (median)",
    ):
        assert words in board, words
    system = (site / "systems/swallows.html").read_text()
    assert "k=1 returns" in system
    assert "requests to models" in (site / "systems/embedding.html").read_text()


FIGURE = r'<data value="([^"]*)" data-from="([^"]*)"'


def test_every_figure_of_a_memory_system_stands_in_its_card(site, packed):
    pages = [site / "personamem.html", site / "systems/embedding.html", site / "systems/bm25.html"]
    seen = 0
    for page in pages:
        for value, origin in re.findall(FIGURE, page.read_text()):
            file, _, pointer = origin.partition("#")
            if not file.endswith("submission.json"):
                continue
            found = json.loads((packed / file).read_text())
            for step in pointer.split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                found = found[int(key)] if isinstance(found, list) else found[key]
            assert float(value) == found, origin
            seen += "/memory/" in pointer
    assert seen > 50


def test_downloads_have_the_difference_and_how_systems_were_run(site):
    index = json.loads((site / "data/boards.json").read_text())["boards"]
    about = next(one for one in index if one.get("memory_setup", {}).get("k") == 2)
    rows_of = json.loads((site / f"data/{about['id']}.json").read_text())["rows"]
    assert [row["section"] for row in rows_of][:2] == ["ranked", "beside"]
    assert rows_of[0]["memory"] == "bm25"
    assert rows_of[0]["ahead_n"] == about["n"]
