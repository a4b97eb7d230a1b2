"""Readers of sets: what each makes of files of its shape, and what of them a system gets.

An odd file is read right, or refused in one line that says where and what.
"""

import gzip
import json
import re
import shutil

import pytest

from alps.errors import AlpsError, DataError
from alps.ext.histories.book import known_defects
from alps.ext.histories.files import SetChoice, items
from alps.ext.histories.sample import asked, evidence_of, for_class, history_of, place_of
from alps.ext.histories.sets import convert
from alps.ext.histories.settings import ConvertSettings
from alps.ext.memory.store import sessions_after
from alps.tasks import load_task
from alps.tasks.base import TaskOptions
from tests.conftest import ROOT
from tests.endtoend import run
from tests.ext.histories.sets import SAMPLES, SETS, book, changed_sample, cited
from tests.submissions import changed
from tests.tracks import alps_here

FILES = {
    "locomo": "locomo10.json",
    "longmemeval": "longmemeval_oracle.json",
    "halumem": "HaluMem-Medium.jsonl",
    "beam": "100K/1/chat.json",
    "histories": "histories.jsonl",
    "personamem_v3": "benchmark/7/queries.csv",
}
HERE = ROOT / "alps" / "ext" / "histories"
READERS = sorted([*(HERE / "data").glob("*.py"), *(HERE / "levels").glob("*.py")])


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
def test_a_reader_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 120


def samples_of(name, data="samples", **options):
    records = load_task(name).data.open_records(str(data), TaskOptions(**options))
    return list(records.samples())


@pytest.mark.parametrize("name", SETS)
def test_samples_have_questions_whose_evidence_is_in_their_history(name):
    for sample in samples_of(name):
        history, place = history_of(sample), place_of(sample)
        assert len(history.turns) == place.turns > 0
        assert place.query == sample.question.text
        if sample.question.evidence:
            found = evidence_of(sample)
            turns = [history.turns[position] for position in found.positions]
            assert tuple(turns) == found.turns != ()


GIVEN_AWAY = (
    *("answer_", "has_answer", "dia_id", "D1:", "conv-", "_abs", "adversarial", "u-1", "0a1b"),
)


@pytest.mark.parametrize("name", SETS)
def test_nothing_that_gives_an_answer_away_reaches_a_system(name):
    for sample in samples_of(name):
        shown = json.dumps(asked(sample)) + repr(for_class(sample).history)
        sessions = sessions_after(history_of(sample), 0)
        shown += repr(sessions)
        assert not [text for text in GIVEN_AWAY if text in shown]
        assert not sample.question.kind or f"'{sample.question.kind}'" not in shown
        assert [session.id for session in sessions] == [f"s{n + 1}" for n in range(len(sessions))]


@pytest.mark.parametrize("name", ["locomo", "longmemeval", "halumem", "beam"])
def test_sessions_come_in_the_order_of_time_with_their_own_times(name):
    for sample in samples_of(name):
        times = history_of(sample).times
        assert list(times) == sorted(times)
        starts = [session.started_at for session in sessions_after(history_of(sample), 0)]
        assert starts == list(times)


def test_what_belongs_to_each_shape():
    locomo = {entry.question.id: entry.question for entry in book("locomo").entries}
    assert locomo["conv-1:q8"].abstains
    assert locomo["conv-1:q3"].evidence == ("D1:1", "D1:4", "D2:4")
    asked_early = [entry for entry in book("halumem").entries if entry.question.id == "u-1:s1:q1"]
    assert asked_early[0].turns == 2
    beam = book("beam")
    assert not any("->->" in one.text for one in beam.story(beam.entries[0]).sessions[0].messages)
    oracle = {entry.question.id: entry for entry in book("longmemeval").entries}
    assert oracle["60718293_abs"].question.abstains
    story = book("longmemeval").story(oracle["5f607182"])
    assert [session.written[:10] for session in story.sessions] == [
        "2030/05/01", "2030/05/09", "2030/05/20"
    ]  # fmt: skip


def test_events_at_or_after_a_question_are_hidden_and_what_is_ranked_or_written_is_left_out():
    opened = book("personamem_v3")
    asked_of = {entry.question.id: entry for entry in opened.entries}
    assert [name.rpartition(":")[2] for name in asked_of] == ["chat_1", "over_1", "chat_2"]
    early, late, _ = asked_of.values()
    assert (early.question.sessions, late.question.sessions) == (3, 4)
    seen = [one.sessions for one in samples_of("personamem_v3")][:2]
    said = [" ".join(m.text for one in sessions for m in one.messages) for sessions in seen]
    assert ["sold the kayak" in text for text in said] == [False, True]
    assert early.question.points[1].startswith("must not be true: ")
    assert early.question.at > seen[0][-1].at


def test_a_table_of_questions_of_another_version_is_refused(tmp_path):
    other = changed("0.0", lambda line: line.replace("version=2", "version=3"))
    folder = changed_sample(tmp_path, "personamem_v3", [FILES["personamem_v3"]], other)
    with pytest.raises(AlpsError, match=r"expected # queries_csv_version=2, got .*=3"):
        book("personamem_v3", folder)


HEAD = (
    "# queries_csv_version=2\nquery_id,task_type,ts,query_text,state_write_policy,"
    "expected_response_kind,display_rubric,instance_json\n"
)
TOLD = {"prior_conversation": [{"role": "user", "content": "I row."}]}
V3 = {
    "points that forbid by themselves are asked as they are": (
        HEAD + '7:0:a,x,1893556000,Why?,read_only,text,"(+) Says it; briefly.;(-) Don\'t push.;'
        '(-) Do NOT name it.;(-) No ""I know you"".;(-) Pushing it.",\n',
        ("Why?",),
        (
            "Says it; briefly.",
            "Don't push.",
            "Do NOT name it.",
            'No "I know you".',
            "must not be true: Pushing it.",
        ),
    ),
    "the turns before a question are asked with it": (
        HEAD + '7:0:a,x,1893556000,Why?,read_only,text,(+) Says it.,"'
        + json.dumps(TOLD).replace('"', '""') + '"\n',
        ("user: I row.\nuser: Why?",),
        ("Says it.",),
    ),
    "what nobody asks is left out": (
        HEAD + "7:0:a,x,1893556000,Why?,read_only,text,(+) Says it.,\n"
        "7:1:b,x,1893556000,[system prompt] Recommend.,read_only,text,(+) Says it.,\n"
        "7:2:c,x,1893556000,,read_only,text,(+) Says it.,\n",
        ("Why?",),
        ("Says it.",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "asked", "points"), V3.values(), ids=V3)
def test_questions_of_v3_are_read_as_its_code_writes_them(tmp_path, table, asked, points):
    shutil.copytree(SAMPLES / "personamem_v3", tmp_path / "set")
    shutil.rmtree(tmp_path / "set" / "benchmark" / "9")
    path = tmp_path / "set" / "benchmark" / "7" / "queries.csv"
    path.write_text(table, encoding="utf-8-sig")
    questions = [entry.question for entry in book("personamem_v3", tmp_path / "set").entries]
    assert tuple(one.text for one in questions) == asked
    assert questions[0].points == points


def test_the_list_of_questions_that_v3_has_now_is_judged_by_what_a_good_answer_is(tmp_path):
    shutil.copytree(SAMPLES / "personamem_v3" / "backend" / "7", tmp_path / "backend" / "7")
    one = {"query_id": "7:0:a", "task_type": "over_personalization_chatbot_text"}
    one |= {"ts": 1893556000, "user_query": "Which shoes?", "prior_conversation": None}
    one |= {"groundtruth_preference": "A plain answer.", "instance_full": {}}
    ranked = {**one, "query_id": "7:1:b", "task_type": "personalized_recommendation"}
    path = tmp_path / "backend" / "7" / "test.json"
    path.write_text(json.dumps([one, ranked]), encoding="utf-8")
    threads = tmp_path / "backend" / "7" / "threads.json"
    events = json.loads(threads.read_text(encoding="utf-8"))
    events[0]["interaction_format"]["user_message"] = "less of this"
    threads.write_text(json.dumps(events), encoding="utf-8")
    opened = book("personamem_v3", tmp_path)
    (found,) = (entry.question for entry in opened.entries)
    assert (found.text, found.answer) == ("Which shoes?", "A plain answer.")
    assert (found.scoring, found.sessions) == ("guided", 3)
    said = [
        m.text for session in opened.story(opened.entries[0]).sessions for m in session.messages
    ]
    assert any("“less of this”" in text for text in said)


@pytest.mark.parametrize("name", SETS)
def test_every_set_can_be_written_in_ones_own_form_and_says_the_same(tmp_path, name):
    told = convert(ConvertSettings(task=name, out=str(tmp_path / "own")))
    assert told.startswith(f"wrote {book(name).histories} histor")
    before, after = book(name), book("histories", tmp_path / "own")
    for old, new in zip(before.entries, after.entries, strict=True):
        for field in ("id", "text", "answer", "kind", "at", "evidence", "abstains", "points"):
            assert getattr(old.question, field) == getattr(new.question, field)
        said = [
            [(one.at, [m.said for m in one.messages]) for one in found.sessions]
            for found in (before.story(old), after.story(new))
        ]
        assert said[0] == said[1]


def test_the_archive_of_the_first_release_is_read_like_the_one_file(tmp_path):
    for one in json.loads((SAMPLES / "locomo" / "locomo10.json").read_text(encoding="utf-8")):
        said = {**one["conversation"], "qa": one["qa"]}
        path = tmp_path / f"{one['sample_id'].removeprefix('conv-')}.json"
        path.write_text(json.dumps(said), encoding="utf-8")
    old, new = book("locomo").entries, book("locomo", tmp_path).entries
    # Their ids are those that known defects are listed by.
    assert [one.question for one in old] == [one.question for one in new]


def test_a_list_of_any_size_is_read_an_object_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("alps.ext.histories.files._CHUNK", 7)
    rows = [{"a": 'brackets ] } and \\" quotes', "n": [1, {"b": "\\"}]}, {}, {"é": "ü"}]
    path = tmp_path / "list.json"
    path.write_text("\ufeff" + json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
    assert [place.read() for place in items(path)] == rows


WRONG = {
    "no list": ("longmemeval", "{}", "expected a JSON list"),
    "cut off": ("longmemeval", '[{"question_id": "a"', "the list is not closed"),
    "no field": ("longmemeval", '[{"question_id": "a"}]', "haystack_session_ids is missing"),
    "no JSON": ("locomo", "[{x}]", "not JSON"),
    "an empty list": ("locomo", "[]", "the data has no questions of LoCoMo"),
    "another set": ("halumem", '{"id": 1}\n', "uuid is missing"),
}


@pytest.mark.parametrize(("name", "text", "why"), WRONG.values(), ids=WRONG)
def test_a_file_of_another_form_is_refused_in_a_line(tmp_path, name, text, why):
    path = tmp_path / "set.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AlpsError) as raised:
        book(name, path)
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


OWN = {
    "an unknown field": ({"colour": "red"}, "line 1"),
    "no such history": ({"history": "eve"}, "no history 'eve'"),
    "a wrong kind of scoring": ({"scoring": "guess"}, "scoring"),
    "no question": ({"question": ""}, "question"),
    "a question that is a number": ({"question": 7}, "line 1, question: expected a text"),
    "evidence that is no list": ({"evidence": "D1"}, "line 1, evidence: expected a list"),
    "points that nothing is scored by": (
        {"points": ["rows"]}, 'line 1, points: add "scoring": "points", or remove the points'
    ),
    "a scoring by points without any": (
        {"scoring": "points"}, 'line 1, points: "scoring": "points" needs at least one point'
    ),
    "more sessions than the history has": (
        {"sessions": 9}, r"questions.jsonl, line 1, sessions: the history ida has 1 session, so"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "why"), OWN.values(), ids=OWN)
def test_a_row_of_ones_own_that_is_wrong_is_named(tmp_path, change, why):
    session = {"history": "ida", "messages": [{"text": "I row."}]}
    asked_for = {"id": "q", "history": "ida", "question": "Does she row?", "answer": "yes"}
    (tmp_path / "histories.jsonl").write_text(json.dumps(session) + "\n", encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text(json.dumps(asked_for | change) + "\n")
    with pytest.raises(AlpsError, match=why):
        book("histories", tmp_path)
    # The audit says the same, and not that nothing is serious.
    done = alps_here("data", "audit", f"data={tmp_path}")
    assert (done.code, bool(re.search(why, " ".join(done.err.split())))) == (2, True)


def test_an_id_that_two_questions_have_is_named_with_both_lines(tmp_path):
    def again(rows):
        rows[0].append(rows[0][0])

    folder = changed_sample(tmp_path, "histories", ["questions.jsonl"], again)
    n = len((folder / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    with pytest.raises(DataError) as raised:
        book("histories", folder)
    assert f"questions.jsonl, line {n}, id: " in str(raised.value)
    assert "is on line 1 already" in str(raised.value)


def test_an_empty_file_of_ones_own_is_not_to_be_downloaded(tmp_path):
    folder = changed_sample(
        tmp_path, "histories", ["questions.jsonl"], lambda rows: rows[0].clear()
    )
    with pytest.raises(DataError, match=r"questions\.jsonl: the file is empty; write one JSON"):
        book("histories", folder)


NOT_CONVERTED = {
    "of another form": ('{"history": "ida"}\n{}\n', "not JSON"),
    "without a question": ("[]", "the data has no questions of LoCoMo"),
}


@pytest.mark.parametrize(("content", "why"), NOT_CONVERTED.values(), ids=NOT_CONVERTED)
@pytest.mark.parametrize("out", ["new/folder", "there"])
def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path, content, why, out):
    (tmp_path / "bad.json").write_text(content, encoding="utf-8")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine", encoding="utf-8")
    words = ("data", "convert", "task=locomo", f"out={tmp_path / out}")
    done = alps_here(*words, f"data={tmp_path / 'bad.json'}")
    assert (done.code, why in done.err) == (2, True), done.err
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == ["bad.json", "notes.txt", "there"]
    assert alps_here(*words).code == 0


def test_a_question_of_a_set_without_points_has_no_gold_in_ones_own_form(tmp_path):
    head = HEAD + "7:0:a,x,1893556000,Why?,read_only,text,,\n"
    shutil.copytree(SAMPLES / "personamem_v3", tmp_path / "set")
    shutil.rmtree(tmp_path / "set" / "benchmark" / "9")
    path = tmp_path / "set" / "benchmark" / "7" / "queries.csv"
    path.write_text(head, encoding="utf-8-sig")
    own = {"task": "personamem_v3", "data": str(tmp_path / "set"), "out": str(tmp_path / "own")}
    assert convert(ConvertSettings(**own)).startswith("wrote 1 history")
    for name, data in (("personamem_v3", "set"), ("histories", "own")):
        assert [one.has_gold for one in samples_of(name, tmp_path / data)] == [False]


CHOICES = {
    "a set that it has not": ("locomo", {"set": "s"}, "set=s: not a set of locomo"),
    "a size that it has not": ("beam", {"size": "32k"}, "size=32k: not a size of beam; use 100K"),
    "one of another set": ("longmemeval", {"set": "long"}, "use oracle, s, m"),
}


@pytest.mark.parametrize(("name", "choice", "why"), CHOICES.values(), ids=CHOICES)
def test_a_choice_that_a_set_has_not_is_refused(name, choice, why):
    with pytest.raises(AlpsError, match=why):
        cited(name).choose(SetChoice(**choice))


@pytest.mark.parametrize(("name", "chosen", "own"), [
    ("longmemeval", "m", "oracle"), ("halumem", "long", "medium"),
])  # fmt: skip
def test_a_file_of_another_set_than_the_chosen_one_is_refused(name, chosen, own):
    file = SAMPLES / name / FILES[name]
    with pytest.raises(AlpsError, match=f"set={chosen}: {file.name} is set {own}; leave out set="):
        book(name, file, set=chosen)
    assert book(name, file, set=own).entries


@pytest.mark.parametrize("columns", ["80", "40"])
def test_the_list_of_sets_cuts_no_name_and_no_number(columns, tmp_path):
    listed = run(tmp_path, "data", "list", COLUMNS=columns).stdout
    whole = "".join(listed.split())
    assert "…" not in whole
    assert "3,467" in listed
    if columns == "80":
        assert "hub:IAAR-Shanghai/HaluMem" in whole
        assert "locomo10.json" in whole


def test_listed_defects_are_ids_and_facts_alone():
    for name, wrong in (("locomo", 99), ("longmemeval", 4)):
        defects = known_defects(name)
        assert sum(one.what == "wrong gold" for one in defects) == wrong
        assert all(one.source and len(one.note) < 60 for one in defects)


def test_the_table_of_sets_names_licence_and_language():
    rows = json.loads(alps_here("data", "list", "format=json").out)
    assert [row["task"] for row in rows] == list(SETS)
    assert all(row["licence"] and row["language"] and row["from"] for row in rows)


CHANGED = {
    "empty": (lambda raw: b"", "the file is empty"),
    "blank": (lambda raw: b" \r\n\n", "the file is empty"),
    "packed": (gzip.compress, "compressed with gzip; unpack it first"),
    "elsewhere": (lambda raw: b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    "a page": (lambda raw: b"<!DOCTYPE html>", "a web page, not data"),
    "UTF-16": (lambda raw: raw.decode().encode("utf-16"), "is UTF-16: save it as UTF-8"),
    "torn": (lambda raw: raw[: len(raw) // 2], ""),
    "no UTF-8": (lambda raw: raw.replace(b"a", b"\xe9", 1), ""),
    "with more behind it": (lambda raw: raw + b"\n[7]\n", ""),
    "twice in one file": (lambda raw: raw + b"\n" + raw, ""),
}


def rewritten(tmp_path, name, change):
    folder = tmp_path / "set"
    shutil.copytree(SAMPLES / name, folder)
    path = folder / FILES[name]
    path.write_bytes(change(path.read_bytes()))
    return folder


def cases():
    for name in FILES:
        for case, (change, why) in CHANGED.items():
            # The sessions of a history may lie apart, and twice.
            if (name, case) != ("histories", "twice in one file"):
                yield pytest.param(name, change, why, id=f"{name} {case}")


@pytest.mark.parametrize(("name", "change", "why"), list(cases()))
def test_a_file_that_is_no_such_file_is_refused_in_a_line(tmp_path, name, change, why):
    folder = rewritten(tmp_path, name, change)
    with pytest.raises(DataError) as raised:
        book(name, folder)
    told = str(raised.value)
    assert "\n" not in told
    assert FILES[name].rpartition("/")[2] in told
    assert why in told
    assert "codec" not in told or "not JSON" in told or "not a CSV table" in told


@pytest.mark.parametrize("name", FILES)
def test_a_mark_and_the_line_ends_of_windows_change_nothing(tmp_path, name):
    def change(raw):
        return b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n")

    found = book(name, rewritten(tmp_path, name, change))
    assert [one.question for one in found.entries] == [one.question for one in book(name).entries]


FIRST = "0.conversation.session_1"
FIELDS = {
    "a null session": ("locomo", FIRST, None, "session_1: expected a"),
    "a session that is a text": ("locomo", FIRST, "x", "expected a list"),
    "a message that is a number": ("locomo", f"{FIRST}.0", 7, "an object"),
    "a null text": ("locomo", f"{FIRST}.0.text", None, "text: expected"),
    "an id that is an object": ("locomo", f"{FIRST}.0.dia_id", {}, "dia_id"),
    "a question that is an object": ("locomo", "0.qa.0.question", {}, "question: expected"),
    "a null gold": ("locomo", "0.qa.0.answer", None, "answer: expected a string, got null"),
    "no name": ("locomo", "0.sample_id", None, "sample_id: expected a string"),
    "no sessions": ("locomo", "0.conversation", {}, "conv-1 has questions but no sessions"),
    "a null message": ("longmemeval", "0.haystack_sessions.0.0.content", None, "content: "),
    "an unknown role": ("longmemeval", "0.haystack_sessions.0.0.role", "bot", "role: "),
    "a null gold of a number": ("longmemeval", "0.answer", None, "answer: expected a string"),
    "dates that are fewer": (
        "longmemeval", "0.haystack_dates", [], "haystack_session_ids 3, haystack_dates 0, "
    ),
    "a conversation that is a number": ("locomo", "0.conversation", 7, "expected an object, got 7"),
    "a null time": ("halumem", "0.sessions.0.end_time", None, "end_time: expected a"),
    "a batch that is a text": ("beam", "0", "x", 'batch: expected an object, got "x"'),
    "a null point": ("halumem", "0.sessions.0.memory_points.0", None, "memory_content"),
    "a null session of a user": ("halumem", "0.sessions.0", None, "line 1"),
    "turns that are an object": ("beam", "0.turns", {}, "turns: expected a list, got {}"),
    "a null content": ("beam", "0.turns.0.0.content", None, "content: expected a string"),
}  # fmt: skip


ASKED, APP = "100K/1/probing_questions/probing_questions.json", "backend/7/threads.json"
BESIDE = {
    "questions of BEAM": ("beam", ASKED, "knowledge_update.0.question", "probing_questions: "),
    "an app of v3": ("personamem_v3", APP, "0.source_timestamp", "threads.json: "),
    "an app of v3, in what it holds": (
        "personamem_v3", APP, "0.interaction_format", "threads.json: interaction_format: expected"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "file", "place", "why"), BESIDE.values(), ids=BESIDE)
def test_a_fault_is_told_with_the_file_that_has_it(tmp_path, name, file, place, why):
    folder = changed_sample(tmp_path, name, [file], changed(f"0.{place}", None))
    with pytest.raises(DataError, match=re.escape(f"({why}")):
        book(name, folder)


def test_a_time_of_v3_may_be_written_as_one_with_a_fraction(tmp_path):
    def change(files):
        files[0][2:] = [re.sub(r",(1893\d+),", r",\1.0,", line) for line in files[0][2:]]
        for event in files[1]:
            event["source_timestamp"] = float(event["source_timestamp"])

    folder = changed_sample(tmp_path, "personamem_v3", ["benchmark/7/queries.csv", APP], change)
    read = [book("personamem_v3", one).entries for one in (folder, SAMPLES / "personamem_v3")]
    written, plain = [[entry.question for entry in entries] for entries in read]
    assert written == plain


LEVELS = {
    "a replaced memory that is a text": ("original_memories", "She rows.", "expected a list"),
    "an importance that is none": ("importance", ["x"], "importance: expected a number"),
}


@pytest.mark.parametrize(("field", "value", "why"), LEVELS.values(), ids=LEVELS)
def test_a_point_of_another_type_is_named(tmp_path, field, value, why):
    def change(rows):
        for session in rows[0][0]["sessions"]:
            for point in session.get("memory_points", ()):
                point |= {"is_update": "True", field: value}

    folder = changed_sample(tmp_path, "halumem", [FILES["halumem"]], change)
    with pytest.raises(DataError, match=why):
        samples_of("halumem_update", folder)


@pytest.mark.parametrize(("name", "place", "value", "why"), FIELDS.values(), ids=FIELDS)
def test_a_field_of_another_type_is_named(tmp_path, name, place, value, why):
    folder = changed_sample(tmp_path, name, [FILES[name]], changed(f"0.{place}", value))
    with pytest.raises(DataError) as raised:
        book(name, folder)
    assert why in str(raised.value)
    assert str(folder / FILES[name]) in str(raised.value)
    assert "\n" not in str(raised.value)
