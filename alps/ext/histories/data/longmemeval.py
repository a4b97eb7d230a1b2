"""LongMemEval: 500 questions, each with a history of its own (Wu et al., ICLR 2025).

Three files hold the same questions: `oracle` with the sessions of the evidence alone, `s` with
about 50 sessions each, `m` with about 500. A question whose id ends with `_abs` can't be answered;
it stays in the figure of its type. Nothing of the ids reaches a system: those of sessions give the
evidence away.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.authors import LONGMEMEVAL, TYPE_RUBRICS
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    as_list,
    as_text,
    items,
    listed,
    refuse_other_set,
    role,
    text,
)
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story, when
from alps.ext.histories.task import tracks_of

ABSTAINS = "_abs"
PREFERENCE = "single-session-preference"
# The cleaned files of September 2025 have other data than the first ones, so they come first.
NAMES: Mapping[str, tuple[str, ...]] = {
    "oracle": ("longmemeval_oracle.json",),
    "s": ("longmemeval_s_cleaned.json", "longmemeval_s.json"),
    "m": ("longmemeval_m_cleaned.json", "longmemeval_m.json"),
}
_TIME = "%Y/%m/%d (%a) %H:%M"
_PARTS = ("haystack_session_ids", "haystack_dates", "haystack_sessions")


def _files(data: Path, choice: SetChoice) -> SetFiles:
    refuse_other_set(data, choice, NAMES)
    if data.is_file():
        return SetFiles(tuple(items(data)), (data,))
    wanted = [choice.set] if choice.set else list(NAMES)
    there = [data / name for one in wanted for name in NAMES[one] if (data / name).is_file()]
    if not there:
        raise UsageError(f"data={data}: no {NAMES[wanted[0]][0]} in it")
    if len(there) > 1 and choice.set is None:
        names = ", ".join(path.name for path in there)
        raise UsageError(f"data={data}: name a set with set= (found: {names})")
    return SetFiles(tuple(items(there[0])), (there[0],))


def _story(node: Mapping[str, Any]) -> Story:
    name = text(node, "question_id")
    parts = [listed(node, name) for name in _PARTS]
    if len(set(map(len, parts))) > 1:
        lengths = [f"{name} {len(part):,}" for name, part in zip(_PARTS, parts, strict=True)]
        raise ValueError(f"lists differ in length: {', '.join(lengths)}")
    sessions, seen, evidence = [], dict[str, int](), []
    for id_, date, said in zip(*parts, strict=True):
        own, written = as_text(id_, _PARTS[0]), as_text(date, _PARTS[1])
        # Thirteen histories hold one session twice: the second one needs an id of its own.
        seen[own] = seen.get(own, 0) + 1
        unique = own if seen[own] == 1 else f"{own}#{seen[own]}"
        messages = []
        for place, one in enumerate(as_list(said, _PARTS[2])):
            messages.append(Message(role(one), text(one, "content"), f"{unique}/{place}"))
            if one.get("has_answer"):
                evidence.append(f"{unique}/{place}")
        sessions.append(HistorySession(unique, when(written, _TIME), tuple(messages), written))
    kind, asked = text(node, "question_type"), text(node, "question_date")
    question = SetQuestion(
        id=name,
        history=name,
        text=text(node, "question"),
        answer=text(node, "answer"),
        kind=kind,
        at=when(asked, _TIME),
        evidence=tuple(evidence or map(str, listed(node, "answer_session_ids"))),
        abstains=name.endswith(ABSTAINS),
        # Golds of this type are rubrics of 58 words on average.
        scoring="guided" if kind == PREFERENCE else "judged",
        more={"written": asked},
    )
    return Story(name, tuple(sessions), (question,))


SET = CitedSet(
    name="longmemeval",
    title="LongMemEval",
    licence="MIT",
    language="English",
    source="hub:xiaowu0162/longmemeval-cleaned",
    hub="xiaowu0162/longmemeval-cleaned",
    wanted=lambda choice: NAMES[choice.set or "oracle"][:1],
    files=_files,
    story=_story,
    authors=LONGMEMEVAL,
    rubrics=TYPE_RUBRICS,
    expected=lambda choice: {
        "single-session-user": 70,
        "single-session-assistant": 56,
        PREFERENCE: 30,
        "multi-session": 133,
        "temporal-reasoning": 133,
        "knowledge-update": 78,
    },
    chosen={"set": tuple(NAMES)},
)
tracks = tracks_of(SET)
