"""Scores that nobody earned: forged verdicts, borrowed names, unheard answers, copied gold, copied
submissions.
"""

import asyncio
import itertools
import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.judges.base import fingerprint_id
from alps.leaderboard.checks.copies import answers_of, check_gold_overlap, likeness
from alps.leaderboard.commands import rescore_command, verify_command
from alps.leaderboard.comparison import record_scores
from alps.leaderboard.findings import Findings
from alps.leaderboard.gold_data import own_track
from alps.leaderboard.packing import pack
from alps.leaderboard.ranking import Board, build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.submission import read_entry
from alps.leaderboard.verify import verify
from alps.parsing import parse_settings
from alps.run.source import open_data
from alps.schema import read_memories
from alps.settings import RunSettings
from alps.systems.recorded import RecordedPredictions
from alps.tasks import load_task
from alps.tasks.extraction import TASK
from tests.conftest import ROOT
from tests.endtoend import rows
from tests.loopback import Answer, serve
from tests.made_submissions import synthesise
from tests.submissions import SLUG, VISITORS, WHO, card_of, forge, forge_rows, make_run, said
from tests.visitors import memory_items, values_of, visitor_id

Card = dict[str, Any]
Rows = list[dict[str, Any]]
FULL = ROOT.parent / "shared" / "alpsbench_full"


def copy(source: Path, target: Path, change: Callable[[Card], object] = lambda card: None) -> Path:
    """Copy a submission under another name."""
    shutil.copytree(source, target)
    forge(target, lambda card: (card.update(slug=target.name, name=target.name), change(card)))
    return target


def boards_of(folder: Path, metric: str = "f1") -> list[Board]:
    """Return the boards of extraction, the leading one first."""
    found = build_boards(load(folder), read_references())
    return [board for board in found if (board.key.track, board.metric.name) == ("task1", metric)]


def codes(found: Any, severity: str = "serious") -> set[str]:
    """Return the kinds of what was found."""
    return {finding.code for finding in found.findings if finding.severity == severity}


JUDGES: dict[str, Callable[[Card], object]] = {
    "as it is": lambda parts: None,
    "an empty part": lambda parts: parts.update(rubrics={}),
    "a part of its own": lambda parts: parts.update(version=2),
    "another threshold": lambda parts: parts.update(threshold=0.01),
    "another code": lambda parts: parts.update(code="0" * 64),
    "another case": lambda parts: parts.update(judge="Lexical"),
    "a version in its name": lambda parts: parts.update(judge="lexical/2"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("case", JUDGES)
def test_verdicts_of_anything_called_lexical_are_made_anew(shelf, folder, case):

    def claim(card):
        parts = {name: value for name, value in card["runs"][0]["judge"].items() if name != "id"}
        JUDGES[case](parts)
        card["runs"][0]["judge"] = {"id": fingerprint_id(parts), **parts}
        card["runs"][0]["settings"]["judge"] = parts["judge"]
        card["tracks"] = {"task1": card["tracks"]["task1"]}
        card["tracks"]["task1"].update(
            judge=parts["judge"], judge_fingerprint=fingerprint_id(parts)
        )

    for name in ("task3_d100", "task4_ability1"):
        shutil.rmtree(folder / name)
    forge(folder, claim)
    pair = {"gold": "g1", "predicted": "p1", "relation": "same", "reason": "", "strength": 1.0}
    judge = card_of(folder)["tracks"]["task1"]["judge_fingerprint"]
    forge_rows(
        folder,
        "task1/verdicts",
        lambda found: [row.update(judge=judge, pairs=[pair]) for row in found],
    )
    forge_rows(
        folder,
        "task1/scores",
        lambda found: [row.update(scores=dict.fromkeys(row["scores"], 1.0)) for row in found],
    )
    found = shelf.verify(folder)
    assert {"verdict", "row_score"} <= codes(found), found.findings
    assert "verdicts differ from the built-in judge's" in said(found, "verdict").what
    assert ("identity" in codes(found)) == (case != "as it is")
    assert not found.consistent


def test_a_floor_is_known_by_its_answers(shelf, tmp_path):
    run = make_run(
        tmp_path / "run", "task=extraction", "model=floor/content-free", f"data={shelf.data}"
    )
    floor = pack([run], WHO, out=tmp_path / "floor" / SLUG).folder
    assert not shelf.verify(floor).serious
    pretended = shelf.copy(tmp_path)
    forge(pretended, lambda card: card["system"].update(kind="floor", model="floor/content-free"))
    assert (
        "12 answers unlike those of floor/content-free"
        in said(shelf.verify(pretended), "baseline").what
    )
    forge(pretended, lambda card: card["system"].update(model="floor/of-mine"))
    assert "baseline" in codes(shelf.verify(pretended))


@pytest.mark.release
def test_a_judge_that_nobody_knows_leads_no_page(honest, tmp_path):
    synthesise(tmp_path / "subs", 12, tracks=["task1"])
    copy(honest, tmp_path / "subs" / "ours")
    first, *others = boards_of(tmp_path / "subs")
    assert [row.system.slug for row in first.standings] == ["ours"]
    assert max(len(board.standings) for board in others) > 1
    assert not any(board.judge_known or board.comparable for board in others)
    page = (build(tmp_path / "subs", tmp_path / "site").out / "extraction.html").read_text("utf-8")
    assert page.index("systems/ours.html") < page.index("unknown judge")
    asked = others[0]
    score = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 26}
    review = {
        "status": "re-scored",
        "judge_fingerprint": asked.key.judge,
        "date": "2026-11-02",
        "note": None,
    }
    review["tracks"] = {
        "task1": {"scores": {"recall": score}, "judge_fingerprint": asked.key.judge}
    }
    (tmp_path / "subs" / asked.standings[0].system.slug / "review.json").write_text(
        json.dumps(review)
    )
    first = boards_of(tmp_path / "subs")[0]
    assert (first.id, first.judge_known, first.comparable) == (asked.id, True, True)


def unhear(folder: Path) -> None:
    """Declare the wrong answers lost, and print what follows from the others, as a run would."""

    def lose(found: Rows) -> None:
        for row in found:
            if not row["scores"].get("f1"):
                row.update(outcome="transport", stage="generate", scores={})

    forge_rows(folder, "task1/scores", lose)
    values = [
        row["scores"]["f1"] for row in rows(folder / "task1" / "scores.jsonl") if row["scores"]
    ]
    mean, n = sum(values) / len(values), 26

    def improve(card: Card) -> None:
        worst, best = mean * len(values) / n, (mean * len(values) + n - len(values)) / n
        score = {
            "value": mean,
            "low": mean / 2,
            "high": 1.0,
            "n": len(values),
            "worst_case": worst,
            "best_case": best,
        }
        card["tracks"]["task1"]["scores"]["f1"] = score
        card["tracks"]["task1"].update(scored=len(values), unscored=n - len(values))

    forge(folder, improve)


def test_an_unheard_answer_costs_what_a_wrong_one_costs(honest, tmp_path):
    subs = tmp_path / "subs"
    cheat = copy(honest, subs / "a-cheat")
    unhear(cheat)

    def better(found):
        for row in found:
            row["scores"]["f1"] = min(1.0, row["scores"]["f1"] + 0.05)

    best = copy(honest, subs / "honest")
    forge_rows(best, "task1/scores", better)
    forge_rows(best, "task1/predictions", lambda found: [_reword(row) for row in found])
    forge(best, lambda card: card["tracks"]["task1"]["scores"]["f1"].update(value=0.12))
    board = boards_of(subs)[0]
    values = {row.system.slug: row.score("f1")["value"].value for row in board.standings}
    assert values["a-cheat"] > values["honest"]
    assert [row.system.slug for row in board.standings] == ["honest", "a-cheat"]
    assert [str(row.rank) for row in board.standings] == ["1", "2"]
    page = (build(subs, tmp_path / "site").out / "extraction.html").read_text("utf-8")
    assert "because missing responses count as wrong" in page


@pytest.mark.parametrize(
    ("outcome", "stage", "worst"),
    [("transport", "generate", True), ("unparsable", "judge", True), ("no_gold", "judge", False)],
)
def test_what_was_not_heard_has_the_worst_score_in_tests(outcome, stage, worst):
    heard = {"benchmark_id": "a", "outcome": "ok", "stage": "score", "scores": {"f1": 0.5}}
    lost = {"benchmark_id": "b", "outcome": outcome, "stage": stage, "scores": {}}
    found = record_scores([heard, lost], [TASK.headline])["f1"]
    assert found == {"a": 0.5, **({"b": 0.0} if worst else {})}


def _reword(row: dict[str, Any]) -> None:
    row["prediction"]["memory_items"] = memory_items(
        f"Says {row['benchmark_id']} otherwise, in other terms"
    )


@pytest.mark.release
def test_a_row_can_not_ask_for_hours(tmp_path):
    words = ("task=extraction", "model=rules", "scoring=authors-v1")
    folder = pack([make_run(tmp_path / "run", *words)], WHO, out=tmp_path / SLUG).folder

    def of(*values):
        read = read_memories(memory_items(*values)).memories
        return {
            "outcome": "ok",
            "prediction": {"memory_items": [memory.model_dump() for memory in read]},
        }

    def slow(found):
        found[0].update(of(*["abba" * 47] * 900))

    def many(found):
        found[0].update(of(*map(str, range(1_001))))

    for change, words_of_it in (
        (slow, "character comparisons"),
        (many, "1,001 memories; an answer may have at most 1,000"),
    ):
        forge_rows(folder, "task1/predictions", change)
        started = time.process_time()
        found = verify(folder)
        assert time.process_time() - started < 30
        assert any(words_of_it in finding.what for finding in found.findings), found.findings


def test_a_track_that_takes_too_long_is_given_up_and_refused(shelf, tmp_path):
    found = shelf.verify(shelf.copy(tmp_path), seconds=0.0)
    assert said(found, "time").severity == "serious"
    assert not found.consistent


def _hidden(value: str, generator: random.Random) -> str:
    return "\u200b".join(value)


def _fewer(value: str, generator: random.Random) -> str:
    return " ".join(word for word in value.split() if generator.random() > 0.25)


def _padded(value: str, generator: random.Random) -> str:
    return (
        f"As far as can be told from all that was said so far, {value} (and more of that kind, as "
        "it seems)"
    )


REWORDED = {
    "as it is": lambda value, generator: value,
    "with words around it": _padded,
    "with marks that nobody sees": _hidden,
    "without every fourth word": _fewer,
    "in another order": lambda value, generator: " ".join(sorted(value.split())),
}


def overlap(track, answer):
    """Return what is found of answers to the samples of a track that hold its gold."""
    own, found = own_track(track), Findings()
    answers = [(sample, answer(sample)) for sample in own.samples.values()]
    check_gold_overlap("x", own.task, answers, found)
    return found.kept


@pytest.mark.parametrize("extra", [0, 12])
@pytest.mark.parametrize("case", REWORDED)
def test_gold_is_found_in_whatever_words_and_company_it_comes(case, extra):
    generator = random.Random(0)

    def answer(sample):
        values = [REWORDED[case](memory.value, generator) for memory in sample.gold]
        said_there = [turn.text[:150] for turn in sample.dialogue if turn.text][:extra]
        return {"memory_items": memory_items(*values, *said_there)}

    (finding,) = overlap("task1", answer)
    assert finding.severity == "warning"
    assert "(chance of this result: 1 in 10^" in finding.what


def shortened(sample):
    values = [f"In short: {memory.value}, I think" for memory in sample.gold]
    return {"memory_items": memory_items(*values)}


def told(sample):
    return {"answer": f"Certainly! As I know that {sample.gold.memory}, I would see what comes."}


@pytest.mark.parametrize(
    ("track", "answer"), [("task2", shortened), ("task4_ability1", told), ("task4_ability3", told)]
)
def test_padded_gold_is_found_on_other_tasks(track, answer):
    assert "chance of this result: 1 in 10^" in overlap(track, answer)[0].what


@pytest.mark.parametrize(("wrong", "flagged"), [(0, True), (1, True), (3, False)])
def test_a_wrong_choice_does_not_silence_that_all_others_are_right(wrong, flagged):
    numbers = itertools.count()

    def choose(sample):
        return {"selected_memory_id": sample.gold if next(numbers) >= wrong else ""}

    found = overlap("task3_d100", choose)
    assert [finding.code for finding in found] == ["near_gold"] * flagged
    assert all(f"{72 - wrong} of 72 choices match the gold" in finding.what for finding in found)


def first_alone(names):
    """Mark all cases but the first as what only a release needs."""
    first, *others = sorted(names) or [""]
    return [first, *(pytest.param(name, marks=pytest.mark.release) for name in others)]


@pytest.fixture(scope="module")
def unseen():
    """Every eighth record of the whole benchmark."""
    settings = {"task": "extraction", "model": "rules", "data": str(FULL / "benchmark_data")}
    return list(open_data(parse_settings(settings, RunSettings)).tracks[0].samples())[::8]


@pytest.mark.release
@pytest.mark.skipif(not FULL.is_dir(), reason=f"no real outputs: {FULL} is not there")
@pytest.mark.parametrize("model", first_alone(path.name for path in FULL.glob("outputs/task1/*")))
def test_no_real_model_is_taken_for_one_that_saw_the_gold(unseen, model):
    system = RecordedPredictions(FULL / "outputs" / "task1" / model / "records.jsonl", task=TASK)
    answers = [(sample, asyncio.run(system.answer(TASK, sample)).prediction) for sample in unseen]
    found = Findings()
    check_gold_overlap("x", TASK, [(s, a) for s, a in answers if a is not None], found)
    assert len(unseen) > 80
    assert not found.kept


def judged_by_agreement(body: dict[str, Any]) -> Answer:
    """Answer as a judge who finds every memory in every prediction."""
    same = [
        {"reason": "x", "gold": f"g{n}", "predicted": f"p{n}", "relation": "same"} for n in (1, 2)
    ]
    return Answer(json.dumps({"pairs": same}))


@pytest.fixture
def inflated(shelf, tmp_path, monkeypatch):
    """A submission whose LLM judge, at the submitter's own endpoint, agreed to everything."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "cache"))
    answers = tmp_path / "answers.jsonl"
    said_of = {
        visitor_id(n): memory_items(values_of(n)[0], "Owns three yachts") for n in range(VISITORS)
    }
    lines = [
        json.dumps({"benchmark_id": name, "memory_items": items}) for name, items in said_of.items()
    ]
    answers.write_text("\n".join(lines) + "\n")
    with serve(judged_by_agreement) as server:
        words = ("task=extraction", f"model=predictions:{answers}", f"data={shelf.data}")
        judge = ("judge=openai/scripted-judge", f"judge_api_base={server.url}")
        run = make_run(tmp_path / "run", *words, *judge, "judge_max_tokens=900")
    packed = pack([run], WHO, out=tmp_path / "subs" / SLUG)
    assert packed.card.tracks["task1"].scores["f1"].value == 1.0
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    monkeypatch.setenv("ALPS_CACHE", str(tmp_path / "another"))
    return packed.folder


def strict(body: dict[str, Any]) -> Answer:
    """Answer as a judge who finds the first memory alone."""
    same = [{"reason": "x", "gold": "g1", "predicted": "p1", "relation": "same"}]
    return Answer(json.dumps({"pairs": same}))


@pytest.mark.release
def test_a_second_judgement_under_the_same_judge_refutes_what_it_contradicts(
    inflated, shelf, tmp_path, capsys
):
    with serve(strict) as server:
        judge = (
            "judge=openai/scripted-judge",
            f"judge_api_base={server.url}",
            "judge_max_tokens=900",
        )
        words = [
            str(inflated),
            *judge,
            f"data={shelf.data}",
            f"out={tmp_path / 'work'}",
            "max_total_tokens=1000000",
        ]
        assert rescore_command(words) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "refuted: extraction, F1" in told
    assert "submitted 1.000, judged again 0.500" in told
    found = read_entry(inflated).review
    assert found.status == "refuted"
    assert found.tracks["task1"].scores["f1"].value == pytest.approx(0.5)
    assert "refuted" in codes(shelf.verify(inflated, reviewed=True))
    (system,) = load(inflated.parent)
    assert system.status == "refuted"


def test_a_review_that_contradicts_takes_the_system_out_of_the_ranks(honest, tmp_path):
    subs = tmp_path / "subs"
    for name in ("one", "two", "z-high"):
        folder = copy(honest, subs / name)
        forge_rows(
            folder,
            "task1/predictions",
            lambda found, name=name: [_named(row, name) for row in found],
        )
    for name, again in (("z-high", 0.02), ("two", None)):
        forge(
            subs / name,
            lambda card, again=again: card["tracks"]["task1"]["scores"]["f1"].update(
                value=0.9 if again else 0.06
            ),
        )
    review(subs / "z-high", 0.02)
    review(subs / "two", 0.07)
    board = boards_of(subs)[0]
    assert [row.system.slug for row in board.standings] == ["two", "one", "z-high"]
    assert next(row.lead("f1")["value"].value for row in board.standings) == 0.07
    assert (board.standings[-1].system.status, board.standings[-1].rank) == ("refuted", None)
    page = (build(subs, tmp_path / "site").out / "extraction.html").read_text("utf-8")
    assert "judged again; submitted" in page
    assert 'class="unproven">refuted<' in page
    assert verify_command([str(subs / "z-high"), "reviewed=yes"]) == 1


def _named(row: dict[str, Any], name: str) -> None:
    row["prediction"]["memory_items"] = memory_items(
        f"{name} {row['benchmark_id']} " + f"{name}wards " * 3
    )


def review(folder: Path, value: float) -> None:
    """Write what a maintainer found under the submission's own judge."""
    judge = card_of(folder)["tracks"]["task1"]["judge_fingerprint"]
    score = {"value": value, "low": value - 0.02, "high": value + 0.02, "n": 26}
    found = {"status": "re-scored", "judge_fingerprint": judge, "date": "2026-11-02", "note": None}
    found["tracks"] = {"task1": {"scores": {"f1": score}, "judge_fingerprint": judge}}
    (folder / "review.json").write_text(json.dumps(found))


def test_a_second_judgement_names_tokens_and_needs_a_cap(inflated, shelf, tmp_path, capsys):
    with serve(strict) as server:
        judge = ("judge=openai/scripted-judge", f"judge_api_base={server.url}")
        words = [str(inflated), *judge, f"data={shelf.data}", f"out={tmp_path / 'work'}"]
        with pytest.raises(
            UsageError,
            match=r"up to 24 calls, at least [\d,]+ tokens; allow and limit these requests",
        ):
            rescore_command(words)
        assert "no request sent yet" in capsys.readouterr().out
        assert rescore_command([*words, "dry_run=yes"]) == 0
        out = capsys.readouterr().out
        assert not server.requests
    assert "judge" in out
    assert "up to 24" in out
    assert not (tmp_path / "work").exists()
    assert not (inflated / "review.json").exists()


def test_copies_are_one_system_to_ranks_and_to_their_correction(tmp_path):
    subs = tmp_path / "subs"
    synthesise(subs, 6, tracks=["task1"])
    before = {row.system.slug: row.rank for row in boards_of(subs)[0].standings}
    for number in range(8):
        folder = copy(subs / "system-003", subs / f"x-copy-{number:02}")
        forge_rows(
            folder,
            "task1/predictions",
            lambda found, number=number: _one_word_more(found, f"copy{number}"),
        )
    board = boards_of(subs)[0]
    after = {row.system.slug: row.rank for row in board.standings}
    assert len(after) == len(before) + 8
    assert {slug: after[slug] for slug in before} == before
    copies = {row.system.slug: row.copy_of for row in board.standings if row.copy_of}
    assert set(copies.values()) == {"system-003"}
    assert len(copies) == 8
    assert all(after[slug] == before["system-003"] for slug in copies)
    page = (build(subs, tmp_path / "site").out / "extraction.html").read_text("utf-8")
    assert page.count("same answers as") >= 8


def _one_word_more(found: Rows, word: str) -> None:
    for row in found:
        items = (row["prediction"] or {}).get("memory_items") or []
        for item in items[:1]:
            item["value"] += f" {word}"


def test_whoever_verifies_is_told_of_the_same_answers_beside(shelf, tmp_path):
    folder = shelf.copy(tmp_path)
    assert "copy" not in codes(shelf.verify(folder), "warning")
    copy(folder, tmp_path / "another")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "submission.json").write_text("{")
    finding = next(finding for finding in shelf.verify(folder).findings if finding.code == "copy")
    assert finding.where == "task1/predictions.jsonl"
    assert finding.what.startswith(
        "the answers are identical or nearly identical to those of the submission another"
    )


@pytest.mark.release
@pytest.mark.skipif(not FULL.is_dir(), reason=f"no real outputs: {FULL} is not there")
def test_real_models_are_not_copies_of_each_other():
    sketched = []
    for path in sorted(FULL.glob("outputs/task1/*/records.jsonl")):
        found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        given = [
            {"benchmark_id": row["benchmark_id"], "prediction": row["model_output"]}
            for row in found
        ]
        sketched.append(answers_of(given, load_task("extraction").public))
    alike = [likeness(one, other) for n, one in enumerate(sketched) for other in sketched[n + 1 :]]
    assert len(alike) == 21
    assert max(alike) < 0.4
