"""Check of a run without memory against those of other submissions with the same reader."""

from pathlib import Path

from alps.errors import AlpsError
from alps.ext.memory.comparison_runs import FOLDER
from alps.leaderboard.checks.copies import others_beside, unreadable_beside
from alps.leaderboard.findings import MOST_EXAMPLES, Findings
from alps.leaderboard.same_reader import ALONE, HeldAgainst, hold_against
from alps.leaderboard.site_data import load_one
from alps.leaderboard.submission import Submission, memory_folder
from alps.leaderboard.untrusted import shown


def check_same_reader(folder: Path, card: Submission, findings: Findings) -> None:
    """Flag a run without memory that differs from one of the same reader on the same data."""
    if card.memory is None:
        return
    systems, unread = [], unreadable_beside(folder)
    for path in (folder, *(entry.folder for entry in others_beside(folder))):
        try:
            systems.append(load_one(path))
        except AlpsError as error:
            unread[path.name] = str(error)
    for name, track in card.tracks.items():
        if (memory := card.memory_of(track.run)) is not None:
            held = hold_against(systems, name, unread)
            where = f"{memory_folder(memory)}/{FOLDER}: {name}"
            _say(card, where, held.get(card.slug, HeldAgainst()), findings)
    # Its own rows are a finding where they are verified.
    for name in sorted(unread.keys() - {card.slug})[:MOST_EXAMPLES]:
        why = shown(unread[name], 160)
        what = f"runs without memory of {shown(name, 60)}, which can't be read ({why})"
        findings.unchecked.append(f"{what}: nothing is held against them")


def _say(card: Submission, where: str, held: HeldAgainst, findings: Findings) -> None:
    if held.apart:
        mend = "ask the reader again with alps beside; boards rank neither until they agree"
        findings.warn("beside", where, f"{card.slug}: {shown(held.apart, 300)}", mend)
    if held.otherwise:
        mend = "say in notes why other settings of the model score otherwise"
        findings.warn("beside", where, f"{card.slug}: {shown(held.otherwise, 300)}", mend)
    if held.alone:
        findings.note("beside", where, ALONE)
