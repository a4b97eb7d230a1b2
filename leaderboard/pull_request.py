"""Pull request of a submission: what is still missing from it, and its text."""

from collections.abc import Iterator
from pathlib import Path

from alps.errors import UsageError
from alps.leaderboard.findings import Verification
from alps.leaderboard.packing import Packed
from alps.leaderboard.submission import Submission, Track
from alps.show.formatting import interval, number
from alps.tasks import all_tracks

CHECKLIST = (
    (
        "One submission, in one folder below `leaderboard/submissions/`, and nothing outside it "
        "has changed.",
        False,
    ),
    (
        "`alps submit` packed it. Nothing was changed by hand, and there is no `review.json`.",
        True,
    ),
    (
        "`alps verify leaderboard/submissions/NAME` does not refuse it. Each warning is explained "
        "in `notes` or below.",
        True,
    ),
    (
        "It is of whole splits, run without `limit`, and every record has an answer or a kind of "
        "failure.",
        True,
    ),
    ("The system did not see the gold, and its answers do not speak to the judge.", False),
    ("Name, organisation, address, snapshot of the model and `open_weights` are right.", False),
    (
        "I have read what will be published (`dry_run=yes`), and may publish it. No key, nobody's "
        "private data.",
        False,
    ),
    ("Somebody else could run it again: how is said in `notes`, or at the address.", False),
)
"""What a pull request says, and whether packing has seen to it; the rest only a person can say."""
_MODELS = ("llm", "memory", "retriever")


def missing(card: Submission, verification: Verification) -> Iterator[str]:
    """Yield what a submitter should still give, the most important first."""
    judged = [name for name in card.tracks if all_tracks()[name].judged]
    if any(card.tracks[name].files.verdicts is None for name in judged):
        yield "verdicts=yes: without verdicts no score of a judge is ranked"
    for finding in verification.findings:
        if finding.severity == "warning":
            yield f"notes=: explain «{finding.what}»"
    if card.system.kind in _MODELS:
        if card.system.snapshot is None:
            yield f"snapshot=: the dated version of {card.system.model}"
        if card.system.open_weights is None:
            yield "open_weights=yes or no: whether everybody can have the weights"
    if card.notes is None:
        yield "notes=: how the answers came about, and how to run it again"
    if card.org is None:
        yield "org=: who submits it"
    if card.url is None:
        yield "url=: where to read more"


def request_text(packed: Packed) -> str:
    """Return the text of the pull request, with a tick at what was checked when it was packed."""
    card = packed.card
    lines = [f"A submission of {card.name} to the leaderboard.", ""]
    for item, seen_to in CHECKLIST:
        tick = "x" if seen_to else " "
        lines.append(f"- [{tick}] {item.replace('NAME', card.slug)}")
    lines += ["", "| track | metric | score | 95 % interval | n |", "|---|---|---:|---|---:|"]
    lines += [_row(name, track) for name, track in card.tracks.items()]
    lines += ["", "How the answers came about, and what explains the warnings:", ""]
    lines += [card.notes or "…"]
    for finding in packed.verification.findings:
        if finding.severity == "warning":
            lines.append(f"- {finding.what}: …")
    return "\n".join(lines) + "\n"


def _row(name: str, track: Track) -> str:
    metrics = all_tracks()[name].metrics
    lead = next((one for one in metrics if one.headline and one.name in track.scores), metrics[0])
    score = track.scores.get(lead.name)
    if score is None:
        return f"| {name} | {lead.title.strip()} | – | – | – |"
    figures = f"{number(score.value)} | {interval(score)} | {score.n:,}"
    return f"| {name} | {lead.title.strip()} | {figures} |"


def write_request(packed: Packed, path: Path) -> None:
    """Write the text of the pull request.

    Raises:
        UsageError: If it can't be written, or lies in the folder of the submission.
    """
    if path.resolve().is_relative_to(packed.folder.resolve()):
        raise UsageError(f"request={path}: it is no part of the submission; choose another place")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(request_text(packed), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"request={path}: {error.strerror or error}; choose another") from error
