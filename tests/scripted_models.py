"""A scripted LLM and embedder for memory systems: what was said is what is extracted.

Another one keeps notes with the tool `memory`: each turn is a line, found by words.
"""

import json
import re

from alps.ext.memory.part import hashed
from alps.systems.retrievers import terms
from tests.loopback import Answer

MEM0 = re.compile(r"## New Messages\n(.*?)\n\n## Observation Date", re.DOTALL)
LANGMEM = re.compile(r"<session_([0-9a-f-]{36})>\n(?P<turns>.*)\n</session_\1>", re.DOTALL)
MEMOS = re.compile(r".*\nConversation:\n(.*)\n\nYour Output:", re.DOTALL)
"""What products put around the turns that they ask about."""
PROMPT_TOKENS, COMPLETION_TOKENS = 1_000, 50
CONVERSATION = re.compile(r"The conversation, of \S+:\n\n(.*)", re.DOTALL)
TURN = re.compile(r"^(?:user|assistant|system): ", re.MULTILINE)
LINE = re.compile(r"(\d+)\t(.*)")


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
        return self.said(message, usage)

    def said(self, message, usage, reason="stop"):
        choice = {"index": 0, "finish_reason": reason, "message": message}
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


class NoteKeeper(ScriptedModels):
    """Uses all six commands on each conversation; `commands` are those that it called."""

    def __init__(self):
        super().__init__()
        self.commands = set()

    def __call__(self, body):
        self.calls += 1
        message = self.next_of(body)
        calls = message.get("tool_calls", ())
        for call in calls:
            self.commands.add(json.loads(call["function"]["arguments"])["command"])
        usage = self.used(len(json.dumps(body["messages"])), len(json.dumps(message)))
        return self.said(message, usage, "tool_calls" if calls else "stop")

    def next_of(self, body):
        """Return the next message: the calls of the next step, or a text where all are made."""
        asked = body["messages"][1]["content"]
        replies = [one for one in body["messages"][2:] if one["role"] == "assistant"]
        told = CONVERSATION.search(asked)
        steps = writing(told[1], asked) if told else reading(body["messages"], asked)
        step = steps[min(len(replies), len(steps) - 1)]
        return {"role": "assistant", "content": step} if isinstance(step, str) else calling(*step)


def calling(*asked):
    """Return a message with calls of the tool."""
    calls = []
    for number, arguments in enumerate(asked):
        function = {"name": "memory", "arguments": json.dumps(arguments)}
        calls.append({"id": f"call_{number}", "type": "function", "function": function})
    return {"role": "assistant", "content": None, "tool_calls": calls}


def writing(told, asked):
    """Return the steps in which the turns of a conversation come into a file of their own."""
    first, *others = [" ".join(turn.split()) for turn in TURN.split(told) if turn.strip()]
    number = len(re.findall(r"^/memories/.*\.md$", asked.partition("The conv")[0], re.MULTILINE))
    draft, file = "/memories/draft.txt", f"/memories/talks/{number}.md"
    lines = "\n".join(f"- {line}" for line in others)
    return [
        [{"command": "view", "path": "/memories"}],
        [
            {"command": "create", "path": draft, "file_text": "# Notes\n- ?\n"},
            {"command": "str_replace", "path": draft, "old_str": "- ?", "new_str": f"- {first}"},
            {"command": "insert", "path": draft, "insert_line": 2, "insert_text": lines},
            {"command": "create", "path": "/memories/scratch", "file_text": "done with it"},
        ],
        [
            {"command": "rename", "old_path": draft, "new_path": file},
            {"command": "delete", "path": "/memories/scratch"},
        ],
        "The notes are up to date.",
    ]


def reading(messages, asked):
    """Return the steps in which all files are viewed and the lines that share words are named."""
    listed, query = asked.partition("The user asks")[::2]
    files = re.findall(r"^(/memories/.*)$", listed, re.MULTILINE)
    shown = [one["content"] for one in messages if one["role"] == "tool"]
    wanted = set(terms(query.partition("\n\n")[2]))
    found = []
    for file, text in zip(files, shown, strict=False):
        for number, line in LINE.findall(text):
            if shared := len(wanted & set(terms(line))):
                found.append((-shared, f"{file}:{number}"))
    places = [place for _, place in sorted(found, key=lambda pair: pair[0])]
    return [[{"command": "view", "path": file} for file in files], "\n".join(places) or "none"]
