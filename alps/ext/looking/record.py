"""Records of a run as shown: single ones, and the most instructive."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from alps.errors import RunFolderError
from alps.ext.looking.dialogue import DialogueView, Piece, dialogue_view, excerpt
from alps.extension import blamed
from alps.run.opened import AnswerKey, RunFolder, Samples, read_wanted, state_of
from alps.schema import FAILURES, UNHEARD
from alps.show.formatting import MEANINGS, counted
from alps.tasks import Task
from alps.tasks.record_parts import (
    AnsweredRecord,
    Dialogue,
    Facts,
    Highlight,
    Listed,
    Paired,
    Pairing,
    Passage,
    RecordPart,
    Row,
    ScoredAnswer,
)
from alps.tasks.registry import track_title

LIMIT = 20
FOLDED_TURN = 280
_LONGEST_ERROR = 2_000
_OPENING = 80
ShownPart = DialogueView | Listed | Paired | Passage | Facts

_EFFECTS = {
    **dict.fromkeys(FAILURES, "an invalid response, given the minimum score"),
    **dict.fromkeys((*UNHEARD, "unrated"), "unscored"),
}


@dataclass(frozen=True)
class RecordView:
    """Everything that is shown of one record.

    `compares_lists` is set where its task puts gold memories beside predicted ones.
    """

    key: AnswerKey
    state: str
    explanation: str
    parts: tuple[ShownPart, ...]
    compares_lists: bool
    opening: str
    scores: Mapping[str, float]
    prediction: Row | None
    notes: tuple[str, ...]
    error: str | None
    raw: str | None
    judge_error: str | None
    judge_raw: tuple[str, ...]

    @property
    def pairings(self) -> Sequence[Pairing]:
        """Gold aligned with prediction, if the task has lists of memories."""
        for part in self.parts:
            if isinstance(part, Paired):
                return part.pairings
        return ()

    def count(self, kind: str) -> int:
        """Return how many rows are of `kind`."""
        return sum(pairing.kind == kind for pairing in self.pairings)

    @property
    def gold_count(self) -> int:
        """How many gold memories there are."""
        # An old memory that is kept stands beside its replacement, and is nothing to be found.
        return sum(pairing.gold is not None and pairing.kind != "kept" for pairing in self.pairings)

    @property
    def brief(self) -> str:
        """How gold and prediction compare, in a few words.

        Empty where the task has no lists of memories.
        """
        if self.count("unjudged"):
            predicted = len(self.pairings) - self.gold_count
            return f"{self.gold_count} gold, {predicted} predicted, not judged"
        if not self.pairings:
            return ""
        outdated = counted(self.count("kept"), "outdated memory", "outdated memories")
        kept = f", {outdated} kept" if self.count("kept") else ""
        found = f"{self.count('matched')} of {self.gold_count} found"
        return f"{found}, {self.count('extra')} extra{kept}"


def explain(state: str) -> str:
    """Describe the outcome of a record in a sentence."""
    if state == "ok":
        return "answered and judged"
    if state == "repaired":
        return "answered, repaired and judged"
    if state == "unfinished":
        return "not finished; to finish it, repeat the same alps run"
    if state == "judge:no_gold":
        return f"{MEANINGS['no_gold']}: unscored"
    if state.startswith("judge:"):
        kind = state.removeprefix("judge:")
        return f"judging failed ({kind}: {MEANINGS.get(kind, 'unknown')}): unscored"
    meaning = MEANINGS.get(state, "unknown")
    return f"{meaning}: {_EFFECTS.get(state, '?')}"


def build_view(key: AnswerKey, task: Task, record: AnsweredRecord) -> RecordView:
    """Build the view of an answer from what is at hand of it; `prediction` may be a failed one.

    Raises:
        RunFolderError: If a row of it has not the shape of one that a run wrote.
    """
    # A row is read by the task that wrote it, maybe a user's own: what it raises of a damaged row
    # is not for us to know, and `alps show` answers every run folder with a line.
    try:
        return _view(key, task, record)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        # A fault of an extension's is no damage: it is said by the name of that.
        if blamed(error):
            raise
        journals = "predictions.jsonl, verdicts.jsonl or scores.jsonl"
        fault = f"the row in {journals} can't be read; repeat the run with another out="
        raise RunFolderError(f"{track_title(key.track)}/{key.id}: {fault}") from error


def _view(key: AnswerKey, task: Task, record: AnsweredRecord) -> RecordView:
    prediction, verdict, score = record.prediction or {}, record.verdict or {}, record.score or {}
    answered = prediction.get("outcome") == "ok"
    # What could not be read as an answer is no part of the record: it is shown as raw text.
    parts = task.shown.record_parts(record if answered else replace(record, prediction=None))
    notes = [*prediction.get("notes", ()), *verdict.get("notes", ())]
    if answered and prediction.get("truncated"):
        notes.insert(0, "the answer was cut off at max_tokens")
    if answered and not verdict and score.get("outcome") == "ok":
        notes.append("its verdict is lost; to write it again, repeat the same alps run")
    error, raw = _judge_failure(verdict)
    state = state_of(record.score, record.prediction)
    return RecordView(
        key=key,
        state=state,
        explanation=explain(state),
        parts=tuple(_shown(parts)),
        compares_lists=any(isinstance(part, Paired) for part in parts),
        opening=opening_of(parts),
        scores=score.get("scores", {}),
        prediction=prediction["prediction"] if answered else None,
        notes=tuple(map(str, notes)),
        error=_cut(prediction.get("error")),
        raw=prediction.get("raw"),
        judge_error=error,
        judge_raw=raw,
    )


def _judge_failure(verdict: Row) -> tuple[str | None, tuple[str, ...]]:
    """Return what went wrong in a judgement, and all that the judge wrote in it."""
    # Beside the pairing, a judge may be asked for support and for what an answer used: each of
    # these can fail alone.
    support, used = verdict.get("support") or {}, verdict.get("used") or {}
    raw = [*verdict.get("raw", ()), support.get("raw"), *used.get("raw", ())]
    error = verdict.get("error") or support.get("error") or used.get("error")
    return _cut(error), tuple(filter(None, raw))


def _cut(error: str | None) -> str | None:
    """Return an error as it is shown: a server may send a page of any length for one."""
    if error is None or len(error) <= _LONGEST_ERROR:
        return error
    return f"{error[:_LONGEST_ERROR]}… ({len(error):,} characters)"


def _shown(parts: Iterable[RecordPart]) -> Iterator[ShownPart]:
    """Yield the parts that hold anything, with the quotes of dialogues located."""
    for part in parts:
        match part:
            case Dialogue(turns=content) | Listed(sides=content) | Paired(pairings=content):
                shown = bool(content)
            case Passage(text=content) | Facts(rows=content):
                shown = bool(content)
        if shown:
            yield dialogue_view(part) if isinstance(part, Dialogue) else part


def opening_of_sample(task: Task, sample: Any) -> str:
    """Return the first words of a record that nothing but its sample is known of."""
    try:
        return opening_of(task.shown.record_parts(AnsweredRecord(sample, None, None, None)))
    # A task of the user's own may need more than that to show a record.
    except (LookupError, TypeError, AttributeError, ValueError):
        return ""


def opening_of(parts: Iterable[RecordPart]) -> str:
    """Return the first words of a record: its query, or what the user says first.

    Empty where its parts have neither.
    """
    said = ""
    for part in parts:
        match part:
            case Passage(text=text) if text.strip():
                return _first_words(text)
            # Of an update the new dialogue comes last, and the old one is folded.
            case Dialogue(turns=turns) if turns and not (said and part.folded):
                spoken = (turn.text for turn in turns if turn.role == "user")
                said = _first_words(next(spoken, turns[0].text))
    return said


def _first_words(text: str) -> str:
    # Dialogues of AlpsBench have up to 272,000 characters: only the beginning is split.
    words = " ".join(text[: 4 * _OPENING].split())
    if len(words) <= _OPENING:
        return words
    return f"{words[:_OPENING].rpartition(' ')[0] or words[:_OPENING]}…"


def rule(groups: Sequence[Highlight]) -> str:
    """Return the rule by which records of some groups are chosen, in words."""
    quotas = "; ".join(f"{group.title} (up to {group.quota})" for group in groups)
    return (
        f"This section shows at most {LIMIT} records, each under one heading. alps chooses records "
        f"for the headings in this order: {quotas}. If these are fewer than {LIMIT}, alps adds "
        "more in the same order. Records with equal scores keep the order of the data set."
    )


class Highlights:
    """Instructive records of a track, found while its answers pass one by one."""

    def __init__(self, groups: Sequence[Highlight]) -> None:
        self._ranked = [(group, _Best()) for group in groups]

    def add(self, key: AnswerKey, answer: ScoredAnswer) -> None:
        """Let an answer pass; they come in the order of the data, by which ties go."""
        for group, best in self._ranked:
            if (rank := group.rank(answer)) is not None:
                best.add(rank, key)

    def chosen(self) -> list[tuple[Highlight, list[AnswerKey]]]:
        """Choose the records; groups without any are left out."""
        return _choose([(group, best.keys()) for group, best in self._ranked])


class _Best:
    """The answers with the highest ranks; of equal ones the first."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, AnswerKey]] = []

    def add(self, rank: Any, key: AnswerKey) -> None:
        self._kept.append((rank, key))
        if len(self._kept) > 4 * LIMIT:
            # Other groups take LIMIT of them at most, and this one as many of what they leave.
            self._sort()
            del self._kept[2 * LIMIT :]

    def keys(self) -> list[AnswerKey]:
        self._sort()
        return [key for _, key in self._kept]

    def _sort(self) -> None:
        self._kept.sort(key=itemgetter(0), reverse=True)


def _choose(
    ranked: Sequence[tuple[Highlight, Sequence[AnswerKey]]],
) -> list[tuple[Highlight, list[AnswerKey]]]:
    group_of: dict[AnswerKey, Highlight] = {}
    for group, keys in ranked:
        _take(group, keys, group_of, most=group.quota)
    # A run without failures, say, leaves places empty: they go to what there is.
    for group, keys in ranked:
        _take(group, keys, group_of, most=LIMIT)
    chosen = []
    for group, keys in ranked:
        if members := [key for key in keys if group_of.get(key) is group]:
            chosen.append((group, members))
    return chosen


def _take(
    group: Highlight, keys: Sequence[AnswerKey], group_of: dict[AnswerKey, Highlight], *, most: int
) -> None:
    """Put up to `most` of the records that are in no group yet into `group`, as LIMIT allows."""
    waiting = [key for key in keys if key not in group_of]
    for key in waiting[: min(LIMIT - len(group_of), most)]:
        group_of[key] = group


@dataclass(frozen=True)
class TurnView:
    """A turn of an excerpt; `skipped` turns before it are not shown."""

    place: int
    role: str
    pieces: list[Piece]
    skipped: int


@dataclass(frozen=True)
class PartCard:
    """A part of a record on a page.

    Of a dialogue, the turns that are shown, and how many more there are at its end.
    """

    kind: str
    part: ShownPart
    turns: list[TurnView]
    skipped_after: int


@dataclass(frozen=True)
class RecordCard:
    """A record as shown on a page.

    `bare` is one of which nothing but a dialogue can be shown.
    """

    view: RecordView
    parts: list[PartCard]
    bare: bool


def cards(
    run: RunFolder,
    track: str,
    chosen: Sequence[tuple[Highlight, Sequence[AnswerKey]]],
    scores: Mapping[AnswerKey, Row],
    predictions: Mapping[AnswerKey, Row],
) -> tuple[list[tuple[str, list[RecordCard]]], Samples]:
    """Return the instructive records of a track that were chosen, with their samples."""
    task = run.tasks[track]
    wanted: set[str] = set()
    for _, keys in chosen:
        wanted.update(key.id for key in keys)
    samples, verdicts = read_wanted(run, track, wanted), run.rows("verdicts", ids=wanted)
    groups = []
    for group, keys in chosen:
        members = []
        for key in keys:
            sample, prediction = samples.by_id.get(key.id), predictions.get(key)
            record = AnsweredRecord(sample, prediction, verdicts.get(key), scores[key])
            members.append(record_card(build_view(key, task, record)))
        groups.append((group.title, members))
    return groups, samples


def cards_of(run: RunFolder, track: str, keys: Sequence[AnswerKey]) -> list[RecordCard]:
    """Return the cards of some records, in their order."""
    wanted = {key.id for key in keys}
    scores, predictions = run.rows("scores", ids=wanted), run.rows("predictions", ids=wanted)
    group = Highlight("", len(keys), lambda answer: None)
    ((_, members),), _ = cards(run, track, [(group, keys)], scores, predictions)
    return members


def record_card(view: RecordView) -> RecordCard:
    """Return a record as pages draw it, by the macro `record` of `record_view.html`."""
    bare = all(isinstance(part, DialogueView) for part in view.parts)
    return RecordCard(view, [_part_card(part) for part in view.parts], bare)


def _part_card(part: ShownPart) -> PartCard:
    """Keep the turns of a dialogue that tell most."""
    if not isinstance(part, DialogueView):
        return PartCard(type(part).__name__.lower(), part, [], 0)
    turns: list[TurnView] = []
    shown = 0
    for place in part.telling:
        turn, spans = part.turns[place], part.evidence.spans.get(place, ())
        pieces = excerpt(turn.text, spans, limit=FOLDED_TURN, context=100)
        turns.append(TurnView(place, turn.role, pieces, place - shown))
        shown = place + 1
    return PartCard("dialogue", part, turns, len(part.turns) - shown)
