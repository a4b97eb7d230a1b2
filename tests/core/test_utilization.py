"""Utilization: what is shown, what is rated, and what a judge that rates nothing leaves open."""

import json
import math

import pytest

from alps.ext.memory.store import newest
from alps.judges.embedded import LexicalJudge
from alps.schema import Prediction, Turn
from alps.tasks import TaskOptions, load_task, load_tracks
from alps.tasks.utilization import language_of, preference_kind, read_answer
from tests.endtoend import write_rows
from tests.loopback import Answer, serve
from tests.tracks import (
    NEVER_SHOWN,
    TALK,
    alps_here,
    between,
    felt,
    is_rating,
    llm,
    met,
    payload_of,
    scores_of,
    target_row,
    track_of,
    write_ability,
)

ANSWER = "Try a risotto without nuts."
PA, PF, VRA, CF, EI = load_tracks("utilization")
DIMENSIONS = ("resonation", "expression", "reception")


def samples(task, *pair):
    made = task.read_sample(*(pair or target_row("u1")))
    return made if isinstance(made, list) else [made]


def told(task, *pair):
    """Return samples as a system is shown them that has a perfect memory."""
    return [
        task.by_memory.recall.show(sample, task.by_memory.recall.evidence(sample))
        for sample in samples(task, *pair)
    ]


def heard(answer, name="u1"):
    return Prediction(benchmark_id=name, track="x", outcome="ok", prediction={"answer": answer})


def failed(outcome="empty", name="u1"):
    return Prediction(benchmark_id=name, track="x", outcome=outcome)


def score(task, sample, prediction, verdict):
    return task.score(sample, prediction, verdict, LexicalJudge())


def write(folder, number, *pairs):
    write_ability(folder / "data", number, *pairs)


def run(folder, ability, *words, out="out"):
    """Run an ability on the data in a folder."""
    asked = ("task=utilization", f"ability={ability}", f"data={folder / 'data'}")
    ran = alps_here("run", *asked, f"out={folder / out}", *words)
    assert "Traceback" not in ran.err
    return ran


def judged(folder, ability, judge, *words, said=ANSWER):
    """Run on a model that says one thing, and on a judge; return what came of it, and what the two
    were asked.
    """
    with serve(between(lambda _: Answer(said), judge)) as server:
        ran = run(folder, ability, *words, *llm(server.url))
    asked = [body for body in server.requests if not is_rating(body)]
    return ran, asked, [body for body in server.requests if is_rating(body)]


@pytest.mark.parametrize("memory", ["full", "oracle"])
def test_neither_messages_nor_the_row_of_a_program_hold_target_label_stratum_or_original_id(memory):
    allowed = {NEVER_SHOWN[0], NEVER_SHOWN[4]} if memory == "oracle" else set()
    for task in load_tracks("utilization", TaskOptions(memory=memory)):
        (sample,) = told(task) if memory == "oracle" else samples(task)
        for shown in (task.messages(sample), task.input_row(sample)):
            text = json.dumps(shown, ensure_ascii=False)
            assert {secret for secret in NEVER_SHOWN if secret in text} == allowed
            assert "selected_memory" not in text
            assert all(turn["text"] in text for turn in TALK)


def test_every_ability_is_shown_its_audit_conversation_or_else_the_history_of_the_input():
    row, gold = target_row("u1")
    row["input"]["model_input"]["dialogue_history"] = [{"role": "user", "text": "another dialogue"}]

    def shown():
        return [turn.text for turn in samples(PF, row, gold)[0].dialogue]

    assert shown() == [turn["text"] for turn in TALK]
    del row["input"]["audit_context"]
    assert shown() == ["another dialogue"]


def test_a_row_without_a_dialogue_is_named_on_one_line(tmp_path):
    row, gold = target_row("u1")
    del row["input"]["audit_context"]
    write(tmp_path, 1, target_row("u0"), (row, gold))
    error = run(tmp_path, "pa", "model=rules").one_line
    assert "model_input.jsonl, line 2" in error
    assert "no dialogue" in error


LOOKING = """
import pathlib
class Looking:
    def predict(self, sample):
        told = repr(sample) + str(sample.model_dump())
        pathlib.Path("seen.txt").write_text(told, encoding="utf-8")
        return {"answer": "A risotto, " + sample.query}
"""


def test_a_python_class_is_shown_the_dialogue_and_the_query_and_no_target(tmp_path, monkeypatch):
    write(tmp_path, 1, target_row("u1"))
    (tmp_path / "looking_class.py").write_text(LOOKING)
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, "pa", "model=python:looking_class:Looking").code == 0
    seen = (tmp_path / "seen.txt").read_text(encoding="utf-8")
    assert [secret for secret in NEVER_SHOWN if secret in seen] == []
    assert all(turn["text"] in seen for turn in TALK)
    assert "What should I cook tonight?" in seen


def test_over_the_wire_no_target_reaches_the_model_and_the_judge_gets_it_and_the_dialogue(tmp_path):
    write(tmp_path, 1, target_row("u1"))
    ran, (asked,), (rating,) = judged(tmp_path, "pa", lambda _: met())
    assert ran.code == 0
    sent = json.dumps(asked, ensure_ascii=False)
    assert [secret for secret in NEVER_SHOWN if secret in sent] == []
    assert payload_of(rating) == {
        "kind": "rubric",
        "rubric": "pa",
        "query": "What should I cook tonight?",
        "response": ANSWER,
        "memory": NEVER_SHOWN[0],
        "dialogue": [dict(turn) for turn in TALK],
    }


def test_five_queries_are_five_samples_of_one_session_each_under_the_id_of_its_query():
    row, gold = target_row("e1", queries=[f"Question {n}?" for n in range(5)])
    made = samples(EI, row, gold)
    assert [sample.benchmark_id for sample in made] == [f"e1:{n}" for n in range(5)]
    assert [sample.query for sample in made] == [f"Question {n}?" for n in range(5)]
    assert {sample.session_id for sample in made} == {"session of e1"}
    # One query goes by the id of its row.
    assert [sample.benchmark_id for sample in samples(PA)] == ["u1"]
    del row["session_id"]
    assert {sample.session_id for sample in samples(EI, row, gold)} == {"e1"}


def test_query_ids_that_every_row_repeats_tell_samples_apart_and_none_stands_twice_in_a_row():
    names = []
    for name in ("e1", "e2"):
        row, gold = target_row(name, queries=["One?", "Two?"])
        row["input"]["queries"] = [{"query_id": f"q{n}", "query": f"{n}?"} for n in (1, 2)]
        names += [sample.benchmark_id for sample in samples(EI, row, gold)]
    assert names == ["e1:q1", "e1:q2", "e2:q1", "e2:q2"]
    row["input"]["queries"][1]["query_id"] = "q1"
    with pytest.raises(ValueError, match="'q1' appears twice"):
        samples(EI, row, gold)


def test_five_queries_count_as_five_and_one_session_gives_no_interval(tmp_path):
    row = target_row("e1", queries=[f"Question {n}?" for n in range(5)], stratum="en")
    write(tmp_path, 5, row)
    marks = iter([(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 5)])
    judged(tmp_path, "ei", lambda _: felt(*next(marks)), "concurrency=1")
    track = track_of(tmp_path / "out", "task4_ability5")
    assert (track["n"], track["scored"], track["scores"]["ei"]["n"]) == (5, 5, 5)
    assert [track["scores"]["ei"][key] for key in ("value", "low", "high")] == [3.0, None, None]
    assert list(scores_of(tmp_path / "out")) == [f"e1:{n}" for n in range(5)]
    run(tmp_path, "ei", "model=rules", "limit=3", out="three")
    assert track_of(tmp_path / "three", "task4_ability5")["n"] == 3


@pytest.mark.parametrize(
    ("stratum", "query", "language"),
    [
        ("ch", "How do I calm down?", "zh"),
        ("ZH", "How do I calm down?", "zh"),
        ("en", "我该怎么办？", "en"),
        ("UNKNOWN", "我该怎么办？", "zh"),
        ("UNKNOWN", "我该怎么办？ Help me", "en"),
        ("", "今天又被老板骂了，我不想做了 (work)", "zh"),
        ("", "How do I tell 妈妈 that I moved out?", "en"),
        ("", "?!", "en"),
    ],
)
def test_the_language_is_that_of_the_row_or_else_of_most_letters(stratum, query, language):
    assert language_of(stratum, query) == language


MANNER, FOOD = "Preferences/Interaction_Preferences", "Preferences/Food"
SHORT, SOUP, BULLETS = "Wants short answers", "Loves soup", "Wants answers as bullet lists"


@pytest.mark.parametrize(
    ("name", "label", "value", "kind"),
    [
        ("ability2_980", MANNER, SHORT, "pf_general"),
        ("ability2_981", FOOD, SOUP, "pf_interaction"),
        ("ability2_1046", "", SOUP, "pf_interaction"),
        ("ability2_7", "", SHORT, "pf_general"),
        ("alps_pf_001", MANNER, "Likes «usted»", "pf_interaction"),
        ("alps_pf_002", FOOD, "Likes short ribs", "pf_general"),
        ("alps_pf_003", "", BULLETS, "pf_interaction"),
        ("alps_pf_004", "", SOUP, "pf_general"),
        ("alps_pf_005", "UNMAPPED", BULLETS, "pf_interaction"),
        ("alps_pf_006", "UNMAPPED", SOUP, "pf_general"),
        ("ability2_1046_b", "", SOUP, "pf_general"),
    ],
)
def test_the_kind_of_a_preference_is_read_from_the_numbering_or_else_from_the_target(
    name, label, value, kind
):
    assert preference_kind(name, {"label": label, "value": value}) == kind


def test_the_numbering_may_stand_in_the_benchmark_id_alone():
    row, gold = target_row("ability2_990", value="Loves soup", label="")
    del row["canonical_id"]
    assert samples(PF, row, gold)[0].gold.rubric == "pf_interaction"


@pytest.mark.parametrize(
    ("task", "rubric"),
    [(PA, "pa"), (PF, "pf_general"), (VRA, "vra"), (CF, "cf"), (EI, "ei")],
    ids=lambda x: str(x)[:4],
)
def test_each_ability_is_rated_by_its_own_rubric(task, rubric):
    assert samples(task)[0].gold.rubric == rubric
    assert rubric in [prompt.id.split("/")[0] for prompt in task.rubrics]


def test_both_kinds_of_preference_are_judged_by_their_own_instructions_and_reported_apart(tmp_path):
    for_ids = {n: f"ability2_{n}" for n in (1, 2, 981, 982)}
    pairs = [
        target_row(name, canonical_id=name, queries=[f"Query {n}?"], value=f"Preference {n}")
        for n, name in for_ids.items()
    ]
    write(tmp_path, 2, *pairs)

    def judge(body):
        right = payload_of(body)["memory"] in ("Preference 1", "Preference 981")
        return met("met" if right else "not_met")

    _, _, ratings = judged(tmp_path, "pf", judge)
    texts = {(payload_of(body)["rubric"], body["messages"][0]["content"]) for body in ratings}
    scores = track_of(tmp_path / "out", "task4_ability2")["scores"]
    assert sorted(kind for kind, _ in texts) == ["pf_general", "pf_interaction"]
    assert len({text for _, text in texts}) == 2
    counts = {"pf": 4, "pf_general": 2, "pf_interaction": 2}
    assert {name: scores[name]["n"] for name in counts} == counts
    assert {scores[name]["value"] for name in counts} == {0.5}


REJECTED = "Owns a yacht [ERROR: only a joke]"


def test_memory_oracle_shows_the_true_memories_and_none_that_was_rejected():
    task = load_task("utilization", TaskOptions(memory="oracle"))
    (sample,) = told(task, *target_row("u1", known=("Lives in Graz", REJECTED)))
    assert sample.memories == (NEVER_SHOWN[0], "Lives in Graz")
    for shown in (
        task.input_row(sample)["input"]["model_input"],
        json.loads(task.messages(sample)[-1]["content"]),
    ):
        assert shown["known_about_user"] == list(sample.memories)


def test_a_rejected_target_is_not_shown_as_true_and_is_judged_without_its_mark():
    task = load_task("utilization", TaskOptions(memory="oracle"))
    (sample,) = told(task, *target_row("u1", value=REJECTED, known=()))
    assert sample.memories == ()
    assert sample.gold.memory == "Owns a yacht"
    assert "yacht" not in str(task.messages(sample)) + str(task.input_row(sample))


def test_the_condition_is_labelled_in_table_summary_and_manifest(tmp_path):
    write(tmp_path, 1, target_row("u1"))
    plain = run(tmp_path, "pa", "model=rules", out="plain")
    shown = run(tmp_path, "pa", "model=rules", "memory=oracle")
    assert "(memory oracle)" in shown.out
    assert "(memory oracle)" not in plain.out
    assert track_of(tmp_path / "out", "task4_ability1")["memory"] == "oracle"
    assert "memory" not in track_of(tmp_path / "plain", "task4_ability1")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["memory"] == "oracle"
    assert "settings.memory" in run(tmp_path, "pa", "model=rules").one_line


@pytest.mark.parametrize(
    ("lengths", "window", "kept", "left_out"),
    [
        # Each turn takes a token more than its text: 303 tokens for three of 400 bytes.
        ([400, 400, 400], 303, [400, 400, 400], 0),
        ([400, 400, 400], 302, [396, 400, 400], 1),
        ([400, 400, 400], 100, [396], 3),
        ([400, 4_000], 100, [396], 2),
        ([4_000, 200, 200], 103, [200, 200], 1),
        ([400], 1, [], 1),
        ([], 100, [], 0),
    ],
)
def test_a_bound_keeps_the_latest_turns_that_fit_and_the_end_of_one_more(
    lengths, window, kept, left_out
):
    turns = [Turn(role="user", text=str(n).rjust(length)) for n, length in enumerate(lengths)]
    shown = newest(turns, window)
    assert [len(turn.text) for turn in shown.turns] == kept
    ends = [turn.text[-1] for turn in turns]
    assert [turn.text[-1] for turn in shown.turns] == ends[len(ends) - len(kept) :]
    assert shown.left_out == left_out
    assert shown.tokens <= window


def test_a_bound_counts_bytes_and_leaves_characters_whole():
    turns = [Turn(role="user", text="说" * 100)] * 3
    shown = newest(turns, 161)
    # 75 + 1 tokens for a whole turn: what is left has room for 32 bytes.
    assert [turn.text for turn in shown.turns] == ["说" * 10, "说" * 100, "说" * 100]


def test_a_bound_cuts_what_the_system_sees_is_counted_and_leaves_the_judge_the_whole_dialogue(
    tmp_path,
):
    long = [{"role": "user", "text": f"{n} ".ljust(400, "x")} for n in range(5)]
    short = target_row("u2", queries=["Anything else?"])
    write(tmp_path, 1, target_row("u1", dialogue=long), short)
    ran, asked, ratings = judged(tmp_path, "pa", lambda _: met(), "max_context_tokens=200")
    track = track_of(tmp_path / "out", "task4_ability1")
    talks = [json.loads(body["messages"][1]["content"])["conversation"] for body in asked]
    (cut,) = [talk for talk in talks if talk[-1] == long[-1]]
    # 800 bytes: one turn of 400 with its token, and the end of the one before.
    assert cut == [{**long[-2], "text": long[-2]["text"][-392:]}, long[-1]]
    assert sorted(len(payload_of(body)["dialogue"]) for body in ratings) == [3, 5]
    counts = track["counts"]
    assert track["max_context_tokens"] == 200
    assert (counts["histories_cut"], counts["turns_left_out"]) == (1, 4)
    shown = alps_here("show", tmp_path / "out").out
    assert "1 history was truncated to fit the context" in shown
    assert "context 200" in ran.out
    ran = run(tmp_path, "pa", "model=rules", "max_context_tokens=5000", out="wide")
    assert "histories_cut" not in track_of(tmp_path / "wide", "task4_ability1")["counts"]
    assert ran.code == 0
    assert "truncated to fit" not in alps_here("show", tmp_path / "wide").out


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("plain", "plain"),
        ({"answer": "a"}, "a"),
        ({"response": "b"}, "b"),
        ({"answer": None, "response": "c"}, "c"),
    ],
)
def test_an_answer_may_come_as_text_or_under_the_usual_keys(node, text):
    assert read_answer(node).value == text


@pytest.mark.parametrize("node", ["", " \n", {}, {"answer": ""}, {"answer": 7}, None, [], ["text"]])
def test_what_holds_no_text_is_no_answer(node):
    with pytest.raises(ValueError, match=r"non-empty text|is empty"):
        read_answer(node)


@pytest.mark.parametrize("outcome", ["empty", "refused", "truncated", "unparsable", "invalid"])
def test_a_failed_answer_gets_the_scales_minimum(outcome):
    for task in (PA, VRA, CF):
        (one,) = samples(task)
        assert score(task, one, failed(outcome), None).scores == {task.headline.name: 0.0}
    (pf,), (ei,) = samples(PF), samples(EI, *target_row("u1", stratum="ch"))
    assert score(PF, pf, failed(outcome), None).scores == {"pf": 0.0, "pf_general": 0.0}
    found = score(EI, ei, failed(outcome), None).scores
    assert found == {"ei": 1.0, "ei_zh": 1.0, **dict.fromkeys(DIMENSIONS, 1.0)}


def test_emotional_intelligence_is_the_plain_mean_and_its_language_is_reported_apart(tmp_path):
    pairs = [
        target_row(f"e{n}", queries=[f"Query {n}?"], stratum=("en", "ch")[n % 2]) for n in range(4)
    ]
    write(tmp_path, 5, *pairs)

    def judge(body):
        number = int(payload_of(body)["query"].split()[1].rstrip("?"))
        return felt(1 + number, 2, 5)

    judged(tmp_path, "ei", judge)
    scores = track_of(tmp_path / "out", "task4_ability5")["scores"]
    expected = {"ei": ((8 + 9 + 10 + 11) / 12, 4), "ei_en": (3.0, 2), "ei_zh": (10 / 3, 2)}
    expected |= {"resonation": (2.5, 4), "expression": (2.0, 4), "reception": (5.0, 4)}
    for name, (value, n) in expected.items():
        assert (scores[name]["value"], scores[name]["n"]) == (pytest.approx(value), n), name


@pytest.mark.parametrize(
    ("ability", "number", "heard_as", "value", "lowest", "highest"),
    [("cf", 4, met(), 1.0, 0.0, 1.0), ("ei", 5, felt(4, 4, 4), 4.0, 1.0, 5.0)],
)
def test_unscored_records_bound_a_score_by_the_ends_of_its_scale(
    tmp_path, ability, number, heard_as, value, lowest, highest
):
    pairs = [target_row(f"u{n}", queries=[f"Query {n}?"], stratum="en") for n in range(4)]
    write(tmp_path, number, *pairs)

    def judge(body):
        silent = payload_of(body)["query"] == "Query 3?"
        return Answer("I would rather not say") if silent else heard_as

    ran, _, _ = judged(tmp_path, ability, judge)
    track = track_of(tmp_path / "out", f"task4_ability{number}")
    found = track["scores"][ability]
    assert ran.code == 1
    assert (track["n"], track["scored"], track["unscored"], found["n"]) == (4, 3, 1, 3)
    assert sum(track["failed_judgements"].values()) == 1
    assert found["value"] == value
    assert math.isclose(found["worst_case"], (3 * value + lowest) / 4)
    assert math.isclose(found["best_case"], (3 * value + highest) / 4)
    assert "\n bounds  " in ran.out
    assert "worst–best" in alps_here("show", tmp_path / "out").out


@pytest.mark.parametrize(
    ("length", "pa", "within"), [(3_000, 1.0, 1.0), (3_001, 1.0, 0.0), (0, 0.0, 0.0)]
)
def test_a_padded_answer_earns_nothing_within_the_length(length, pa, within, tmp_path):
    write(tmp_path, 1, target_row("u1"))
    padded = ANSWER.ljust(length, "!") if length else ""
    own = write_rows(tmp_path / "own.jsonl", [{"benchmark_id": "u1", "answer": padded}])
    with serve(lambda _: met()) as server:
        judge = llm(server.url)[2:]
        ran = run(tmp_path, "pa", f"model=predictions:{own}", *judge)
    track = track_of(tmp_path / "out", "task4_ability1")
    assert track["scores"]["pa"]["value"] == pa
    if length:
        assert track["scores"]["pa_within"]["value"] == within
    assert (ran.code, len(server.requests)) == ((0, 1) if length else (1, 0))
    assert (track["scored"], track["unscored"]) == (1, 0)
    assert track["failed_predictions"] == ({} if length else {"empty": 1})
    shown = alps_here("show", tmp_path / "out").out
    over = "1 answer was over the length limit; metrics with this limit give it the lowest score."
    assert (over in " ".join(shown.split())) is (length > 3_000)


@pytest.mark.parametrize(
    ("task", "marks", "lowest"), [(PF, {"met": 1}, 0.0), (EI, dict.fromkeys(DIMENSIONS, 5), 1.0)]
)
def test_every_ability_has_its_score_within_the_length(task, marks, lowest):
    lead = task.headline.name
    sample = samples(task)[0]
    for answer, expected in ((ANSWER, max(marks.values())), ("好" * 1_501, lowest)):
        verdict = {"marks": marks}
        scored = task.score(sample, heard(answer), verdict, LexicalJudge())
        assert scored.scores[f"{lead}_within"] == expected
        assert scored.scores[lead] == max(marks.values())


@pytest.mark.parametrize(
    ("ability", "number"), [("pa", 1), ("pf", 2), ("vra", 3), ("cf", 4), ("ei", 5)]
)
def test_a_judge_that_rates_nothing_leaves_everything_unscored_with_the_reason(
    tmp_path, ability, number
):
    write(tmp_path, number, target_row("u1"))
    ran = run(tmp_path, ability, "model=rules")
    track = track_of(tmp_path / "out", f"task4_ability{number}")
    assert ran.code == 0
    assert (track["n"], track["scored"], track["unscored"]) == (1, 0, 1)
    assert ability in track["scores"]
    assert "grounding" not in track["scores"]
    assert all((found["value"], found["n"]) == (None, 0) for found in track["scores"].values())
    reason = "judge lexical cannot rate answers by a rubric"
    assert {found["unscored"] for found in track["scores"].values()} == {reason}
    assert scores_of(tmp_path / "out")["u1"]["scores"] == {}
    assert f"no score, {reason}\nrules on " in ran.out.replace("a\nrubric", "a rubric")
    assert "Utilization needs an LLM judge: alps score RUN judge=PROVIDER/MODEL\n" in ran.out
    assert "best baseline" not in ran.out
    assert "Trivial baselines" not in alps_here("show", str(tmp_path / "out")).out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_what_a_judge_could_not_rate_is_listed_shown_reported_and_judged_later(tmp_path):
    write(tmp_path, 1, target_row("u1"))
    run(tmp_path, "pa", "model=rules")
    assert "1 unscored" in alps_here("ls", str(tmp_path)).out
    shown = alps_here("show", str(tmp_path / "out"), "u1").out
    assert "unrated: answered, but the judge cannot rate answers: unscored" in shown
    assert "failed" not in shown
    assert alps_here("report", str(tmp_path / "out"), f"out={tmp_path / 'page.html'}").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Utilization needs an LLM judge" in page
    assert "answered, but the judge cannot rate answers: unscored" in page
    with serve(between(lambda _: Answer("Unasked."), lambda _: met())) as server:
        judge = ("judge=openai/judge", f"judge_api_base={server.url}")
        again = alps_here("score", str(tmp_path / "out"), *judge, f"out={tmp_path / 'again'}")
    assert again.code == 0
    assert track_of(tmp_path / "again", "task4_ability1")["scores"]["pa"]["value"] == 1.0


def test_runs_that_nobody_rated_are_not_compared_and_the_reason_is_one_line(tmp_path):
    write(tmp_path, 1, target_row("u1"))
    for name in ("rules", "floor/refusal", "floor/parrot"):
        run(tmp_path, "pa", f"model={name}", out=name.replace("/", "-"))
    folders = [str(tmp_path / name) for name in ("rules", "floor-refusal", "floor-parrot")]
    for those in (folders[:2], folders):
        said = " ".join(alps_here("compare", *those).one_line.split())
        assert "nothing to compare: judge lexical cannot rate answers by a rubric" in said


def test_how_many_of_the_memorys_words_an_answer_names_is_told_and_no_score():
    (sample,) = samples(PA)
    words = sample.gold.memory
    row = score(PA, sample, heard(words), {"outcome": "ok"})
    assert (dict(row.scores), row.details["grounding"]) == ({}, 1.0)
    (bare,) = samples(PA, *target_row("u1", value="Likes it"))
    for prediction, verdict in ((heard("Sure."), {"outcome": "ok"}), (failed(), None)):
        assert "grounding" not in score(PA, bare, prediction, verdict).details
