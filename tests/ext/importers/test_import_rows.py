"""Files of projects without a format of their own, and results of PersonaMem v3 and HaluMem."""

import json

import pytest

from alps.errors import DataError
from alps.ext.importers import finding
from tests.ext.importers.foreign import LEAK, answers_of, import_here, v3, write
from tests.tracks import alps_here

ASKED = ("Who feeds the hens?", "When did Ida row?", "What may Bo like?", "Where is Ida?")


def row(number, **fields):
    return {"question": ASKED[number], **fields}


def imported(folder, form, *contents, name="part_{}.json", **more):
    paths = []
    for number, content in enumerate(contents, start=1):
        paths.append(write(folder / name.format(number), content))
    return import_here(folder, form, *paths, **more)


def scores(found):
    shown = {}
    for figure in found.figures:
        shown[figure.category] = (figure.score.value, figure.score.n, figure.unscored)
    return shown


def draws(*given):
    return {"llm_judgments": {f"judgment_{n}": one for n, one in enumerate(given)}}


def hindsight(number, category, right):
    own = row(number, correct_answer="a", predicted_answer="b", category=category)
    return own | {"is_correct": right, "is_invalid": False, "retrieved_memories": [{"score": 1}]}


SHAPES = {
    "totals above users, several draws, categories as text": {
        "total_questions": 3,
        "detailed_results": {
            "user_0": [
                row(0, golden_answer="Bo", generated_answer="Bo", category="4", **draws(1, 1)),
                row(1, golden_answer="May", generated_answer="June", category="2", **draws(1, 0)),
            ],
            "user_1": [
                row(2, golden_answer="Figs", generated_answer="?", category="3", **draws(0, 0))
            ],
        },
    },
    "the answer next to a golden answer is the system's": {
        "a": [
            row(0, answer="Bo", golden_answer="Bo", grade=True, category=4),
            row(1, answer="June", golden_answer="May", grade=0.5, category=2),
            row(2, answer="?", golden_answer="Figs", grade=False, category=3),
        ]
    },
    "a list whose verdicts have reasons and errors beside them": [
        row(0, ground_truth="Bo", predicted="Bo", score=1, judge_reasoning="so", category=4),
        row(1, ground_truth="May", predicted="June", score=0.5, judge_reasoning="", category=2),
        row(2, ground_truth="Figs", predicted="?", score=0, judge_reasoning="no", category=3),
    ],
    "items that hold their rows, of which one failed": {
        "overall_accuracy": 50.0,
        "item_results": [
            {"item_id": f"c{n}", "metrics": {"accuracy": 1.0, "detailed_results": [one]}}
            for n, one in enumerate(
                (
                    hindsight(0, 4, True),
                    hindsight(1, 2, 0.5),
                    hindsight(2, 3, False),
                    hindsight(3, 3, None) | {"is_invalid": True, "error": "timed out"},
                )
            )
        ],
    },
    "names in humps": {
        "evaluations": [
            {"questionId": f"q{n}", "question": ASKED[n], "groundTruth": "a", "hypothesis": "b"}
            | {"questionType": c, "label": label}
            for n, (c, label) in enumerate(((4, "correct"), (2, "partial"), (3, "incorrect")))
        ]
    },
    "lines": "".join(
        json.dumps(row(n, answer="gold", response="said", category=c, llm_score=s)) + "\n"
        for n, (c, s) in enumerate(((4, 1), (2, 0.5), (3, 0)))
    ),
    "retrieved passages that speak of errors, and a verdict within": [
        row(0, answer="Bo", golden_answer="Bo", retrieval_context="HTTP 404", category=4)
        | {"metrics": {"rubric": {"score": 1.0}}},
        row(1, answer="June", golden_answer="May", retrieval_context="HTTP 404", category=2)
        | {"metrics": {"rubric": {"score": 0.5}}},
        row(2, answer="?", golden_answer="Figs", retrieval_context="HTTP 404", category=3)
        | {"metrics": {"rubric": {"score": 0}}},
    ],
}


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES)
def test_rows_are_found_wherever_they_are_with_their_one_verdict(tmp_path, content):
    found = scores(imported(tmp_path, "rows", content))
    assert found[""][:2] == (0.5, 3)
    assert (found["single-hop"], found["temporal"]) == ((1, 1, 0), (0.5, 1, 0))
    assert found["open-domain"][:2] == (0, 1)


def by_type(number, verdict):
    named = {"single_hop": 1, "multi_hop": 2, "temporal_reasoning": 1, "open_domain": 5}
    listed, types = [], {}
    for kind, n in named.items():
        own = []
        for place in range(n):
            one = {"question": f"{kind} {place} of {number}?", "expected_answer": "x"}
            one |= {"ai_response": "y", "question_type": kind, "conversation_id": f"c{number}"}
            own.append(one | {"evaluation": {"is_correct": verdict, "error": None}})
        listed += own
        types[kind] = {"total": n, "responses": own}
    return {"conversation_id": f"c{number}", "by_type": types, "responses": listed}


def test_files_of_one_conversation_each_are_one_system_whose_copies_count_once(tmp_path):
    found = imported(tmp_path, "rows", by_type(1, True), by_type(2, False))
    assert {figure.system for figure in found.figures} == {"part"}
    shown = scores(found)
    assert shown[""] == (0.5, 18, 0)
    # Mem0 calls the most of all questions open-domain, which are LoCoMo's single-hop.
    assert (shown["single-hop"][1], shown["multi-hop"][1], shown["open-domain"][1]) == (10, 2, 4)
    assert any("the file uses Mem0's category names" in flag for flag in found.flags)
    assert any("2 files share no question" in flag for flag in found.flags)


RIGHT = {"golden_answer": "kayak", "response": "kayak", "grade": "correct"}
FAILED = {"golden_answer": "kayak", "error": "timeout", "grade": "wrong"}
GOLD_AS_ANSWER = {"answer": "kayak", "response": "kayak", "correct": True}
BARE_FAILED = {"answer": "kayak", "error": "timeout", "correct": False}
INCOMPLETE = {
    "a system that failed is wrong where its judge says so": (
        [row(0, **RIGHT), row(1, **FAILED)],
        (0.5, 2, 0),
        ("1 of 2 rows have no answer",),
    ),
    "what failed without a verdict is unscored": (
        [row(0, **RIGHT), row(1, golden_answer="kayak", error="timeout")],
        (1, 1, 1),
        ("1 of 2 rows have no answer",),
    ),
    "an empty answer and an error": (
        [row(0, **RIGHT), row(1, **FAILED, response="")],
        (0.5, 2, 0),
        (),
    ),
    "an error of the judge is no verdict": (
        [row(0, **RIGHT), row(1, **{**FAILED, "error": None}, judge_error="timeout")],
        (1, 1, 1),
        ("because the judge failed",),
    ),
    "an id without a question": (
        [{"id": "a", **RIGHT}, {"id": "b", **FAILED}],
        (0.5, 2, 0),
        (),
    ),
    "the gold has the name that it has in other rows": (
        [row(0, **GOLD_AS_ANSWER), row(1, **BARE_FAILED)],
        (0.5, 2, 0),
        ("1 of 2 rows have no answer",),
    ),
    "what is no row is counted, and the first named": (
        {"runs": [row(0, **RIGHT), RIGHT, ["a"], "note", 7, None, row(1, **FAILED)]},
        (0.5, 2, 0),
        ("part_1.json: left out 5 entries without a question or id", "is runs, entry 2"),
    ),
    "rows under ids": (
        {"a": row(0, **RIGHT), "b": row(1, **FAILED), "c": {"model": "m"}, "n": 2},
        (0.5, 2, 0),
        ("left out 1 entry without a question or id, the first is entry c",),
    ),
    "a list of conversations among rows": (
        [row(0, **RIGHT), {"id": 3, "conversation_id": "c", "rows": [row(1, **RIGHT)]}],
        (1, 2, 0),
        (),
    ),
    "a total by its id": (
        [row(0, **RIGHT), row(1, **FAILED), {"id": "overall", "grade": "wrong"}],
        (0.5, 2, 0),
        ("left out 1 entry with an id, but neither a question nor a gold, the first is entry 3",),
    ),
    "a total that has a mark": (
        [row(0, **RIGHT), row(1, **FAILED), {"id": "run-7", "success": True}],
        (0.5, 2, 0),
        ("left out 1 entry with an id", "the first is entry 3"),
    ),
    "a total and settings beside rows under ids": (
        {"a": row(0, **RIGHT), "b": row(1, **FAILED)}
        | {"average": {"id": "average", "grade": "correct"}, "metadata": {"id": "run-7"}},
        (0.5, 2, 0),
        ("left out 2 entries with an id", "the first is entry average"),
    ),
    "messages among rows": (
        {"log": [{"id": "m0", "content": "Hi."}, row(0, **RIGHT), row(1, **FAILED)]},
        (0.5, 2, 0),
        ("left out 1 entry with an id", "the first is log, entry 1"),
    ),
    "a total among ids with golds": (
        [{"id": "a", **RIGHT}, {"id": "b", **FAILED}, {"id": "all", "grade": "wrong"}],
        (0.5, 2, 0),
        ("left out 1 entry with an id", "the first is entry 3"),
    ),
    "an id with the gold that the others have": (
        [row(0, **GOLD_AS_ANSWER), {"id": "b", **BARE_FAILED}],
        (0.5, 2, 0),
        ("1 of 2 rows have no answer",),
    ),
    "a run that holds its rows": (
        {"id": "run-7", "success": True, "results": [row(0, **RIGHT), row(1, **FAILED)]},
        (0.5, 2, 0),
        (),
    ),
    "copies in other lists": (
        {"all": {"of": [row(0, **RIGHT), row(1, **FAILED)]}, "by": {"x": [row(0, **RIGHT)]}},
        (0.5, 2, 0),
        ("left out 1 entry listed twice, the first is by.x, entry 1",),
    ),
}


@pytest.mark.parametrize(("content", "score", "told"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_no_row_of_a_list_is_dropped_in_silence(tmp_path, content, score, told):
    found = imported(tmp_path, "rows", content)
    assert scores(found)[""] == score
    flags = "\n".join(found.flags)
    assert [text for text in told if text not in flags] == []
    assert "left out" in flags or not any("left out" in text for text in told)
    missing = [one for one in answers_of(found) if one["answer"] is None]
    assert {one["gold"] for one in missing} <= {"kayak"}


def test_an_answer_that_is_the_gold_in_some_rows_and_not_in_others_is_refused(tmp_path):
    zeps = row(2, answer="kayak", golden_answer="kayak", correct=True)
    content = [row(0, **GOLD_AS_ANSWER), zeps, row(1, **BARE_FAILED)]
    with pytest.raises(DataError, match="`answer` is ambiguous") as raised:
        imported(tmp_path, "rows", {"of": content})
    told = "the gold in of, entry 1, the system's in of, entry 2, and either in of, entry 3;"
    assert told in str(raised.value)
    either = {"about": {"n": 2}, "of": [{"question": "Who?"}, row(0, answer="kayak")]}
    with pytest.raises(DataError, match=r"rename it .*; the first is of, entry 2;"):
        imported(tmp_path / "again", "rows", either)


def of_session(number, session, **more):
    return row(number, **RIGHT, **more) | {"session_id": session}


HELD = {
    "sessions of conversations": (
        [
            {"conversation_id": f"c{n}", "sessions": [{"session_id": "s", "qa": [row(n, **RIGHT)]}]}
            for n in range(3)
        ],
        {"c0", "c1", "c2"},
    ),
    "rows of sessions under conversations": (
        {"c0": [of_session(0, "s0"), of_session(1, "s1")], "c1": [of_session(0, "s0", n=1)]},
        {"c0", "c1"},
    ),
    "a session for each row": ([of_session(n, f"s{n}") for n in range(4)], {"all"}),
    "questions beside the messages of their conversation": (
        [
            {"conversation_id": f"c{n}", "messages": [{"text": "Hi."}], "qa": [row(n, **RIGHT)]}
            for n in range(2)
        ],
        {"c0", "c1"},
    ),
}


@pytest.mark.parametrize(("content", "conversations"), HELD.values(), ids=HELD)
def test_a_row_is_of_the_conversation_that_it_or_what_holds_it_names(
    tmp_path, content, conversations
):
    found = answers_of(imported(tmp_path, "rows", content))
    assert {one["conversation"] for one in found} == conversations


def test_each_object_of_a_file_is_looked_at_once(tmp_path, monkeypatch):
    seen = []
    look = finding._look
    monkeypatch.setattr(finding, "_look", lambda node: (seen.append(id(node)), look(node))[1])
    content = {f"q{n}": row(n, **RIGHT, hits=[{"text": "a"}]) for n in range(4)}
    imported(tmp_path, "rows", {"runs": content})
    assert len(seen) == len(set(seen)) == 6


def of_talks(right, n=12, **named):
    """Return rows on `n` talks, each with a field that names it where `named` has one."""
    content = []
    for talk in range(n):
        for asked in ASKED:
            own = dict.fromkeys(named, f"talk {talk}")
            one = {"question": f"{asked} ({talk})", "gold": "a", "response": "a", **own}
            content.append(one | {"correct": right and (talk % 4 > 0 or n < 4)})
    return content


COMPARED = {
    "without a conversation": ({}, 12, "not tested: good and poor (all questions belong to one"),
    "by session": ({"session_id": 1}, 12, "not tested: good and poor (all questions belong to one"),
    "by conversation": ({"conversation_id": 1}, 12, "(Holm): good a, poor b"),
    "of few": ({"conversation_id": 1}, 3, "not tested: good and poor (3 conversations are too few"),
    "of two": ({"conversation_id": 1}, 2, "not tested: good and poor (2 conversations are too few"),
}


@pytest.mark.parametrize(("named", "n", "told"), COMPARED.values(), ids=COMPARED)
def test_the_same_questions_of_two_systems_are_compared_or_it_says_why_not(
    tmp_path, named, n, told
):
    for name, right in (("good", True), ("poor", False)):
        write(tmp_path / f"{name}.json", of_talks(right, n, **named))
    files = (str(tmp_path / "good.json"), str(tmp_path / "poor.json"))
    shown = " ".join(alps_here("import", "rows", *files, f"out={tmp_path / 'out'}").out.split())
    assert told in shown
    assert "missing questions" not in shown
    tested = "not tested" not in told
    assert ("do not differ" in shown) == tested
    assert (" –: no interval, because" in shown) == (" – " in shown.partition("always")[0])
    assert ("without a conversation" in shown) == ("conversation_id" not in named)


def test_systems_without_a_question_in_common_are_not_called_alike(tmp_path):
    found = imported(
        tmp_path, "rows", of_talks(True), of_talks(True, conversation_id=1), name="{}x.json"
    )
    shown = " ".join(alps_here("import", "rows", *(str(tmp_path / f"{n}x.json") for n in (1, 2)),
                               f"out={tmp_path / 'again'}").out.split())  # fmt: skip
    assert "not tested: 1x and 2x (no question in common)" in shown
    assert "do not differ" not in shown
    assert "1x: 48 missing questions that other systems answered" in found.flags


def test_numbered_files_without_conversations_are_one_system_unless_they_ask_the_same(tmp_path):
    halves = of_talks(True)[:24], of_talks(True)[24:]
    # Two conversations may have a question of the same words.
    halves[1].append({**halves[0][0], "correct": True})
    found = imported(tmp_path, "rows", *halves)
    assert {one["conversation"] for one in answers_of(found)} == {"part_1", "part_2"}
    assert {figure.system for figure in found.figures} == {"part"}
    assert any("2 files share only 1 of 48 questions" in flag for flag in found.flags)
    assert scores(found)[""][1] == 49
    again = imported(tmp_path / "again", "rows", of_talks(True), of_talks(False))
    assert {figure.system for figure in again.figures} == {"part_1", "part_2"}
    assert again.ties[0].pairs[0].n == 48


def test_a_failure_of_the_judge_is_where_one_of_two_agreeing_fields_is_empty(tmp_path):
    content = []
    for number, (label, score) in enumerate((("correct", 1), ("wrong", 0), ("", 0))):
        own = row(number, prediction="a", ground_truth="b", judge_label=label, judge_score=score)
        content.append(own)
    assert scores(imported(tmp_path, "rows", content))[""] == (0.5, 2, 1)


@pytest.mark.parametrize(
    ("said", "told"), [(0.5, ""), (50.0, ""), (0.9, "accuracy is 90.00%, but")]
)
def test_the_accuracy_that_a_file_says_of_itself_is_held_against_its_rows(tmp_path, said, told):
    rows = [row(n, answer="a", golden_answer="b", grade=not n) for n in range(2)]
    flags = " ".join(imported(tmp_path, "rows", {"accuracy": said, "rows": rows}).flags)
    assert (told in flags, "the rows give" in flags) == (True, bool(told))


def test_outcomes_of_halumem_are_kept_and_bare_marks_of_ids_are_read(tmp_path):
    words = ("Correct", "Hallucination", "Omission", "Correct")
    content = []
    for number, word in enumerate(words):
        content.append(row(number, hypothesis="a", gold="b", judge_label=word, user_id="u"))
    found = imported(tmp_path, "rows", content)
    assert scores(found)[""] == (0.5, 4, 0)
    assert [answer["outcome"] for answer in answers_of(found)] == [word.lower() for word in words]
    bare = {"tests": [{"id": f"t{n}", "passed": n != 1, "cost_usd": 0.5} for n in range(4)]}
    assert scores(imported(tmp_path / "again", "rows", bare))[""] == (0.75, 4, 0)
    bare["tests"].append({"id": "t4", "error": "timeout"})
    assert scores(imported(tmp_path / "failed", "rows", bare))[""] == (0.75, 4, 1)


WARN = "active_mistake_prevention"


def test_personamem_v3_takes_the_metric_of_each_task_and_the_mean_of_tasks(tmp_path):
    combined = {"pr_combined_personalization_score": 3, "pr_combined_max_possible": 6}
    content = v3(
        ("chatbot_personalized_response", combined, "ok"),
        ("chatbot_personalized_response", {}, "ok"),
        (LEAK, {"personalization_leak_rate": 0.25}, "ok"),
        (LEAK, {"personalization_leak_rate": 0, "response_is_substantive": False}, "ok"),
        ("agentic_dm_digest", combined, "failed_writes"),
        (WARN, {"correct": 1}, "ok", "7:1:p1_warn"),
        (WARN, {"correct": 0}, "ok", "7:1:p1_foil"),
        (WARN, {"correct": 1}, "ok", "7:1:p2_foil"),
    )
    found = imported(tmp_path, "personamem_v3", content, name="mine.csv")
    shown = scores(found)
    assert shown["chatbot_personalized_response"] == (0.5, 1, 1)
    assert (shown[LEAK], shown["agentic_dm_digest"]) == ((0.375, 2, 0), (0, 1, 0))
    assert shown[WARN][0] == pytest.approx(2 / 3)
    told = " ".join(found.flags)
    assert f"mean of 4 tasks {(0.5 + 0.375 + 2 / 3) / 4:.2%}" in told
    assert "warned 100.00%, silent 50.00%, F1 66.67%" in told
    assert "1 failed row, counted as 0" in told


def halumem(f1):
    kept = {"uuid": "u", "memory_content": "Rows", "memory_type": "Event Memory"}
    asked = {"uuid": "u", "answer": "x", "system_response": "y", "question_type": "Basic"}
    marks = ((2, "primary"), (1, "system"), ("judge_failed", "primary"), (0, "interference"))
    integrity = []
    for mark, source in marks:
        one = {"memory_integrity_score": mark, "memory_source": source, "importance": 0.5}
        integrity.append({**kept, **one})
    stored = []
    for mark, target in ((2, "true"), (0, "true"), (1, "false"), (None, "false")):
        one = {"memory_accuracy_score": mark, "is_included_in_golden_memories": target}
        stored.append({**kept, **one})
    answers = []
    for number, kind in enumerate(("Correct", "Hallucination", "Omission", "Omission")):
        answers.append({**asked, "question": ASKED[number], "result_type": kind})
    return {
        "overall_score": {
            "memory_integrity": {"recall(valid)": 0.5, "weighted_recall(valid)": 0.75},
            "memory_extraction_f1": f1,
            "question_answering": {"omission_qa_ratio(valid)": 0.5},
        },
        "memory_integrity_records": integrity,
        "memory_accuracy_records": stored,
        "memory_update_records": [{**kept, "memory_update_type": "Other"}],
        "question_answering_records": answers,
    }


def test_halumems_own_file_gives_every_published_rate_and_is_held_against_them(tmp_path):
    found = imported(tmp_path, "halumem", halumem(0.4))
    told = " ".join(found.flags)
    for rate in (
        *("recall 50.00%", "weighted_recall 75.00%", "target_accuracy 50.00%"),
        *("weighted_accuracy 50.00%", "interference_accuracy 100.00%"),
        *("memory_extraction_f1 40.00%", "other_update_memory_ratio 100.00%"),
        *("correct_qa_ratio 25.00%", "hallucination_qa_ratio 25.00%", "omission_qa_ratio 50.00%"),
    ):
        assert rate in told
    assert "stated" not in told
    none_kept = halumem(0.0)
    for one in none_kept["memory_integrity_records"]:
        one["memory_integrity_score"] = 0
    told = " ".join(imported(tmp_path / "none", "halumem", none_kept).flags)
    assert "memory_extraction_f1 0.00%" in told
    told = " ".join(imported(tmp_path / "again", "halumem", halumem(0.9)).flags)
    assert "memory_accuracy, memory_extraction_f1: stated 90.00%" in told
