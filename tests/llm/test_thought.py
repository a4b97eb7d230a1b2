"""Replies with thoughts and drafts: the final answer is read, or none is."""

import json
from time import process_time

import pytest

from alps.judges.rubric import BinaryReply, rating_answer
from alps.llm.types import Completion, Reply
from alps.llm.understanding import part_thought, understand
from alps.schema import Candidate, RetrievalSample
from alps.tasks import load_tracks
from alps.tasks.base import TaskOptions
from alps.tasks.extraction import TASK
from tests.desk import QUIET_LITELLM, Desk, always, in_turn, question
from tests.endtoend import rows
from tests.loopback import Answer, serve
from tests.tracks import alps_here, between, llm, met, target_row, track_of, write_ability

pytestmark = QUIET_LITELLM


def memories(*values: str) -> str:
    return json.dumps(
        {"memory_items": [{"memory_id": f"m{n}", "value": v} for n, v in enumerate(values)]}
    )


DRAFT, FINAL = memories("Owns a cat"), memories("Owns a dog", "Plays the oboe")
EMPTY = memories()
HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}"
ANSWERED = ("Owns a dog", "Plays the oboe")
CUT = None

REPLIES: dict[str, tuple[str, str, tuple[str, ...] | None]] = {
    "a closed thought with a draft": (
        f"<think>Maybe {DRAFT}? No.</think>\n{FINAL}",
        "stop",
        ANSWERED,
    ),
    "an empty thought": (f"<think>\n\n</think>\n\n{FINAL}", "stop", ANSWERED),
    "a thought closed only": (f"Maybe {DRAFT}? No.\n</think>\n\n{FINAL}", "stop", ANSWERED),
    "a thought closed only, with an empty draft": (
        f"Maybe {EMPTY}?</think>{FINAL}",
        "stop",
        ANSWERED,
    ),
    "a draft that breaks off in the thought": (
        f"<think>I'd say {DRAFT[:-9]} … no</think>{FINAL}",
        "stop",
        ANSWERED,
    ),
    "a broken draft in a thought closed only": (
        f"I'd say {DRAFT[:-9]} … no</think>{FINAL}",
        "stop",
        ANSWERED,
    ),
    "a thought that is cut off": (f"<think>First: {DRAFT}. But wait", "length", CUT),
    "a thought that stops unfinished": (f"<think>First: {DRAFT}. That is all", "stop", CUT),
    "a thought that says its own end": (
        f"<think>Close with `</think>`: {DRAFT}</think>{FINAL}",
        "stop",
        ANSWERED,
    ),
    "a thought within a thought": (
        f"<think><think>{DRAFT}</think> hm</think>{FINAL}",
        "stop",
        ANSWERED,
    ),
    "two thoughts": (
        f"<think>a</think>Let me see. <think>{DRAFT}</think>{FINAL}",
        "stop",
        ANSWERED,
    ),
    "an answer that is cut off after a thought": (
        f"<think>{DRAFT}</think>{FINAL[:-20]}",
        "length",
        ("Owns a dog",),
    ),
    "nothing but a thought, closed": (f"<think>{DRAFT}</think>", "stop", CUT),
    "thinking": (f"<thinking>{DRAFT}</thinking>{FINAL}", "stop", ANSWERED),
    "reasoning, in a fence behind it": (
        f"<reasoning>{DRAFT}</reasoning>\n```json\n{FINAL}\n```",
        "stop",
        ANSWERED,
    ),
    "begin of thought": (
        f"<|begin_of_thought|>{DRAFT}<|end_of_thought|><|begin_of_solution|>{FINAL}<|end_of_solution|>",
        "stop",
        ANSWERED,
    ),
    "start thinking": (f"<|START_THINKING|>{DRAFT}<|END_THINKING|>{FINAL}", "stop", ANSWERED),
    "brackets": (f"[THINK]{DRAFT}[/THINK]{FINAL}", "stop", ANSWERED),
    "triangles": (f"◁think▷{DRAFT}◁/think▷{FINAL}", "stop", ANSWERED),
    "a name space": (f"<seed:think>{DRAFT}</seed:think>{FINAL}", "stop", ANSWERED),
    "harmony": (HARMONY.format(DRAFT, FINAL), "stop", ANSWERED),
    "harmony, constrained, with its end": (
        HARMONY.format(DRAFT, FINAL).replace("final<|", "final <|constrain|>json<|") + "<|return|>",
        "stop",
        ANSWERED,
    ),
    "harmony, cut off in the analysis": (
        f"<|channel|>analysis<|message|>Hm, {DRAFT} or",
        "length",
        CUT,
    ),
    "harmony, its markers stripped": (
        f"analysisPerhaps {DRAFT}assistantfinal{FINAL}",
        "stop",
        ANSWERED,
    ),
    "harmony, stripped and cut off": (f"analysisPerhaps {DRAFT}. Or", "length", CUT),
    "two fenced blocks": (
        f"Draft:\n```json\n{DRAFT}\n```\nFinal:\n```json\n{FINAL}\n```",
        "stop",
        ANSWERED,
    ),
    "three answers in prose": (
        f"Perhaps {DRAFT}. Or {EMPTY}. No: {FINAL} it is.",
        "stop",
        ANSWERED,
    ),
    "a draft, and a final answer that needs mending": (
        f"Draft: {DRAFT}\nFinal: {FINAL[:-2]},]}}",
        "stop",
        ANSWERED,
    ),
    "a draft, and a final answer that is cut off": (
        f"Draft: {DRAFT}\nFinal: {FINAL[:-20]}",
        "length",
        ("Owns a dog",),
    ),
    "a draft, and a final answer that is cut off at once": (
        f"Draft: {DRAFT}\nFinal: {FINAL[:22]}",
        "length",
        CUT,
    ),
    "an answer, then one memory of it": (
        f'{FINAL}\nMost certain: {{"memory_id": "m1", "value": "Plays the oboe"}}',
        "stop",
        ANSWERED,
    ),
    "an answer that is begun again and cut off": (f"{FINAL}\n{FINAL[:40]}", "length", ANSWERED),
}


def values(completion: Completion) -> tuple[str, ...] | None:
    return None if completion.value is None else tuple(memory.value for memory in completion.value)


@pytest.mark.parametrize(("text", "finish", "expected"), REPLIES.values(), ids=REPLIES)
def test_the_final_answer_is_read_or_none(text, finish, expected):
    completion = understand(Reply(text, finish), TASK.answer)
    assert values(completion) == expected
    assert completion.raw == text
    if expected is None:
        assert completion.outcome in ("truncated", "empty")


VERDICTS = {
    DRAFT: '{"reason": "draft", "verdict": "met"}',
    FINAL: '{"reason": "ok", "verdict": "not_met"}',
}
JUDGED = {
    name: text for name, (text, _, _) in REPLIES.items() if all(whole in text for whole in VERDICTS)
}


@pytest.mark.parametrize("text", JUDGED.values(), ids=JUDGED)
def test_no_verdict_is_read_from_a_draft(text):
    for memory_list, verdict in VERDICTS.items():
        text = text.replace(memory_list, verdict)
    assert understand(Reply(text, "stop"), rating_answer(BinaryReply)).value == ({"met": 0}, "ok")


QUOTING = {
    "a value that quotes a thought": memories(
        "Asks what <think>hm</think> means", "Writes </think> often"
    ),
    "a value that quotes a channel": memories("Saw <|channel|>final<|message|> in a log"),
    "in a fence": f"```json\n{memories('Asks what <think> is')}\n```",
    "behind a thought": f"<think>hm</think>{memories('Writes </think> often')}",
    "in an answer that needs mending": memories("Writes </think> often", "Owns a cat")[:-2] + ",]}",
    "in an answer that is cut off": memories("Writes </think> often", "Owns a cat")[:-12],
}


@pytest.mark.parametrize("text", QUOTING.values(), ids=QUOTING)
def test_a_thought_that_the_answer_quotes_is_not_cut(text):
    first = (values(understand(Reply(text, "stop"), TASK.answer)) or ("",))[0]
    assert first.startswith(
        ("Asks what <think>", "Writes </think> often", "Saw <|channel|>final<|message|> in a log")
    )


PLAIN = {
    "a closed thought": ("<think>They like tea.</think>\n\nHave some tea.", "Have some tea."),
    "a thought closed only": (
        "They like tea, so I'll offer it.\n</think>\n\nHave some tea.",
        "Have some tea.",
    ),
    "in the middle of a line": (
        "Sure! <think>They like tea, not milk.</think>Have tea.",
        "Sure! Have tea.",
    ),
    "harmony": (
        HARMONY.format("They like tea.", "Have some tea.") + "<|return|>",
        "Have some tea.",
    ),
    "harmony, its markers stripped": (
        "analysisThey like tea.assistantfinalHave some tea.",
        "Have some tea.",
    ),
    "an answer in tags": ("<think>Tea.</think><answer>Have some tea.</answer>", "Have some tea."),
    "tags that are spoken of": ("Put it between <think> and </think>, as in XML.", None),
    "tags in code": (
        "Write this:\n```\n<think>\nlong thoughts about tea here\n</think>\n```\nas is.",
        None,
    ),
    "tags in quotes": ("The model closes with `</think>` then.", None),
    "one tag alone": ("Some models write <think> before they answer; it is a tag.", None),
    "the word analysis": ("analysis of your week: more tea.", None),
}


@pytest.mark.parametrize(("text", "expected"), PLAIN.values(), ids=PLAIN)
def test_plain_text_is_judged_without_its_thought(text, expected):
    completion = understand(Reply(text, "stop"), None)
    assert (completion.outcome, completion.value, completion.raw) == ("ok", expected or text, text)
    assert (completion.thought is None) == (expected is None)


@pytest.mark.parametrize(
    ("text", "finish", "outcome"),
    [
        ("<think>They like tea. Or", "length", "truncated"),
        ("<think>They like tea. Or", "stop", "truncated"),
        ("analysisThey like tea. Or", "length", "truncated"),
        ("<|channel|>analysis<|message|>They like", "length", "truncated"),
        ("<think>They like tea.</think>", "stop", "empty"),
        ("<think>They like tea.</think>\n", "length", "truncated"),
    ],
)
def test_a_thought_alone_is_no_answer(text, finish, outcome):
    completion = understand(Reply(text, finish), None)
    assert (completion.outcome, completion.value) == (outcome, None)
    assert completion.thought is not None
    assert completion.thought.startswith("They like")


def test_a_thought_is_kept_apart_whoever_parted_it():
    parted = understand(Reply(f"<think>my cat</think>{FINAL}", "stop"), TASK.answer)
    by_provider = understand(Reply(FINAL, "stop", thought="my cat"), TASK.answer)
    assert (parted.thought, by_provider.thought) == ("my cat", "my cat")
    assert not parted.repaired
    assert not by_provider.repaired


def test_verdicts_that_differ_in_reasons_alone_do_not_contradict_each_other():
    text = '{"reason": "a", "verdict": "met"}\n{"reason": "b", "verdict": "met"}'
    assert understand(Reply(text, "stop"), rating_answer(BinaryReply)).value == ({"met": 1}, "b")


def test_of_two_choices_in_prose_the_last_counts():
    task = load_tracks("retrieval", TaskOptions())[0]
    pool = tuple(Candidate(id=name, value=name) for name in ("c001", "c002"))
    sample = RetrievalSample(
        benchmark_id="b", session_id="s", query="q", candidates=pool, gold="c002"
    )
    draft, final = (
        json.dumps({"selected_memory_id": c.id, "answer": "", "reason": ""}) for c in pool
    )
    completion = understand(
        Reply(f"Draft: {draft}. No, wait. Final: {final}", "stop"), task.answer_to(sample)
    )
    assert completion.value["selected_memory_id"] == "c002"


LOOPS = (
    "<think></think>",
    "<think>",
    "</think>",
    "<think>{</think>",
    "`</think>`",
    "<|channel|>",
    '{"a": "</think>',
)


@pytest.mark.parametrize("loop", LOOPS)
def test_markers_in_a_loop_are_parted_in_time(loop):
    text, started = loop * (30_000 // len(loop)), process_time()
    for typed in (True, False):
        parted = part_thought(text, typed=typed)
        assert len(parted.answer) + len(parted.thought or "") <= len(text)
    assert process_time() - started < 5  # a hundredth of that, unless it goes back over the text


def test_a_re_ask_quotes_the_answer_without_its_thought(desk: Desk):
    said = Answer("<think>Chess, and tea.</think>They like chess.")
    with serve(in_turn(said, Answer('{"hobbies": ["chess"]}'))) as server:
        completion = desk.ask(question(server))
    assert completion.value == ("chess",)
    assert server.requests[1]["messages"][2] == {"role": "assistant", "content": "They like chess."}


def test_reasoning_that_an_endpoint_gives_apart_is_kept_apart(desk: Desk):
    message = {
        "role": "assistant",
        "content": '{"hobbies": ["chess"]}',
        "reasoning_content": 'Or {"hobbies": []}?',
    }
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "tiny",
        "choices": [choice],
    }
    with serve(always(Answer(body=json.dumps(body)))) as server:
        completion = desk.ask(question(server))
    assert (completion.value, completion.thought) == (("chess",), 'Or {"hobbies": []}?')
    assert completion.raw == '{"hobbies": ["chess"]}'


def test_a_run_keeps_a_thought_beside_the_answer_and_judges_the_answer(tmp_path):
    write_ability(tmp_path / "data", 4, target_row("u1"))
    asked = []

    def judged(body):
        asked.append(body["messages"][-1]["content"])
        return met()

    said = Answer("They hate rain, I know.\n</think>\nTake the market hall.")
    with serve(between(lambda _: said, judged)) as server:
        words = (
            "run",
            "task=utilization",
            "ability=cf",
            f"data={tmp_path / 'data'}",
            f"out={tmp_path / 'out'}",
        )
        assert alps_here(*words, *llm(server.url)).code == 0
    (row,) = rows(tmp_path / "out" / "predictions.jsonl")
    assert row["prediction"] == {"answer": "Take the market hall."}
    assert (row["thought"], row["raw"]) == ("They hate rain, I know.", said.text)
    assert "They hate rain" not in asked[0]
    assert track_of(tmp_path / "out", "task4_ability4")["scores"]["cf"]["value"] == 1.0
