"""A scripted model that keeps notes with the tool `memory`: each turn is a line, found by words."""

import json
import re

from alps.systems.retrievers import terms
from tests.scripted_models import ScriptedModels

CONVERSATION = re.compile(r"The conversation, of \S+:\n\n(.*)", re.DOTALL)
TURN = re.compile(r"^(?:user|assistant|system): ", re.MULTILINE)
LINE = re.compile(r"(\d+)\t(.*)")


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
        reason = "tool_calls" if calls else "stop"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        whole = {"id": "x", "object": "chat.completion", "created": 0, "model": "scripted"}
        return self.answer({**whole, "choices": [choice], "usage": usage}, "chat")

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
