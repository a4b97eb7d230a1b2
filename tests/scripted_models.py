"""A scripted LLM and embedder for memory systems: what was said is what is extracted."""

import json
import re

from alps.ext.memory.part import hashed
from tests.loopback import Answer

MEM0 = re.compile(r"## New Messages\n(.*?)\n\n## Observation Date", re.DOTALL)
LANGMEM = re.compile(r"<session_([0-9a-f-]{36})>\n(?P<turns>.*)\n</session_\1>", re.DOTALL)
MEMOS = re.compile(r".*\nConversation:\n(.*)\n\nYour Output:", re.DOTALL)
"""What products put around the turns that they ask about."""
PROMPT_TOKENS, COMPLETION_TOKENS = 1_000, 50


class ScriptedModels:
    """Answers as a server does, and counts the tokens that it tells."""

    def __init__(self, *, delays=None):
        self.delays = delays or {}
        self.prompt_tokens = self.completion_tokens = self.calls = 0

    def __call__(self, body):
        self.calls += 1
        if "input" in body:
            return self.embedded(body["input"])
        prompt = body["messages"][-1]["content"]
        text, message = answered(prompt)
        usage = self.used(PROMPT_TOKENS + len(prompt), COMPLETION_TOKENS + len(text))
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        whole = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted"}
        return self.answer({**whole, "choices": [choice], "usage": usage}, "chat")

    def embedded(self, texts):
        rows = enumerate(hashed(texts).tolist())
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in rows]
        usage = self.used(sum(map(len, texts)), 0)
        whole = {"object": "list", "model": "scripted", "data": data, "usage": usage}
        return self.answer(whole, "embeddings")

    def used(self, prompt, completion):
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        total = prompt + completion
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}

    def answer(self, body, kind):
        return Answer(body=json.dumps(body), delay=self.delays.get(kind, 0.0))


def answered(prompt):
    """Return what is extracted as JSON, and the message that says it in the form asked for."""
    if asked := LANGMEM.search(prompt):
        turns = re.split(r"^=+ \w+ Message =+$", asked["turns"], flags=re.MULTILINE)
        calls = [json.dumps({"content": one}) for one in worth_keeping(turns)]
        functions = [{"name": "Memory", "arguments": call} for call in calls]
        calls = [{"type": "function", "function": one} for one in functions]
        calls = [{"id": f"call_{n}", **call} for n, call in enumerate(calls)]
        return json.dumps(calls), {"role": "assistant", "content": None, "tool_calls": calls}
    if asked := MEM0.search(prompt):
        answer = {"memory": [{"text": one} for one in said(asked[1])]}
    elif asked := MEMOS.match(prompt):
        found = [{"key": one[:20], "value": one, "tags": []} for one in said(asked[1])]
        answer = {"memory list": found, "summary": ""}
    else:
        answer = said(prompt)
    text = json.dumps(answer)
    return text, {"role": "assistant", "content": text}


def said(messages):
    """Extract every turn that says more than a word, as it was said."""
    turns = re.split(r"^(?:user|assistant|system): ?", messages, flags=re.MULTILINE)
    return worth_keeping(turns)


def worth_keeping(turns):
    return [turn.strip() for turn in turns if " " in turn.strip()]
