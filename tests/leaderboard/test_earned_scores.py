"""Scores that nobody earned: forged verdicts, borrowed names, unheard answers, copied gold, copied
submissions; and what can't be recomputed is not believed.
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
from alps.ext.adapters.recorded_answers import RecordedPredictions
from alps.judges.base import fingerprint_id
from alps.leaderboard.checks import Findings
from alps.leaderboard.checks.copies import answers_of, check_gold_overlap, likeness
from alps.leaderboard.commands import verify_command
from alps.leaderboard.comparison import record_scores
from alps.leaderboard.gold_data import own_track
from alps.leaderboard.packing import pack
from alps.leaderboard.site import build
from alps.leaderboard.verify import verify
from alps.run.source import open_data
from alps.schema import Prediction, read_memories
from alps.settings import RunSettings, parse_settings
from alps.tasks import load_task
from alps.tasks.extraction import TASK
from tests.conftest import ROOT
from tests.endtoend import rows, write_rows
from tests.made_submissions import synthesise
from tests.submissions import (
    SLUG,
    WHO,
    boards_in,
    card_of,
    changed,
    copied,
    forge,
    forge_rows,
    make_rules_run,
    make_run,
    page_in,
    said,
    sign,
    write_review,
)
from tests.visitors import memory_items

Card = dict[str, Any]
Rows = list[dict[str, Any]]
FULL = ROOT.parent / "shared" / "alpsbench_full"
F1 = "tracks.task1.scores.f1"


def codes(found: Any, severity: str = "serious") -> set[str]:
    """Return the kinds of what was found."""
    return {finding.code for finding in found.findings if finding.severity == severity}


def all_score(score: float) -> Callable[[Rows], object]:
    """Return a change by which every answer has this score by every metric."""

    def change(found: Rows) -> None:
        for row in found:
            row["scores"] = dict.fromkeys(row["scores"], score)

    return change


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
        judged = {"judge": parts["judge"], "judge_fingerprint": fingerprint_id(parts)}
        card["tracks"]["task1"].update(judged)

    for name in ("task3_d100", "task4_ability1"):
        shutil.rmtree(folder / name)
    forge(folder, claim)
    pair = {"gold": "g1", "predicted": "p1", "relation": "same", "reason": "", "strength": 1.0}
    judge = card_of(folder)["tracks"]["task1"]["judge_fingerprint"]
    agree = {"judge": judge, "pairs": [pair]}
    forge_rows(folder, "task1/verdicts", lambda found: [row.update(agree) for row in found])
    forge_rows(folder, "task1/scores", all_score(1.0))
    found = shelf.verify(folder)
    assert {"verdict", "row_score"} <= codes(found), found.findings
    assert "verdicts differ from the built-in judge's" in said(found, "verdict").what
    assert ("identity" in codes(found)) == (case != "as it is")
    assert not found.consistent


def test_a_floor_is_known_by_its_answers(shelf, tmp_path):
    words = ("task=extraction", "model=floor/content-free", f"data={shelf.data}")
    floor = pack([make_run(tmp_path / "run", *words)], WHO, out=tmp_path / "floor" / SLUG).folder
    assert not shelf.verify(floor).serious
    pretended = shelf.copy(tmp_path)
    forge(pretended, lambda card: card["system"].update(kind="floor", model="floor/content-free"))
    told = said(shelf.verify(pretended), "baseline").what
    assert "12 answers unlike those of floor/content-free" in told
    forge(pretended, lambda card: card["system"].update(model="floor/of-mine"))
    assert "baseline" in codes(shelf.verify(pretended))


@pytest.mark.release
def test_a_judge_that_nobody_knows_leads_no_page(honest, tmp_path):
    subs = tmp_path / "subs"
    synthesise(subs, 12, tracks=["task1"])
    copied(honest, subs / "ours")
    first, *others = boards_in(subs)
    assert [row.system.slug for row in first.standings] == ["ours"]
    assert max(len(board.standings) for board in others) > 1
    assert not any(board.judge_known or board.comparable for board in others)
    page = page_in(subs, tmp_path / "site")
    assert page.index("systems/ours.html") < page.index("unknown judge")
    asked = others[0]
    again = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 26}
    track = {"scores": {"recall": again}, "judge_fingerprint": asked.key.judge}
    reviewed = subs / asked.standings[0].system.slug
    write_review(reviewed, judge_fingerprint=asked.key.judge, tracks={"task1": track})
    first = boards_in(subs)[0]
    assert (first.id, first.judge_known, first.comparable) == (asked.id, True, True)


def unhear(folder: Path) -> None:
    """Declare the wrong answers lost, and print what follows from the others, as a run would."""

    def lose(found: Rows) -> None:
        for row in found:
            if not row["scores"].get("f1"):
                row.update(outcome="transport", stage="generate", scores={})

    forge_rows(folder, "task1/scores", lose)
    every = rows(folder / "task1" / "scores.jsonl")
    values = [row["scores"]["f1"] for row in every if row["scores"]]
    n, scored, lost = len(every), len(values), len(every) - len(values)
    score = {"value": sum(values) / scored, "low": sum(values) / scored / 2, "high": 1.0}
    score |= {"n": scored, "worst_case": sum(values) / n, "best_case": (sum(values) + lost) / n}
    forge(folder, changed(F1, score))
    forge(folder, lambda card: card["tracks"]["task1"].update(scored=scored, unscored=lost))


def answer_otherwise(folder: Path) -> None:
    """Give a submission answers of its own, so that it is no copy of another."""
    name = folder.name

    def reword(found: Rows) -> None:
        for row in found:
            value = f"{name} {row['benchmark_id']} " + f"{name}wards " * 3
            row["prediction"]["memory_items"] = memory_items(value)

    forge_rows(folder, "task1/predictions", reword)


def test_an_unheard_answer_costs_what_a_wrong_one_costs(honest, tmp_path):
    subs = tmp_path / "subs"
    unhear(copied(honest, subs / "a-cheat"))

    def better(found):
        for row in found:
            row["scores"]["f1"] = min(1.0, row["scores"]["f1"] + 0.05)

    best = copied(honest, subs / "honest", changed(f"{F1}.value", 0.12))
    forge_rows(best, "task1/scores", better)
    answer_otherwise(best)
    board = boards_in(subs)[0]
    values = {row.system.slug: row.score("f1")["value"].value for row in board.standings}
    assert values["a-cheat"] > values["honest"]
    assert [row.system.slug for row in board.standings] == ["honest", "a-cheat"]
    assert [str(row.rank) for row in board.standings] == ["1", "2"]
    page = page_in(subs, tmp_path / "site")
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


@pytest.mark.release
def test_a_row_can_not_ask_for_hours(tmp_path):
    words = ("task=extraction", "model=rules", "scoring=authors-v1")
    folder = pack([make_run(tmp_path / "run", *words)], WHO, out=tmp_path / SLUG).folder
    for values, told in (
        (["abba" * 47] * 900, "character comparisons"),
        (list(map(str, range(1_001))), "1,001 memories; an answer may have at most 1,000"),
    ):
        items = [memory.model_dump() for memory in read_memories(memory_items(*values)).memories]
        answer = {"outcome": "ok", "prediction": {"memory_items": items}}
        forge_rows(folder, "task1/predictions", lambda found, now=answer: found[0].update(now))
        started = time.process_time()
        found = verify(folder)
        assert time.process_time() - started < 30
        assert any(told in finding.what for finding in found.findings), found.findings


def test_a_track_that_takes_too_long_is_given_up_and_refused(shelf, tmp_path):
    found = shelf.verify(shelf.copy(tmp_path), seconds=0.0)
    assert said(found, "time").severity == "serious"
    assert not found.consistent


def _hidden(value: str, generator: random.Random) -> str:
    return "\u200b".join(value)


def _fewer(value: str, generator: random.Random) -> str:
    return " ".join(word for word in value.split() if generator.random() > 0.25)


def _padded(value: str, generator: random.Random) -> str:
    return f"As far as can be told from all that was said, {value} (and more of that kind)"


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


@pytest.mark.parametrize("said_so", ["{} indeed", "The user: {}"])
def test_the_gold_in_nearly_its_words_is_called_so(said_so):
    def answer(sample):
        return {"memory_items": memory_items(*(said_so.format(one.value) for one in sample.gold))}

    assert "match the gold nearly verbatim" in overlap("task1", answer)[0].what


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


MODELS = sorted(path.name for path in FULL.glob("outputs/task1/*"))


@pytest.fixture(scope="module")
def unseen():
    """Every eighth record of the whole benchmark."""
    settings = {"task": "extraction", "model": "rules", "data": str(FULL / "benchmark_data")}
    return list(open_data(parse_settings(settings, RunSettings)).tracks[0].samples())[::8]


@pytest.mark.release
@pytest.mark.skipif(not FULL.is_dir(), reason=f"no real outputs: {FULL} is not there")
@pytest.mark.parametrize("model", MODELS or [""])
def test_no_real_model_is_taken_for_one_that_saw_the_gold(unseen, model):
    system = RecordedPredictions(
        FULL / "outputs" / "task1" / model / "records.jsonl", tasks=(TASK,)
    )
    answers = [(sample, asyncio.run(system.answer(TASK, sample)).prediction) for sample in unseen]
    found = Findings()
    check_gold_overlap("x", TASK, [(s, a) for s, a in answers if a is not None], found)
    assert len(unseen) > 80
    assert not found.kept


def test_a_review_that_contradicts_takes_the_system_out_of_the_ranks(honest, tmp_path):
    subs = tmp_path / "subs"
    submitted = {"one": changed("notes", None), "two": changed(f"{F1}.value", 0.06)}
    submitted["z-high"] = changed(f"{F1}.value", 0.9)
    for name, change in submitted.items():
        answer_otherwise(copied(honest, subs / name, change))
    judge = card_of(subs / "one")["tracks"]["task1"]["judge_fingerprint"]
    for name, value in (("z-high", 0.02), ("two", 0.07)):
        again = {"value": value, "low": value - 0.02, "high": value + 0.02, "n": 26}
        track = {"scores": {"f1": again}, "judge_fingerprint": judge}
        write_review(subs / name, judge_fingerprint=judge, tracks={"task1": track})
    board = boards_in(subs)[0]
    assert [row.system.slug for row in board.standings] == ["two", "one", "z-high"]
    assert next(row.lead("f1")["value"].value for row in board.standings) == 0.07
    assert (board.standings[-1].system.status, board.standings[-1].rank) == ("refuted", None)
    page = page_in(subs, tmp_path / "site")
    assert "judged again; submitted" in page
    assert 'class="unproven">refuted<' in page
    assert verify_command([str(subs / "z-high"), "reviewed=yes"]) == 1


def test_copies_are_one_system_to_ranks_and_to_their_correction(tmp_path):
    subs = tmp_path / "subs"
    synthesise(subs, 6, tracks=["task1"])
    before = {row.system.slug: row.rank for row in boards_in(subs)[0].standings}

    def one_word_more(found, word):
        for row in found:
            for item in ((row["prediction"] or {}).get("memory_items") or [])[:1]:
                item["value"] += f" {word}"

    for n in range(8):
        folder = copied(subs / "system-003", subs / f"x-copy-{n:02}")
        forge_rows(folder, "task1/predictions", lambda found, n=n: one_word_more(found, f"copy{n}"))
    board = boards_in(subs)[0]
    after = {row.system.slug: row.rank for row in board.standings}
    assert len(after) == len(before) + 8
    assert {slug: after[slug] for slug in before} == before
    copies = {row.system.slug: row.copy_of for row in board.standings if row.copy_of}
    assert set(copies.values()) == {"system-003"}
    assert len(copies) == 8
    assert all(after[slug] == before["system-003"] for slug in copies)
    assert page_in(subs, tmp_path / "site").count("same answers as") >= 8


def test_whoever_verifies_is_told_of_the_same_answers_beside(shelf, tmp_path):
    folder = shelf.copy(tmp_path)
    assert "copy" not in codes(shelf.verify(folder), "warning")
    copied(folder, tmp_path / "another")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "submission.json").write_text("{")
    finding = said(shelf.verify(folder), "copy")
    assert finding.where == "task1/predictions.jsonl"
    alike = "the answers are identical or nearly identical to those of the submission another"
    assert finding.what.startswith(alike)


@pytest.mark.release
@pytest.mark.skipif(not FULL.is_dir(), reason=f"no real outputs: {FULL} is not there")
def test_real_models_are_not_copies_of_each_other():
    sketched = []
    for model in MODELS:
        given = []
        for row in rows(FULL / "outputs" / "task1" / model / "records.jsonl"):
            given.append({"benchmark_id": row["benchmark_id"], "prediction": row["model_output"]})
        sketched.append(answers_of(given, load_task("extraction").public))
    alike = [likeness(one, other) for n, one in enumerate(sketched) for other in sketched[n + 1 :]]
    assert len(alike) == 21
    assert max(alike) < 0.4


def invent(folder: Path, track: str, score: float = 1.0) -> None:
    """Let every score of a submission be one that looks well, and every floor as well."""

    def best(card: Card) -> None:
        there = card["tracks"][track]
        for scores in (there["scores"], *(floor["scores"] for floor in there["floors"].values())):
            for row in scores.values():
                known = [part for part in ("value", "low", "high") if row[part] is not None]
                row.update(dict.fromkeys(known, score))

    forge_rows(folder, f"{track}/scores", all_score(score))
    forge(folder, best)


def rename_data(card: Card) -> None:
    """Let the samples go by another name."""
    card["runs"][0]["data"]["name"] = card["runs"][0]["settings"]["data"] = "release"


@pytest.mark.release
def test_the_samples_under_another_name_are_still_the_samples(honest, tmp_path):
    folder = copied(honest, tmp_path / "invented", rename_data)
    finding = said(verify(folder), "data")
    assert (finding.severity, finding.where) == ("serious", "runs.0.data.name")
    invent(folder, "task1")
    assert said(verify(folder), "row_score").severity == "serious"
    assert f"{F1}.value" in {finding.where for finding in verify(folder).findings}


def test_a_score_that_was_not_recomputed_is_marked_and_below_all_ranks(honest, tmp_path):
    subs = tmp_path / "submissions"
    for name in ("one", "two"):
        copied(honest, subs / name)
    invent(copied(honest, subs / "a-stranger", rename_data), "task1")
    board = boards_in(subs)[0]
    assert [row.system.slug for row in board.standings] == ["one", "two", "a-stranger"]
    assert [str(row.rank) for row in board.standings] == ["1", "1", "None"]
    values = [floor.scores["f1"]["value"].value for floor in board.floors]
    assert values
    assert max(values) < 0.1
    site = build(subs, tmp_path / "site").out
    page = (site / "extraction.html").read_text("utf-8")
    assert page.count('class="unproven">not recomputed<') == 1
    assert "not ranked" in page
    assert "not recomputed" in (site / "systems" / "a-stranger.html").read_text("utf-8")
    assert "not recomputed" not in (site / "systems" / "one.html").read_text("utf-8")
    listed = json.loads((site / f"data/{board.id}.json").read_text())["rows"][:3]
    recomputed = {row["slug"]: row["recomputed"] for row in listed}
    assert recomputed == {"one": True, "two": True, "a-stranger": False}


def test_a_maintainer_who_saw_the_scores_come_out_lets_them_be_ranked(shelf, tmp_path):
    subs = tmp_path / "submissions"
    for name in ("one", "two"):
        copied(shelf.folder, subs / name)
    assert {row.rank for row in boards_in(subs)[0].standings} == {None}
    for name in ("one", "two"):
        assert verify_command([str(subs / name), f"data={shelf.data}", "record=yes"]) == 0
    assert [str(row.rank) for row in boards_in(subs)[0].standings] == ["1", "1"]


def as_of_a_model(card: Card) -> None:
    """Let the retrieval track be judged by a model whose verdicts stayed at home."""
    track = card["tracks"]["task3_d100"]
    track["floors"] = {}  # under a model they are not in a submission
    parts = {"judge": "openai/judge-2026-01-01", "introduction": "0" * 64, "decoding": {}}
    parts |= {"parser": "1", "repeats": 1}
    card["tracks"] = {"task3_d100": track}
    card["runs"][0] |= {"judge": {"id": fingerprint_id(parts), **parts}}
    card["runs"][0]["settings"]["judge"] = track["judge"] = parts["judge"]
    track |= {"judge_fingerprint": fingerprint_id(parts), "comparable": True}


def test_recall_is_recomputed_though_the_verdicts_are_not_there(shelf, folder):
    for name in ("task1", "task4_ability1"):
        shutil.rmtree(folder / name)
    (folder / "task3_d100" / "verdicts.jsonl").unlink()
    forge(folder, as_of_a_model)
    sign(folder)
    found = shelf.verify(folder)
    assert (found.serious, found.consistent) == (False, True), found.findings
    invent(folder, "task3_d100", 0.5)
    wrong = shelf.verify(folder)
    found = {finding.where for finding in wrong.findings}
    assert "tracks.task3_d100.scores.recall_at_1.value" in found
    assert said(wrong, "row_score").severity == "serious"


class Shy:
    """A system that says of every third record that nobody was there to answer."""

    asked = 0

    def predict(self, sample: Any) -> list[str] | Prediction:
        self.asked += 1
        if self.asked % 3 == 0:
            return Prediction(benchmark_id=sample.benchmark_id, track="task1", outcome="transport")
        return []


@pytest.mark.release
def test_a_run_that_left_out_much_is_not_packed(shelf, tmp_path):
    words = (f"model=python:{__name__}:Shy", f"data={shelf.data}", "max_failures=1")
    run = make_run(tmp_path / "run", "task=extraction", *words)
    told = r"no score for \d+ of 12 answers \(transport \d\).*"
    told += "to retry these answers, repeat the same alps run"
    with pytest.raises(UsageError, match=told):
        pack([run], WHO, out=tmp_path / SLUG)


def test_rankings_of_a_few_answers_are_told_and_stand_with_their_n(shelf, tmp_path):
    few = tmp_path / "few"
    shutil.copytree(shelf.run, few)
    found = rows(few / "predictions.jsonl")
    for row in [row for row in found if row["track"] == "task3_d100"][3:]:
        row["prediction"]["ranking"] = []
    write_rows(few / "predictions.jsonl", found)
    for name in ("verdicts.jsonl", "scores.jsonl", "summary.json"):
        (few / name).unlink()
    make_rules_run(few, shelf.data)
    packed = pack([few], WHO, out=tmp_path / "submissions" / SLUG)
    few_of_them = "only 3 of 12 answers have a ranking"
    assert said(packed.verification, "ranked").what.startswith(few_of_them)
    page = page_in(tmp_path / "submissions", tmp_path / "site", "retrieval-100")
    assert page.count('<small class="of">n <data value="3"') == 3
    assert packed.card.tracks["task3_d100"].scores["recall_at_5"].n == 3


def test_strict_f1_is_next_to_the_headline_though_the_judge_cannot_tell(honest, tmp_path):
    copied(honest, tmp_path / "all" / "honest")
    (board,) = boards_in(tmp_path / "all")
    assert board.others[0].name == "f1_strict"
    page = page_in(tmp_path / "all", tmp_path / "site")
    assert "F1, strict policy" in page
    reason = "judge lexical cannot tell &#39;narrower&#39; from &#39;same&#39;"
    assert f'title="{reason}">n/a' in page
