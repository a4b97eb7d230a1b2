"""Defects planted in files of each official shape, which the audit finds without a model."""

import json
import shutil

import pytest

from tests.ext.histories.test_readers import SAMPLES
from tests.tracks import alps_here


class Locomo:
    file = "locomo10.json"

    def change(self, rows):
        self.said, self.qa = rows[0]["conversation"], rows[0]["qa"]
        return self

    def duplicate_question(self):
        self.qa.append(dict(self.qa[0]))

    def doubled_session(self):
        self.said["session_2"] = self.said["session_1"]

    def impossible_date(self):
        self.said["session_1_date_time"] = "2:05 pm on 31 February, 2030"

    def answer_in_question(self):
        self.qa[0]["question"] += f" Was it {self.qa[0]['answer']}?"

    def missing_evidence(self):
        self.qa[0]["evidence"] = ["D99:1"]


class LongMemEval:
    """Of which each history has one question."""

    file = "longmemeval_oracle.json"

    def change(self, rows):
        self.row, self.rows = rows[0], rows
        return self

    def doubled_session(self):
        for key in ("haystack_session_ids", "haystack_dates", "haystack_sessions"):
            self.row[key].append(self.row[key][0])

    def impossible_date(self):
        self.row["haystack_dates"][0] = "2030/02/31 (Sun) 10:00"

    def answer_in_question(self):
        self.row["question"] += f" Is it {self.row['answer']}, and nothing else?"

    def missing_evidence(self):
        for said in self.row["haystack_sessions"]:
            for message in said:
                message.pop("has_answer", None)
        self.row["answer_session_ids"] = ["answer_of_nobody"]

    def asked_too_early(self):
        self.row["question_date"] = "2001/01/01 (Mon) 10:00"


class HaluMem:
    file = "HaluMem-Medium.jsonl"

    def change(self, rows):
        self.sessions = rows[0]["sessions"]
        self.questions = self.sessions[0]["questions"]
        return self

    def duplicate_question(self):
        self.questions.append(dict(self.questions[0]))

    def doubled_session(self):
        self.sessions[1]["dialogue"] = self.sessions[0]["dialogue"]

    def impossible_date(self):
        self.sessions[0]["start_time"] = "Feb 31, 2030, 14:00:00"

    def answer_in_question(self):
        self.questions[0]["question"] += f" Is it {self.questions[0]['answer']}?"

    def missing_evidence(self):
        self.questions[0]["evidence"] = [{"memory_content": "Nobody said this."}]


class Beam:
    file = "100K/1/chat.json"
    asked = "100K/1/probing_questions/probing_questions.json"

    def change(self, chat, asked):
        self.chat, self.asked_of = chat, asked
        self.question = asked["knowledge_update"][0]
        return self

    def duplicate_question(self):
        self.asked_of["knowledge_update"].append(dict(self.question))

    def doubled_session(self):
        self.chat.append(self.chat[0])

    def impossible_date(self):
        self.chat[0]["turns"][0][0]["time_anchor"] = "February-31-2030"

    def answer_in_question(self):
        self.question["question"] += f" Is it {self.question['answer']}?"

    def missing_evidence(self):
        self.question["source_chat_ids"] = [99_999]


class PersonaMem:
    """Whose questions are judged by points, and name no evidence."""

    file = "backend/7/threads.json"
    asked = "benchmark/7/queries.csv"

    def change(self, events, questions):
        self.events, self.questions = events, questions
        return self

    def duplicate_question(self):
        again = self.questions[2].replace("7:0000:chat_1", "7:0009:chat_9")
        self.questions.append(again)

    def doubled_session(self):
        # A day later, and behind another question.
        self.events.append({**self.events[0], "source_timestamp": 1893456000 + 190_000})

    def impossible_date(self):
        self.questions[2] = self.questions[2].replace(",1893556000,", ",99999999999,")

    def no_answer(self):
        rubric = "(+) Proposes paddling or the lake.;(-) Proposes car racing or running."
        self.questions[2] = self.questions[2].replace(rubric, "")

    def special_mark(self):
        self.events[0]["content"]["text"] += "<|endoftext|>"


SETS = {"locomo": Locomo, "longmemeval": LongMemEval, "halumem": HaluMem, "beam": Beam}
SETS |= {"personamem_v3": PersonaMem}
CODES = (
    *("duplicate-question", "doubled-session", "impossible-date"),
    *("answer-in-question", "missing-evidence", "asked-too-early", "no-answer", "special-mark"),
)


def cases():
    for name, kind in SETS.items():
        for code in CODES:
            method = code.replace("-", "_")
            if hasattr(kind, method):
                yield pytest.param(name, code, id=f"{name} {code}")


def rows_in(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return text.splitlines()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def write(path, rows):
    if path.suffix == ".json":
        text = json.dumps(rows)
    else:
        text = "".join((row if path.suffix == ".csv" else json.dumps(row)) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("name", "code"), list(cases()))
def test_a_planted_defect_is_found_in_the_official_shape(tmp_path, name, code):
    folder = tmp_path / "set"
    shutil.copytree(SAMPLES / name, folder)
    kind = SETS[name]()
    paths = [folder / kind.file, *([folder / kind.asked] if hasattr(kind, "asked") else [])]
    rows = [rows_in(path) for path in paths]
    getattr(kind.change(*rows), code.replace("-", "_"))()
    for path, changed in zip(paths, rows, strict=True):
        write(path, changed)
    done = alps_here("data", "audit", f"task={name}", f"data={folder}", "format=json")
    found = {one["code"] for one in json.loads(done.out)["findings"]}
    assert code in found
    before = alps_here("data", "audit", f"task={name}", f"data={SAMPLES / name}", "format=json")
    assert code not in {one["code"] for one in json.loads(before.out)["findings"]}


UNDATED = {
    "a session without a date among others": (
        "locomo",
        Locomo.file,
        lambda rows: rows[0]["conversation"].pop("session_1_date_time"),
    ),
    "a question asked on no day": (
        "longmemeval",
        LongMemEval.file,
        lambda rows: rows[0].update(question_date="2030/02/31 (Sun) 10:00"),
    ),
    "questions after a session without an end": (
        "halumem",
        HaluMem.file,
        lambda rows: rows[0]["sessions"][0].update(end_time="Feb 31, 2030, 14:00:00"),
    ),
    "an event at the beginning of the clock": (
        "personamem_v3",
        PersonaMem.file,
        lambda rows: rows[0].update(source_timestamp=0),
    ),
}


@pytest.mark.parametrize(("name", "file", "change"), UNDATED.values(), ids=UNDATED)
def test_what_has_no_date_among_what_has_is_found(tmp_path, name, file, change):
    shutil.copytree(SAMPLES / name, tmp_path / "set")
    rows = rows_in(tmp_path / "set" / file)
    change(rows)
    write(tmp_path / "set" / file, rows)
    done = alps_here("data", "audit", f"task={name}", f"data={tmp_path / 'set'}", "format=json")
    assert "impossible-date" in {one["code"] for one in json.loads(done.out)["findings"]}


def test_files_of_a_named_task_that_can_not_be_read_say_why(tmp_path):
    path = tmp_path / "locomo10.json"
    path.write_text('[{"sample_id": "a", "qa": [], "conversation": {"session_1": null}}]')
    done = alps_here("data", "audit", "task=locomo", f"data={path}")
    assert done.code == 2
    assert "session_1: expected a list, got null" in " ".join(done.err.split())


def test_five_defects_are_planted_in_each_set():
    planted = [param.values[0] for param in cases()]
    assert {name: planted.count(name) >= 5 for name in SETS} == dict.fromkeys(SETS, True)
