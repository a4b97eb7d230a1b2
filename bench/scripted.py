"""What the server of the benchmarks answers: it depends on the request alone."""

import json
import re
from collections.abc import Iterator
from typing import Any

_SENTENCE, _WORD = re.compile(r"[^.!?\n]+"), re.compile(r"\w{4,}")


def content(body: dict[str, Any]) -> str:
    """Return the answer to a request: a judge's by the payload contract, memories, or plain text.

    No two models answer alike, so that a judge is asked about each of them. The judge finds a pair
    the same where half of the longer words of one stand in the other. The memories are the first
    sentences of what the user says.
    """
    said = body["messages"][min(1, len(body["messages"]) - 1)]["content"]
    place = said.find('{"kind": ')
    if place >= 0:
        return json.dumps(_judged(json.loads(said[place:])))
    if said.startswith('{"conversation": [{"turn": '):  # extraction numbers them
        memories = _memories(body["model"], json.loads(said)["conversation"])
        return json.dumps({"memory_items": list(memories)})
    if said.startswith('{"memories": [{"memory_id": '):  # update: they stay as they are
        return json.dumps({"memory_items": json.loads(said)["memories"]})
    if said.startswith('{"candidates": [{"id": '):  # retrieval: each model has a favourite
        chosen = json.loads(said)["candidates"][sum(body["model"].encode()) % 100]["id"]
        return json.dumps({"reason": "it may be", "selected_memory_id": chosen, "answer": "Yes."})
    if '"options": {"a": ' in body["messages"][-1]["content"]:  # personamem, after the history
        return json.dumps({"reason": "it may be", "choice": "abcd"[len(said) % 4]})
    return f"A plain answer of {body['model']}: " + " ".join(_WORD.findall(said)[:12])


def _judged(payload: dict[str, Any]) -> dict[str, Any]:
    if payload["kind"] == "match":
        words = {
            item["id"]: _words(item["value"]) for item in (*payload["gold"], *payload["predicted"])
        }
        pairs = (
            (gold["id"], item["id"]) for gold in payload["gold"] for item in payload["predicted"]
        )
        same = [(gold, item) for gold, item in pairs if _alike(words[gold], words[item])]
        fields = {"reason": "the same words", "relation": "same"}
        return {"pairs": [{**fields, "gold": gold, "predicted": item} for gold, item in same]}
    if payload["kind"] == "support":
        said = {"reason": "said so", "support": "supported"}
        return {"items": [{**said, "id": item["id"]} for item in payload["items"]]}
    if payload["rubric"] == "ei":
        return {"reason": "plain", "resonation": 3, "expression": 3, "reception": 3}
    return {"reason": "plain", "verdict": "met"}


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _alike(one: set[str], other: set[str]) -> bool:
    return 2 * len(one & other) >= min(len(one), len(other)) > 0


def _memories(model: str, conversation: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    said: list[tuple[int, str]] = []
    for turn in conversation:
        if turn["role"] == "user":
            said += [(turn["turn"], one) for one in _said(turn["text"])]
    for number, (at, sentence) in enumerate(said[:4], start=1):
        value = f"The user says to {model}: {sentence}"
        evidence = {"session_id": None, "utterance_index": at, "text": sentence}
        row: dict[str, Any] = {"memory_id": f"m{number}", "type": "direct", "label": "UNMAPPED"}
        row |= {"label_suggestion": None, "value": value, "reasoning": "The user says so."}
        row |= {"evidence": evidence, "confidence": 0.95, "time_scope": "long_term"}
        yield row | dict.fromkeys(("emotion", "preference_attitude", "updated_at"))


def _said(text: str) -> list[str]:
    return [
        sentence.strip()[:120] for sentence in _SENTENCE.findall(text) if len(sentence.strip()) > 8
    ]
