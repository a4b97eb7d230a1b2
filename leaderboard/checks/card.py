"""The card of a submission: its form, what it must not hold, and what in it contradicts itself."""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps import __version__
from alps.leaderboard.findings import Findings, some_of
from alps.leaderboard.leaks import leak_in, texts_of
from alps.leaderboard.reading import LARGEST_CARD, faults_of, read_bytes
from alps.leaderboard.reviewed import contradictions
from alps.leaderboard.strict_json import parse
from alps.leaderboard.submission import CARD, REFUTED, REVIEW, Review, Submission, checksum_of
from alps.leaderboard.systems import kinds_of
from alps.leaderboard.wording import mixed_scripts, shown

WORDS_OF_PEOPLE = ("notes", "name", "org")
"""Fields that people write for readers, each by a word of `alps submit`."""
_UNSEEN = "seconds, costs, tokens"


def read_card(folder: Path, findings: Findings) -> Submission | None:
    """Read `submission.json`; None, with the findings, where it can't be relied on at all."""
    try:
        row = parse(read_bytes(folder / CARD, LARGEST_CARD))
    except ValueError as error:
        findings.serious("card", CARD, str(error), "pack the runs again with alps submit")
        return None
    try:
        card = Submission.model_validate(row)
    except ValidationError as error:
        for field, fault in faults_of(error):
            findings.serious("schema", field, fault, "pack the runs again with alps submit")
        return None
    findings.checked["schema"] = (
        f"{CARD}: format {card.format}; runs: {len(card.runs)}, tracks: {len(card.tracks)}"
    )
    _check_sum(row, findings)
    _check_names(folder, card, findings)
    _check_leaks(row, findings)
    _check_runs(card, findings)
    return card


def check_review(
    folder: Path, findings: Findings, card: Submission | None, *, reviewed: bool, in_change: bool
) -> Review | None:
    """Check that a review can be one of this submission; return it where it is to be heeded.

    Args:
        folder: The submission.
        findings: Takes what is found.
        card: Its card.
        reviewed: Whether a maintainer asks, who heeds it.
        in_change: Whether the submission comes by a change: such a one brings no review with it.
    """
    path = folder / REVIEW
    if not path.is_symlink() and not path.exists():
        return None
    if in_change and not reviewed:
        findings.serious(
            "review", REVIEW, "only maintainers write it", "remove it (maintainers: reviewed=yes)"
        )
        return None
    try:
        review = Review.model_validate(parse(read_bytes(path, LARGEST_CARD)))
    except ValidationError as error:
        for field, fault in faults_of(error):
            findings.serious(
                "review", f"{REVIEW}: {field}", fault, "write it again with alps rescore"
            )
    except ValueError as error:
        findings.serious("review", REVIEW, str(error), "write it again with alps rescore")
    else:
        named = dict.fromkeys((*review.tracks, *review.recomputed))
        if strange := [name for name in named if card is not None and name not in card.tracks]:
            what = f"tracks that the card has not: {some_of(strange)}"
            findings.serious("review", REVIEW, what, "write it again with alps rescore")
        if reviewed:
            return review
        findings.note(
            "review",
            REVIEW,
            f"a maintainer's word, not heeded here: {review.status} on {review.date}",
        )
    return None


def check_refuted(card: Submission | None, review: Review | None, findings: Findings) -> None:
    """Refuse a submission whose score a maintainer did not find again under the same judge."""
    if card is None or review is None:
        return
    found = contradictions(card, review)
    for one in found:
        findings.serious(
            "refuted",
            REVIEW,
            str(one),
            "a maintainer has to look at its verdicts; it is not ranked",
        )
    if review.status == REFUTED and not found:
        findings.serious(
            "refuted", REVIEW, f"a maintainer refuted it on {review.date}", "it is not ranked"
        )


def _check_sum(row: Mapping[str, Any], findings: Findings) -> None:
    if row.get("checksum") != checksum_of(row):
        what = f"does not fit the rest: {CARD} was changed after packing (maybe in {_UNSEEN}: nothing recomputes them)"
        findings.serious("checksum", "checksum", what, "pack the runs again with alps submit")


def _check_names(folder: Path, card: Submission, findings: Findings) -> None:
    if folder.resolve().name != card.slug:
        findings.serious(
            "slug",
            "slug",
            f"{card.slug}, but the folder is {shown(folder.resolve().name)}",
            "rename it",
        )
    if card.submitted > date.today().isoformat():
        findings.warn("date", "submitted", f"{card.submitted} is in the future")
    if card.alps != __version__:
        findings.warn(
            "version",
            "alps",
            f"made with alps {shown(card.alps)}; this is {__version__}",
            "run it again",
        )
    for field, text in (
        ("name", card.name),
        ("org", card.org or ""),
        ("system.model", card.system.model),
    ):
        if word := mixed_scripts(text):
            findings.warn(
                "look_alike", field, f"{shown(word)} mixes letters of alphabets that look alike"
            )
    kinds = kinds_of(card.system.model)
    if card.system.kind not in kinds:
        what = f"{card.system.kind}, but {shown(card.system.model)} is of kind {' or '.join(kinds)}"
        findings.serious(
            "kind_of_system", "system.kind", what, "pack the runs again with alps submit"
        )


def _check_leaks(row: Mapping[str, Any], findings: Findings) -> None:
    for where, leak in leaks_of(row):
        secret = "key" in leak
        add = findings.serious if secret else findings.warn
        add(
            "leak",
            where,
            f"holds {leak}",
            "revoke the key, remove it, pack again" if secret else "remove it, pack again",
        )


def leaks_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a card, as plain JSON, that hold what must not be published, with what it
    is.
    """
    of_people = [(text, where) for text, where in texts_of(row) if where in WORDS_OF_PEOPLE]
    others = [
        (text, where) for text, where in texts_of(row) if where not in (*WORDS_OF_PEOPLE, "url")
    ]
    for texts, hosts in ((of_people, False), (others, True)):
        if leak_in(
            "\n".join(text for text, _ in texts), hosts=hosts
        ):  # one by one only where there is any
            yield from (
                (where, leak) for text, where in texts if (leak := leak_in(text, hosts=hosts))
            )


def _check_runs(card: Submission, findings: Findings) -> None:
    used = {track.run for track in card.tracks.values()}
    for name, track in card.tracks.items():
        if track.run >= len(card.runs):
            findings.serious(
                "run",
                f"tracks.{name}.run",
                f"{track.run}, but there are {len(card.runs)} runs",
                "pack again",
            )
    if idle := [place for place in range(len(card.runs)) if place not in used]:
        findings.serious(
            "run", f"runs.{idle[0]}", "no track is of this run", "pack again with alps submit"
        )
    for place, run in enumerate(card.runs):
        if run.settings.get("limit") is not None:
            findings.serious(
                "limit",
                f"runs.{place}.settings.limit",
                "only a part of the split was run",
                "run all of it",
            )
        if run.data.name == "samples" and not run.data.public:
            findings.serious(
                "public", f"runs.{place}.data.public", "the samples are public", "pack again"
            )
