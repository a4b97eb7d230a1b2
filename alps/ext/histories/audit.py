"""The audit of a set: what is wrong with its histories and questions, and what others found."""

from alps.data.audit_findings import SEVERITIES, AuditReport, Severity, Tally, TrackLooked
from alps.data.hub import hub_name
from alps.errors import DataError, UsageError
from alps.ext.histories.book import (
    HARMLESS,
    Fault,
    faults_of,
    find,
    hash_of,
    known_defects,
    stories,
)
from alps.ext.histories.files import SetChoice
from alps.ext.histories.model import CitedSet, Story

_QUESTIONS, _HISTORIES = "questions", "histories"


def audit_set(cited: CitedSet, data: str, split: str | None) -> AuditReport | None:
    """Audit a set in the files that `data=` names; None where they are of another layout.

    Raises:
        DataError: If a file that is the set's can't be read.
    """
    name = hub_name(data)
    if name is not None and name.repository != cited.hub:
        return None
    choice = SetChoice(set=split if split in cited.chosen.get("set", ()) else None)
    try:
        found = cited.files(find(cited, data, choice), choice)
        first = next(iter(stories(cited, found.stories)), None)
    except (UsageError, DataError):
        return None
    if first is None or not first[1].questions:
        return None
    tally = Tally(cited.name)
    listed = {one.id: one for one in known_defects(cited.name)}
    questions = 0
    for _, story in stories(cited, found.stories):
        tally.look(_HISTORIES)
        tally.look(_QUESTIONS, len(story.questions))
        questions += len(story.questions)
        for fault in faults_of(story):
            _count(tally, story, fault)
        for question in story.questions:
            defect = listed.get(question.id)
            if defect is not None and defect.asked in ("", hash_of(question.text)):
                code = f"known-{defect.what}".replace(" ", "-")
                detail = f"{defect.what}, as {defect.source} says"
                serious: Severity = "warning" if defect.what in HARMLESS else "serious"
                tally.find(code, serious, detail, question.id, question.text, unit=_QUESTIONS)
    findings = sorted(
        tally.findings(), key=lambda one: (SEVERITIES.index(one.severity), one.code, -one.count)
    )
    looked = TrackLooked(cited.name, questions, questions)
    return AuditReport(data, cited.name, (looked,), tuple(findings), ())


def _count(tally: Tally, story: Story, fault: Fault) -> None:
    unit = _QUESTIONS if fault.question else _HISTORIES
    name = fault.question or story.id
    tally.find(fault.code, fault.severity, fault.detail, name, fault.what, unit=unit)
