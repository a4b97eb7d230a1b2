"""A submission: the card in `submission.json`, a maintainer's review, and how both are read.

Everything here is untrusted: keys that are not known are refused, numbers are finite, texts are
short and hold no markup, and a file is never followed anywhere else.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from alps import rows
from alps.errors import DataError
from alps.leaderboard.untrusted import (
    LARGEST_FILE,
    Commit,
    Count,
    Day,
    FingerprintId,
    Line,
    Long,
    Name,
    Notes,
    Seconds,
    Settings,
    Sha256,
    Slug,
    TaskName,
    TrackName,
    Url,
    open_plain,
    read_model,
)
from alps.tasks.base import keeps_memories
from alps.tasks.by_memory import FULL

CARD, REVIEW = "submission.json", "review.json"
SAMPLES = "samples"
MEMORY, MEMORY_FOLDER = "memory:", "memory-"
# What lies in the folder of a memory system, under the names that a run folder has for it.
DIARY, LEDGER, BESIDE = "memory.jsonl", "memory_calls.jsonl", "beside"
# The files that a track may have: STAGE.jsonl each.
STAGES = ("predictions", "verdicts", "scores", "calls", "audit")
REFUTED = "refuted"
# From what the submitter says to what a maintainer reproduced; the last is what was not.
FORMAT_CHECKED = "format-checked"
STATUSES = ("self-reported", FORMAT_CHECKED, "re-scored", "reproduced", REFUTED)

# Rows beside a run, which `alps memory compare` makes up to seven of.
MOST_BESIDE = 12
When = Literal["before", "after"]
Kind = Literal["llm", "memory", "retriever", "rules", "floor", "program", "python", "recorded"]


def _run_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Accept the settings of a run whose few that scores depend on are what they must be."""
    seed, repeats = settings.get("seed", 0), settings.get("repeats", 1)
    # By `type`: `True` is an int to Python, and other readers of JSON keep integers up to 2^53.
    if type(seed) is not int or not 0 <= seed < 2**53:
        raise ValueError("seed must be an integer from 0 to 2^53 - 1")
    if type(repeats) is not int or not 1 <= repeats <= 100:
        raise ValueError("repeats must be an integer from 1 to 100")
    if settings.get("extras", "none") not in ("none", "judge"):
        raise ValueError("extras must be none or judge")
    return settings


class StrictFields(BaseModel):
    """A part of a submission: strict types, no unknown key, finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class PublishedSystem(StrictFields):
    """The system: `model` is its name, `settings` everything that can change its answers."""

    kind: Kind
    model: Line
    snapshot: Line | None
    open_weights: bool | None
    settings: Settings


class DataCard(StrictFields):
    """What data a run is about; `public` says whether everybody can see the gold."""

    name: Line
    split: Line
    commit: Commit | None
    public: bool


# The rows of a run's summary, each with stricter limits: a stranger wrote these.
class PublishedCalls(rows.CallCounts, StrictFields):
    """Calls of a run and their cost in US dollars; None: unknown."""

    http: Count
    cached: Count
    prompt_tokens: Count
    completion_tokens: Count
    cost: Annotated[float, Field(ge=0, le=1e9)] | None
    unpriced: Count


class PublishedServedBy(rows.ServedBy, StrictFields):
    """A model that answered, and its build, as the provider named them."""

    model: Line | None
    fingerprint: Line | None


class PublishedRubricCheck(rows.RubricCheck, StrictFields):
    """How many of the known items of a rubric a judge got right, of `n` that it answered."""

    right: Count
    n: Count


class RunCard(StrictFields):
    """One run: its settings, the prompts and the judge it used.

    `seconds` is how long its calls took together; `served` holds what answered, by the purpose of
    the calls, None where no provider reported it. `judge_check` has how many known items the judge
    got right, by rubric; empty or None where it was not checked.
    """

    settings: Annotated[Settings, AfterValidator(_run_settings)]
    prompts: Annotated[dict[Name, Sha256], Field(max_length=100)]
    data: DataCard
    judge: Settings
    calls: PublishedCalls
    seconds: Seconds | None
    served: (
        dict[
            Literal["generate", "judge"], Annotated[list[PublishedServedBy], Field(max_length=100)]
        ]
        | None
    ) = None
    judge_check: Annotated[dict[Name, PublishedRubricCheck], Field(max_length=100)] | None = None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The parts of the judge's fingerprint, without the id, which is their hash."""
        return without(self.judge, "id")


class PublishedInterval(rows.Interval, StrictFields):
    """A figure with its 95 % interval."""

    n: Count = 0
    reason: Long | None = None
    method: Long | None = None


class PublishedCorrection(rows.Corrected, StrictFields):
    """A score corrected for the judge's known errors, and the calibrations used."""

    labelled: Count
    judged: Count
    n: Count
    calibration: Annotated[dict[Name, Sha256], Field(max_length=20)]
    notes: Annotated[list[Long], Field(max_length=20)] = []
    youden: PublishedInterval | None = None
    reason: Long | None = None


class PublishedScore(rows.Score, StrictFields):
    """A score with its 95 % interval; bounds where records are unscored."""

    n: Count
    reason: Long | None = None
    method: Long | None = None
    unscored: Long | None = None
    corrected: PublishedCorrection | None = None


class PublishedFloor(StrictFields):
    """A trivial baseline on the same records, under an embedded judge; `lead`: its first metric."""

    lead: Name
    judge: Line
    scores: Annotated[dict[Name, PublishedScore], Field(max_length=60)]


class File(StrictFields):
    """A file of a track."""

    sha256: Sha256
    bytes: Count
    rows: Count


class TrackFiles(StrictFields):
    """The files of a track."""

    predictions: File
    verdicts: File | None = None
    scores: File
    calls: File | None = None
    audit: File | None = None

    def present(self) -> dict[str, File]:
        """Return the existing files, by stage."""
        return {stage: file for stage in STAGES if (file := getattr(self, stage)) is not None}


class PublishedAuditedScore(rows.AuditedScore, StrictFields):
    """A score that audits correct."""

    n: Count
    audited: Count
    cheap: PublishedInterval
    alone: PublishedInterval | None = None
    needed: Count | None = None
    reason: Long | None = None


class PublishedAudit(StrictFields):
    """An audit: who audited, how many sessions, which by the seed, and what it corrects.

    `judge_check` has how many known items its judge got right, by rubric; empty or None where it
    was not checked, or people audited.
    """

    judge: Line
    fingerprint: Settings
    sessions: Count
    seed: Count
    scores: Annotated[dict[Name, PublishedAuditedScore], Field(max_length=60)]
    judge_check: Annotated[dict[Name, PublishedRubricCheck], Field(max_length=100)] | None = None


class PublishedTokensShown(rows.TokensShown, StrictFields):
    """Tokens of a history that a reader was shown through a memory, for an answer."""

    median: Count
    p95: Count
    most: Count


class PublishedTrack(StrictFields):
    """The results of one track; `run` is the index of its run among `Submission.runs`."""

    run: Annotated[int, Field(ge=0, lt=100)]
    task: TaskName
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
    scores: Annotated[dict[Name, PublishedScore], Field(max_length=60)]
    counts: Annotated[dict[Name, Count], Field(max_length=60)]
    seconds_per_query: Seconds | None = None
    floors: Annotated[dict[Name, PublishedFloor], Field(max_length=20)]
    files: TrackFiles
    tokens_shown: PublishedTokensShown | None = None
    audit: PublishedAudit | None = None


class PublishedCheck(rows.Check, StrictFields):
    """A check of admission: why it failed, which is empty where it passed."""

    name: Line
    fault: Annotated[str, Field(max_length=2_000)] = ""
    seconds: Seconds = 0.0


class PublishedUsage(rows.MemoryUsage, StrictFields):
    """Model usage of a phase."""

    requests: Count
    cached: Count
    prompt_tokens: Count
    completion_tokens: Count
    cost: Seconds | None


class PublishedPhase(rows.Phase, StrictFields):
    """How long the calls of a phase took."""

    calls: Count
    seconds: Seconds
    p50: Seconds
    p95: Seconds
    p99: Seconds
    used: PublishedUsage | None = None


class PublishedBeside(StrictFields):
    """The same run with another memory: nothing, all, the evidence, another user's memories.

    `ahead` is how far it is ahead of the run without memory, by track.
    """

    run: RunCard
    tracks: Annotated[dict[TrackName, PublishedTrack], Field(min_length=1, max_length=20)]
    ahead: Annotated[dict[TrackName, PublishedInterval], Field(max_length=20)] = {}


class MemoryCard(StrictFields):
    """A memory system in a run: what it was, its admission, what its phases took.

    Attributes:
        run: The index of the run among `Submission.runs`.
        settings: What it says of itself.
        versions: Of Python, libraries and the adapter.
        admission: The checks before the run and after it, by when they were made.
        withheld: The first check that failed; there are no scores then.
        used_otherwise: What was asked of models outside these phases, as by admission.
        bytes_per_1000_turns: What its folder held.
        diary: The file of its calls and hits.
        calls: The file of what it asked of models.
        ahead: How far the run is ahead of the one without memory, by track.
        beside: The runs with other memories, by their names.
    """

    run: Annotated[int, Field(ge=0, lt=100)]
    settings: Settings
    versions: Annotated[dict[Name, Line], Field(max_length=50)]
    admission: dict[When, Annotated[list[PublishedCheck], Field(max_length=50)]]
    withheld: Long | None = None
    phases: Annotated[dict[Name, PublishedPhase], Field(max_length=20)]
    used_otherwise: PublishedUsage | None = None
    bytes_per_1000_turns: Seconds | None = None
    diary: File
    calls: File | None = None
    ahead: Annotated[dict[TrackName, PublishedInterval], Field(max_length=20)] = {}
    beside: Annotated[dict[Slug, PublishedBeside], Field(max_length=MOST_BESIDE)] = {}


class Submission(StrictFields):
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
    system: PublishedSystem
    runs: Annotated[list[RunCard], Field(min_length=1, max_length=100)]
    tracks: Annotated[dict[TrackName, PublishedTrack], Field(min_length=1, max_length=20)]
    memory: Annotated[list[MemoryCard], Field(min_length=1, max_length=100)] | None = None
    checksum: Sha256 | None = None

    def memory_of(self, run: int) -> MemoryCard | None:
        """Return the memory system of a run; None where it had none."""
        return next((card for card in self.memory or () if card.run == run), None)

    def withheld(self, track: str) -> str | None:
        """Return the check of admission that the scores of a track are withheld for."""
        memory = self.memory_of(self.tracks[track].run)
        return None if memory is None else memory.withheld

    def beside(self, memory: MemoryCard, row: str) -> "Submission":
        """Return the same card with only the run and tracks of a comparison row."""
        other = memory.beside[row]
        update = {"runs": [other.run], "tracks": other.tracks, "memory": None}
        return self.model_copy(update=update)


def _current_status(status: object) -> object:
    # The name in reviews of earlier versions, read for one version more.
    return FORMAT_CHECKED if status == "schema-valid" else status


ReviewStatus = Annotated[
    Literal["format-checked", "re-scored", "reproduced", "refuted"],
    BeforeValidator(_current_status),
]


class Sampled(StrictFields):
    """A sample of a track that a maintainer judged: `records` of its `n`, drawn by `seed`."""

    seed: Count
    records: Count
    n: Count


class AuditDraw(StrictFields):
    """The seed of a submission's audits that a maintainer drew, and the hash of its answers."""

    answers: Sha256
    seed: Count


class ReviewedTrack(StrictFields):
    """A maintainer's scores of a track; none where the predictions could not be judged.

    Where only a sample was judged, the scores are the submitted ones, corrected by it.
    """

    scores: Annotated[dict[Name, PublishedScore], Field(max_length=60)]
    judge_fingerprint: FingerprintId | None = None
    sample: Sampled | None = None


class Review(StrictFields):
    """A maintainer's review: it is in order, was judged again, or the system was run again.

    `recomputed` names the tracks whose printed scores were recomputed where their data are: on data
    that are not the package's, nothing else makes them take part in ranks. `continues` names the
    earlier submission of the same submitter: nothing else joins their histories, as a name and an
    organisation are free for all to take. `audit_draw` says which sessions an audit may be of.
    """

    status: ReviewStatus
    judge_fingerprint: FingerprintId | None = None
    date: Day
    tracks: Annotated[dict[TrackName, ReviewedTrack], Field(max_length=20)]
    recomputed: Annotated[list[TrackName], Field(max_length=20)] = []
    continues: Slug | None = None
    audit_draw: AuditDraw | None = None
    note: Notes | None


@dataclass(frozen=True)
class SubmissionEntry:
    """A submission that could be read, in its folder."""

    folder: Path
    card: Submission
    review: Review | None

    @property
    def status(self) -> str:
        """How far it is confirmed, as far as its own files say."""
        return self.review.status if self.review is not None else STATUSES[0]

    def rows(self, track: str, stage: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file of a track, one line in memory at a time.

        Nothing where there is no such file.

        Raises:
            DataError: If the file or a row can't be read; names the line.
        """
        if stage in self.card.tracks[track].files.present():
            key = "about" if stage == "calls" else "benchmark_id"
            yield from self.read(f"{track}/{stage}.jsonl", key)

    def read(self, name: str, key: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file, each of which has a `key`.

        Raises:
            DataError: If the file or a row can't be read; names the line.
        """
        path = self.folder / name
        try:
            file = open_plain(path, LARGEST_FILE)
        except ValueError as error:
            raise DataError(str(error), path=path) from error
        with file:
            for number, line in enumerate(file, start=1):
                # Verifying reads strictly; here only what the pages need is checked.
                try:
                    row = from_json(line, allow_inf_nan=False)
                except ValueError as error:
                    fault = "not JSON; alps leaderboard verify shows all problems"
                    raise DataError(fault, path=path, line=number) from error
                if not isinstance(row, dict) or not isinstance(row.get(key), str):
                    fault = (
                        f"no text `{key}` in the row; alps leaderboard verify shows all problems"
                    )
                    raise DataError(fault, path=path, line=number)
                yield row


def read_entry(folder: Path) -> SubmissionEntry:
    """Read the card of a submission, and its review where there is one.

    Raises:
        DataError: If they can't be read, or do not fit; names the file and the field.
    """
    card = read_model(folder / CARD, Submission)
    # A link that leads nowhere is no missing review: a refutation must not be hidden by one.
    has_review = os.path.lexists(folder / REVIEW)
    return SubmissionEntry(
        folder, card, read_model(folder / REVIEW, Review) if has_review else None
    )


def histories(links: Mapping[str, str | None]) -> dict[str, frozenset[str]]:
    """Return the submissions of the same history by the slug of each.

    A name and an organisation are free for all to take, and so is a folder; a review is not. The
    `links` hold, by slug, the earlier submission that its review says it continues.
    """
    joined = {slug: frozenset({slug}) for slug in links}
    for slug, earlier in links.items():
        if earlier in joined:
            together = joined[slug] | joined[earlier]
            joined |= dict.fromkeys(together, together)
    return joined


def checksum_of(card: Mapping[str, Any]) -> str:
    """Return the sha256 of the canonical JSON of a card without its own `checksum`."""
    text = json.dumps(
        without(card, "checksum"), sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def write_card(path: Path, card: StrictFields) -> None:
    """Write a card or a review, indented for people; the same card gives the same bytes."""
    row = card.model_dump(exclude_unset=True)
    text = json.dumps(row, ensure_ascii=False, allow_nan=False, indent=2)
    path.write_bytes(text.encode() + b"\n")


def only(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those fields of `row` that are among `names`, in their order there."""
    return {name: row[name] for name in names if name in row}


def without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields of `row` but `names`."""
    return {name: value for name, value in row.items() if name not in names}


# The systems are imported where they are needed: completion of words reads this module, too.
def kinds_of(model: str) -> tuple[str, ...]:
    """Return the kinds that a `model=` may be submitted as, the one by its name first."""
    from alps.systems.embedded import RETRIEVERS
    from alps.systems.resolve import PROGRAM, PYTHON, RECORDED, is_embedded

    # The oracle reads the gold: like what deserves nothing, it is never ranked.
    if model.startswith((MEMORY, "floor/")) or model == "oracle":
        return ("memory" if model.startswith(MEMORY) else "floor",)
    if model in RETRIEVERS:
        return ("retriever",)
    if is_embedded(model):
        return ("rules",)
    if model.startswith(RECORDED):
        return ("recorded", "memory", "llm", "retriever")
    for prefix, kind in ((PROGRAM, "program"), (PYTHON, "python")):
        if model.startswith(prefix):
            return (kind, "memory", "retriever")
    return ("llm", "memory")


def memory_folder(card: MemoryCard) -> str:
    """Return the folder of a submission in which the files of a memory system lie."""
    return f"{MEMORY_FOLDER}{card.run}"


def memory_of_run(settings: Mapping[str, Any]) -> str | None:
    """Return the memory system of a run by its settings; None where it has none."""
    name = str(settings.get("memory", FULL))
    return name if keeps_memories(name) else None


def public_name(name: str) -> str:
    """Return the published name of a system or judge: without folders and hosts."""
    from alps.systems.resolve import PROGRAM, RECORDED

    head, separator, _ = name.partition(":")
    if f"{head}:" not in (RECORDED, "recorded:", PROGRAM) or not separator:
        return name
    return without_folders(name)


def without_folders(name: str) -> str:
    """Return a name that is followed by a command or a file, without the folders in it."""
    head, _, rest = name.partition(":")
    words = []
    for word in rest.split():
        on_windows = len(word) > 2 and word[1] == ":" and word[2] in "\\/"
        absolute = word.startswith(("/", "~")) or on_windows
        words.append(Path(word.replace("\\", "/")).name if absolute else word)
    return f"{head}:{' '.join(words)}"
