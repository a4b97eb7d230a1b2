"""Runs on sets: offline, behind memories, by a judge that is scripted, and their audit."""

import json
import shlex

import pytest

from alps.run.opened import open_run
from tests.endtoend import write_rows
from tests.ext.histories.sets import (
    SETS,
    Script,
    book,
    changed_sample,
    judged_by,
    read_by,
    run,
)
from tests.loopback import serve
from tests.submissions import changed
from tests.tracks import alps_here, track_of


@pytest.fixture(scope="module")
def locomo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locomo") / "out"
    done = run(folder, "locomo")
    assert done.code == 0, done.err
    return folder, done.out


def test_a_run_offline_is_admitted_and_says_what_it_was_of(locomo):
    folder, printed = locomo
    assert "memory admitted (24 of 24)" in " ".join(printed.split())
    shown = alps_here("show", str(folder)).out
    assert "locomo: 24 questions about 3 histories, sha256" in shown
    summary = open_run(folder).summary
    assert [check.fault for check in summary.admission] == [""] * 24
    held = summary.parts["histories"]["locomo"]
    assert (held["questions"], held["answerable"], held["sound"]) == (24, 20, 24)
    track = track_of(folder, "locomo")
    assert track["scores"]["f1"]["n"] == 24
    assert track["scores"]["f1_1_to_4"]["n"] == 20
    assert track["memory"] == "bm25"


def test_no_memory_all_of_it_bm25_and_the_evidence_are_compared(locomo):
    folder, _ = locomo
    done = alps_here("memory", "compare", str(folder), "format=json")
    assert done.code == 0, done.err
    rows = {row["memory"]: row for row in json.loads(done.out)["tracks"]["locomo"]["rows"]}
    assert {"none", "full", "bm25", "oracle", "placebo", "refusal"} <= rows.keys()
    score = {name: row["score"]["value"] for name, row in rows.items()}
    assert score["oracle"] > score["bm25"] > score["placebo"]
    assert rows["none"]["tokens"] == 0


# What it is that a system is behind is no matter here: the whole history takes no admission.
@pytest.mark.few(3)
@pytest.mark.parametrize("name", SETS)
def test_every_set_runs_offline_and_its_records_are_shown(tmp_path, name):
    done = run(tmp_path / "out", name, "memory=oracle" if name == "beam" else "memory=full")
    assert done.code == 0, done.err
    entry = book(name).entries[0]
    shown = alps_here("show", str(tmp_path / "out"), entry.question.id)
    assert shown.code == 0, shown.err
    assert entry.question.text[:40] in shown.out
    assert alps_here("report", str(tmp_path / "out"), f"out={tmp_path / 'page.html'}").code == 0


PUBLISHED = {
    "beam": {"half_marks": 1.0, "half_marks_mean": 1.0},
    "halumem": {"correct": 1.0, "hallucination": 0.0, "omission": 0.0},
    "histories": {},
    "locomo": {"generous": 1.0},
    "longmemeval": {"by_type": 1.0, "by_type_mean": 1.0, "by_type_absent": 1.0},
    "personamem_v3": {},
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "authors"), list(PUBLISHED.items()))
def test_right_answers_are_right_by_both_judgements(tmp_path, monkeypatch, name, authors):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    script = Script(name)
    with serve(script) as server:
        done = run(tmp_path / "out", name, *read_by(server), *judged_by(server))
    assert done.code == 0, done.err
    scores = track_of(tmp_path / "out", name)["scores"]
    expected = {"right": 1.0, "answerable": 1.0, **authors}
    expected |= {"authors_sound": 1.0} if authors else {}
    if name != "personamem_v3":
        expected["abstention"] = 1.0
    assert {key: scores[key]["value"] for key in expected} == expected
    # One prompt for all questions, with the time of each hit.
    assert all(payload["memories"][0].startswith("[") for payload in script.asked)
    assert not any("kind" in payload or "answer" in payload for payload in script.asked)


@pytest.mark.release
def test_half_a_mark_counts_for_us_and_not_as_beams_code_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    script = Script("beam")

    def half(body):
        answer = script(body)
        if '"mark": 2' in (answer.text or ""):
            return type(answer)('{"reason": "a part", "mark": 1}')
        return answer

    with serve(half) as server:
        assert run(tmp_path / "out", "beam", *read_by(server), *judged_by(server)).code == 0
    scores = track_of(tmp_path / "out", "beam")["scores"]
    assert scores["half_marks_mean"]["value"] == 0.5
    # Nine abilities have nothing, and the tenth has the order of the lines alone.
    assert 0 < scores["authors"]["value"] <= 0.1


def test_samples_have_no_serious_defect():
    for name in SETS:
        done = alps_here("data", "audit", f"task={name}", "data=samples")
        assert (done.code, "Nothing serious" in done.out) == (0, True), done.out


def test_unsound_questions_are_scored_and_left_out_of_the_sound_part(tmp_path):
    again = changed("0", lambda rows: [*rows, {**rows[0], "id": "again"}])
    data = changed_sample(tmp_path, "histories", ["questions.jsonl"], again)
    words = (f"data={data}", "model=oracle", "memory=none")
    assert run(tmp_path / "out", "histories", *words).code == 0
    scores = track_of(tmp_path / "out", "histories")["scores"]
    assert scores["right"]["n"] == scores["sound"]["n"] + 1


def test_a_question_without_a_gold_is_unscored_and_counted(tmp_path):
    lacking = changed("0", lambda rows: [*rows, {**rows[0], "id": "x", "answer": ""}])
    data = changed_sample(tmp_path, "histories", ["questions.jsonl"], lacking)
    words = (f"data={data}", "model=oracle", "memory=none")
    done = run(tmp_path / "out", "histories", *words, "max_failures=1")
    assert done.code == 0, done.err
    track = track_of(tmp_path / "out", "histories")
    assert (track["unscored"], track["failed_judgements"]) == (1, {"no_gold": 1})
    told = f"histories: 1 of {track['n']} questions without a gold answer, so unscored"
    shown = alps_here("show", str(tmp_path / "out")).out
    assert all(told in " ".join(text.split()) for text in (done.out, shown))


UNDATED = {
    "one of several": ("0.0.at", ""),
    "a text that is no time": ("0.0.at", "3 June 2030"),
}


@pytest.mark.parametrize(("place", "at"), UNDATED.values(), ids=UNDATED)
def test_times_that_a_memory_does_not_get_are_told(tmp_path, place, at):
    data = changed_sample(tmp_path, "histories", ["histories.jsonl"], changed(place, at))
    done = run(tmp_path / "out", "histories", f"data={data}")
    assert done.code == 0, done.err
    told = (
        "histories: 1 history has a session without a valid time, so a memory system gets none "
        "of their times; alps data audit lists them (impossible-date)"
    )
    shown = alps_here("show", str(tmp_path / "out")).out
    assert all(told in " ".join(text.split()) for text in (done.out, shown))


def test_a_set_without_any_time_lacks_none(tmp_path):
    def undated(rows):
        for session in rows[0]:
            session.pop("at", None)

    data = changed_sample(tmp_path, "histories", ["histories.jsonl"], undated)
    done = run(tmp_path / "out", "histories", f"data={data}")
    assert (done.code, "without a valid time" in done.out) == (0, False), done.err


UNRATED = {
    "a guide, by words": ("longmemeval", (), 'judge lexical cannot rate "scoring": "guided"'),
    "in ones own form": ("histories", (), 'judge lexical cannot rate "scoring": "guided"'),
    "in every repeat": (
        "histories", ("repeats=3",), 'judge lexical cannot rate "scoring": "guided"'
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "words", "why"), UNRATED.values(), ids=UNRATED)
def test_every_answer_that_the_headline_leaves_out_has_a_reason(tmp_path, name, words, why):
    done = run(tmp_path / "out", name, "model=oracle", "memory=none", *words)
    assert done.code == 0, done.err
    track = track_of(tmp_path / "out", name)
    left_out = track["scored"] - track["scores"]["right"]["n"]
    assert left_out == (3 if words else 1)
    told = f"{name}: {left_out} of {track['n']} answers not rated: {why}; use an LLM judge"
    shown = alps_here("show", str(tmp_path / "out")).out
    assert all(told in " ".join(text.split()) for text in (done.out, shown))


def test_keys_of_sets_are_refused_elsewhere_by_name(tmp_path):
    done = run(tmp_path / "out", "extraction", "set=s", "memory=full")
    assert done.code == 2
    users = "beam, halumem, histories, locomo, longmemeval, personamem_v3, halumem_extraction"
    assert f"set=s: only tasks {users}, halumem_update use set=" in " ".join(done.err.split())


def test_an_unknown_task_is_told_the_sets_too(tmp_path):
    done = run(tmp_path / "out", "longmemevall")
    assert (done.code, "did you mean 'longmemeval'?" in done.err) == (2, True)


def scored_as_recorded(tmp_path, opened, name, answers):
    """Import answers to each question as `alps import` writes them, and score them as recorded."""
    rows = []
    for entry, answer in zip(opened.entries, answers, strict=True):
        question = entry.question
        row = {"system": "theirs", "part": "", "conversation": question.history, "repeat": 0}
        row |= {"id": "x", "category": question.kind, "question": question.text}
        rows.append({**row, "gold": question.answer, "answer": "Anything", **answer})
    (tmp_path / "imported").mkdir()
    write_rows(tmp_path / "imported" / "answers.jsonl", rows)
    # As `alps import` writes it for the format of the set.
    summary = {"format": {"locomo": "mem0"}.get(name, name)}
    (tmp_path / "imported" / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    theirs = tmp_path / "theirs"
    made = (f"imported={tmp_path / 'imported'}", f"out={theirs}")
    written = alps_here("data", "answers", f"task={name}", *made)
    assert (written.code, "match no question" not in written.out) == (0, True), written.err
    words = (f"model=predictions:{theirs / 'answers.jsonl'}", "memory=full", "max_failures=1")
    judge = f"judge=recorded:{theirs / 'verdicts.jsonl'}"
    assert run(tmp_path / "out", name, *words, judge).code == 0
    return track_of(tmp_path / "out", name)["scores"]


RECORDED = {
    "by the words of questions": ("locomo", False, "generous"),
    "by their ids": ("longmemeval", True, "by_type"),
}


@pytest.mark.parametrize(("name", "has_ids", "metric"), RECORDED.values(), ids=RECORDED)
def test_recorded_answers_have_the_recorded_score_and_none_of_ours(tmp_path, name, has_ids, metric):
    opened = book(name)
    answers, judged = [], []
    for place, entry in enumerate(opened.entries):
        # Of one nobody gave a verdict.
        score = None if place == 0 else float(place % 3 == 0)
        answers.append({"id": entry.question.id if has_ids else f"x{place}", "score": score})
        if score is not None and not (name == "locomo" and entry.question.abstains):
            judged.append(score)
    scores = scored_as_recorded(tmp_path, opened, name, answers)
    assert scores[metric]["n"] == len(judged)
    assert scores[metric]["value"] == pytest.approx(sum(judged) / len(judged))
    assert scores["right"]["value"] is None


def test_recorded_outcomes_give_halumems_three_rates(tmp_path):
    opened = book("halumem")
    outcomes = ("correct", "hallucination", "omission", "hallucination")
    answers = []
    for place, _ in enumerate(opened.entries):
        answer = {"id": f"x{place}", "outcome": outcomes[place % 4], "score": float(place % 4 == 0)}
        answers.append(answer)
    scores = scored_as_recorded(tmp_path, opened, "halumem", answers)
    given = [answer["outcome"] for answer in answers]
    for name in ("correct", "hallucination", "omission"):
        assert scores[name]["value"] == pytest.approx(given.count(name) / len(given))


NOT_PUT = {
    "no such folder": ("nowhere", (), "no answers.jsonl; create it with alps import"),
    "of another set": ("other", (), "no answer matches a question of locomo"),
    "of two systems": ("two", (), "several systems (a, b); set system="),
    "of no such system": ("two", ("system=zz",), "system=zz: no such system in"),
    "and says which there are": ("two", ("system=zz",), "(known: a, b)"),
}


@pytest.mark.parametrize(("folder", "words", "why"), NOT_PUT.values(), ids=NOT_PUT)
def test_answers_that_can_not_be_put_to_questions_are_refused(tmp_path, folder, words, why):
    row = {"system": "a", "id": "1", "conversation": "0", "question": "Who?", "repeat": 0}
    rows = {"other": [row], "two": [row, {**row, "system": "b"}]}
    for name, own in rows.items():
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "answers.jsonl", own)
    made = (f"imported={tmp_path / folder}", f"out={tmp_path / 'theirs'}")
    done = alps_here("data", "answers", "task=locomo", *made, *words)
    assert (done.code, why in " ".join(done.err.split())) == (2, True), done.err


def own_results(folder, **changed):
    """Write answers to the questions of the LoCoMo samples as rows with verdicts of somebody."""
    made = []
    for place, entry in enumerate(book("locomo").entries):
        question = entry.question
        row = {"question": question.text, "golden_answer": question.answer, "category": "4"}
        row |= {"conversation_id": question.history, "response": "Anything"}
        made.append(row | {"correct": place % 2 == 0} | changed)
    write_rows(folder / "theirs.jsonl", made)
    return folder / "theirs.jsonl"


WHOSE = {
    "any project's": ("rows", {}, (), False),
    "Mem0's": ("mem0", {}, (), True),
    "a field beside Mem0's": ("mem0", {"mine": 1}, ("verdict=mine",), False),
    "Mem0's without a summary": ("mem0", {}, (), None),
}


@pytest.mark.parametrize(("form", "more", "words", "theirs"), WHOSE.values(), ids=WHOSE)
def test_a_verdict_gets_no_name_of_a_judge_that_did_not_give_it(
    tmp_path, form, more, words, theirs
):
    path = own_results(tmp_path, **more)
    if form == "mem0":
        by_history = {}
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            own = {**row, "answer": row["golden_answer"], "llm_score": int(row["correct"])}
            by_history.setdefault(row["conversation_id"], []).append(own)
        path.write_text(json.dumps(by_history), encoding="utf-8")
    done = alps_here("import", form, str(path), f"out={tmp_path / 'in'}", *words)
    assert done.code == 0, done.err
    if theirs is None:
        (tmp_path / "in" / "summary.json").unlink()
    out = tmp_path / "a b"
    done = alps_here("data", "answers", "task=locomo", f"imported={tmp_path / 'in'}", f"out={out}")
    assert done.code == 0, done.err
    told = " ".join(done.out.split())
    assert (out / "verdicts.jsonl").exists() == bool(theirs)
    left_out = "verdicts left out because they are not known to be those of 'Mem0's" in told
    assert left_out != bool(theirs)
    settings = shlex.split(told.partition("To score: ")[2])
    judge = f"judge=recorded:{out / 'verdicts.jsonl'}" if theirs else "judge=PROVIDER/MODEL"
    assert settings == [f"model=predictions:{out / 'answers.jsonl'}", judge]
    assert "whose gold is not that of the data" not in told


def test_another_gold_is_told_and_nothing_is_overwritten(tmp_path):
    path = own_results(tmp_path, golden_answer="zzz")
    made = f"imported={tmp_path / 'in'}"
    assert alps_here("import", "rows", str(path), f"out={tmp_path / 'in'}").code == 0
    done = alps_here("data", "answers", "task=locomo", made, f"out={tmp_path / 'out'}")
    answerable = sum(not one.question.abstains for one in book("locomo").entries)
    told = f"answers whose gold is not that of the data: {answerable}"
    assert told in " ".join(done.out.split())
    before = (tmp_path / "out" / "answers.jsonl").read_bytes()
    for out in ("out", "in"):
        again = alps_here("data", "answers", "task=locomo", made, f"out={tmp_path / out}")
        assert (again.code, "already exists" in again.err) == (2, True)
    assert (tmp_path / "out" / "answers.jsonl").read_bytes() == before
