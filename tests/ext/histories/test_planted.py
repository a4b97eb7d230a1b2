"""Defects planted in files of each official shape, which the audit finds without a model."""

import shutil
from functools import cache

import pytest

from tests.ext.histories.sets import SAMPLES, audited, changed_sample
from tests.submissions import DROPPED, changed
from tests.tracks import alps_here

FILES = {
    "locomo": ("locomo10.json",),
    "longmemeval": ("longmemeval_oracle.json",),
    "halumem": ("HaluMem-Medium.jsonl",),
    "beam": ("100K/1/chat.json", "100K/1/probing_questions/probing_questions.json"),
    "personamem_v3": ("backend/7/threads.json", "benchmark/7/queries.csv"),
    "histories": ("histories.jsonl", "questions.jsonl"),
}
V3_POINTS = "(+) Proposes paddling or the lake.;(-) Proposes car racing or running."


def again(**other):
    """Return what puts the first row behind all rows, too."""
    return lambda rows: [*rows, {**rows[0], **other}]


def give_away(question):
    return {**question, "question": f"{question['question']} Is it {question['answer']}, no?"}


def replaced(old, new):
    def change(line):
        assert old in line
        return line.replace(old, new)

    return change


def doubled_in_longmemeval(row):
    for key in ("haystack_session_ids", "haystack_dates", "haystack_sessions"):
        row[key].append(row[key][0])
    return row


def without_evidence_in_longmemeval(row):
    for said in row["haystack_sessions"]:
        for message in said:
            message.pop("has_answer", None)
    return {**row, "answer_session_ids": ["answer_of_nobody"]}


FEBRUARY = "Feb 31, 2030, 14:00:00"
DEFECTS = {
    "locomo doubled-session": ("0.0.conversation", lambda a: {**a, "session_2": a["session_1"]}),
    "locomo impossible-date": ("0.0.conversation.session_1_date_time", "2:05 pm on 31 June, 2030"),
    "locomo impossible-date: none": ("0.0.conversation.session_1_date_time", DROPPED),
    "locomo missing-evidence": ("0.0.qa.0.evidence", ["D99:1"]),
    # Each of its histories has one question.
    "longmemeval doubled-session": ("0.0", doubled_in_longmemeval),
    "longmemeval impossible-date": ("0.0.haystack_dates.0", "2030/02/31 (Sun) 10:00"),
    "longmemeval impossible-date: of a question": ("0.0.question_date", "2030/02/31 (Sun) 10:00"),
    "longmemeval answer-in-question": ("0.0", give_away),
    "longmemeval missing-evidence": ("0.0", without_evidence_in_longmemeval),
    "longmemeval asked-too-early": ("0.0.question_date", "2001/01/01 (Mon) 10:00"),
    "halumem duplicate-question": ("0.0.sessions.0.questions", again()),
    "halumem impossible-date": ("0.0.sessions.0.start_time", FEBRUARY),
    "halumem impossible-date: of an end": ("0.0.sessions.0.end_time", FEBRUARY),
    "halumem impossible-date: a number": ("0.0.sessions.0.end_time", 7),
    "halumem missing-evidence": (
        *("0.0.sessions.0.questions.0.evidence", [{"memory_content": "Nobody said this."}]),
    ),
    "beam doubled-session": ("0", again()),
    "beam impossible-date": ("0.0.turns.0.0.time_anchor", "February-31-2030"),
    "beam missing-evidence": ("1.knowledge_update.0.source_chat_ids", [99_999]),
    # A day later, and behind another question.
    "personamem_v3 doubled-session": ("0", again(source_timestamp=1893456000 + 190_000)),
    "personamem_v3 impossible-date": ("1.2", replaced(",1893556000,", ",99999999999,")),
    "personamem_v3 impossible-date: at the beginning of the clock": ("0.0.source_timestamp", 0),
    "personamem_v3 no-answer": ("1.2", replaced(V3_POINTS, "")),
    "personamem_v3 special-mark": ("0.0.content.text", lambda text: f"{text}<|endoftext|>"),
    "histories duplicate-question": ("1", again(id="again")),
    "histories doubled-session": ("0", again(session="9", at="2030-12-01T10:00")),
    "histories impossible-date": ("0.0.at", "2030-02-31T10:00"),
    "histories impossible-date: of a question": ("1.0.at", "yesterday"),
    "histories answer-in-question": ("1.0", give_away),
    "histories missing-evidence": ("1.0.evidence", ["7:7"]),
    "histories asked-too-early": ("1.0.at", "2029-01-01T10:00"),
    "histories no-answer": ("1.0.answer", ""),
}
"""What stands at a place of the files, and what takes its place, by the set and the code."""


@cache
def codes_of_sample(name):
    return {one["code"] for one in audited(name, SAMPLES / name)["findings"]}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found_and_none_is_in_the_sample(tmp_path, defect):
    name, code = defect.partition(":")[0].split(" ")
    folder = changed_sample(tmp_path, name, FILES[name], changed(*DEFECTS[defect]))
    assert code in {one["code"] for one in audited(name, folder)["findings"]}
    assert code not in codes_of_sample(name)


def test_a_history_with_a_fault_in_several_sessions_counts_once(tmp_path):
    def mark(rows):
        for session in rows[0]:
            session["messages"][0]["text"] += "<|endoftext|>"

    folder = changed_sample(tmp_path, "histories", FILES["histories"], mark)
    (found,) = (
        one for one in audited("histories", folder)["findings"] if one["code"] == "special-mark"
    )
    assert found["count"] == found["of"] == 2


SPLITS = {
    "a size": ("beam", "1M", 0, "Audit of"),
    "a size that is not there": ("beam", "500K", 2, "no questions of BEAM of size 500K; sizes: "),
    "no size, where another one is there": ("beam", None, 2, "size 100K; sizes: 100K, 500K, 1M"),
    "no such size": ("beam", "32k", 2, "split=32k: no part of BEAM; use 100K, 500K, 1M, 10M"),
    "a set": ("halumem", "long", 0, "Audit of"),
    "the only set that is there": ("halumem", None, 0, "Audit of"),
    "a set that is not there": ("halumem", "medium", 2, "no HaluMem-Medium.jsonl in it"),
}


@pytest.mark.parametrize(("name", "split", "code", "why"), SPLITS.values(), ids=SPLITS)
def test_an_audit_is_of_the_size_or_set_that_split_names(tmp_path, name, split, code, why):
    folder = tmp_path / "set"
    shutil.copytree(SAMPLES / name, folder)
    if name == "beam":
        (folder / "100K").rename(folder / "1M")
    else:
        (folder / "HaluMem-Medium.jsonl").rename(folder / "HaluMem-Long.jsonl")
    words = () if split is None else (f"split={split}",)
    done = alps_here("data", "audit", f"task={name}", f"data={folder}", *words)
    assert (done.code, why in " ".join((done.out + done.err).split())) == (code, True), done.err


def test_files_of_ones_own_set_that_can_not_be_read_say_why_though_no_task_is_named(tmp_path):
    folder = changed_sample(tmp_path, "histories", FILES["histories"], changed("1.0.id", 1))
    said = alps_here("data", "audit", f"data={folder}").one_line
    assert "questions.jsonl, line 1, id: expected a text" in said


def test_files_of_a_named_task_that_can_not_be_read_say_why(tmp_path):
    path = tmp_path / "locomo10.json"
    path.write_text('[{"sample_id": "a", "qa": [], "conversation": {"session_1": null}}]')
    done = alps_here("data", "audit", "task=locomo", f"data={path}")
    assert done.code == 2
    assert "session_1: expected a list, got null" in " ".join(done.err.split())
