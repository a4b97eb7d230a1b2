"""A submission as it lies in its folder: the card in `submission.json`, the rows of each track, and
a review.

Everything here is read as the work of a stranger: keys that are not known are refused, numbers are
finite, texts are short and hold no markup, and a file is never followed anywhere else.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from alps.leaderboard.reading import read_part, read_rows
from alps.leaderboard.wording import fault_of

CARD, REVIEW = "submission.json", "review.json"
STAGES = ("predictions", "verdicts", "scores", "calls")
"""The files that a track may have: STAGE.jsonl each."""
REFUTED = "refuted"
STATUSES = ("self-reported", "schema-valid", "re-scored", "reproduced", REFUTED)
"""From what the submitter says to what a maintainer saw come out again; the last is what did not.
"""
TRACK_NAME = r"(?:task1|task2|task3_d(?:100|300|500|700|1000)|task4_ability[1-5])"
"""What the name of a track must match as a whole."""
NO_JUDGE = frozenset({"recall_at_1", "recall_at_5", "recall_at_10", "mrr"})
"""Metrics that no judge has a part in."""
_MOST_NODES, _DEEPEST, _LONGEST_SETTING = 500, 6, 500


def _displayable(text: str) -> str:
    if fault := fault_of(text):
        raise ValueError(fault)
    return text


def _displayable_lines(text: str) -> str:
    if fault := fault_of(text, lines=True):
        raise ValueError(fault)
    return text


def _address(url: str) -> str:
    parts = urlsplit(_displayable(url))
    name = parts.hostname or ""
    if parts.scheme != "https" or parts.username is not None or parts.password is not None:
        raise ValueError("must begin with https:// and hold neither user nor password")
    if "." not in name or not name.replace(".", "").replace("-", "").isalnum() or not url.isascii():
        raise ValueError("must name a public host in ASCII")
    if name.replace(".", "").isdigit() or name.endswith(
        (".local", ".internal", ".lan", ".localhost")
    ):
        raise ValueError("must name a public host")
    if set(url) & set("\"'`\\^|[]() "):
        raise ValueError("holds a character that an address does not need")
    return url


def _day(text: str) -> str:
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError("must be a day, as 2026-01-31")
    return text


def _plain(value: Any) -> Any:
    """Accept short plain JSON: what the settings of a system or a judge may hold."""
    waiting, nodes = [(value, 1)], 0
    while waiting:
        node, level = waiting.pop()
        nodes += 1
        if nodes > _MOST_NODES or level > _DEEPEST:
            raise ValueError(f"too much: at most {_MOST_NODES} values, {_DEEPEST} deep")
        if isinstance(node, dict):
            waiting += [(name, level) for name in node] + [
                (child, level + 1) for child in node.values()
            ]
        elif isinstance(node, list):
            waiting += [(child, level + 1) for child in node]
        elif isinstance(node, str) and node:
            if len(node) > _LONGEST_SETTING:
                raise ValueError(f"a text in it is longer than {_LONGEST_SETTING} characters")
            _displayable_lines(node)
    return value


def _run_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Accept the settings of a run whose few that scores depend on are what they must be."""
    seed, repeats = settings.get("seed", 0), settings.get("repeats", 1)
    if type(seed) is not int or not 0 <= seed < 2**53:
        raise ValueError("seed must be a number from 0")
    if type(repeats) is not int or not 1 <= repeats <= 100:
        raise ValueError("repeats must be a number from 1 to 100")
    if settings.get("extras", "none") not in ("none", "judge"):
        raise ValueError("extras must be none or judge")
    return settings


Line = Annotated[str, StringConstraints(min_length=1, max_length=120), AfterValidator(_displayable)]
Long = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_displayable)]
Notes = Annotated[
    str, StringConstraints(min_length=1, max_length=2_000), AfterValidator(_displayable_lines)
]
Url = Annotated[str, StringConstraints(max_length=300), AfterValidator(_address)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$"), AfterValidator(_day)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=80)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./:@+-]{0,79}$")]
TrackName = Annotated[str, StringConstraints(pattern=rf"^{TRACK_NAME}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FingerprintId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}(?:, [0-9a-f]{40}){0,9}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Plain = Annotated[Any, AfterValidator(_plain)]
Settings = Annotated[dict[Name, Plain], Field(max_length=100), AfterValidator(_plain)]


class Part(BaseModel):
    """A part of a submission: strict types, no unknown key, finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class System(Part):
    """What was evaluated; `model` is the name, `settings` everything that can change its answers."""

    kind: Literal["llm", "memory", "retriever", "rules", "floor", "program", "python", "recorded"]
    model: Line
    snapshot: Line | None
    open_weights: bool | None
    settings: Settings


class DataCard(Part):
    """What data a run is about; `public` says whether everybody can see the gold."""

    name: Line
    split: Line
    commit: Commit | None
    public: bool


class Calls(Part):
    """What a run asked, and what it cost in US dollars; a cost of None is not known."""

    http: Count
    cached: Count
    prompt_tokens: Count
    completion_tokens: Count
    cost: Annotated[float, Field(ge=0, le=1e9)] | None
    unpriced: Count


class ServedBy(Part):
    """A model that answered, and its build, as the provider named them."""

    model: Line | None
    fingerprint: Line | None


class RunCard(Part):
    """One run: its settings, the prompts and the judge it used.

    `seconds` is how long its calls took together.

    `served` holds what answered, by the purpose of the calls; None where no provider told.
    """

    settings: Annotated[Settings, AfterValidator(_run_settings)]
    prompts: Annotated[dict[Name, Sha256], Field(max_length=100)]
    data: DataCard
    judge: Settings
    calls: Calls
    seconds: Seconds | None
    served: (
        dict[Literal["generate", "judge"], Annotated[list[ServedBy], Field(max_length=100)]] | None
    ) = None


class Interval(Part):
    """A figure with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    n: Count = 0


class Corrected(Part):
    """A score corrected for what the judge is known to get wrong, and the calibrations that it
    stands on.
    """

    method: Literal["ppi", "rogan_gladen"]
    status: Literal["corrected", "not_correctable"]
    value: float | None
    low: float | None
    high: float | None
    labelled: Count
    judged: Count
    n: Count
    outside: bool
    impossible: bool = False
    calibration: Annotated[dict[Name, Sha256], Field(max_length=20)]
    notes: Annotated[list[Long], Field(max_length=20)] = []
    reason: Long | None = None
    youden: Interval | None = None


class Score(Part):
    """A score with its 95 % interval; bounds where records are unscored.

    `unscored` says why there is no score.

    `reason` says why there is no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    n: Count
    worst_case: float | None = None
    best_case: float | None = None
    unscored: Long | None = None
    reason: Long | None = None
    corrected: Corrected | None = None


class Floor(Part):
    """What deserves nothing scores on the same records, under an embedded judge.

    `lead` is its first figure.
    """

    lead: Name
    judge: Line
    scores: Annotated[dict[Name, Score], Field(max_length=60)]


class File(Part):
    """A file of a track."""

    sha256: Sha256
    bytes: Count
    rows: Count


class Files(Part):
    """The files of a track."""

    predictions: File
    verdicts: File | None = None
    scores: File
    calls: File | None = None

    def present(self) -> dict[str, File]:
        """Return those that are there, by their stage."""
        found = {stage: getattr(self, stage) for stage in STAGES}
        return {stage: file for stage, file in found.items() if file is not None}


class Track(Part):
    """What one track came to; `run` is the place of its run among `Submission.runs`."""

    run: Annotated[int, Field(ge=0, lt=100)]
    task: Literal["extraction", "update", "retrieval", "utilization"]
    conditions: Annotated[Settings, Field(max_length=10)]
    n: Count
    scored: Count
    unscored: Count
    failed_predictions: Annotated[dict[Name, Count], Field(max_length=20)]
    failed_judgements: Annotated[dict[Name, Count], Field(max_length=20)]
    data_sha256: Sha256
    judge_fingerprint: FingerprintId
    judge: Line
    comparable: bool
    scores: Annotated[dict[Name, Score], Field(max_length=60)]
    counts: Annotated[dict[Name, Count], Field(max_length=60)]
    seconds_per_query: Seconds | None = None
    floors: Annotated[dict[Name, Floor], Field(max_length=20)]
    files: Files


class Submission(Part):
    """The card of a submission.

    `checksum` is the sha256 of everything else in it (`checksum_of`); it guards what can't be
    recomputed, such as seconds, against a slip of the hand.
    """

    format: Literal[1]
    slug: Slug
    name: Line
    org: Line | None
    url: Url | None
    submitted: Day
    alps: Line
    notes: Notes | None
    system: System
    runs: Annotated[list[RunCard], Field(min_length=1, max_length=100)]
    tracks: Annotated[dict[TrackName, Track], Field(min_length=1, max_length=20)]
    checksum: Sha256 | None = None


class ReviewedTrack(Part):
    """What a maintainer found for a track: all its scores, or none where the predictions could not
    be judged.
    """

    scores: Annotated[dict[Name, Score], Field(max_length=60)]
    judge_fingerprint: FingerprintId | None = None


class Review(Part):
    """What a maintainer saw: that it is in order, or more: judged the predictions again, or ran the
    system again.

    `recomputed` names the tracks whose printed scores came out again where their data are: on data
    that are not the package's, nothing else makes them take part in ranks. `continues` names the
    earlier submission of the same
    submitter: nothing else joins their histories, as a name and an organisation are free for all to
        take.
    """

    status: Literal["schema-valid", "re-scored", "reproduced", "refuted"]
    judge_fingerprint: FingerprintId | None = None
    date: Day
    tracks: Annotated[dict[TrackName, ReviewedTrack], Field(max_length=20)]
    recomputed: Annotated[list[TrackName], Field(max_length=20)] = []
    continues: Slug | None = None
    note: Notes | None


@dataclass(frozen=True)
class Entry:
    """A submission that could be read, in its folder."""

    folder: Path
    card: Submission
    review: Review | None

    @property
    def status(self) -> str:
        """How far it is confirmed, as far as its own files say."""
        return self.review.status if self.review is not None else STATUSES[0]

    def rows(self, track: str, stage: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file of a track; none where there is no such file.

        Raises:
            DataError: If the file or a row can't be read.
        """
        path = self.folder / track / f"{stage}.jsonl"
        if stage in self.card.tracks[track].files.present():
            yield from read_rows(path)


def read_entry(folder: Path) -> Entry:
    """Read the card of a submission, and its review where there is one.

    Raises:
        DataError: If they can't be read, or say something that does not fit; names the file and the
            field.
    """
    card = read_part(folder / CARD, Submission)
    has_review = os.path.lexists(folder / REVIEW)
    return Entry(folder, card, read_part(folder / REVIEW, Review) if has_review else None)


def checksum_of(card: Mapping[str, Any]) -> str:
    """Return the sha256 of the canonical JSON of a card without its own `checksum`."""
    rest = {name: value for name, value in card.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_card(path: Path, card: Part) -> None:
    """Write a card or a review, indented for people; the same card gives the same bytes."""
    text = json.dumps(
        card.model_dump(exclude_unset=True), ensure_ascii=False, allow_nan=False, indent=2
    )
    path.write_bytes(text.encode() + b"\n")
