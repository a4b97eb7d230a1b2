"""The page: one item, its questions, and how far the work is; and its server.

Of what the labels are for only the width is shown, never the value: it would be a hint. The server
is on loopback, and closed to requests from other pages.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np

from alps.errors import UsageError
from alps.ext.calibration.calibration_file import rubric_of
from alps.ext.calibration.labels import SCALE
from alps.ext.calibration.part import adjudicating
from alps.ext.people.annotate import KEEP, Answer, LabelForm, LabelItem
from alps.ext.people.annotate.labels import differing, people_in
from alps.ext.people.annotate.seat import Seat, Step, first_labels
from alps.ext.view.loopback import application_of
from alps.show.html import page_environment
from alps.stats.bootstrap import Estimate, clustered_mean
from alps.text import whole_number

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

TEMPLATES = Path(__file__).with_name("templates")
# The fields of an item that are shown in this order, in these words.
_TEXTS = {
    "memory": "The memory of the user",
    "query": "The query",
    "response": "The response",
    "gold": "The true memory",
    "predicted": "The predicted memory",
    "memories": "The memories so far",
}
_WORDS = {
    "rate": "Rate a response",
    "match": "Relate two memories",
    "gold": "Verify memories",
    "queries": "Write queries",
}
_STAGES = {"first": "", "revised": "second label, after {}", "adjudicated": "decide between labels"}

# Under this many labels an interval may be narrow by chance: nobody is told to stop.
FEWEST = 30
_Labels = Mapping[str, Mapping[str, Answer]]

ASSETS = Path(__file__).with_name("assets")
_KINDS = {"annotate.css": "text/css", "annotate.js": "text/javascript"}
# Of a form: a memory, its quote and two queries are far shorter.
_LONGEST = 200_000
# How long figures of the work stay, in times of what they took.
_WORTH = 20


@dataclass(frozen=True)
class WorkProgress:
    """How far the work is, of all people together.

    Attributes:
        agreement: Of two people, on the items that both labelled.
        half: Half the width of the interval of what the labels are for; of several rubrics, of the
            one where it is widest.
        target: The half-width that was asked for.
        what: What the labels are for.
        differing: How many items people label differently, and nobody has decided.
    """

    agreement: Estimate | None
    half: float | None
    target: float | None
    what: str
    differing: int

    @property
    def reached(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        return self.target is not None and self.half is not None and self.half <= self.target


class ItemPart(NamedTuple):
    """A text of an item: what it is, what it says, and smaller print about it."""

    title: str
    text: str
    notes: tuple[str, ...] = ()


class DialogueLine(NamedTuple):
    """One turn of a dialogue: its place from 0, and its speaker, numbered where it is a user."""

    number: int
    role: str
    speaker: str
    text: str


def _of_item(seat: Seat, step: Step, given: Mapping[str, str] | None) -> dict[str, Any]:
    """Return what the page shows of an item."""
    others = []
    for key, answer in zip(ascii_lowercase, step.others, strict=False):
        others.append((key, said_in_words(answer, step.form), as_form(answer)))
    return {
        "step": step,
        "stage": _STAGES[step.stage].format(_what_was_shown(step)),
        "unfolded": not seat.has_labelled(step.item.rubric),
        "parts": [*parts_of(step.item)],
        "lines": lines_of(step.item),
        "rubric": rubric_text(step.item, seat.folder),
        "start": _start(step, given),
        "shown": said_in_words(step.shown, step.form),
        "elsewhere": said_in_words(step.in_another_tab, step.form),
        "showing": token_hex(8),
        "others": others,
    }


def _what_was_shown(step: Step) -> str:
    if step.shown is None:
        return "your first label"
    return "seeing the draft" if step.item.by == "draft" else "seeing the judge's verdict"


def parts_of(item: LabelItem) -> Iterator[ItemPart]:
    """Yield the texts of an item, but for its dialogue."""
    payload = item.payload
    for name, title in _TEXTS.items():
        value = payload.get(name)
        if isinstance(value, str) and value:
            yield ItemPart(title, value)
        elif isinstance(value, Mapping):
            notes = [value.get(field) for field in ("type", "label")]
            said = value.get("evidence")
            notes.append(f"“{said}”" if isinstance(said, str) else None)
            yield ItemPart(title, str(value.get("value", "")), tuple(filter(None, notes)))
        elif isinstance(value, list) and value:
            yield ItemPart(title, "\n".join(map(str, value)))
    for name, value in payload.items():
        if name not in (*_TEXTS, "dialogue") and isinstance(value, str) and value:
            yield ItemPart(name.replace("_", " ").capitalize(), value)


def lines_of(item: LabelItem) -> list[DialogueLine]:
    """Return the turns of an item's dialogue."""
    lines: list[DialogueLine] = []
    said = 0
    for n, turn in enumerate(item.payload.get("dialogue") or ()):
        role = turn["role"]
        said += role == "user"
        speaker = f"user, turn {said}" if role == "user" else role
        lines.append(DialogueLine(n, role, speaker, turn["text"]))
    return lines


def rubric_text(item: LabelItem, folder: Path) -> str:
    """Return the guideline for people; empty if the form needs none."""
    if not (folder / SCALE).is_file():
        return ""
    # People don't reply with JSON.
    text = rubric_of(item.rubric).text.partition("## The reply")[0].strip()
    # A paragraph of the file is broken into lines; on the page it flows.
    return re.sub(r"(?<=\S)\n(?=[^\s\d#-])", " ", text)


def said_in_words(answer: Answer | None, form: LabelForm) -> list[tuple[str, str]]:
    """Return an answer as names and words, those of its choices where it chose."""
    words: dict[tuple[str, str], str] = {}
    for one in form.questions:
        words |= {(one.name, choice.name): choice.text for choice in one.choices}
    named = []
    for name, value in as_form(answer).items():
        named.append((name.replace("_", " "), words.get((name, value), value)))
    return named


def as_form(answer: Answer | None) -> dict[str, str]:
    """Return an answer as the fields of a form."""
    fields: dict[str, str] = {}
    for name, value in (answer or {}).items():
        if name == "queries":
            fields |= dict(zip(("query", "second"), value, strict=False))
        elif value is not None:
            fields[name] = str(value)
    return fields


def _start(step: Step, given: Mapping[str, str] | None) -> dict[str, str]:
    """Return what the form starts with: what was given and not taken, or said before."""
    if given is not None:
        return dict(given)
    # Shown before a label is given only where the folder is not blind: the draft is then filled in.
    filled = {} if step.form.single or step.stage != "first" else as_form(step.shown)
    return {**step.form.values, **filled, **as_form(step.said)}


def standing_of(seat: Seat) -> WorkProgress:
    """Return how far the work in the folder of `seat` is."""
    said = people_in(seat.folder)
    labels = {name: first_labels(rows) for name, rows in said.items()}
    decided: set[str] = set()
    for rows in said.values():
        decided.update(one.item_id for one in rows if one.stage == "adjudicated")
    waiting = [one for one in differing(seat.work, said) if one.item.item_id not in decided]
    judged = any(item.shown is not None for item in seat.work.items.values())
    what = "agreement of judge and people" if judged else "share of accepted items"
    return WorkProgress(
        agreement=_agreement(seat.work.items, labels),
        half=_half_width(seat, labels),
        target=seat.work.plan.target,
        what="share of kept memories" if seat.work.plan.job == "gold" else what,
        differing=len(waiting),
    )


def _agreement(items: Mapping[str, LabelItem], labels: _Labels) -> Estimate | None:
    """Estimate how often two people agree about an item, over all pairs of people."""
    equal: list[float] = []
    groups: list[str] = []
    for item_id, item in items.items():
        # What an answer comes to: its verdict, else its label; None of what is written.
        said = [of_person[item_id] for of_person in labels.values() if item_id in of_person]
        main = [answer.get("verdict", answer.get("label")) for answer in said]
        # Written queries are never equal, and say nothing about agreement.
        if len(main) < 2 or main[0] is None:
            continue
        alike = 0
        for place, one in enumerate(main):
            alike += main[place + 1 :].count(one)
        equal.append(alike / (len(main) * (len(main) - 1) / 2))
        groups.append(item.group)
    return clustered_mean(np.array(equal), groups) if equal else None


def _half_width(seat: Seat, labels: _Labels) -> float | None:
    """Return half the width of the widest interval, None while there are too few labels for one."""
    by_rubric: dict[str, list[tuple[float, str]]] = {}
    for of_person in labels.values():
        for item_id, answer in of_person.items():
            item = seat.work.items[item_id]
            value = _value(item, answer, seat)
            if value is not None:
                by_rubric.setdefault(item.rubric, []).append((value, item.group))
    widest = 0.0
    for pairs in by_rubric.values():
        values, groups = zip(*pairs, strict=True)
        done = clustered_mean(np.array(values), groups)
        # One rubric with too few labels is enough: people stop for all of them at once.
        if len(pairs) < FEWEST or done.low is None or done.high is None:
            return None
        widest = max(widest, (done.high - done.low) / 2)
    return widest or None


def _value(item: LabelItem, answer: Answer, seat: Seat) -> float | None:
    """Return what a label adds to the figure that it is for; None where it adds nothing."""
    if item.rubric == "gold":
        return float(answer["verdict"] == KEEP)
    if item.rubric not in seat.scales:
        return None
    if item.shown is not None:
        return float(item.shown["label"] == answer["label"])
    return float(answer["label"] in seat.positive.get(item.rubric, ()))


class _Desk:
    """What the server answers for one person."""

    def __init__(self, seat: Seat, purpose: Sequence[str]) -> None:
        self.seat, self._purpose = seat, purpose
        self.templates = page_environment(TEMPLATES)
        # Whoever goes on though the interval is narrow enough is not asked again.
        self.going_on = False
        self._standing, self._fresh_until = standing_of(seat), 0.0

    async def show(self, request: "Request") -> "Response":
        """Show the next item, or the one at a place."""
        named = request.path_params.get("place")
        place = None if named is None else whole_number(named) or 0
        self.going_on = self.going_on or "on" in request.query_params
        if self.seat.adjudicate:
            self.seat.refresh()
        step = self.seat.next() if place is None else self.seat.at(place)
        return self._page(request, step, place)

    async def take(self, request: "Request") -> "Response":
        """Put a label on disk, and show what comes next."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            # Counted as it comes: a form without end states no length, or a false one.
            if len(body) > _LONGEST:
                return self._refusal("The text is too long to save: shorten it", 413)
        given = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        place = whole_number(given.get("place", "")) or 0
        rows = whole_number(given.get("rows", "")) or 0
        try:
            item, showing = given.get("item", ""), given.get("showing", "")
            step = self.seat.say(item, rows, given, showing=showing)
        except UsageError as error:
            step = self.seat.at(place)
            return self._page(request, step, place, fault=str(error), given=given)
        except OSError as error:
            return self._refusal(f"The label is not saved: {error.strerror}", 507)
        in_another_tab = step is not None and step.in_another_tab
        if in_another_tab or "fetch" in request.headers.get("x-requested-with", ""):
            return self._page(request, step, None)
        from starlette.responses import RedirectResponse

        # Without a script the browser sends the form itself; reloading what follows then sends
        # nothing.
        return RedirectResponse(f"{request.scope['root_path']}/", status_code=303)

    def _page(
        self,
        request: "Request",
        step: Step | None,
        place: int | None,
        *,
        fault: str = "",
        given: Mapping[str, str] | None = None,
    ) -> "Response":
        """Show a step, with what was given and why it was not taken; without one the end."""
        from starlette.responses import HTMLResponse

        seat, standing = self.seat, self._current()
        values: dict[str, Any] = {
            "job": _WORDS[seat.work.plan.job],
            "person": seat.person,
            "done": seat.done,
            "all": len(seat.order),
            "standing": standing,
            "fault": fault,
            "adjudicating": seat.adjudicate,
            "purpose": self._purpose,
            "root": request.scope["root_path"],
        }
        going_on = self.going_on or place is not None or seat.adjudicate
        if step is None or (standing.reached and not going_on):
            template = "end.html"
            differing = 0 if seat.adjudicate else standing.differing
            values |= {"open": step is not None, "differing": differing}
            values["decide"] = adjudicating(seat.folder)
        else:
            template = "item.html"
            values |= _of_item(seat, step, given)
        text = self.templates.get_template(template).render(**values)
        # Half a surrogate pair, which JSON can hold, has no UTF-8.
        return HTMLResponse(text.encode(errors="replace"))

    def _current(self) -> WorkProgress:
        """Return how far the work is, made anew when that is worth its time."""
        # Of 10,000 labels it takes 0.4 s: nobody waits for it at every label.
        if time.monotonic() >= self._fresh_until:
            started = time.monotonic()
            self._standing = standing_of(self.seat)
            self._fresh_until = started + _WORTH * (time.monotonic() - started)
        return self._standing

    def _refusal(self, message: str, status: int) -> "Response":
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(message, status)


def application(seat: Seat, token: str, purpose: Sequence[str] = ()) -> "Starlette":
    """Return the application that serves `seat` to holders of the token.

    `purpose` says what the labels are for, before the first and after the last one.
    """
    from starlette.responses import FileResponse, PlainTextResponse
    from starlette.routing import Route

    desk = _Desk(seat, purpose)

    async def asset(request: "Request") -> "Response":
        name = request.path_params["name"]
        # A path out of a request is never joined to a folder.
        if name not in _KINDS:
            return PlainTextResponse("not found", 404)
        return FileResponse(ASSETS / name, media_type=_KINDS[name])

    routes = [
        Route("/", desk.show),
        Route("/item/{place}", desk.show),
        Route("/label", desk.take, methods=["POST"]),
        Route("/assets/{name}", asset),
    ]
    return application_of(routes, token)
